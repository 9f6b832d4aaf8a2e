/*
 * loop.c: one watchdog thread: timers, renewals and a lane of the store, around one poll. Mutexes: see watchdog.h.
 *
 * The thread ends only when stop is set. Nothing else can end it: it blocks all signals, no failed allocation is
 * fatal, and a broken connection is just state.
 */
#include "watchdog.h"

#include <poll.h>
#include <stdlib.h>

#include "sys/sys.h"

int dli_loop_new(const struct dli_watchdog *watchdog, int index, struct dli_loop **ret)
{
    struct dli_loop *loop = calloc(1, sizeof *loop);
    struct dli_store *store = watchdog->store;

    if (!loop)
        return -1;
    loop->watchdog = watchdog;
    loop->index = index;
    loop->next = INT64_MIN;
    if (dli_renew_open(loop))
        goto fail_renew;
    if ((loop->wake_fd = dli_wake_open()) < 0)
        goto fail_wake;
    if ((loop->alarm_fd = dli_alarm_open()) < 0)
        goto fail_alarm;
    if (!(loop->lane = store->ops->lane_new(store, index, loop->wake_fd)))
        goto fail_lane;
    if (pthread_mutex_init(&loop->mutex, NULL))
        goto fail_mutex;
    dli_timers_init(&loop->timers);
    *ret = loop;
    return 0;

fail_mutex:
    store->ops->lane_free(loop->lane);
fail_lane:
    dli_fd_close(loop->alarm_fd);
fail_alarm:
    dli_fd_close(loop->wake_fd);
fail_wake:
    dli_renew_close(loop);
fail_renew:
    free(loop);
    return -1;
}

void dli_loop_free(struct dli_loop *loop)
{
    const struct dli_store_ops *ops;

    if (!loop)
        return;
    ops = loop->watchdog->store->ops;
    pthread_mutex_destroy(&loop->mutex);
    ops->lane_free(loop->lane);
    if (loop->alarm_fd >= 0)
        dli_fd_close(loop->alarm_fd);
    dli_fd_close(loop->wake_fd);
    dli_renew_close(loop);
    free(loop);
}

int dli_loop_set_timer(struct dli_loop *loop, struct dli_timer *timer, int64_t at, int64_t now)
{
    int fresh, wake;

    pthread_mutex_lock(&loop->mutex);
    if (loop->ended) {
        pthread_mutex_unlock(&loop->mutex);
        return 0;
    }
    fresh = !timer->linked;
    dli_timers_remove(&loop->timers, timer);
    dli_timers_add(&loop->timers, timer, at, now);
    wake = timer->at < loop->next;
    if (wake)
        loop->next = timer->at;
    pthread_mutex_unlock(&loop->mutex);
    if (wake)
        dli_wake_set(loop->wake_fd);
    return fresh;
}

int dli_loop_stop_timer(struct dli_loop *loop, struct dli_timer *timer)
{
    int linked;

    pthread_mutex_lock(&loop->mutex);
    linked = timer->linked != 0;
    dli_timers_remove(&loop->timers, timer);
    pthread_mutex_unlock(&loop->mutex);
    return linked;
}

/* Fire due timers, but only so many at a time, so that renewals and replies get their turn in between. */
static void fire_timers(struct dli_loop *loop, int64_t now)
{
    for (int i = 0; i < 4 * DLI_RENEW_MAX; i++) {
        struct dli_timer *timer;

        pthread_mutex_lock(&loop->mutex);
        loop->next = INT64_MIN;
        timer = dli_timers_due(&loop->timers, now);
        pthread_mutex_unlock(&loop->mutex);
        if (!timer)
            return;
        loop->watchdog->hooks->fire(timer, now);
    }
}

static int64_t next_alarm(struct dli_loop *loop)
{
    int64_t at = loop->watchdog->store->ops->alarm(loop->lane), other;

    if ((other = dli_renew_alarm(loop)) < at)
        at = other;
    if (loop->index == 0 && (other = loop->watchdog->hooks->alarm(loop->watchdog->owner, dli_now())) < at)
        at = other;
    pthread_mutex_lock(&loop->mutex);
    other = dli_timers_next(&loop->timers);
    loop->next = at = other < at ? other : at;
    pthread_mutex_unlock(&loop->mutex);
    return at;
}

/* Sleep until something happens. Requests pushed before the thread announces its sleep are seen. Later ones wake it. */
static void sleep_until(struct dli_loop *loop, int64_t at)
{
    const struct dli_store_ops *ops = loop->watchdog->store->ops;
    struct pollfd fds[2 + DLI_LANE_FDS];
    int count;

    if (at <= dli_now())
        return;
    dli_alarm_set(loop->alarm_fd, at);
    fds[0] = (struct pollfd){.fd = loop->wake_fd, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = loop->alarm_fd, .events = POLLIN};
    if ((count = ops->sleep(loop->lane, fds + 2)) >= 0)
        poll(fds, (nfds_t)count + 2, -1);
    ops->awake(loop->lane);
    dli_wake_clear(loop->wake_fd);
}

/* Fire the timers that are still linked, so that they give their refs back. */
static void drop_timers(struct dli_loop *loop)
{
    struct dli_timer *timer;

    do {
        pthread_mutex_lock(&loop->mutex);
        loop->ended = 1;
        timer = dli_timers_due(&loop->timers, INT64_MAX);
        pthread_mutex_unlock(&loop->mutex);
        if (timer)
            loop->watchdog->hooks->fire(timer, dli_now());
    } while (timer);
}

/* The thread's own descriptor is not kept until the client is freed. Others may still use the one that wakes it. */
static void close_alarm(struct dli_loop *loop)
{
    int fd = loop->alarm_fd;

    loop->alarm_fd = -1;
    dli_fd_close(fd);
}

static void finish(struct dli_loop *loop)
{
    const struct dli_watchdog *watchdog = loop->watchdog;

    close_alarm(loop);
    watchdog->store->ops->shut(loop->lane);
    drop_timers(loop);
    dli_renew_drop(loop);
    watchdog->hooks->ended(watchdog->owner);
}

int dli_loop_turn(struct dli_loop *loop, int64_t *ret_next)
{
    int64_t now = dli_now();

    if (__atomic_load_n(&loop->stop, __ATOMIC_ACQUIRE)) {
        finish(loop);
        return 0;
    }
    fire_timers(loop, now);
    dli_renew_send(loop, now);
    loop->watchdog->store->ops->step(loop->lane, dli_now());
    *ret_next = next_alarm(loop);
    return 1;
}

void dli_loop_run(void *argument)
{
    struct dli_loop *loop = argument;
    int64_t next;

    loop->watchdog->store->ops->awake(loop->lane);
    while (dli_loop_turn(loop, &next))
        sleep_until(loop, next);
}
