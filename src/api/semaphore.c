/*
 * semaphore.c: operations on semaphores and latches other than acquire and release.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "handles.h"

#define COUNT_MOST  INT64_C(2147483647)
#define SILENT_MOST INT64_C(31536000000) /* a year */

static int is_semaphore(const dlock_lock *lock)
{
    return lock->terms->kind->id == DLOCK_KIND_SEMAPHORE || lock->terms->kind->id == DLOCK_KIND_PERMIT_SEMAPHORE;
}

static int is_latch(const dlock_lock *lock)
{
    return lock->terms->kind->id == DLOCK_KIND_LATCH;
}

/* One operation on a handle of a kind that is() accepts. Its value is the result of the script. */
static dlock_status change(dlock_lock *lock, int (*is)(const dlock_lock *lock), const char *what, int64_t number,
                           struct dli_operation **operation, dlock_error *reterr)
{
    dlock_status status = dli_lock_started(lock, NULL, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    if (!is(lock))
        return dli_lock_cannot(lock, "is not what this call is for", reterr);
    *operation = dli_operation_change(lock->entry, what, number);
    return DLOCK_OK;
}

static dlock_status out_of_range(int64_t number, dlock_error *reterr)
{
    return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "%" PRId64 " is not a number from 1 to %" PRId64, number,
                    COUNT_MOST);
}

/* ---- semaphores */

static int is_plain_semaphore(const dlock_lock *lock)
{
    return lock->terms->kind->id == DLOCK_KIND_SEMAPHORE;
}

static dlock_status set_permits(dlock_lock *lock, int64_t permits, struct dli_operation **operation,
                                dlock_error *reterr)
{
    if (permits < 1 || permits > COUNT_MOST)
        return out_of_range(permits, reterr);
    return change(lock, is_semaphore, "set", permits, operation, reterr);
}

dlock_status dlock_semaphore_set(dlock_lock *lock, int64_t permits, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, set_permits(lock, permits, &operation, reterr), &operation, NULL, reterr);
}

dlock_status dlock_semaphore_submit_set(dlock_lock *lock, int64_t permits, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, set_permits(lock, permits, &operation, reterr), &operation, tag, reterr);
}

static dlock_status add_permits(dlock_lock *lock, int64_t permits, struct dli_operation **operation,
                                dlock_error *reterr)
{
    if (permits < -COUNT_MOST || permits > COUNT_MOST || permits == 0)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "%" PRId64 " permits cannot be added", permits);
    return change(lock, is_semaphore, "add", permits, operation, reterr);
}

dlock_status dlock_semaphore_add(dlock_lock *lock, int64_t permits, int64_t *ret_available, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, add_permits(lock, permits, &operation, reterr), &operation, ret_available, reterr);
}

dlock_status dlock_semaphore_submit_add(dlock_lock *lock, int64_t permits, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, add_permits(lock, permits, &operation, reterr), &operation, tag, reterr);
}

dlock_status dlock_semaphore_drain(dlock_lock *lock, int64_t *ret_drained, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, change(lock, is_plain_semaphore, "drain", 0, &operation, reterr), &operation,
                            ret_drained, reterr);
}

dlock_status dlock_semaphore_submit_drain(dlock_lock *lock, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, change(lock, is_plain_semaphore, "drain", 0, &operation, reterr), &operation, tag,
                           reterr);
}

/* Permits with a lease come back by themselves. On Redis the server may lose them, and its count does not tell. */
static int may_reclaim(const dlock_lock *lock)
{
    return is_plain_semaphore(lock) || (is_semaphore(lock) && dli_store_can(lock->entry->client->store, DLI_CAN_MISS));
}

static dlock_status reclaim(dlock_lock *lock, int64_t silent_ms, struct dli_operation **operation, dlock_error *reterr)
{
    if (silent_ms < 0 || silent_ms > SILENT_MOST)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT,
                        "%" PRId64 " is not a number of milliseconds from 0 to %" PRId64, silent_ms, SILENT_MOST);
    return change(lock, may_reclaim, "reclaim", silent_ms, operation, reterr);
}

dlock_status dlock_semaphore_reclaim(dlock_lock *lock, int64_t silent_ms, int64_t *ret_reclaimed, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, reclaim(lock, silent_ms, &operation, reterr), &operation, ret_reclaimed, reterr);
}

