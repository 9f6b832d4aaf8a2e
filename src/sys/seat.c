/*
 * seat.c: the place of the one thread that does another thread's I/O while it sleeps itself, see sys.h. No mutex guards the
 * atomics; the relay is the other thread's.
 *
 * Whoever rings sets rung before it looks at working, and the one in the seat changes working before it looks at rung. So
 * one of them sees the other.
 */
#include "sys.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

void dli_seat_init(struct dli_seat *seat)
{
    *seat = (struct dli_seat){.bell = -1, .relay = -1};
}

void dli_seat_fini(struct dli_seat *seat)
{
    dli_seat_close_relay(seat);
    if (seat->bell >= 0)
        dli_fd_close(seat->bell);
    seat->bell = -1;
}

int dli_seat_open_relay(struct dli_seat *seat, int fd)
{
    dli_seat_close_relay(seat);
    if (seat->bell < 0 && (seat->bell = dli_wake_open()) < 0)
        return -1;
    seat->relay = dli_relay_open(fd);
    return seat->relay < 0 ? -1 : 0;
}

void dli_seat_close_relay(struct dli_seat *seat)
{
    if (seat->relay >= 0)
        dli_fd_close(seat->relay);
    seat->relay = -1;
}

void dli_seat_offer(struct dli_seat *seat, int offered)
{
    __atomic_store_n(&seat->offered, offered, __ATOMIC_RELEASE);
}

int dli_seat_take(struct dli_seat *seat)
{
    if (!__atomic_load_n(&seat->offered, __ATOMIC_ACQUIRE) || __atomic_load_n(&seat->taken, __ATOMIC_RELAXED) ||
        __atomic_exchange_n(&seat->taken, 1, __ATOMIC_ACQUIRE))
        return 0;
    __atomic_store_n(&seat->rung, 0, __ATOMIC_RELAXED);
    seat->used = 1;
    return 1;
}

void dli_seat_retire(struct dli_seat *seat)
{
    dli_seat_close_relay(seat);
    dli_seat_offer(seat, 0);
    dli_seat_rouse(seat);
    if (__atomic_exchange_n(&seat->taken, 1, __ATOMIC_ACQUIRE) == 0 && !seat->used)
        dli_seat_fini(seat);
}

void dli_seat_leave(struct dli_seat *seat)
{
    __atomic_store_n(&seat->taken, 0, __ATOMIC_RELEASE);
}

void dli_seat_ring(struct dli_seat *seat)
{
    __atomic_store_n(&seat->rung, 1, __ATOMIC_RELEASE);
    if (!__atomic_fetch_add(&seat->working, 0, __ATOMIC_ACQ_REL))
        dli_wake_set(seat->bell);
}

int dli_seat_is_rung(const struct dli_seat *seat)
{
    return __atomic_load_n(&seat->rung, __ATOMIC_ACQUIRE);
}

void dli_seat_rouse(const struct dli_seat *seat)
{
    if (seat->bell >= 0)
        dli_wake_set(seat->bell);
}

void dli_seat_work(struct dli_seat *seat, int working)
{
    __atomic_exchange_n(&seat->working, working, __ATOMIC_ACQ_REL);
}

int dli_seat_sleep(const struct dli_seat *seat, int fd, int64_t deadline)
{
    static const int64_t longest = INT64_C(60) * 1000000;
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = seat->bell, .events = POLLIN}};
    int64_t left = deadline < 0 ? longest : deadline - dli_now();
    struct timespec limit;

    if (left <= 0)
        return DLI_WAIT_TIMEOUT;
    left = left < longest ? left : longest;
    limit = (struct timespec){.tv_sec = (time_t)(left / 1000000), .tv_nsec = (long)(left % 1000000 * 1000)};
    if (ppoll(fds, 2, &limit, NULL) < 0 && errno == EINTR)
        return DLI_WAIT_SIGNAL;
    if (fds[1].revents)
        dli_wake_clear(seat->bell);
    return DLI_WAIT_WOKEN;
}
