/*
 * query.c: what an owner has, by the clock at this instant. No network, no sleep.
 */
#include "acquire.h"

#include "sys/sys.h"

int32_t dli_query_state(struct dli_entry *entry, int64_t owner)
{
    int64_t now;
    int32_t state;

    dli_entry_lock(entry);
    now = dli_now();
    state = dli_mutex_state(&entry->m, owner, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return state;
}

dlock_status dli_query_held(struct dli_entry *entry, int64_t owner, int64_t *token, int64_t *count, int64_t *remaining)
{
    dlock_status status = DLOCK_OK;
    int64_t now;
    int32_t state;

    dli_entry_lock(entry);
    now = dli_now();
    state = dli_mutex_state(&entry->m, owner, now);
    if (state == DLOCK_STATE_HELD || state == DLOCK_STATE_AT_RISK) {
        *token = entry->m.holder->token;
        *count = entry->m.holder->count;
        *remaining = dli_mutex_sure_until(&entry->m);
        *remaining -= *remaining == DLI_NEVER ? 0 : now;
    } else {
        status = state == DLOCK_STATE_LOST ? DLOCK_LOST : DLOCK_NOT_HELD;
    }
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return status;
}

dlock_status dli_query_permit(struct dli_entry *entry, int64_t owner, int64_t index, int64_t *number)
{
    dlock_status status = DLOCK_OK;
    int32_t state;

    dli_entry_lock(entry);
    state = dli_mutex_state(&entry->m, owner, dli_now());
    if (state != DLOCK_STATE_HELD && state != DLOCK_STATE_AT_RISK)
        status = state == DLOCK_STATE_LOST ? DLOCK_LOST : DLOCK_NOT_HELD;
    else if (index < 0 || index >= entry->rules->permits)
        status = DLOCK_INVALID_ARGUMENT;
    else
        *number = entry->m.want.number - index;
    dli_entry_unlock(entry);
    return status;
}
