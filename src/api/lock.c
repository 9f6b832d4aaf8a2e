/*
 * lock.c: lock handles. Arguments are checked here, decisions are made in engine/, waiting is in client/acquire.c.
 */
#include <stdlib.h>
#include <string.h>

#include "handles.h"
#include "sys/sys.h"

/* ---- checks */

dlock_status dli_lock_ready(const dlock_lock *lock, int64_t *owner, dlock_error *reterr)
{
    dlock_status status;

    if (!lock)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no lock was given");
    if (owner && *owner < 0)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "an owner is 0 for the calling thread or a positive number");
    status = dli_client_usable(lock->entry->client, NULL);
    if (owner && *owner == 0)
        *owner = dli_thread_owner();
    return dli_lock_report(lock->entry, status, NULL, reterr);
}

dlock_status dli_lock_started(const dlock_lock *lock, int64_t *owner, int64_t wait_ms, dlock_error *reterr)
{
    dlock_status status = dli_lock_ready(lock, owner, reterr);
    dlock_error reason = {.code = DLOCK_OK};

    if (status != DLOCK_OK)
        return status;
    if (wait_ms < -1)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a wait is -1, 0 or a number of milliseconds");
    status = dli_client_start(lock->entry->client, &reason);
    return dli_lock_report(lock->entry, status, &reason, reterr);
}

dlock_status dli_lock_cannot(const dlock_lock *lock, const char *what, dlock_error *reterr)
{
    dlock_error reason = {.code = DLOCK_OK};

    dli_fail(&reason, DLOCK_UNSUPPORTED, "a %s %s", lock->terms->kind->name, what);
    return dli_lock_report(lock->entry, DLOCK_UNSUPPORTED, &reason, reterr);
}

dlock_status dli_lock_needs(const dlock_lock *lock, enum dli_ability ability, const char *what, dlock_error *reterr)
{
    const struct dli_store *store = lock->entry->client->store;
    dlock_error reason = {.code = DLOCK_OK};

    if (dli_store_can(store, ability))
        return DLOCK_OK;
    dli_fail(&reason, DLOCK_UNSUPPORTED, "%s: %s there are no %s", store->text, store->traits->where, what);
    return dli_lock_report(lock->entry, DLOCK_UNSUPPORTED, &reason, reterr);
}

/* ---- handles */

static void read_rules(struct dli_mutex_rules *rules, struct dli_client *core, const struct dli_kind *kind,
                       const struct dlock_options *set)
{
    const int64_t *number = set->number;

    memset(rules, 0, sizeof *rules);
    rules->numbers = &core->numbers;
    rules->drift_ppm = number[DLI_OPT_DRIFT_PPM];
    rules->safety = number[DLI_OPT_SAFETY_MS] * DLI_MS;
    rules->handover_turns = dli_kind_find(kind->family)->handed ? number[DLI_OPT_HANDOVER_TURNS] : 0;
    rules->handover_time = number[DLI_OPT_HANDOVER_MS] * DLI_MS;
    rules->pollers = kind->id == DLOCK_KIND_MUTEX ? (int)number[DLI_OPT_POLLING_CLIENTS] : 0;
    rules->attempt = number[DLI_OPT_COMMAND_TIMEOUT_MS] * DLI_MS;
    rules->keep_ms = number[DLI_OPT_TOKEN_TTL_MS];
    rules->delay = kind->lasting ? 0 : number[DLI_OPT_LOCK_DELAY_MS] * DLI_MS;
    rules->permits = kind->slots;
    rules->lives = kind->lasting ? number[DLI_OPT_LEASE_MS] * DLI_MS : 0;
    rules->separate = !kind->pass || !dli_store_can(core->store, DLI_CAN_PASS);
    rules->called = dli_kind_find(kind->family)->called && dli_store_can(core->store, DLI_CAN_LINE) &&
                    !dli_store_can(core->store, DLI_CAN_WAKE);
    rules->no_line =
        !dli_store_can(core->store, DLI_CAN_LINE) ||
        (kind->per_owner && !kind->own_channel && !rules->called && !dli_store_can(core->store, DLI_CAN_WAKE));
    rules->kept = dli_store_can(core->store, DLI_CAN_KEEP);
    rules->momentary = kind->momentary;
    rules->unheard = kind->momentary && !dli_store_can(core->store, DLI_CAN_WAKE);
    rules->passes = !kind->queued ? DLI_PASS_NONE : kind->own_channel ? DLI_PASS_NAMED : DLI_PASS_ANY;
    rules->doubtful = dli_options_replicas(&core->options) != 0;
}

