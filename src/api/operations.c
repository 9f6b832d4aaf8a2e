/*
 * operations.c: operations on locks other than acquire and release, blocking and submitted. Arguments are checked
 * here; the work is in client/operation_kinds.c and client/transfer.c.
 */
#include <string.h>

#include "handles.h"

#define GATE_MOST_MS INT64_C(31536000000)

static dlock_status no_memory(const dlock_lock *lock, dlock_error *reterr)
{
    dlock_error reason = {.code = DLOCK_OK};

    dli_fail(&reason, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    return dli_lock_report(lock->entry, DLOCK_OUT_OF_MEMORY, &reason, reterr);
}

dlock_status dli_lock_execute(const dlock_lock *lock, dlock_status status, struct dli_operation **operation,
                              int64_t *value, dlock_error *reterr)
{
    if (status != DLOCK_OK)
        return status;
    if (!*operation)
        return no_memory(lock, reterr);
    status = dli_operation_execute(*operation);
    if (status == DLOCK_OK && value)
        *value = (*operation)->value;
    dli_operation_report(*operation, reterr);
    dli_operation_free(*operation);
    return status;
}

dlock_status dli_lock_submit(const dlock_lock *lock, dlock_status status, struct dli_operation **operation, int64_t tag,
                             dlock_error *reterr)
{
    if (status != DLOCK_OK)
        return status;
    return *operation ? dli_operation_submit(*operation, tag, reterr) : no_memory(lock, reterr);
}

/* ---- extend */

/* Check a lease for a lock with these terms. DLOCK_INVALID_ARGUMENT, DLOCK_LEASE_REFUSED. */
static dlock_status check_lease(const struct dli_entry *entry, const struct dli_terms *terms, int64_t lease_ms,
                                dlock_error *reterr)
{
    const struct dli_option_row *row = &dli_option_table[DLI_OPT_LEASE_MS];

    if (lease_ms < row->low || lease_ms > row->high || (terms->renew && lease_ms < 500))
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a lease is %lld to %lld ms, at least 500 when it is renewed",
                        (long long)row->low, (long long)row->high);
    if (!dli_client_may_lease(entry->client, lease_ms + entry->m.rules->delay / DLI_MS))
        return dli_fail(reterr, DLOCK_LEASE_REFUSED, "a lease of %lld ms is longer than quarantine_ms",
                        (long long)lease_ms);
    return DLOCK_OK;
}

/* The lease of a multi-lock must be valid for each of its members. */
static dlock_status check_leases(const dlock_lock *lock, int64_t lease_ms, dlock_error *reterr)
{
    dlock_status status = DLOCK_OK;

    if (!lock->multi)
        return check_lease(lock->entry, lock->terms, lease_ms, reterr);
    for (size_t i = 0; i < lock->multi->count && status == DLOCK_OK; i++)
        status = check_lease(lock->multi->member[i].entry, &lock->multi->member[i].terms, lease_ms, reterr);
    return status;
}

static dlock_status extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, struct dli_operation **operation,
                           dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, &owner, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if ((!lock->terms->kind->renewal || lock->terms->kind->lasting) && !lock->multi)
        return dli_lock_cannot(lock, "has no lease to extend", reterr);
    if ((status = check_leases(lock, lease_ms, reterr)) != DLOCK_OK)
        return status;
    *operation = dli_operation_extend(lock->entry, lock->terms->kind, lock->multi, owner, lease_ms * DLI_MS);
    return DLOCK_OK;
}

dlock_status dlock_lock_extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, extend(lock, owner, lease_ms, &operation, reterr), &operation, NULL, reterr);
}

dlock_status dlock_lock_submit_extend(dlock_lock *lock, int64_t owner, int64_t lease_ms, int64_t tag,
                                      dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, extend(lock, owner, lease_ms, &operation, reterr), &operation, tag, reterr);
}

/* ---- release by force */

static dlock_status force(dlock_lock *lock, struct dli_operation **operation, dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, NULL, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if (!lock->multi && !lock->terms->kind->forcible)
        return dli_lock_cannot(lock, "has no holder to take it from", reterr);
    *operation = dli_operation_force(lock->entry, lock->terms->kind, lock->multi);
    return DLOCK_OK;
}

dlock_status dlock_lock_force_release(dlock_lock *lock, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, force(lock, &operation, reterr), &operation, NULL, reterr);
}

dlock_status dlock_lock_submit_force_release(dlock_lock *lock, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, force(lock, &operation, reterr), &operation, tag, reterr);
}

/* ---- inspect */

static dlock_status inspect(dlock_lock *lock, struct dli_operation **operation, dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, NULL, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if (lock->multi)
        return dli_lock_cannot(lock, "is inspected member by member", reterr);
    *operation = dli_operation_inspect(lock->entry);
    return *operation ? DLOCK_OK : no_memory(lock, reterr);
}

