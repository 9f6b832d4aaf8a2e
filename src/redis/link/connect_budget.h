/*
 * connect_budget.h: how often a client may try to connect: a budget of attempts per second, and a pause with jitter after
 * failures. Shared by all connections of a client; one mutex inside.
 */
#ifndef DLI_REDIS_LINK_CONNECT_BUDGET_H
#define DLI_REDIS_LINK_CONNECT_BUDGET_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"

struct dli_budget {
    pthread_mutex_t mutex; /* guards all below */
    int per_second;
    int64_t window;       /* start of the current second */
    int used;             /* attempts in it */
    int failures;         /* in a row */
    int64_t closed_until; /* the pause after a failure */
    dlock_error refusal;  /* why, when that was a refusal */
    uint64_t noise;
    int64_t connects, connect_failures;
};

void dli_budget_init(struct dli_budget *budget, int per_second, uint64_t seed);
void dli_budget_fini(struct dli_budget *budget);

/* 0: an attempt may start now, and counts. Else the time to ask again. */
int64_t dli_budget_take(struct dli_budget *budget, int64_t now);

/* Add how many attempts ended well, and how many not. */
void dli_budget_count(struct dli_budget *budget, int64_t *connects, int64_t *failures);

/* How an attempt ended. */
void dli_budget_result(struct dli_budget *budget, int connected, int64_t now);

/* The same for one that failed. Who was refused for what it says it is, comes again after a second at the earliest. */
void dli_budget_failed(struct dli_budget *budget, const dlock_error *reason, int64_t now);

/* Whether the gate is closed because of that; then *why is the refusal. */
int dli_budget_refused(struct dli_budget *budget, dlock_error *reason, int64_t now);

#endif