dlock_status dlock_semaphore_submit_reclaim(dlock_lock *lock, int64_t silent_ms, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, reclaim(lock, silent_ms, &operation, reterr), &operation, tag, reterr);
}

dlock_status dlock_semaphore_available(dlock_lock *lock, int64_t *ret_available, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, change(lock, is_semaphore, "count", 0, &operation, reterr), &operation, ret_available,
                            reterr);
}

dlock_status dlock_semaphore_submit_available(dlock_lock *lock, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, change(lock, is_semaphore, "count", 0, &operation, reterr), &operation, tag, reterr);
}

/* Whether a name is one pair of braces: on Redis, k and {k} share the key with the ids of both. */
static int is_braced(const char *name, size_t size)
{
    return size > 2 && name[0] == '{' && name[size - 1] == '}' && !memchr(name + 1, '{', size - 1);
}

/* The id of a permit: the first 20 hex digits of the client's UUID, then 12 of the grant number. See permit_ids.lua. */
static void permit_id(const struct dli_entry *entry, int64_t number, char out[33])
{
    char id[DLI_OWNER_MAX];
    int size = 0;

    dli_entry_owner(entry, number, id);
    for (const char *at = id; size < 20; at++)
        if (*at != '-')
            out[size++] = *at;
    if (is_braced(entry->name.text, entry->name.size))
        out[16] =
            (char)(out[16] >= 'a' ? out[16] - 'a' + '2' : out[16] - '8' + '0'); /* 8 to b: the variant of a uuid */
    snprintf(out + size, 33 - (size_t)size, "%012" PRIx64, (uint64_t)number & UINT64_C(0xffffffffffff));
}

dlock_status dlock_semaphore_permit(dlock_lock *lock, int64_t owner, int64_t index, char *buffer, size_t size,
                                    dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_ready(lock, &owner, reterr);
    struct dli_entry *entry;
    int64_t number = 0;

    if (status != DLOCK_OK)
        return status;
    if (lock->terms->kind->id != DLOCK_KIND_PERMIT_SEMAPHORE)
        return dli_lock_cannot(lock, "has no permits with ids", reterr);
    if (!buffer || size < 33)
        return dli_fail(reterr, DLOCK_BUFFER_TOO_SMALL, "the id of a permit needs 33 bytes");
    if (!(entry = dli_hold_find(lock->entry, lock->terms->kind, owner)))
        return dli_lock_report(lock->entry, DLOCK_NOT_HELD, NULL, reterr);
    do
        status = dli_query_permit(entry, owner, index, &number);
    while (dli_hold_again(&entry, owner, status));
    if (status == DLOCK_OK)
        permit_id(entry, number, buffer);
    dli_lock_report(entry, status, NULL, reterr);
    dli_entry_unref(entry);
    return status;
}

/* ---- latches */

static dlock_status change_latch(dlock_lock *lock, const char *what, int64_t count, struct dli_operation **operation,
                                 dlock_error *reterr)
{
    if (count < 1 || count > COUNT_MOST)
        return out_of_range(count, reterr);
    return change(lock, is_latch, what, count, operation, reterr);
}

dlock_status dlock_latch_set(dlock_lock *lock, int64_t count, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, change_latch(lock, "set", count, &operation, reterr), &operation, NULL, reterr);
}

dlock_status dlock_latch_submit_set(dlock_lock *lock, int64_t count, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, change_latch(lock, "set", count, &operation, reterr), &operation, tag, reterr);
}

dlock_status dlock_latch_count_down(dlock_lock *lock, int64_t count, int64_t *ret_count, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, change_latch(lock, "down", count, &operation, reterr), &operation, ret_count, reterr);
}

dlock_status dlock_latch_submit_count_down(dlock_lock *lock, int64_t count, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, change_latch(lock, "down", count, &operation, reterr), &operation, tag, reterr);
}

dlock_status dlock_latch_count(dlock_lock *lock, int64_t *ret_count, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_execute(lock, change(lock, is_latch, "count", 0, &operation, reterr), &operation, ret_count,
                            reterr);
}

dlock_status dlock_latch_submit_count(dlock_lock *lock, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_operation *operation = NULL;

    return dli_lock_submit(lock, change(lock, is_latch, "count", 0, &operation, reterr), &operation, tag, reterr);
}
