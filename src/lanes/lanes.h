/*
 * lanes.h: the lanes of a store all of whose I/O is done by one thread at a time: by that of lane 0, or by a stand-in. That
 * is a caller that waits for its own job, or for a grant: it saves the way to the other thread and back (standin.c). Other
 * threads put jobs into the inbox, and get them back from the outbox of their own lane.
 *
 * The turn is a mutex. The thread of lane 0 has it while it is awake, and a stand-in while it is not asleep. It guards all
 * that belongs to lane 0: the engine's state, and what standin.c says of its own.
 *
 * lanes.mutex guards inbox, outboxes, sleeping, shut, manned, dozing and asked. It is taken under the turn or alone. Nothing
 * else is locked under it, and no job runs under it.
 */
#ifndef DLI_LANES_LANES_H
#define DLI_LANES_LANES_H

#include <pthread.h>

#include "base/list.h"
#include "store/store.h"
#include "sys/sys.h"

enum { DLI_LANES = 16, DLI_LANES_WORDS = 64 };

struct dli_lanes;

/* What the engine does on lane 0. Constant. */
struct dli_lanes_ops {
    void (*step)(struct dli_lanes *lanes, int64_t now); /* all that is possible without blocking */
    int64_t (*alarm)(const struct dli_lanes *lanes);    /* when to step again if nothing happens */
    int (*poll)(const struct dli_lanes *lanes, struct pollfd *fds);

    /* The descriptor, where lane 0 waits for bytes of one connection and for nothing else; -1: for more, or for none. */
    int (*sole)(const struct dli_lanes *lanes);
};

struct dli_lane {
    struct dli_lanes *lanes;
    int index, wake_fd;
    int sleeping;
    struct dli_link outbox;
};

struct dli_standin {
    struct dli_seat seat;           /* its relay is that of fd */
    int manned;                     /* a stand-in does the work of lane 0 */
    int dozing;                     /* it sleeps, and nobody has woken it */
    int asked;                      /* who has the seat has found lane 0 awake, and waits until it sleeps */
    int fd;                         /* the descriptor that it may wait for; -1: none */
    int64_t ups;                    /* of the connection that fd belongs to */
    int aside;                      /* the relay is off: lane 0 does not wait for bytes */
    const struct dli_lane_job *own; /* the one that the thread which steps now waits for */
    int64_t announced;              /* lane 0 wakes by then */
};

struct dli_lanes {
    pthread_mutex_t turn, mutex;
    const struct dli_lanes_ops *ops;
    int64_t ups; /* the engine counts its connections */
    struct dli_standin standin;
    struct dli_link inbox;
    struct dli_lane *lane[DLI_LANES];
    int shut;
    uint32_t words[DLI_LANES_WORDS], slots; /* atomics, futexes: callers of execute sleep on them */
    int64_t commands;                       /* atomic: jobs so far */
    uint32_t under_way;                     /* atomic: jobs that are not finished */
    uint32_t over;                          /* atomic, futex: lane 0 has ended; no more jobs come back */
};

/* What the lanes know of a job. The rest of it belongs to lane 0 while it is under way. */
struct dli_lane_job {
    struct dli_request *request; /* set once */
    struct dli_link link;        /* in inbox or outbox; in a list of the store's meanwhile */
    struct dli_lane *lane;       /* that it came from */
    uint32_t done;               /* atomic: execute is over */
    int slot;                    /* its word in lanes.words */
    int sleeps;                  /* execute waits for it */
    int stands;                  /* as a stand-in, at first */
};

void dli_lanes_init(struct dli_lanes *lanes, const struct dli_lanes_ops *ops);
void dli_lanes_fini(struct dli_lanes *lanes);

/* NULL without memory. */
struct dli_lane *dli_lane_new(struct dli_lanes *lanes, int index, int wake_fd);
void dli_lane_free(struct dli_lane *lane); /* NULL: nothing */

/* ---- any thread. The results of the request are reset. */

/* DLOCK_CLOSED: nothing was done. */
dlock_status dli_lane_push(struct dli_lane *lane, struct dli_lane_job *job);

/* Blocks until the job is finished. */
void dli_lane_execute(struct dli_lane *lane, struct dli_lane_job *job);

/*
 * As the store's may_listen, listen and ring: a caller that sleeps is the stand-in meanwhile.
 */
int dli_lanes_may_listen(struct dli_lanes *lanes);
int dli_lanes_listen(struct dli_lanes *lanes, int64_t deadline);
void dli_lanes_ring(struct dli_lanes *lanes);

/* ---- the lane's own thread: step, alarm, sleep and awake of a store */

void dli_lane_step(struct dli_lane *lane, int64_t now);
int64_t dli_lane_alarm(const struct dli_lane *lane);
int dli_lane_sleep(struct dli_lane *lane, struct pollfd *fds);
void dli_lane_awake(struct dli_lane *lane);

/*
 * The end of shut: jobs that came back are done for the last time. Lane 0 has failed all jobs before; every other lane waits
 * for that.
 */
void dli_lane_end(struct dli_lane *lane);

/* ---- who has the turn */

/* A job that was pushed, or NULL. */
struct dli_lane_job *dli_lanes_next(struct dli_lanes *lanes);

/* The job's request is answered; its results are set. The job may be gone afterwards. */
void dli_lanes_finish(struct dli_lane_job *job);

/* The same with a failure; sentence NULL: the request has its reason already. */
void dli_lanes_fail(struct dli_lane_job *job, dlock_status status, const char *sentence);

/* No more jobs are taken, and those in the inbox fail. */
void dli_lanes_close(struct dli_lanes *lanes);

/* ---- standin.c, for lanes.c */

void dli_standin_init(struct dli_standin *standin);
void dli_standin_fini(struct dli_standin *standin);

/*
 * Become the stand-in. 1: this thread has the turn, and calls dli_standin_wait once its job was pushed. 0: nothing was done.
 */
int dli_standin_begin(struct dli_lanes *lanes);

/* Do lane 0's work until the job is done, or until lane 0 has to do it. This thread is the stand-in no more afterwards. */
void dli_standin_wait(struct dli_lanes *lanes, const struct dli_lane_job *job);

/* lanes.mutex held, a job was pushed: whether a stand-in sees to it. *rouse: it has to be roused for that. */
int dli_standin_sees(struct dli_standin *standin, int *rouse);

/* Lane 0, who has the turn, sleeps: what it has to watch. manned: as it was when lane 0 could be woken again. */
int dli_standin_poll(struct dli_lanes *lanes, int manned, struct pollfd *fds);

/* Lane 0 sleeps, and has given up the turn. */
void dli_standin_invite(struct dli_lanes *lanes);

/* Lane 0, who has the turn, ends: there are no more stand-ins. */
void dli_standin_dismiss(struct dli_lanes *lanes);

#endif