static void read_terms(struct dli_terms *terms, const struct dli_kind *kind, const struct dlock_options *set)
{
    const int64_t *number = set->number;

    memset(terms, 0, sizeof *terms);
    terms->kind = kind;
    terms->lease = kind->lasting ? DLI_NEVER : number[DLI_OPT_LEASE_MS] * DLI_MS;
    terms->max_hold = number[DLI_OPT_MAX_HOLD_MS] < 0 ? DLI_NEVER : number[DLI_OPT_MAX_HOLD_MS] * DLI_MS;
    terms->release_timeout = number[DLI_OPT_RELEASE_TIMEOUT_MS] * DLI_MS;
    terms->min_hold = number[DLI_OPT_MIN_HOLD_MS] * DLI_MS;
    terms->linger = number[DLI_OPT_LINGER_MS] * DLI_MS;
    terms->permits = number[DLI_OPT_PERMITS];
    terms->renew = number[DLI_OPT_RENEW] != 0 && !kind->lasting;
    terms->interruptible = number[DLI_OPT_INTERRUPTIBLE] != 0;
}

/* The lock's options override the client's. set is initialised even on failure. */
static dlock_status combine(const dlock_client *client, const dlock_options *options, struct dlock_options *set,
                            dlock_error *reterr)
{
    dlock_status status;

    dli_options_init(set);
    status = dli_options_overlay(set, &client->core->options, reterr);
    if (status == DLOCK_OK)
        status = dli_options_overlay_lock(set, options, reterr);
    if (status == DLOCK_OK)
        status = dli_options_fit(set, client->core->store->refused, client->core->store->text, reterr);
    if (status == DLOCK_OK &&
        !dli_client_may_lease(client->core, set->number[DLI_OPT_LEASE_MS] + set->number[DLI_OPT_LOCK_DELAY_MS]))
        return dli_fail(reterr, DLOCK_LEASE_REFUSED,
                        "lease_ms and lock_delay_ms are together longer than quarantine_ms");
    return status == DLOCK_OK ? dli_options_check(set, reterr) : status;
}

static dlock_status check_new(const dlock_client *client, int32_t kind, const char *name, size_t name_size,
                              dlock_lock **ret_lock, dlock_error *reterr)
{
    const struct dli_store *store;
    dlock_status status;

    if (!client || !ret_lock)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a lock needs a client and a place for the result");
    if (kind == DLOCK_KIND_MULTI)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "several locks are made one by dlock_lock_new_multi");
    if (!dli_kind_find(kind))
        return dli_fail(reterr, DLOCK_UNSUPPORTED, "this version has no lock kind %d", kind);
    store = client->core->store;
    if (!dli_store_has(store, dli_kind_find(kind)))
        return dli_fail(reterr, DLOCK_UNSUPPORTED, "%s: %s there are %s, and no %s locks", store->text,
                        store->traits->where, store->traits->kinds_text, dli_kind_find(kind)->name);
    if ((status = dli_name_check(name, name_size, reterr)) != DLOCK_OK)
        return status;
    return dli_client_usable(client->core, reterr);
}

/* The entry of the name, with the namespace as prefix. */
static dlock_status get_entry(dlock_lock *lock, dlock_client *client, const char *name, size_t name_size,
                              const struct dlock_options *set, dlock_error *reterr)
{
    const char *space = dli_options_text(set, DLI_OPT_NAMESPACE);
    char full[DLI_NAME_MAX + 1];
    struct dli_mutex_rules rules;
    struct dli_name named;
    dlock_status status = dli_name_in(full, &name_size, space, name, reterr);

    if (status != DLOCK_OK)
        return status;
    read_rules(&rules, client->core, lock->terms->kind, set);
    named = (struct dli_name){full, (uint32_t)name_size, (uint32_t)strlen(space) + (*space != '\0')};
    if (!(lock->entry = dli_entry_get(client->core, lock->terms->kind, &named, &rules)))
        return dli_fail(reterr, DLOCK_OUT_OF_MEMORY, "no memory for a lock");
    return DLOCK_OK;
}

