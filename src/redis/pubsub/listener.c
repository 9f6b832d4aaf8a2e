/*
 * listener.c: a sleeping caller that receives the messages, see listener.h, which also says what guards what.
 */
#include "listener.h"

#include <errno.h>

#include "sys/sys.h"

void dli_listener_init(struct dli_listener *listener, struct dli_subscriber *sub, pthread_mutex_t *mutex)
{
    *listener = (struct dli_listener){.sub = sub, .mutex = mutex, .bell = -1, .relay = -1};
}

static void close_relay(struct dli_listener *listener)
{
    if (listener->relay >= 0)
        dli_fd_close(listener->relay);
    listener->relay = -1;
}

void dli_listener_fini(struct dli_listener *listener)
{
    close_relay(listener);
    if (listener->bell >= 0)
        dli_fd_close(listener->bell);
}

/* ---- the loop */

static void set_ready(struct dli_listener *listener, int ready)
{
    __atomic_store_n(&listener->ready, ready, __ATOMIC_RELEASE);
}

/* The loop waits for messages, or only for the end of the connection. 0, or -1 (errno). */
static int turn(struct dli_listener *listener, int on)
{
    return dli_relay_turn(listener->relay, listener->sub->conn->fd, on);
}

/*
 * The subscription is a new one. Its socket gets a relay of its own: a child process may still have the last socket, and
 * its relay would then stay readable. A listener that waits for the last socket is sent away.
 */
static int enroll(struct dli_listener *listener)
{
    close_relay(listener);
    listener->aside = 0;
    if (listener->bell < 0 && (listener->bell = dli_wake_open()) < 0)
        return -1;
    if ((listener->relay = dli_relay_open(listener->sub->conn->fd)) < 0)
        return -1;
    listener->ups = listener->sub->ups;
    dli_wake_set(listener->bell);
    return 0;
}

/* Messages come, and nothing has to be sent: TLS may want that, too. */
static int only_receives(const struct dli_listener *listener)
{
    return dli_subscriber_receives(listener->sub) && dli_conn_poll(listener->sub->conn).events == POLLIN;
}

struct pollfd dli_listener_poll(struct dli_listener *listener)
{
    struct pollfd socket = dli_conn_poll(listener->sub->conn);

    if (!only_receives(listener) ||
        ((listener->relay < 0 || listener->ups != listener->sub->ups) && enroll(listener))) {
        set_ready(listener, 0);
        return socket;
    }
    set_ready(listener, 1);
    return (struct pollfd){.fd = listener->relay, .events = POLLIN};
}

void dli_listener_shut(struct dli_listener *listener)
{
    listener->shut = 1;
    set_ready(listener, 0);
    if (listener->bell >= 0)
        dli_wake_set(listener->bell);
}

/* ---- the listener */

int dli_listener_take(struct dli_listener *listener)
{
    if (!__atomic_load_n(&listener->ready, __ATOMIC_ACQUIRE) || __atomic_load_n(&listener->taken, __ATOMIC_RELAXED) ||
        __atomic_exchange_n(&listener->taken, 1, __ATOMIC_ACQUIRE))
        return 0;
    __atomic_store_n(&listener->rung, 0, __ATOMIC_RELAXED);
    return 1;
}

/* A listener that is stepping sees rung: its change of stepping comes after this one's look. */
void dli_listener_ring(struct dli_listener *listener)
{
    __atomic_store_n(&listener->rung, 1, __ATOMIC_RELEASE);
    if (!__atomic_fetch_add(&listener->stepping, 0, __ATOMIC_ACQ_REL))
        dli_wake_set(listener->bell);
}

static void set_stepping(struct dli_listener *listener, int stepping)
{
    __atomic_exchange_n(&listener->stepping, stepping, __ATOMIC_ACQ_REL);
}

/* mutex held: take the loop's place. 0: that cannot be done now. */
static int begin(struct dli_listener *listener)
{
    if (listener->shut || listener->relay < 0 || listener->ups != listener->sub->ups || !only_receives(listener) ||
        turn(listener, 0))
        return 0;
    listener->aside = 1;
    return 1;
}

/* mutex held: receive. 0: the loop has to see to the connection. */
static int step(struct dli_listener *listener, int64_t ups)
{
    if (listener->shut || !listener->aside || listener->sub->ups != ups)
        return 0;
    set_stepping(listener, 1);
    dli_subscriber_receive(listener->sub, dli_now());
    set_stepping(listener, 0);
    return only_receives(listener);
}

/* mutex held: the loop waits for messages again. */
static void end(struct dli_listener *listener, int64_t ups)
{
    int whole = only_receives(listener);

    if (listener->aside && listener->sub->ups == ups) {
        listener->aside = 0;
        whole = whole && turn(listener, 1) == 0;
    }
    if (!whole && !listener->shut) {
        set_ready(listener, 0);
        dli_wake_set(listener->sub->wake_fd);
    }
}

/* Sleep. DLI_WAIT_WOKEN: there is something to read, or the bell has rung. */
static int doze(struct pollfd fds[2], int64_t deadline)
{
    static const int64_t longest = INT64_C(60) * 1000000;
    int64_t left = deadline < 0 ? longest : deadline - dli_now();
    struct timespec limit;

    if (left <= 0)
        return DLI_WAIT_TIMEOUT;
    left = left < longest ? left : longest;
    limit = (struct timespec){.tv_sec = (time_t)(left / 1000000), .tv_nsec = (long)(left % 1000000 * 1000)};
    if (ppoll(fds, 2, &limit, NULL) < 0 && errno == EINTR)
        return DLI_WAIT_SIGNAL;
    if (fds[1].revents)
        dli_wake_clear(fds[1].fd);
    return DLI_WAIT_WOKEN;
}

/* The same as dli_listener_wait, on a thread that cannot be cancelled. */
static int listen_until(struct dli_listener *listener, int64_t deadline)
{
    struct pollfd fds[2] = {{.events = POLLIN}, {.events = POLLIN}};
    int how = DLI_WAIT_WOKEN, on;
    int64_t ups;

    pthread_mutex_lock(listener->mutex);
    ups = listener->sub->ups;
    fds[0].fd = listener->sub->conn->fd;
    fds[1].fd = listener->bell;
    on = begin(listener);
    while (on && how == DLI_WAIT_WOKEN && !__atomic_load_n(&listener->rung, __ATOMIC_ACQUIRE)) {
        pthread_mutex_unlock(listener->mutex);
        how = doze(fds, deadline);
        pthread_mutex_lock(listener->mutex);
        if (how == DLI_WAIT_WOKEN)
            on = step(listener, ups);
    }
    end(listener, ups);
    pthread_mutex_unlock(listener->mutex);
    return how;
}

/* A listener that was cancelled would leave nobody who receives messages. */
int dli_listener_wait(struct dli_listener *listener, int64_t deadline)
{
    int state, how;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    how = listen_until(listener, deadline);
    pthread_setcancelstate(state, &state);
    __atomic_store_n(&listener->taken, 0, __ATOMIC_RELEASE);
    return how;
}
