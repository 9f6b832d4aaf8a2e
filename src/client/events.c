/*
 * events.c: the event queue. events.mutex guards everything; see events.h.
 */
#include "events.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sys/sys.h"

/* Microseconds. See dli_events_one_by_one. */
enum { MANY_FOR = 10 * 1000 };

int dli_events_init(struct dli_events *events, int64_t limit, int64_t *dropped)
{
    events->count = 0;
    events->limit = limit;
    events->dropped = dropped;
    events->fd = dli_wake_open();
    events->wakes = events->promised = events->many_until = events->reader = 0;
    events->shut = events->ended = 0;
    dli_list_init(&events->nodes);
    if (events->fd < 0 || pthread_mutex_init(&events->mutex, NULL))
        return -1;
    events->guard = (struct dli_fork_guard){.mutex = &events->mutex};
    dli_fork_guard(&events->guard);
    return 0;
}

int dli_events_part(struct dli_events *events)
{
    events->wakes = 0;
    if (dli_wake_renew(events->fd))
        return -1;
    if (!dli_list_empty(&events->nodes))
        dli_wake_set(events->fd);
    return 0;
}

void dli_events_fini(struct dli_events *events)
{
    dli_fork_unguard(&events->guard);
    dli_fd_close(events->fd);
    pthread_mutex_destroy(&events->mutex);
}

/* events.mutex held: whether readers of an empty queue are told that it has ended. */
static int over(const struct dli_events *events)
{
    return events->ended && events->promised == 0;
}

dlock_status dli_events_promise(struct dli_events *events)
{
    int late;

    pthread_mutex_lock(&events->mutex);
    late = over(events);
    events->promised += !late;
    pthread_mutex_unlock(&events->mutex);
    return late ? DLOCK_CLOSED : DLOCK_OK;
}

int dli_events_one_by_one(struct dli_events *events, int64_t now)
{
    int one_by_one;

    pthread_mutex_lock(&events->mutex);
    if (!dli_list_empty(&events->nodes))
        events->many_until = now + MANY_FOR;
    one_by_one = now >= events->many_until;
    pthread_mutex_unlock(&events->mutex);
    return one_by_one;
}

int dli_events_mine(const struct dli_events *events)
{
    int64_t reader = __atomic_load_n(&events->reader, __ATOMIC_RELAXED);

    return reader == 0 || reader == dli_thread_owner();
}

/* events.mutex held. */
static void append(struct dli_events *events, struct dli_node *node)
{
    if (dli_list_empty(&events->nodes))
        dli_wake_set(events->fd);
    dli_list_append(&events->nodes, &node->link);
    __atomic_store_n(&events->count, events->count + 1, __ATOMIC_RELAXED);
}

void dli_events_count_dropped(struct dli_events *events)
{
    __atomic_add_fetch(events->dropped, 1, __ATOMIC_RELAXED);
}

int dli_events_post(struct dli_events *events, struct dli_node *node, int may_drop)
{
    int fresh;

    pthread_mutex_lock(&events->mutex);
    fresh = !events->shut && !over(events);
    if (fresh && may_drop && events->count >= events->limit) {
        dli_events_count_dropped(events);
        fresh = 0;
    }
    if (fresh)
        append(events, node);
    pthread_mutex_unlock(&events->mutex);
    return fresh;
}

int dli_events_keep(struct dli_events *events, struct dli_node *node)
{
    int kept;

    pthread_mutex_lock(&events->mutex);
    events->promised--;
    kept = node && !events->shut;
    if (kept)
        append(events, node);
    if (over(events))
        dli_wake_set(events->fd);
    pthread_mutex_unlock(&events->mutex);
    return kept;
}

void dli_snapshot_read(struct dli_snapshot *snapshot, struct dlock_event *event)
{
    memcpy(event->field, snapshot->field, sizeof event->field);
    event->data = snapshot->data;
    event->size = snapshot->size;
}

/* A log line in the queue. */
struct line {
    struct dli_snapshot shot;
    char text[DLI_EVENT_TEXT];
};

static void read_line(struct dli_node *node, struct dlock_event *event)
{
    struct line *line = DLI_OBJECT(node, struct line, shot.node);

    dli_snapshot_read(&line->shot, event);
    memcpy(event->text, line->text, DLI_EVENT_TEXT);
    free(line);
}

void dli_events_log(struct dli_events *events, dlock_status status, const char *text)
{
    struct line *line = calloc(1, sizeof *line);
    int64_t *field;

    if (!line) {
        dli_events_count_dropped(events);
        return;
    }
    field = line->shot.field;
    for (int i = 0; i < DLOCK_FIELD_COUNT; i++)
        field[i] = -1;
    field[DLOCK_FIELD_TYPE] = DLOCK_EVENT_LOG;
    field[DLOCK_FIELD_STATUS] = status;
    line->shot.node.read = read_line;
    dli_escape(line->text, sizeof line->text, text, strlen(text));
    if (!dli_events_post(events, &line->shot.node, 1))
        free(line);
}