static dlock_status fill(dlock_lock *lock, dlock_client *client, int32_t kind, const char *name, size_t name_size,
                         const struct dlock_options *set, dlock_error *reterr)
{
    struct dli_terms terms;
    dlock_status status;

    read_terms(&terms, dli_kind_find(kind), set);
    if (!(lock->terms = dli_terms_get(client->core, &terms)))
        return dli_fail(reterr, DLOCK_OUT_OF_MEMORY, "no memory for a lock");
    status = get_entry(lock, client, name, name_size, set, reterr);
    if (status != DLOCK_OK)
        dli_terms_put(client->core, lock->terms);
    return status;
}

dlock_status dlock_lock_new(dlock_client *client, int32_t kind, const char *name, size_t name_size,
                            const dlock_options *options, dlock_lock **ret_lock, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = check_new(client, kind, name, name_size, ret_lock, reterr);
    struct dlock_options set;
    dlock_lock *lock;

    if (status != DLOCK_OK)
        return status;
    if (!(lock = calloc(1, sizeof *lock)))
        return dli_fail(reterr, DLOCK_OUT_OF_MEMORY, "no memory for a lock");
    status = combine(client, options, &set, reterr);
    if (status == DLOCK_OK)
        status = fill(lock, client, kind, name, name_size, &set, reterr);
    dli_options_fini(&set);
    if (status == DLOCK_OK)
        *ret_lock = lock;
    else
        free(lock);
    return status;
}

void dlock_lock_free(dlock_lock *lock)
{
    DLI_UNCANCELLED;
    if (!lock)
        return;
    if (lock->multi) {
        if (dli_client_usable(lock->entry->client, NULL) != DLOCK_FORKED)
            dli_multi_unref(lock->multi);
    } else if (dli_client_usable(lock->entry->client, NULL) != DLOCK_FORKED) {
        dli_terms_put(lock->entry->client, lock->terms);
        dli_entry_handle(lock->entry, -1);
        dli_entry_unref(lock->entry);
    }
    free(lock);
}

int64_t dlock_lock_id(const dlock_lock *lock)
{
    DLI_UNCANCELLED;
    return !lock ? 0 : lock->multi ? lock->multi->id : lock->entry->id;
}

/* ---- acquire and release */

/* The hold of owner, with a ref: the handle may be freed during the call. DLOCK_NOT_HELD when there is none. */
static dlock_status find_hold(const dlock_lock *lock, int64_t owner, struct dli_entry **ret, dlock_error *reterr)
{
    *ret = dli_hold_find(lock->entry, lock->terms->kind, owner);
    return *ret ? DLOCK_OK : dli_lock_report(lock->entry, DLOCK_NOT_HELD, NULL, reterr);
}

/* Report the result of a call about a hold, and drop the hold's ref. */
static dlock_status finish_call(struct dli_entry *entry, dlock_status status, const dlock_error *reason,
                                dlock_error *reterr)
{
    dli_lock_report(entry, status, reason, reterr);
    dli_entry_unref(entry);
    return status;
}

dlock_status dlock_lock_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t *ret_token,
                                dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_started(lock, &owner, wait_ms, reterr);
    dlock_error reason = {.code = DLOCK_OK};
    struct dli_entry *entry;
    struct dli_terms terms;
    int64_t token = 0;

    if (status != DLOCK_OK)
        return status;
    if (lock->multi)
        return dli_several_acquire(lock, owner, wait_ms, ret_token, reterr);
    terms = *lock->terms;
    status = dli_hold_to_acquire(lock->entry, lock->terms->kind, owner, terms.permits, &entry);
    if (status != DLOCK_OK)
        return dli_lock_report(lock->entry, status, NULL, reterr);
    status = dli_acquire(entry, &terms, owner, dli_wait(wait_ms), NULL, &token, &reason);
    if (status == DLOCK_OK && ret_token)
        *ret_token = token;
    return finish_call(entry, status, &reason, reterr);
}