dlock_status dlock_lock_inspect(dlock_lock *lock, dlock_event *event, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;
    dlock_status status = inspect(lock, &operation, reterr);

    if (status != DLOCK_OK)
        return status;
    if (!event) {
        dli_operation_free(operation);
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no event box was given");
    }
    if (dli_operation_execute(operation) == DLOCK_OK) {
        dli_operation_event(operation, event->field, event->text);
        event->field[DLOCK_FIELD_TYPE] = DLOCK_EVENT_INSPECTION;
        event->size = 0;
    }
    status = dli_operation_report(operation, reterr);
    dli_operation_free(operation);
    return status;
}

dlock_status dlock_lock_submit_inspect(dlock_lock *lock, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, inspect(lock, &operation, reterr), &operation, tag, reterr);
}

/* ---- the gate */

/* ttl_ms 0 opens the gate. */
static dlock_status gate(dlock_lock *lock, int64_t ttl_ms, struct dli_operation **operation, dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, NULL, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if (lock->multi)
        return dli_lock_cannot(lock, "has no gate of its own", reterr);
    if ((status = dli_lock_needs(lock, DLI_CAN_GATE, "gates", reterr)) != DLOCK_OK)
        return status;
    *operation = dli_operation_gate(lock->entry, ttl_ms);
    return DLOCK_OK;
}

static dlock_status closed_gate(dlock_lock *lock, int64_t ttl_ms, struct dli_operation **operation, dlock_error *reterr)
{
    if (ttl_ms < 1 || ttl_ms > GATE_MOST_MS)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a gate is closed for 1 to %lld ms", (long long)GATE_MOST_MS);
    return gate(lock, ttl_ms, operation, reterr);
}

dlock_status dlock_lock_close_gate(dlock_lock *lock, int64_t ttl_ms, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, closed_gate(lock, ttl_ms, &operation, reterr), &operation, NULL, reterr);
}

dlock_status dlock_lock_submit_close_gate(dlock_lock *lock, int64_t ttl_ms, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, closed_gate(lock, ttl_ms, &operation, reterr), &operation, tag, reterr);
}

dlock_status dlock_lock_open_gate(dlock_lock *lock, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, gate(lock, 0, &operation, reterr), &operation, NULL, reterr);
}

dlock_status dlock_lock_submit_open_gate(dlock_lock *lock, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, gate(lock, 0, &operation, reterr), &operation, tag, reterr);
}

/* ---- export a grant */

/* room: as dli_transfer_export says. */
static dlock_status export(dlock_lock *lock, int64_t owner, size_t room, struct dli_operation **operation,
                           dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, &owner, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if (lock->terms->kind->id != DLOCK_KIND_MUTEX)
        return dli_lock_cannot(lock, "cannot be handed to another process", reterr);
    if ((status = dli_lock_needs(lock, DLI_CAN_ADOPT, "grants that move to another process", reterr)) != DLOCK_OK)
        return status;
    *operation = dli_transfer_export(lock->entry, owner, room);
    return DLOCK_OK;
}

dlock_status dlock_lock_export_grant(dlock_lock *lock, int64_t owner, uint8_t *buffer, size_t size, size_t *ret_size,
                                     dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;
    dlock_status status;

    if (!buffer || !ret_size)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "exporting needs a buffer and a place for its size");
    status = export(lock, owner, size ? size : 1, &operation, reterr);

    if (status != DLOCK_OK)
        return status;
    if (!operation)
        return no_memory(lock, reterr);
    if (dli_operation_execute(operation) == DLOCK_OK) {
        memcpy(buffer, operation->grant, (size_t)operation->value);
        *ret_size = (size_t)operation->value;
    }
    status = dli_operation_report(operation, reterr);
    dli_operation_free(operation);
    return status;
}

dlock_status dlock_lock_submit_export_grant(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, export(lock, owner, 0, &operation, reterr), &operation, tag, reterr);
}

/* ---- adopt a grant */

static dlock_status adopt(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size,
                          struct dli_operation **operation, dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, &owner, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if (lock->terms->kind->id != DLOCK_KIND_MUTEX)
        return dli_lock_cannot(lock, "cannot be taken over from another process", reterr);
    if ((status = dli_lock_needs(lock, DLI_CAN_ADOPT, "grants that move to another process", reterr)) != DLOCK_OK)
        return status;
    status = dli_transfer_adopt(lock->entry, lock->terms, owner, grant, grant_size, operation);
    return dli_lock_report(lock->entry, status, NULL, reterr);
}

dlock_status dlock_lock_adopt_grant(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size,
                                    int64_t *ret_token, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, adopt(lock, owner, grant, grant_size, &operation, reterr), &operation, ret_token,
                            reterr);
}

dlock_status dlock_lock_submit_adopt_grant(dlock_lock *lock, int64_t owner, const uint8_t *grant, size_t grant_size,
                                           int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, adopt(lock, owner, grant, grant_size, &operation, reterr), &operation, tag, reterr);
}
