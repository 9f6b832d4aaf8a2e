/*
 * events.h: the event queue of a client, with one descriptor that is readable while events wait.
 *
 * Nodes are intrusive, so that a completion or a loss never needs memory when it happens. The queue's mutex guards
 * everything; it is taken last, under any other.
 */
#ifndef DLI_CLIENT_EVENTS_H
#define DLI_CLIENT_EVENTS_H

#include <pthread.h>
#include <stdint.h>

#include "base/list.h"
#include "sys/sys.h"
#include "dlock.h"

enum { DLI_EVENT_TEXT = 256 };

/* What an event box holds. */
struct dlock_event {
    int64_t field[DLOCK_FIELD_COUNT];
    char text[DLI_EVENT_TEXT];
    char *data; /* its own, or NULL */
    size_t size;
};

/*
 * A node in the queue: a snapshot, which nobody touches while the queue has it. read adds the text and lets go of what the
 * node is part of.
 */
struct dli_node {
    struct dli_link link;
    int64_t field[DLOCK_FIELD_COUNT];
    void (*read)(struct dli_node *node, char text[DLI_EVENT_TEXT]);
    char *data; /* NULL, or bytes that go to who reads it */
    size_t size;
};

struct dli_events {
    pthread_mutex_t mutex;
    struct dli_fork_guard guard;
    struct dli_link nodes;
    int fd; /* set while nodes wait or a wake is due */
    int64_t wakes;
    int64_t promised;     /* nodes that will come even after the end */
    int ended;            /* nothing else will come: readers of an empty queue are told so */
    int shut;             /* nobody will read any more */
    int64_t count, limit; /* nodes waiting; how many before what may be dropped is */
    int64_t *dropped;     /* atomic counter */
    int64_t many_until;   /* see dli_events_one_by_one */
    int64_t reader;       /* atomic: the thread that has looked for an event last */
};

/* 0, or -1 (errno). */
int dli_events_init(struct dli_events *events, int64_t limit, int64_t *dropped);

/*
 * promise: a node will come, and the queue does not end before. DLOCK_OK, or DLOCK_CLOSED when readers may have been told
 * that it has. keep: now it comes, filled in (NULL: it does not); 1, or 0 when the queue is shut.
 */
dlock_status dli_events_promise(struct dli_events *events);
int dli_events_keep(struct dli_events *events, struct dli_node *node);

/*
 * Whether calls are submitted one by one, each when the event before it was read, for some milliseconds now. Where they are not, many
 * want something at a time, and what they want goes to the server together.
 */
int dli_events_one_by_one(struct dli_events *events, int64_t now);

/* Whether the thread that calls is the one that looks for events, as that of an event loop does; also if nobody has looked yet. */
int dli_events_mine(const struct dli_events *events);

/* Nothing will come any more but what is promised. */
void dli_events_end(struct dli_events *events);
int dli_events_ended(struct dli_events *events);

/* Nobody will read any more: what waits is read into nowhere, later nodes are refused. */
void dli_events_shut(struct dli_events *events);

/* After a fork: a descriptor of our own under the same number, and no wakes of the parent's. 0 or -1 (errno). */
int dli_events_part(struct dli_events *events);
void dli_events_fini(struct dli_events *events);

/*
 * Put the node into the queue with these fields. 1, or 0 when it waits there already, the queue is shut or has ended, or it
 * is full and the node may be dropped. The node's link must be initialised once; it may be posted again and again.
 */
int dli_events_post(struct dli_events *events, struct dli_node *node, const int64_t field[DLOCK_FIELD_COUNT],
                    int may_drop);

/* A log line about trouble (or, with DLOCK_OK, its end). Dropped without memory or room. */
void dli_events_log(struct dli_events *events, dlock_status status, const char *text);
void dli_events_wake(struct dli_events *events);

/*
 * DLOCK_OK with the oldest event; DLOCK_NO_EVENT at deadline or after a wake; DLOCK_INTERRUPTED by a signal; DLOCK_CLOSED when
 * the queue has ended and is empty.
 */
dlock_status dli_events_next(struct dli_events *events, int64_t deadline, struct dlock_event *event);

#endif