dlock_status dlock_lock_release(dlock_lock *lock, int64_t owner, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_started(lock, &owner, 0, reterr);
    dlock_error reason = {.code = DLOCK_OK};
    struct dli_entry *entry;
    struct dli_terms terms;

    if (status == DLOCK_OK && lock->multi)
        return dli_several_release(lock, owner, reterr);
    if (status == DLOCK_OK)
        status = find_hold(lock, owner, &entry, reterr);
    if (status != DLOCK_OK)
        return status;
    terms = *lock->terms;
    do
        status = dli_release(entry, &terms, owner, &reason);
    while (dli_hold_again(&entry, owner, status));
    return finish_call(entry, status, &reason, reterr);
}

dlock_status dlock_lock_acquire_local(dlock_lock *lock, int64_t owner, int64_t *ret_token, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_ready(lock, &owner, reterr);
    struct dli_entry *entry;
    int64_t token = 0;

    if (status != DLOCK_OK)
        return status;
    entry = lock->terms->kind->slots || lock->multi ? NULL : dli_hold_find(lock->entry, lock->terms->kind, owner);
    if (!entry)
        return dli_lock_report(lock->entry, DLOCK_WOULD_BLOCK, NULL, reterr);
    status = dli_acquire_local(entry, lock->terms, owner, &token);
    if (status == DLOCK_OK && ret_token)
        *ret_token = token;
    return finish_call(entry, status, NULL, reterr);
}

dlock_status dlock_lock_release_local(dlock_lock *lock, int64_t owner, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_ready(lock, &owner, reterr);
    struct dli_entry *entry;

    if (status == DLOCK_OK && lock->multi)
        return dli_lock_report(lock->entry, DLOCK_WOULD_BLOCK, NULL, reterr);
    if (status == DLOCK_OK)
        status = find_hold(lock, owner, &entry, reterr);
    if (status != DLOCK_OK)
        return status;
    do
        status = dli_release_local(entry, owner);
    while (dli_hold_again(&entry, owner, status));
    return finish_call(entry, status, NULL, reterr);
}

dlock_status dlock_lock_submit_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag,
                                       dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_started(lock, &owner, wait_ms, reterr);
    struct dli_entry *entry;

    if (status != DLOCK_OK)
        return status;
    if (lock->multi)
        return dli_several_submit(lock, owner, wait_ms, tag, 0, reterr);
    status = dli_hold_to_acquire(lock->entry, lock->terms->kind, owner, lock->terms->permits, &entry);
    if (status != DLOCK_OK)
        return dli_lock_report(lock->entry, status, NULL, reterr);
    return finish_call(entry, dli_submit_acquire(entry, lock->terms, owner, dli_wait(wait_ms), tag, NULL), NULL,
                       reterr);
}

dlock_status dlock_lock_submit_release(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_started(lock, &owner, 0, reterr);
    struct dli_entry *entry;

    if (status == DLOCK_OK && lock->multi)
        return dli_several_submit(lock, owner, 0, tag, 1, reterr);
    if (status == DLOCK_OK)
        status = find_hold(lock, owner, &entry, reterr);
    if (status != DLOCK_OK)
        return status;
    do
        status = dli_submit_release(entry, lock->terms, owner, tag, NULL);
    while (dli_hold_again(&entry, owner, status));
    return finish_call(entry, status, NULL, reterr);
}

/* A multi-lock always answers by an event: DLOCK_WOULD_BLOCK instead of DLOCK_OK. */
static dlock_status begin_several(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag, int release,
                                  dlock_error *reterr)
{
    dlock_status status = dli_several_submit(lock, owner, wait_ms, tag, release, reterr);

    return status == DLOCK_OK ? dli_lock_report(lock->entry, DLOCK_WOULD_BLOCK, NULL, reterr) : status;
}

dlock_status dlock_lock_begin_acquire(dlock_lock *lock, int64_t owner, int64_t wait_ms, int64_t tag, int64_t *ret_token,
                                      dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_started(lock, &owner, wait_ms, reterr);
    dlock_error reason = {.code = DLOCK_OK};
    struct dli_entry *entry;
    int64_t token = 0;

    if (status != DLOCK_OK)
        return status;
    if (lock->multi)
        return begin_several(lock, owner, wait_ms, tag, 0, reterr);
    status = dli_hold_to_acquire(lock->entry, lock->terms->kind, owner, lock->terms->permits, &entry);
    if (status != DLOCK_OK)
        return dli_lock_report(lock->entry, status, NULL, reterr);
    status = dli_begin_acquire(entry, lock->terms, owner, dli_wait(wait_ms), tag, &token, &reason);
    if (status == DLOCK_OK && ret_token)
        *ret_token = token;
    return finish_call(entry, status, &reason, reterr);
}

