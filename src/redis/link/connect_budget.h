/*
 * connect_budget.h: how often a client may try to connect: a budget of attempts per second, and a pause with jitter after
 * failures. Shared by all connections of a client; one mutex inside.
 */
#ifndef DLI_REDIS_LINK_CONNECT_BUDGET_H
#define DLI_REDIS_LINK_CONNECT_BUDGET_H

#include <pthread.h>
#include <stdint.h>

#include "base/error.h"

struct dli_gate {
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

void dli_gate_init(struct dli_gate *gate, int per_second, uint64_t seed);
void dli_gate_fini(struct dli_gate *gate);

/* 0: an attempt may start now, and counts. Else the time to ask again. */
int64_t dli_gate_ask(struct dli_gate *gate, int64_t now);

/* Add how many attempts ended well, and how many not. */
void dli_gate_count(struct dli_gate *gate, int64_t *connects, int64_t *failures);

/* How an attempt ended. */
void dli_gate_result(struct dli_gate *gate, int connected, int64_t now);

/* The same for one that failed. Who was refused for what it says it is, comes again after a second at the earliest. */
void dli_gate_failed(struct dli_gate *gate, const dlock_error *why, int64_t now);

/* Whether the gate is closed because of that; then *why is the refusal. */
int dli_gate_refused(struct dli_gate *gate, dlock_error *why, int64_t now);

#endif
