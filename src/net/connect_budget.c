/*
 * connect_budget.c: the connect budget, see connect_budget.h. dli_budget.mutex guards all of it but the atomic.
 */
#include "connect_budget.h"

#include <string.h>

#include "sys/sys.h"

enum { SECOND = 1000000, PAUSE_FIRST = 10000, PAUSE_MOST = 400000, PAUSE_REFUSED = SECOND };

void dli_budget_init(struct dli_budget *budget, int per_second, uint64_t seed)
{
    memset(budget, 0, sizeof *budget);
    pthread_mutex_init(&budget->mutex, NULL);
    budget->per_second = per_second;
    budget->noise = seed | 1;
}

void dli_budget_fini(struct dli_budget *budget)
{
    pthread_mutex_destroy(&budget->mutex);
}

static int64_t take_attempt(struct dli_budget *budget, int64_t now)
{
    if (now < budget->closed_until)
        return budget->closed_until;
    if (now - budget->window >= SECOND) {
        budget->window = now;
        budget->used = 0;
    }
    if (budget->used >= budget->per_second)
        return budget->window + SECOND;
    budget->used++;
    return 0;
}

int64_t dli_budget_take(struct dli_budget *budget, int64_t now)
{
    int64_t when;

    pthread_mutex_lock(&budget->mutex);
    when = take_attempt(budget, now);
    pthread_mutex_unlock(&budget->mutex);
    return when;
}

/* The pause doubles with each failure; half of it is jitter. */
static int64_t pause_after(struct dli_budget *budget)
{
    int64_t pause = (int64_t)PAUSE_FIRST << (budget->failures < 6 ? budget->failures : 6);

    if (pause > PAUSE_MOST)
        pause = PAUSE_MOST;
    budget->noise ^= budget->noise << 13;
    budget->noise ^= budget->noise >> 7;
    budget->noise ^= budget->noise << 17;
    return pause / 2 + (int64_t)(budget->noise % (uint64_t)(pause / 2));
}

void dli_budget_result(struct dli_budget *budget, int connected, int64_t now)
{
    pthread_mutex_lock(&budget->mutex);
    if (connected) {
        budget->connects++;
        budget->failures = 0;
        budget->closed_until = 0;
        budget->refusal.code = DLOCK_OK;
    } else {
        budget->connect_failures++;
        budget->closed_until = now + pause_after(budget);
        budget->failures++;
        budget->refusal.code = DLOCK_OK;
    }
    pthread_mutex_unlock(&budget->mutex);
}

void dli_budget_failed(struct dli_budget *budget, const dlock_error *reason, int64_t now)
{
    dli_budget_result(budget, 0, now);
    if (reason->code != DLOCK_DENIED)
        return;
    pthread_mutex_lock(&budget->mutex);
    budget->refusal = *reason;
    budget->closed_until = now + PAUSE_REFUSED;
    pthread_mutex_unlock(&budget->mutex);
}

int dli_budget_refused(struct dli_budget *budget, dlock_error *reason, int64_t now)
{
    int refused;

    pthread_mutex_lock(&budget->mutex);
    refused = now < budget->closed_until && budget->refusal.code != DLOCK_OK;
    if (refused)
        *reason = budget->refusal;
    pthread_mutex_unlock(&budget->mutex);
    return refused;
}

void dli_budget_count(struct dli_budget *budget, int64_t *connects, int64_t *failures)
{
    pthread_mutex_lock(&budget->mutex);
    *connects += budget->connects;
    *failures += budget->connect_failures;
    pthread_mutex_unlock(&budget->mutex);
}

void dli_budget_leave(struct dli_budget *budget)
{
    __atomic_add_fetch(&budget->lefts, 1, __ATOMIC_RELEASE);
}

uint32_t dli_budget_lefts(const struct dli_budget *budget)
{
    return __atomic_load_n(&budget->lefts, __ATOMIC_ACQUIRE);
}
