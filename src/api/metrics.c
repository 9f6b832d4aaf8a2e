/*
 * metrics.c: the numbers of a client: an array of counters, and all of them as text. The store may take a mutex of its own for
 * its counters. No fork waits for that one, so it is not asked before the client has started: a child may use the client then.
 */
#include "handles.h"

/* The counters that are kept, and those that follow from them: who has begun and not ended. */
static void count(struct dli_client *core, struct dli_metrics *seen, int64_t all[DLOCK_STAT_COUNT])
{
    dli_metrics_read(&core->metrics, seen);
    for (int i = 0; i < DLOCK_STAT_COUNT; i++)
        all[i] = __atomic_load_n(&core->stats[i], __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&core->started, __ATOMIC_ACQUIRE))
        core->store->ops->stats(core->store, all);
    all[DLOCK_STAT_HELD] = all[DLOCK_STAT_ACQUIRED] - dli_metrics_count(&seen->of[DLI_HOLD]);
    all[DLOCK_STAT_WAITING] = dli_metrics_waiting(seen);
    all[DLOCK_STAT_LOCKS] = __atomic_load_n(&core->entry_count, __ATOMIC_RELAXED);
}

dlock_status dlock_client_stats(dlock_client *client, int64_t *values, size_t size, size_t *ret_count,
                                dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_client_mine(client, 0, reterr);
    int64_t all[DLOCK_STAT_COUNT];
    struct dli_metrics seen;

    if (status != DLOCK_OK)
        return status;
    if (!values && size > 0)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no array for the counters was given");
    count(client->core, &seen, all);
    for (size_t i = 0; i < size && i < DLOCK_STAT_COUNT; i++)
        values[i] = all[i];
    if (ret_count)
        *ret_count = DLOCK_STAT_COUNT;
    return DLOCK_OK;
}

dlock_status dlock_client_metrics(dlock_client *client, char *buffer, size_t size, size_t *ret_size,
                                  dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_client_mine(client, 0, reterr);
    int64_t all[DLOCK_STAT_COUNT];
    struct dli_metrics seen;
    size_t length;

    if (status != DLOCK_OK)
        return status;
    if (!buffer && size > 0)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no buffer for the text was given");
    count(client->core, &seen, all);
    length = dli_metrics_text(&seen, all, dlock_version_string(), client->core->store->text, buffer, size);
    if (ret_size)
        *ret_size = length;
    if (length >= size)
        return dli_fail(reterr, DLOCK_BUFFER_TOO_SMALL, "the text has %zu bytes, the buffer %zu", length + 1, size);
    return DLOCK_OK;
}
