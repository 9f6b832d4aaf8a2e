/*
 * lanes.h: the lanes of a store all of whose I/O is done by the thread of lane 0. Other threads put jobs into its inbox,
 * and get them back from the outbox of their own lane.
 *
 * lanes.mutex guards inbox, outboxes, sleeping and shut. Nothing else is locked under it, and no job runs under it.
 */
#ifndef DLI_LANES_LANES_H
#define DLI_LANES_LANES_H

#include <pthread.h>

#include "base/list.h"
#include "store/store.h"

enum { DLI_LANES = 16, DLI_LANES_WORDS = 64 };

struct dli_lane {
    struct dli_lanes *lanes;
    int index, wake_fd;
    int sleeping;
    struct dli_link outbox;
};

struct dli_lanes {
    pthread_mutex_t mutex;
    struct dli_link inbox;
    struct dli_lane *lane[DLI_LANES];
    int shut;
    uint32_t words[DLI_LANES_WORDS], slots; /* atomics, futexes: callers of execute sleep on them */
    int64_t commands;                       /* atomic: jobs so far */
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
};

void dli_lanes_init(struct dli_lanes *lanes);
void dli_lanes_fini(struct dli_lanes *lanes);

/* NULL without memory. */
struct dli_lane *dli_lane_new(struct dli_lanes *lanes, int index, int wake_fd);
void dli_lane_free(struct dli_lane *lane); /* NULL: nothing */

/* ---- any thread. The results of the request are reset. */

/* DLOCK_CLOSED: nothing was done. */
dlock_status dli_lane_push(struct dli_lane *lane, struct dli_lane_job *job);

/* Blocks until the job is finished. */
void dli_lane_execute(struct dli_lane *lane, struct dli_lane_job *job);

/* ---- the lane's own thread */

/* Run done of the jobs that came back. */
void dli_lane_give_back(struct dli_lane *lane);

/* The same for the last time. Lane 0 has failed all jobs before; every other lane waits for that. */
void dli_lane_end(struct dli_lane *lane);

/* 0: the lane may sleep, and is woken for new jobs. -1: there is work. */
int dli_lane_sleep(struct dli_lane *lane);
void dli_lane_awake(struct dli_lane *lane);

/* ---- lane 0's thread */

/* A job that was pushed, or NULL. */
struct dli_lane_job *dli_lanes_next(struct dli_lanes *lanes);

/* The job's request is answered; its results are set. The job may be gone afterwards. */
void dli_lanes_finish(struct dli_lane_job *job);

/* The same with a failure; sentence NULL: the request has its reason already. */
void dli_lanes_fail(struct dli_lane_job *job, dlock_status status, const char *sentence);

/* No more jobs are taken, and those in the inbox fail. */
void dli_lanes_close(struct dli_lanes *lanes);

#endif
