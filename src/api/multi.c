/*
 * multi.c: handles of multi-locks. client/multi.h says how the members are acquired together.
 */
#include <stdlib.h>

#include "handles.h"

static const struct dli_kind several = {
    .id = DLOCK_KIND_MULTI,
    .family = DLOCK_KIND_MULTI,
    .name = "multi-lock",
};

static const struct dli_terms terms = {.kind = &several};

/* ---- handles */

static int may_be_member(const dlock_lock *lock, const dlock_client *client)
{
    return lock && lock->entry->client == client->core && !lock->multi && lock->terms->kind->renewal &&
           !lock->terms->kind->slots;
}

static dlock_status check_members(const dlock_client *client, dlock_lock **members, size_t count, dlock_lock **ret_lock,
                                  dlock_error *reterr)
{
    if (!client || !members || !ret_lock)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT,
                        "a multi-lock needs a client, members and a place for the result");
    if (count < 1 || count > DLI_MULTI_MAX)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a multi-lock has 1 to %d members", DLI_MULTI_MAX);
    for (size_t i = 0; i < count; i++)
        if (!may_be_member(members[i], client))
            return dli_fail(reterr, DLOCK_INVALID_ARGUMENT,
                            "member %zu is not a mutex, a fair, read or write lock of this client", i);
    return dli_client_usable(client->core, reterr);
}

dlock_status dlock_lock_new_multi(dlock_client *client, dlock_lock **members, size_t count, dlock_lock **ret_lock,
                                  dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = check_members(client, members, count, ret_lock, reterr);
    struct dli_member member[DLI_MULTI_MAX];
    dlock_lock *lock;
    size_t which = 0;

    if (status != DLOCK_OK)
        return status;
    if (!(lock = calloc(1, sizeof *lock)))
        return dli_fail(reterr, DLOCK_OUT_OF_MEMORY, "no memory for a lock");
    for (size_t i = 0; i < count; i++)
        member[i] = (struct dli_member){members[i]->entry, members[i]->terms->kind, *members[i]->terms};
    status = dli_multi_new(member, count, &lock->multi, &which);
    if (status != DLOCK_OK) {
        free(lock);
        return dli_lock_report(members[which < count ? which : 0]->entry, status, NULL, reterr);
    }
    lock->terms = &terms;
    lock->entry = lock->multi->member[0].entry;
    *ret_lock = lock;
    return DLOCK_OK;
}

/* ---- calls */

/* Report the result, which names the member that stood in the way. Drops the ref on multi; the handle may be gone. */
static dlock_status finish_call(struct dli_multi *multi, dlock_status status, size_t blocked, const dlock_error *reason,
                                dlock_error *reterr)
{
    dli_lock_report(multi->member[blocked < multi->count ? blocked : 0].entry, status, reason, reterr);
    dli_multi_unref(multi);
    return status;
}

dlock_status dli_several_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t *ret_token,
                                 dlock_error *reterr)
{
    dlock_error reason = {.code = DLOCK_OK};
    struct dli_multi *multi = lock->multi;
    dlock_status status;
    size_t blocked = 0;
    int64_t token = 0;

    dli_multi_ref(multi);
    status = dli_multi_acquire(multi, owner, dli_wait(wait_ms), &token, &blocked, &reason);
    if (status == DLOCK_OK && ret_token)
        *ret_token = token;
    return finish_call(multi, status, blocked, &reason, reterr);
}

/* The state of owner's hold of one member. */
static int32_t state_of(const struct dli_member *member, int64_t owner)
{
    return dli_hold_state(member->entry, member->kind, owner);
}

/*
 * 1 when a member is not held, and none is lost or waited for: *which is that member. Then nothing is released: the
 * other members may be held by calls on their own handles.
 */
static int not_held(const dlock_lock *lock, int64_t owner, size_t *which)
{
    if (dli_several_state(lock, owner) != DLOCK_STATE_NONE)
        return 0;
    *which = 0;
    while (state_of(&lock->multi->member[*which], owner) != DLOCK_STATE_NONE && *which + 1 < lock->multi->count)
        ++*which;
    return 1;
}

dlock_status dli_several_release(dlock_lock *lock, int64_t owner, dlock_error *reterr)
{
    dlock_error reason = {.code = DLOCK_OK};
    struct dli_multi *multi = lock->multi;
    dlock_status status = DLOCK_NOT_HELD;
    size_t blocked = 0;

    dli_multi_ref(multi);
    if (!not_held(lock, owner, &blocked))
        status = dli_multi_release(multi, owner, &blocked, &reason);
    return finish_call(multi, status, blocked, &reason, reterr);
}

dlock_status dli_several_submit(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag, int release,
                                dlock_error *reterr)
{
    struct dli_multi *multi = lock->multi;
    dlock_status status = DLOCK_NOT_HELD;
    size_t blocked = 0;

    dli_multi_ref(multi);
    if (!release)
        status = dli_run_acquire(multi, owner, dli_wait(wait_ms), tag);
    else if (!not_held(lock, owner, &blocked))
        status = dli_run_release(multi, owner, tag);
    return finish_call(multi, status, blocked, NULL, reterr);
}

dlock_status dli_several_cancel(dlock_lock *lock, int64_t owner, dlock_error *reterr)
{
    return dli_lock_report(lock->entry, dli_multi_cancel(lock->multi, owner), NULL, reterr);
}

/* ---- what an owner has */

/* The worst state of all members, in this order. */
int32_t dli_several_state(const dlock_lock *lock, int64_t owner)
{
    static const int32_t worse[] = {DLOCK_STATE_LOST, DLOCK_STATE_WAITING, DLOCK_STATE_NONE, DLOCK_STATE_AT_RISK};
    size_t count[DLOCK_STATE_LOST + 1] = {0};

    for (size_t i = 0; i < lock->multi->count; i++)
        count[state_of(&lock->multi->member[i], owner)]++;
    for (size_t i = 0; i < sizeof worse / sizeof worse[0]; i++)
        if (count[worse[i]] > 0)
            return worse[i];
    return DLOCK_STATE_HELD;
}

dlock_status dli_several_held(const dlock_lock *lock, int64_t owner, int64_t *token, int64_t *count, int64_t *remaining,
                              dlock_error *reterr)
{
    *token = 0;
    *count = *remaining = DLI_NEVER;
    for (size_t i = 0; i < lock->multi->count; i++) {
        const struct dli_member *member = &lock->multi->member[i];
        struct dli_entry *entry = dli_hold_find(member->entry, member->kind, owner);
        int64_t one[3] = {0, 0, 0};
        dlock_status status = entry ? dli_query_held(entry, owner, &one[0], &one[1], &one[2]) : DLOCK_NOT_HELD;

        if (entry)
            dli_entry_unref(entry);
        if (status != DLOCK_OK)
            return dli_lock_report(member->entry, status, NULL, reterr);
        *token = one[0] > *token ? one[0] : *token;
        *count = one[1] < *count ? one[1] : *count;
        *remaining = one[2] < *remaining ? one[2] : *remaining;
    }
    return DLOCK_OK;
}