void dli_events_wake(struct dli_events *events)
{
    pthread_mutex_lock(&events->mutex);
    events->wakes++;
    dli_wake_set(events->fd);
    pthread_mutex_unlock(&events->mutex);
}

/* events.mutex held: the oldest node, which is out of the queue then; or NULL. */
static struct dli_node *oldest(struct dli_events *events)
{
    struct dli_link *link = dli_list_pop(&events->nodes);

    if (!link)
        return NULL;
    __atomic_store_n(&events->count, events->count - 1, __ATOMIC_RELAXED);
    return DLI_OBJECT(link, struct dli_node, link);
}

/* Take the oldest node: 1. -1: a wake. -2: the queue has ended. 0: nothing. */
static int take(struct dli_events *events, struct dli_node **node)
{
    int got = 0;

    pthread_mutex_lock(&events->mutex);
    if ((*node = oldest(events))) {
        got = 1;
    } else if (events->wakes > 0) {
        events->wakes--;
        got = -1;
    } else if (over(events)) {
        got = -2;
    }
    if (dli_list_empty(&events->nodes) && events->wakes == 0 && !over(events))
        dli_wake_clear(events->fd);
    pthread_mutex_unlock(&events->mutex);
    return got;
}

/* Each call of a program that loses a lock adds one at most: so many keep the queue short. */
enum { TRIMMED = 4 };

/* The oldest node, if it may be dropped, and out of the queue then; else NULL. */
static struct dli_node *surplus(struct dli_events *events, int (*may_drop)(const struct dli_node *node))
{
    struct dli_node *node = NULL;

    pthread_mutex_lock(&events->mutex);
    if (events->count > events->limit && may_drop(DLI_OBJECT(events->nodes.next, struct dli_node, link)))
        node = oldest(events);
    pthread_mutex_unlock(&events->mutex);
    return node;
}

void dli_events_trim(struct dli_events *events, int (*may_drop)(const struct dli_node *node))
{
    struct dlock_event nowhere = {.data = NULL};
    struct dli_node *node;

    if (__atomic_load_n(&events->count, __ATOMIC_RELAXED) <= events->limit ||
        __atomic_load_n(&events->reader, __ATOMIC_RELAXED) != 0)
        return;
    for (int i = 0; i < TRIMMED && (node = surplus(events, may_drop)); i++) {
        node->read(node, &nowhere);
        dli_events_count_dropped(events);
    }
}

void dli_events_end(struct dli_events *events)
{
    pthread_mutex_lock(&events->mutex);
    events->ended = 1;
    if (over(events))
        dli_wake_set(events->fd);
    pthread_mutex_unlock(&events->mutex);
}

int dli_events_ended(struct dli_events *events)
{
    int ended;

    pthread_mutex_lock(&events->mutex);
    ended = events->ended;
    pthread_mutex_unlock(&events->mutex);
    return ended;
}

void dli_events_shut(struct dli_events *events)
{
    struct dlock_event nowhere = {.data = NULL};
    struct dli_node *node = NULL;
    int got;

    pthread_mutex_lock(&events->mutex);
    events->shut = 1;
    pthread_mutex_unlock(&events->mutex);
    while ((got = take(events, &node)) && got != -2) {
        if (got < 0)
            continue;
        node->read(node, &nowhere);
        free(nowhere.data);
        nowhere.data = NULL;
    }
}

/* Milliseconds until deadline for poll, rounded up; -1: no deadline. */
static int poll_time(int64_t deadline, int64_t now)
{
    int64_t left = (deadline - now + 999) / 1000;

    if (deadline == INT64_MAX)
        return -1;
    return left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

dlock_status dli_events_next(struct dli_events *events, int64_t deadline, struct dlock_event *event)
{
    __atomic_store_n(&events->reader, dli_thread_owner(), __ATOMIC_RELAXED);
    for (;;) {
        struct pollfd wait = {.fd = events->fd, .events = POLLIN};
        struct dli_node *node = NULL;
        int got = take(events, &node);
        int64_t now = dli_now();

        if (got > 0) {
            free(event->data);
            event->data = NULL;
            event->size = 0;
            node->read(node, event);
            return DLOCK_OK;
        }
        if (got < 0)
            return got == -1 ? DLOCK_NO_EVENT : DLOCK_CLOSED;
        if (now >= deadline)
            return DLOCK_NO_EVENT;
        if (poll(&wait, 1, poll_time(deadline, now)) < 0 && errno == EINTR)
            return DLOCK_INTERRUPTED;
    }
}
