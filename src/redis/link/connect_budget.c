/*
 * connect_budget.c: the connect budget of connect_budget.h.
 */
#include "connect_budget.h"

#include <string.h>

#include "sys/sys.h"

enum { SECOND = 1000000, PAUSE_FIRST = 10000, PAUSE_MOST = 400000, PAUSE_REFUSED = SECOND };

void dli_gate_init(struct dli_gate *gate, int per_second, uint64_t seed)
{
    memset(gate, 0, sizeof *gate);
    pthread_mutex_init(&gate->mutex, NULL);
    gate->per_second = per_second;
    gate->noise = seed | 1;
}

void dli_gate_fini(struct dli_gate *gate)
{
    pthread_mutex_destroy(&gate->mutex);
}

static int64_t ask(struct dli_gate *gate, int64_t now)
{
    if (now < gate->closed_until)
        return gate->closed_until;
    if (now - gate->window >= SECOND) {
        gate->window = now;
        gate->used = 0;
    }
    if (gate->used >= gate->per_second)
        return gate->window + SECOND;
    gate->used++;
    return 0;
}

int64_t dli_gate_ask(struct dli_gate *gate, int64_t now)
{
    int64_t when;

    pthread_mutex_lock(&gate->mutex);
    when = ask(gate, now);
    pthread_mutex_unlock(&gate->mutex);
    return when;
}

/* The pause doubles with each failure; half of it is jitter. */
static int64_t pause_after(struct dli_gate *gate)
{
    int64_t pause = (int64_t)PAUSE_FIRST << (gate->failures < 6 ? gate->failures : 6);

    if (pause > PAUSE_MOST)
        pause = PAUSE_MOST;
    gate->noise ^= gate->noise << 13;
    gate->noise ^= gate->noise >> 7;
    gate->noise ^= gate->noise << 17;
    return pause / 2 + (int64_t)(gate->noise % (uint64_t)(pause / 2));
}

void dli_gate_result(struct dli_gate *gate, int connected, int64_t now)
{
    pthread_mutex_lock(&gate->mutex);
    if (connected) {
        gate->connects++;
        gate->failures = 0;
        gate->closed_until = 0;
        gate->refusal.code = DLOCK_OK;
    } else {
        gate->connect_failures++;
        gate->closed_until = now + pause_after(gate);
        gate->failures++;
        gate->refusal.code = DLOCK_OK;
    }
    pthread_mutex_unlock(&gate->mutex);
}

void dli_gate_failed(struct dli_gate *gate, const dlock_error *why, int64_t now)
{
    dli_gate_result(gate, 0, now);
    if (why->code != DLOCK_DENIED)
        return;
    pthread_mutex_lock(&gate->mutex);
    gate->refusal = *why;
    gate->closed_until = now + PAUSE_REFUSED;
    pthread_mutex_unlock(&gate->mutex);
}

int dli_gate_refused(struct dli_gate *gate, dlock_error *why, int64_t now)
{
    int refused;

    pthread_mutex_lock(&gate->mutex);
    refused = now < gate->closed_until && gate->refusal.code != DLOCK_OK;
    if (refused)
        *why = gate->refusal;
    pthread_mutex_unlock(&gate->mutex);
    return refused;
}

void dli_gate_count(struct dli_gate *gate, int64_t *connects, int64_t *failures)
{
    pthread_mutex_lock(&gate->mutex);
    *connects += gate->connects;
    *failures += gate->connect_failures;
    pthread_mutex_unlock(&gate->mutex);
}
