/*
 * watchdog.h: what watchdog/ offers: the threads of a client, each a loop of timers, renewals and a lane of the store.
 *
 * The pool knows no client. What it needs of one is in struct dli_watchdog: the store, and hooks. A renewal is queued
 * as a row (struct dli_due). It names its hold by a pointer that only the hooks follow.
 *
 * loop.mutex guards the timers of one loop. It is taken under the owner's mutexes or alone. Everything else of a loop
 * belongs to its thread, or to the caller that does the loop's work while it sleeps (redis/pipe/pipe.h).
 */
#ifndef DLI_WATCHDOG_WATCHDOG_H
#define DLI_WATCHDOG_WATCHDOG_H

#include <pthread.h>

#include "store/store.h"
#include "timers.h"

struct dli_loop;

/* A queued renewal. Times are microseconds. */
struct dli_due {
    void *hold; /* the owner's, with a ref */
    const struct dli_kind *kind;
    const struct dli_place *place;
    int64_t number, lease, limit; /* the grant number; the lease; the hold is valid before limit */
    int64_t attempt;              /* the longest time for one attempt */
    int64_t last;                 /* the last token reserved for the hold */
    int64_t lasts;                /* how long the server knows of the holder after this renewal */
    int tries;                    /* attempts that have failed before */
    int soon;                     /* do not wait for others to share its request */
    int most;                     /* how many locks may share its request; they all have the same value */
};

/*
 * What the pool needs from its owner. No mutex is held. The hooks on a due row run on the loop's thread, or on that of
 * the caller that does the loop's work.
 */
struct dli_watchdog_hooks {
    /* Fill in the row of a request that leaves now. 0: the renewal is not wanted any more, and its ref is dropped. */
    int (*row)(const struct dli_due *due, int64_t now, struct dli_renewal *row);

    /* The result of the renewal; kept as in dli_mutex_renewed. Drops the ref. */
    void (*renewed)(const struct dli_due *due, int kept, int64_t stamp, int64_t now);

    /*
     * The renewal was alone in its request. refused says whether the server refused it; status and reason are the
     * result. renewed is called next.
     */
    void (*alone)(const struct dli_due *due, int refused, dlock_status status, const dlock_error *reason);

    /* The renewal is never sent. Drops the ref. */
    void (*drop)(const struct dli_due *due);

    /* Loop 0, before it sleeps: do the owner's work that is due. Returns when the next is due; INT64_MAX: none. */
    int64_t (*alarm)(void *owner, int64_t now);

    /* The loop's thread: a timer fired. */
    void (*fire)(struct dli_timer *timer, int64_t now);

    /* A thread ends. It does not touch its loop any more. */
    void (*ended)(void *owner);
};

/* What all loops of a client share; constant while they live. */
struct dli_watchdog {
    struct dli_store *store;
    const struct dli_watchdog_hooks *hooks;
    void *owner;
    int64_t *stats; /* atomics, DLOCK_STAT_* */
};

/* The renewals for one server (or for several whose numbers coincide), as a heap: the smallest limit first. */
struct dli_queue {
    struct dli_due *heap;
    size_t count, room;
    int64_t leave_at; /* renewals that do not fill a request wait for others until then */
    int flying;       /* requests in flight */
    int parts;        /* renewals in the heap that may not share a request with all others */
};

enum { DLI_QUEUES = 256 };

/* The renewals in one request. */
struct dli_renewal_batch {
    struct dli_renewal_batch *next; /* in loop.idle */
    struct dli_request *request;
    struct dli_loop *loop;
    struct dli_queue *queue;
    int count;
    int64_t stamp;
    dlock_error reason;
    struct dli_due due[DLI_RENEW_MAX];
    struct dli_renewal rows[DLI_RENEW_MAX];
};

/* One watchdog thread. */
struct dli_loop {
    const struct dli_watchdog *watchdog;
    int index;
    int wake_fd, alarm_fd;
    uint32_t stop;         /* atomic */
    pthread_mutex_t mutex; /* guards timers, ended and next */
    struct dli_timers timers;
    int ended;             /* takes no more timers */
    int64_t next;          /* when the thread checks the timers; INT64_MIN while it is awake */
    struct dli_lane *lane; /* from here on the thread's own, except what store/store.h says of the lane */
    struct dli_queue queue[DLI_QUEUES];
    int queues;                     /* queues below this index have been used */
    struct dli_renewal_batch *idle; /* batches that are not in flight; the loop has at least one batch */
    int apart;                      /* the server wants one lock per request */
};

/* ---- loop.c */

/* 0, or -1: no memory or descriptors. */
int dli_loop_new(const struct dli_watchdog *watchdog, int index, struct dli_loop **ret);
void dli_loop_free(struct dli_loop *loop);

/* The loop's thread: turns and sleeps in between, until stop is set. */
void dli_loop_run(void *loop);

/*
 * One turn: do all that is due, without blocking. 1: *ret_next is when the next one is due, if nothing happens before. 0: stop was
 * set, and the loop has ended; it may be freed now.
 */
int dli_loop_turn(struct dli_loop *loop, int64_t *ret_next);

/*
 * Any thread: set a timer, linked or not, to at. Wakes the loop if that is before its next check. The caller has taken
 * a ref for the timer. 1: the timer was not linked, and has that ref now. 0: it was linked, or the loop takes no more
 * timers; the ref is still the caller's.
 */
int dli_loop_set_timer(struct dli_loop *loop, struct dli_timer *timer, int64_t at, int64_t now);

/* Any thread: 1 when the timer was linked and is out now, 0 when it fired or was never set. */
int dli_loop_stop_timer(struct dli_loop *loop, struct dli_timer *timer);

/* ---- renew.c */

/* The loop's thread: queue a renewal; its ref is the queue's. 0, or -1 without memory. */
int dli_renew_queue(struct dli_loop *loop, const struct dli_due *due);

/* open: add an idle batch; 0, or -1 without memory. close: free the idle batches and the queues. */
int dli_renew_open(struct dli_loop *loop);
void dli_renew_close(struct dli_loop *loop);

/* The loop's thread: send what is due, as long as not too many requests are in flight. */
void dli_renew_send(struct dli_loop *loop, int64_t now);

/* The loop's thread: when dli_renew_send has something to do. INT64_MAX: not before an answer has come. */
int64_t dli_renew_alarm(const struct dli_loop *loop);

/* The loop's thread: drop all queued renewals. */
void dli_renew_drop(struct dli_loop *loop);

#endif
