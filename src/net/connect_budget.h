/*
 * connect_budget.h: the connect budget: a number of connection attempts per second, and a pause with jitter after
 * failures. All connections of a client share it. Thread-safe: one mutex inside.
 */
#ifndef DLI_NET_CONNECT_BUDGET_H
#define DLI_NET_CONNECT_BUDGET_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"

struct dli_budget {
    pthread_mutex_t mutex; /* guards all below */
    int per_second;
    int64_t window;       /* start of the current second */
    int used;             /* attempts in it */
    int failures;         /* in a row */
    int64_t closed_until; /* end of the pause after a failure */
    dlock_error refusal;  /* the reason of the pause if it is DLOCK_DENIED; else its code is DLOCK_OK */
    uint64_t noise;
    int64_t connects, connect_failures;
    uint32_t lefts; /* atomic: how often connections were left, because their server was the wrong one by then */
};

void dli_budget_init(struct dli_budget *budget, int per_second, uint64_t seed);
void dli_budget_fini(struct dli_budget *budget);

/* 0: an attempt may start now, and is counted. Else the time to try again. */
int64_t dli_budget_take(struct dli_budget *budget, int64_t now);

/* Add the numbers of successful and failed attempts. */
void dli_budget_count(struct dli_budget *budget, int64_t *connects, int64_t *failures);

/* Report how an attempt ended. */
void dli_budget_result(struct dli_budget *budget, int connected, int64_t now);

/* Report a failed attempt. After DLOCK_DENIED the next one may start after a second at the earliest. */
void dli_budget_failed(struct dli_budget *budget, const dlock_error *reason, int64_t now);

/* Whether there is a pause because of DLOCK_DENIED; then *reason is that refusal. */
int dli_budget_refused(struct dli_budget *budget, dlock_error *reason, int64_t now);

/* Its connections lead to the wrong server by now: those from before are not used again. */
void dli_budget_leave(struct dli_budget *budget);

/* How often that happened. */
uint32_t dli_budget_lefts(const struct dli_budget *budget);

#endif
