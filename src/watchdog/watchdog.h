/*
 * watchdog.h: what watchdog/ offers: the threads of a client, each a loop of timers, renewals and a lane of the store.
 *
 * The pool knows no client. What it needs of one is in struct dli_watchdog: the store, and hooks. A renewal is queued as a
 * row (struct dli_due) that names its hold by a pointer which only the hooks follow.
 *
 * loop.mutex guards the timers of one loop; it is taken under the owner's mutexes or alone. Everything else of a loop belongs
 * to its thread, or to the caller that does its work while it sleeps (redis/pipe/pipe.h).
 */
#ifndef DLI_WATCHDOG_WATCHDOG_H
#define DLI_WATCHDOG_WATCHDOG_H

#include <pthread.h>

#include "store/store.h"
#include "timers.h"

struct dli_loop;

/* A renewal waiting for its turn. */
struct dli_due {
    void *hold; /* the owner's, with a ref */
    const struct dli_kind *kind;
    const struct dli_place *place;
    int64_t number, lease, limit;
    int64_t attempt; /* the longest time for one attempt */
    int64_t last;    /* token of the hold */
    int64_t lasts;   /* what the server is asked for: the lease, or how long the holder is known to live */
    int tries;       /* that failed before */
    int soon;        /* it does not wait for others to share a request with */
    int most;        /* how many may share its request, all with the same number */
};

/* What the pool asks its owner. No mutex is held. The hooks on a due row run on the loop's thread. */
struct dli_watchdog_hooks {
    /* Fill in the row of a request that leaves now. 0: the renewal is not wanted any more; its ref is gone. */
    int (*row)(const struct dli_due *due, int64_t now, struct dli_renewal *row);

    /* What came of it, as dli_mutex_renewed has it; the ref goes. */
    void (*renewed)(const struct dli_due *due, int kept, int64_t stamp, int64_t now);

    /* It was asked for alone, and the server refused it or not: status and why. Behind it comes renewed. */
    void (*alone)(const struct dli_due *due, int refused, dlock_status status, const dlock_error *reason);

    /* It is never sent; the ref goes. */
    void (*drop)(const struct dli_due *due);

    /* Loop 0, before it sleeps: do what is due besides. When it will be due; INT64_MAX: nothing. */
    int64_t (*alarm)(void *owner, int64_t now);

    /* A thread is over and touches its loop no more. */
    void (*ended)(void *owner);
};

/* What all loops of a client share; constant while they live. */
struct dli_watchdog {
    struct dli_store *store;
    const struct dli_watchdog_hooks *hooks;
    void *owner;
    int64_t *stats; /* atomics, DLOCK_STAT_* */
};

/* Renewals that wait for servers with one number, by limit, the most endangered first; and how many requests are in flight. */
struct dli_queue {
    struct dli_due *heap;
    size_t count, room;
    int64_t leave_at; /* those that do not fill a script wait for others until then */
    int flying;
    int parts; /* how many in the heap may not share a request with all others */
};

enum { DLI_QUEUES = 256 };

/* The renewals in one request. */
struct dli_renewal_batch {
    struct dli_renewal_batch *next; /* idle */
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
    int64_t next;          /* the thread will look at the timers then; INT64_MIN while it is awake */
    struct dli_lane *lane; /* the rest: the thread's own, but for what store/store.h says of the lane */
    struct dli_queue queue[DLI_QUEUES];
    int queues;                     /* those below were ever used */
    struct dli_renewal_batch *idle; /* batches that are not in flight; there is one at least in all */
    int apart;                      /* the server wants one lock per request */
};

/* ---- loop.c */

/* 0, or -1: no memory or descriptors. */
int dli_loop_new(const struct dli_watchdog *watchdog, int index, struct dli_loop **ret);
void dli_loop_free(struct dli_loop *loop);
void dli_loop_run(void *loop);

/*
 * Any thread: set a timer (linked or not) to at; wakes the loop when that is sooner than it would look. 1 when it was not
 * linked before: the caller has taken a ref for it. 0: it was, or the loop takes no more: the ref is the caller's again.
 */
int dli_loop_set_timer(struct dli_loop *loop, struct dli_timer *timer, int64_t at, int64_t now);

/* Any thread: 1 when the timer was linked and is out now, 0 when it fired or was never set. */
int dli_loop_stop_timer(struct dli_loop *loop, struct dli_timer *timer);

/* ---- renew.c */

/* The loop's thread: queue a renewal; its ref is the queue's. 0, or -1 without memory. */
int dli_renew_queue(struct dli_loop *loop, const struct dli_due *due);

/* A batch for the loop, idle. 0, or -1 without memory. And the end of those that are idle, and of the queues. */
int dli_renew_open(struct dli_loop *loop);
void dli_renew_close(struct dli_loop *loop);

/* The loop's thread: send what is due, as far as not too much is in flight. */
void dli_renew_send(struct dli_loop *loop, int64_t now);

/* The loop's thread: when dli_renew_send has something to do; INT64_MAX: when an answer has come. */
int64_t dli_renew_alarm(const struct dli_loop *loop);

/* The loop's thread: forget what is queued. */
void dli_renew_drop(struct dli_loop *loop);

#endif
