/*
 * order.c: what is done to locks beside acquiring and releasing, by callers that wait and by those that do not. Arguments
 * are checked here; the work is in client/operation_kinds.c.
 */
#include "handles.h"

#define GATE_MOST_MS INT64_C(31536000000)

static dlock_status no_memory(const dlock_lock *lock, dlock_error *reterr)
{
    dlock_error why = {.code = DLOCK_OK};

    dli_fail(&why, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    return dli_lock_said(lock->entry, DLOCK_OUT_OF_MEMORY, &why, reterr);
}

dlock_status dli_lock_carry(const dlock_lock *lock, dlock_status status, struct dli_order **order, int64_t *value,
                            dlock_error *reterr)
{
    if (status != DLOCK_OK)
        return status;
    if (!*order)
        return no_memory(lock, reterr);
    status = dli_order_carry(*order);
    if (status == DLOCK_OK && value)
        *value = (*order)->value;
    dli_order_said(*order, reterr);
    dli_order_free(*order);
    return status;
}

dlock_status dli_lock_submit(const dlock_lock *lock, dlock_status status, struct dli_order **order, int64_t tag,
                             dlock_error *reterr)
{
    if (status != DLOCK_OK)
        return status;
    return *order ? dli_order_submit(*order, tag, reterr) : no_memory(lock, reterr);
}

/* ---- extend */

/* Whether a lock that is wanted as terms say may have such a lease. */
static dlock_status check_lease(const struct dli_entry *entry, const struct dli_terms *terms, int64_t lease_ms,
                                dlock_error *reterr)
{
    const struct dli_option_row *row = &dli_option_table[DLI_OPT_LEASE_MS];

    if (lease_ms < row->low || lease_ms > row->high || (terms->renew && lease_ms < 500))
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a lease is %lld to %lld ms, at least 500 when it is renewed",
                        (long long)row->low, (long long)row->high);
    if (!dli_client_may_lease(entry->client, lease_ms + entry->rules.delay / DLI_MS))
        return dli_fail(reterr, DLOCK_LEASE_REFUSED, "a lease of %lld ms is longer than quarantine_ms",
                        (long long)lease_ms);
    return DLOCK_OK;
}

/* A multi-lock may have what each of its members may. */
static dlock_status check_leases(const dlock_lock *lock, int64_t lease_ms, dlock_error *reterr)
{
    dlock_status status = DLOCK_OK;

    if (!lock->multi)
        return check_lease(lock->entry, &lock->terms, lease_ms, reterr);
    for (size_t i = 0; i < lock->multi->count && status == DLOCK_OK; i++)
        status = check_lease(lock->multi->member[i].entry, &lock->multi->member[i].terms, lease_ms, reterr);
    return status;
}

static dlock_status extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, struct dli_order **order,
                           dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, &owner, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if ((!lock->kind->renewal || lock->kind->lasting) && !lock->multi)
        return dli_lock_cannot(lock, "has no lease to extend", reterr);
    if ((status = check_leases(lock, lease_ms, reterr)) != DLOCK_OK)
        return status;
    *order = dli_order_extend(lock->entry, lock->kind, lock->multi, owner, lease_ms * DLI_MS);
    return DLOCK_OK;
}

dlock_status dlock_lock_extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_carry(lock, extend(lock, owner, lease_ms, &order, reterr), &order, NULL, reterr);
}

dlock_status dlock_lock_submit_extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, int64_t tag,
                                      dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_submit(lock, extend(lock, owner, lease_ms, &order, reterr), &order, tag, reterr);
}

/* ---- release by force */

static dlock_status force(dlock_lock *lock, struct dli_order **order, dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, NULL, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if (!lock->multi && !lock->kind->forcible)
        return dli_lock_cannot(lock, "has no holder to take it from", reterr);
    *order = dli_order_force(lock->entry, lock->kind, lock->multi);
    return DLOCK_OK;
}