dlock_status dlock_lock_begin_release(dlock_lock *lock, int64_t owner, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_started(lock, &owner, 0, reterr);
    dlock_error reason = {.code = DLOCK_OK};
    struct dli_entry *entry;

    if (status == DLOCK_OK && lock->multi)
        return begin_several(lock, owner, 0, tag, 1, reterr);
    if (status == DLOCK_OK)
        status = find_hold(lock, owner, &entry, reterr);
    if (status != DLOCK_OK)
        return status;
    do
        status = dli_begin_release(entry, lock->terms, owner, tag, &reason);
    while (dli_hold_again(&entry, owner, status));
    return finish_call(entry, status, &reason, reterr);
}

dlock_status dlock_lock_cancel(dlock_lock *lock, int64_t owner, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_ready(lock, &owner, reterr);
    struct dli_entry *entry = NULL;

    if (status != DLOCK_OK)
        return status;
    if (lock->multi)
        return dli_several_cancel(lock, owner, reterr);
    do {
        if (entry)
            dli_entry_unref(entry);
        if (!(entry = dli_hold_waiting(lock->entry, lock->terms->kind, owner)))
            return dli_lock_report(lock->entry, DLOCK_NOT_HELD, NULL, reterr);
        status = dli_submit_cancel(entry, lock->terms, owner);
    } while (status == DLOCK_NOT_HELD && lock->terms->kind->slots); /* that wait has just ended: owner may have more */
    return finish_call(entry, status, NULL, reterr);
}

/* ---- what an owner has */

dlock_status dlock_lock_state(dlock_lock *lock, int64_t owner, int32_t *ret_state, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_ready(lock, &owner, reterr);
    int32_t state;

    if (status != DLOCK_OK)
        return status;
    state = lock->multi ? dli_several_state(lock, owner) : dli_hold_state(lock->entry, lock->terms->kind, owner);
    if (ret_state)
        *ret_state = state;
    return DLOCK_OK;
}

/* What owner holds: DLOCK_OK, DLOCK_NOT_HELD or DLOCK_LOST. */
static dlock_status held(const dlock_lock *lock, int64_t owner, int64_t *token, int64_t *count, int64_t *remaining,
                         dlock_error *reterr)
{
    struct dli_entry *entry;
    dlock_status status;

    if (lock->multi)
        return dli_several_held(lock, owner, token, count, remaining, reterr);
    status = find_hold(lock, owner, &entry, reterr);
    if (status != DLOCK_OK)
        return status;
    do
        status = dli_query_held(entry, owner, token, count, remaining);
    while (dli_hold_again(&entry, owner, status));
    return finish_call(entry, status, NULL, reterr);
}

dlock_status dlock_lock_remaining_ms(dlock_lock *lock, int64_t owner, int64_t *ret_remaining_ms, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_ready(lock, &owner, reterr);
    int64_t token, count, remaining;

    if (status != DLOCK_OK)
        return status;
    status = held(lock, owner, &token, &count, &remaining, reterr);
    if (status == DLOCK_OK && ret_remaining_ms)
        *ret_remaining_ms = remaining == DLI_NEVER ? -1 : remaining / DLI_MS;
    return status;
}

dlock_status dlock_lock_token(dlock_lock *lock, int64_t owner, int64_t *ret_token, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_ready(lock, &owner, reterr);
    int64_t token, count, remaining;

    if (status != DLOCK_OK)
        return status;
    status = held(lock, owner, &token, &count, &remaining, reterr);
    if (status == DLOCK_OK && ret_token)
        *ret_token = token;
    return status;
}

dlock_status dlock_lock_hold_count(dlock_lock *lock, int64_t owner, int64_t *ret_count, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_lock_ready(lock, &owner, reterr);
    int64_t token, count = 0, remaining;

    if (status != DLOCK_OK)
        return status;
    if (lock->terms->kind->slots)
        count = dli_hold_slots(lock->entry, lock->terms->kind, owner);
    else if (held(lock, owner, &token, &count, &remaining, NULL) != DLOCK_OK)
        count = 0;
    if (ret_count)
        *ret_count = count;
    return DLOCK_OK;
}
