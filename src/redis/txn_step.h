/*
 * txn_step.h: a lane's part in transactions that nobody waits for: it drives their connections.
 *
 * mutex guards pushed and shut; the rest belongs to the lane's thread.
 */
#ifndef DLI_REDIS_TXN_STEP_H
#define DLI_REDIS_TXN_STEP_H

#include <pthread.h>

#include "txn.h"

struct pollfd;

enum { DLI_TXN_LANE_FDS = 56 };

struct dli_txn_lane {
    pthread_mutex_t mutex;
    struct dli_txn_step *pushed, **pushed_end;
    int shut;
    int wake_fd;                                 /* the loop's, borrowed */
    struct dli_txn_step *waiting, **waiting_end; /* for a place among the active ones */
    struct dli_txn_step *active;
    int count;
};

void dli_txn_lane_init(struct dli_txn_lane *lane, int wake_fd);
void dli_txn_lane_fini(struct dli_txn_lane *lane);

/* Any thread. 0, or -1 when the lane was shut: the step stays the caller's and done does not run. */
int dli_txn_lane_push(struct dli_txn_lane *lane, struct dli_txn_step *step);

/* ---- the lane's thread: as the operations of a lane in base/store.h */
void dli_txn_lane_step(struct dli_txn_lane *lane, int64_t now);
int64_t dli_txn_lane_alarm(const struct dli_txn_lane *lane);

/* How many descriptors to watch; at most DLI_TXN_LANE_FDS. */
int dli_txn_lane_fds(const struct dli_txn_lane *lane, struct pollfd *fds);
void dli_txn_lane_shut(struct dli_txn_lane *lane);

#endif