dlock_status dlock_lock_force_release(dlock_lock *lock, dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_carry(lock, force(lock, &order, reterr), &order, NULL, reterr);
}

dlock_status dlock_lock_submit_force_release(dlock_lock *lock, int64_t tag, dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_submit(lock, force(lock, &order, reterr), &order, tag, reterr);
}

/* ---- inspect */

static dlock_status inspect(dlock_lock *lock, struct dli_order **order, dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, NULL, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if (lock->multi)
        return dli_lock_cannot(lock, "is inspected member by member", reterr);
    *order = dli_order_inspect(lock->entry);
    return *order ? DLOCK_OK : no_memory(lock, reterr);
}

dlock_status dlock_lock_inspect(dlock_lock *lock, dlock_event *event, dlock_error *reterr)
{
    struct dli_order *order = NULL;
    dlock_status status = inspect(lock, &order, reterr);

    if (status != DLOCK_OK)
        return status;
    if (!event) {
        dli_order_free(order);
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no event box was given");
    }
    if (dli_order_carry(order) == DLOCK_OK) {
        dli_order_tell(order, event->field, event->text);
        event->field[DLOCK_FIELD_TYPE] = DLOCK_EVENT_INSPECTION;
        event->size = 0;
    }
    status = dli_order_said(order, reterr);
    dli_order_free(order);
    return status;
}

dlock_status dlock_lock_submit_inspect(dlock_lock *lock, int64_t tag, dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_submit(lock, inspect(lock, &order, reterr), &order, tag, reterr);
}

/* ---- the gate */

/* ttl_ms 0: open it. */
static dlock_status gate(dlock_lock *lock, int64_t ttl_ms, struct dli_order **order, dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, NULL, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if (lock->multi)
        return dli_lock_cannot(lock, "has no gate of its own", reterr);
    *order = dli_order_gate(lock->entry, ttl_ms);
    return DLOCK_OK;
}

static dlock_status closed_gate(dlock_lock *lock, int64_t ttl_ms, struct dli_order **order, dlock_error *reterr)
{
    if (ttl_ms < 1 || ttl_ms > GATE_MOST_MS)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a gate is closed for 1 to %lld ms", (long long)GATE_MOST_MS);
    return gate(lock, ttl_ms, order, reterr);
}

dlock_status dlock_lock_close_gate(dlock_lock *lock, int64_t ttl_ms, dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_carry(lock, closed_gate(lock, ttl_ms, &order, reterr), &order, NULL, reterr);
}

dlock_status dlock_lock_submit_close_gate(dlock_lock *lock, int64_t ttl_ms, int64_t tag, dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_submit(lock, closed_gate(lock, ttl_ms, &order, reterr), &order, tag, reterr);
}

dlock_status dlock_lock_open_gate(dlock_lock *lock, dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_carry(lock, gate(lock, 0, &order, reterr), &order, NULL, reterr);
}

dlock_status dlock_lock_submit_open_gate(dlock_lock *lock, int64_t tag, dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_submit(lock, gate(lock, 0, &order, reterr), &order, tag, reterr);
}

/* ---- take over a grant */

static dlock_status adopt(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size,
                          struct dli_order **order, dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, &owner, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if (lock->kind->id != DLOCK_KIND_MUTEX)
        return dli_lock_cannot(lock, "cannot be taken over from another process", reterr);
    status = dli_transfer_adopt(lock->entry, &lock->terms, owner, grant, grant_size, order);
    return dli_lock_said(lock->entry, status, NULL, reterr);
}

dlock_status dlock_lock_adopt_grant(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size,
                                    int64_t *ret_token, dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_carry(lock, adopt(lock, owner, grant, grant_size, &order, reterr), &order, ret_token, reterr);
}

dlock_status dlock_lock_submit_adopt_grant(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size,
                                           int64_t tag, dlock_error *reterr)
{
    struct dli_order *order = NULL;

    return dli_lock_submit(lock, adopt(lock, owner, grant, grant_size, &order, reterr), &order, tag, reterr);
}
