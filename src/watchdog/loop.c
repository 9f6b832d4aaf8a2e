/*
 * loop.c: a watchdog thread: timers, renewals, the shared connection, and (on loop 0) the subscriber, around one poll.
 *
 * The thread ends only when stop is set. Nothing it does can make it end otherwise: it has no signal, no failing
 * allocation is fatal, and broken connections are just state.
 */
#include "client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "sys/sys.h"

enum { TRIM_AFTER = 30000000 };

int dli_loop_new(struct dli_client *client, int index, struct dli_loop **ret)
{
    struct dli_loop *loop = calloc(1, sizeof *loop);
    int64_t silence = client->options.number[DLI_OPT_COMMAND_TIMEOUT_MS] * DLI_MS;

    if (!loop)
        return -1;
    loop->client = client;
    loop->index = index;
    loop->next = INT64_MIN;
    loop->batch = calloc(1, sizeof *loop->batch);
    if (!loop->batch)
        goto fail_batch;
    if ((loop->wake_fd = dli_wake_open()) < 0)
        goto fail_wake;
    if ((loop->alarm_fd = dli_alarm_open()) < 0)
        goto fail_alarm;
    if (dli_pipe_init(&loop->pipe, &client->config, &client->gate, loop->wake_fd, silence,
                      &client->stats[DLOCK_STAT_SCRIPT_RELOADS]))
        goto fail_pipe;
    if (pthread_mutex_init(&loop->mutex, NULL))
        goto fail_mutex;
    dli_timers_init(&loop->timers);
    *ret = loop;
    return 0;

fail_mutex:
    dli_pipe_fini(&loop->pipe);
fail_pipe:
    dli_fd_close(loop->alarm_fd);
fail_alarm:
    dli_fd_close(loop->wake_fd);
fail_wake:
    free(loop->batch);
fail_batch:
    free(loop);
    return -1;
}

void dli_loop_free(struct dli_loop *loop)
{
    if (!loop)
        return;
    pthread_mutex_destroy(&loop->mutex);
    dli_pipe_fini(&loop->pipe);
    dli_fd_close(loop->alarm_fd);
    dli_fd_close(loop->wake_fd);
    dli_buffer_free(&loop->batch->call.command);
    free(loop->batch);
    free(loop->heap);
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

/* Fire what is due, at most some, so that renewals and replies get their turn in between. */
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
        timer->fire(timer, now);
    }
}

static int64_t next_alarm(struct dli_loop *loop)
{
    int64_t at = dli_pipe_alarm(&loop->pipe), other;

    if (loop->index == 0 && (other = dli_subscriber_alarm(&loop->client->subscriber)) < at)
        at = other;
    if ((other = dli_renew_alarm(loop)) < at)
        at = other;
    pthread_mutex_lock(&loop->mutex);
    other = dli_timers_next(&loop->timers);
    loop->next = at = other < at ? other : at;
    pthread_mutex_unlock(&loop->mutex);
    return at;
}

static struct pollfd poll_for(const struct dli_conn *conn)
{
    return (struct pollfd){.fd = conn->fd, .events = (short)(conn->want_write ? POLLIN | POLLOUT : POLLIN)};
}

/* Sleep until something happens. What was pushed before the thread announced its sleep is seen, later pushes wake it. */
static void sleep_well(struct dli_loop *loop)
{
    struct pollfd fds[4] = {{.fd = loop->wake_fd, .events = POLLIN}, {.fd = loop->alarm_fd, .events = POLLIN}};
    int64_t at = next_alarm(loop);
    nfds_t count = 3;

    if (at <= dli_now())
        return;
    dli_alarm_set(loop->alarm_fd, at);
    fds[2] = poll_for(loop->pipe.conn);
    if (loop->index == 0)
        fds[count++] = poll_for(loop->client->subscriber.conn);
    __atomic_store_n(&loop->pipe.sleeping, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&loop->pipe.pushed, __ATOMIC_SEQ_CST))
        poll(fds, count, -1);
    __atomic_store_n(&loop->pipe.sleeping, 0, __ATOMIC_SEQ_CST);
    dli_wake_clear(loop->wake_fd);
}

/* Timers that are still linked give their refs back. */
static void drop_timers(struct dli_loop *loop)
{
    struct dli_timer *timer;

    do {
        pthread_mutex_lock(&loop->mutex);
        loop->ended = 1;
        timer = dli_timers_due(&loop->timers, INT64_MAX);
        pthread_mutex_unlock(&loop->mutex);
        if (timer)
            timer->fire(timer, dli_now());
    } while (timer);
}

static void finish(struct dli_loop *loop)
{
    struct dli_client *client = loop->client;

    dli_pipe_shut(&loop->pipe);
    dli_renew_drop(loop);
    drop_timers(loop);
    pthread_mutex_lock(&client->mutex);
    client->threads--;
    pthread_mutex_unlock(&client->mutex);
    __atomic_add_fetch(&client->progress, 1, __ATOMIC_RELEASE);
    dli_futex_wake(&client->progress, 1);
    dli_client_unref(client);
}

/* Trouble with the shared connection and its end become log lines. */
static void log_trouble(struct dli_loop *loop)
{
    struct dli_pipe *pipe = &loop->pipe;
    char text[DLI_EVENT_TEXT];

    if (loop->troubles != pipe->troubles) {
        loop->troubles = pipe->troubles;
        if (!loop->troubled)
            dli_events_log(&loop->client->events, pipe->trouble.code, pipe->trouble.message);
        loop->troubled = 1;
    } else if (loop->troubled && pipe->conn->state == DLI_CONN_READY) {
        loop->troubled = 0;
        snprintf(text, sizeof text, "%.200s: connected again", loop->client->config.target.text);
        dli_events_log(&loop->client->events, DLOCK_OK, text);
    }
}

void dli_loop_run(void *argument)
{
    struct dli_loop *loop = argument;
    struct dli_client *client = loop->client;
    int64_t trimmed = dli_now();

    while (!__atomic_load_n(&loop->stop, __ATOMIC_ACQUIRE)) {
        int64_t now = dli_now();

        fire_timers(loop, now);
        dli_renew_send(loop, now);
        dli_pipe_step(&loop->pipe, dli_now());
        log_trouble(loop);
        if (loop->index == 0)
            dli_subscriber_step(&client->subscriber, dli_now());
        if (loop->index == 0 && now - trimmed > TRIM_AFTER) {
            dli_private_trim(&client->private_conns, now - TRIM_AFTER);
            trimmed = now;
        }
        sleep_well(loop);
    }
    finish(loop);
}
