/*
 * events.h: the event queue of a client, with one descriptor that is readable while events wait.
 *
 * Nodes are intrusive. The node of a loss or of a release is part of its claim: they need no memory when they happen. That
 * of another completion is allocated when the call is submitted, and that of a risk when it is reported: without memory a
 * risk is dropped and counted, as when the queue is full. events.mutex guards everything; it is taken last, under any other.
 */
#ifndef DLI_CLIENT_EVENTS_H
#define DLI_CLIENT_EVENTS_H

#include <pthread.h>
#include <stdint.h>

#include "base/list.h"
#include "sys/sys.h"
#include "watchdog/watchdog.h"
#include "dlock.h"

struct dli_waiter;

enum { DLI_EVENT_TEXT = 256 };

/* What an event box holds. */
struct dlock_event {
    int64_t field[DLOCK_FIELD_COUNT];
    char text[DLI_EVENT_TEXT];
    char *data; /* owned by the event box; or NULL */
    size_t size;
};

/*
 * A place in the queue. Nobody touches a node while it is there. read fills in the event, and drops the ref on the object
 * that contains the node.
 */
struct dli_node {
    struct dli_link link;
    void (*read)(struct dli_node *node, struct dlock_event *event);
};

/* An event as a snapshot: a node, and what dli_snapshot_read fills in for its read. */
struct dli_snapshot {
    struct dli_node node;
    int64_t field[DLOCK_FIELD_COUNT];
    char *data; /* NULL, or bytes that the reader of the event gets */
    size_t size;
};

/* Fill in all but the text. The event owns data then. */
void dli_snapshot_read(struct dli_snapshot *snapshot, struct dlock_event *event);

/* The timer that ends the wait of a submitted claim. Once it is set it has a ref on the waiter, and is its own. */
struct dli_wait {
    struct dli_timer timer; /* under the loop's mutex */
    struct dli_waiter *waiter;
};

/*
 * The event of a submitted acquisition, of a risk, or of a release that failed. Until it is posted, entry.mutex guards it.
 * It ends when it was read.
 */
struct dli_notice {
    struct dli_snapshot shot;
    struct dli_waiter *waiter; /* with a ref, once it is posted */
    dlock_error *reason;       /* the failure that the call ended with, or NULL */
    struct dli_wait *wait;     /* until the call is settled; NULL: it waits without limit */
};

struct dli_events {
    pthread_mutex_t mutex;
    struct dli_fork_guard guard;
    struct dli_link nodes;
    int fd; /* set while nodes wait or a wake is due */
    int64_t wakes;
    int64_t promised;   /* nodes that will come even after the end */
    int ended;          /* only promised nodes will come; after them readers of an empty queue get DLOCK_CLOSED */
    int shut;           /* nobody will read any more */
    int64_t count;      /* atomic: nodes in the queue */
    int64_t limit;      /* from so many nodes on, nodes that may be dropped are */
    int64_t *dropped;   /* atomic counter */
    int64_t many_until; /* see dli_events_one_by_one */
    int64_t reader;     /* atomic: the thread that last called for an event; 0: none yet */
};

/* 0, or -1 (errno). */
int dli_events_init(struct dli_events *events, int64_t limit, int64_t *dropped);

/*
 * promise: a node will come, and the queue does not end before. DLOCK_OK, or DLOCK_CLOSED when readers may have been
 * told that the queue has ended.
 * keep: post the promised node, which is filled in: 1, or 0 when the queue is shut. NULL takes the promise back: 0.
 */
dlock_status dli_events_promise(struct dli_events *events);
int dli_events_keep(struct dli_events *events, struct dli_node *node);

/*
 * Whether calls are submitted one by one: for some milliseconds now, each came after the event before it was read. If
 * not, many calls come at a time, and their requests go to the server together.
 */
int dli_events_one_by_one(struct dli_events *events, int64_t now);

/* Whether the calling thread is the one that reads events, as in an event loop. Also 1 when nobody has read yet. */
int dli_events_mine(const struct dli_events *events);

/* Only promised nodes will come from now on. */
void dli_events_end(struct dli_events *events);
int dli_events_ended(struct dli_events *events);

/* Nobody will read any more: queued nodes are discarded, later ones refused. */
void dli_events_shut(struct dli_events *events);

/* In a child after a fork: a new descriptor under the same number, and none of the parent's wakes. 0 or -1 (errno). */
int dli_events_part(struct dli_events *events);
void dli_events_fini(struct dli_events *events);

/*
 * Post the node, which is filled in: 1. Or 0, when the queue is shut or has ended, or when it is full and the node may be
 * dropped, which is counted.
 */
int dli_events_post(struct dli_events *events, struct dli_node *node, int may_drop);

/*
 * No mutex held. Nobody has ever read an event, and the queue is above its limit: drop its oldest nodes, some of them, as
 * long as may_drop says that they may be. They are counted.
 */
void dli_events_trim(struct dli_events *events, int (*may_drop)(const struct dli_node *node));

/* A node that may be dropped could not be made. */
void dli_events_count_dropped(struct dli_events *events);

/* Post a log line about a failure, or with DLOCK_OK about its end. It is dropped and counted without memory or room. */
void dli_events_log(struct dli_events *events, dlock_status status, const char *text);
void dli_events_wake(struct dli_events *events);

/*
 * The oldest event: DLOCK_OK. DLOCK_NO_EVENT at deadline or after a wake. DLOCK_INTERRUPTED by a signal. DLOCK_CLOSED
 * when the queue has ended and is empty.
 */
dlock_status dli_events_next(struct dli_events *events, int64_t deadline, struct dlock_event *event);

#endif
