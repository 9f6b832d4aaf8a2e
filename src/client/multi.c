/*
 * multi.c: several locks as one, by a caller that blocks. See multi.h. client.mutex guards the lists of calls and of
 * paused calls; no other mutex is held here.
 */
#include "multi.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

static int by_name(const void *a, const void *b)
{
    return dli_name_compare(&((const struct dli_member *)a)->entry->name, &((const struct dli_member *)b)->entry->name);
}

dlock_status dli_multi_new(const struct dli_member *members, size_t count, struct dli_multi **ret, size_t *which)
{
    struct dli_multi *multi = malloc(sizeof *multi + count * sizeof *members);

    if (!multi)
        return DLOCK_OUT_OF_MEMORY;
    multi->refs = 1;
    multi->client = members[0].entry->client;
    multi->paused = NULL;
    multi->calls = NULL;
    multi->runs = NULL;
    multi->apart = 0;
    multi->count = count;
    memcpy(multi->member, members, count * sizeof *members);
    qsort(multi->member, count, sizeof *members, by_name);
    for (*which = 1; *which < count; ++*which)
        if (by_name(&multi->member[*which - 1], &multi->member[*which]) == 0)
            break;
    if (*which < count) {
        for (size_t i = 0; i < count; i++)
            if (by_name(&members[i], &multi->member[*which]) == 0)
                *which = i;
        free(multi);
        return DLOCK_DUPLICATE_NAME;
    }
    multi->id = __atomic_add_fetch(&multi->client->ids, 1, __ATOMIC_RELAXED);
    dli_client_ref(multi->client);
    for (size_t i = 0; i < count; i++) {
        dli_entry_ref(multi->member[i].entry);
        dli_entry_handle(multi->member[i].entry, 1);
    }
    *ret = multi;
    return DLOCK_OK;
}

void dli_multi_ref(struct dli_multi *multi)
{
    __atomic_add_fetch(&multi->refs, 1, __ATOMIC_RELAXED);
}

void dli_multi_unref(struct dli_multi *multi)
{
    struct dli_client *client = multi->client;
    struct dli_pause *pause;

    if (__atomic_sub_fetch(&multi->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (size_t i = 0; i < multi->count; i++) {
        dli_entry_handle(multi->member[i].entry, -1);
        dli_entry_unref(multi->member[i].entry);
    }
    while ((pause = multi->paused)) {
        multi->paused = pause->next;
        free(pause);
    }
    free(multi);
    dli_client_unref(client);
}

/* ---- members */

static dlock_status acquire_one(const struct dli_member *member, const struct dli_call *call, int64_t wait,
                                int64_t *token, dlock_error *reason)
{
    struct dli_entry *entry;
    dlock_status status = dli_hold_to_acquire(member->entry, member->kind, call->owner, 1, &entry);

    if (status != DLOCK_OK)
        return status;
    status = dli_acquire(entry, &member->terms, call->owner, wait, &call->cancelled, token, reason);
    dli_entry_unref(entry);
    return status;
}

static dlock_status release_one(const struct dli_member *member, int64_t owner, dlock_error *reason)
{
    struct dli_entry *entry = dli_hold_find(member->entry, member->kind, owner);
    dlock_status status;

    if (!entry)
        return DLOCK_NOT_HELD;
    do
        status = dli_release(entry, &member->terms, owner, reason);
    while (dli_hold_again(&entry, owner, status));
    dli_entry_unref(entry);
    return status;
}

dlock_status dli_multi_cancel_one(const struct dli_member *member, int64_t owner)
{
    struct dli_entry *entry = dli_hold_waiting(member->entry, member->kind, owner);
    dlock_status status;

    if (!entry)
        return DLOCK_NOT_HELD;
    status = dli_submit_cancel(entry, &member->terms, owner);
    dli_entry_unref(entry);
    return status;
}

/* The token of owner's hold; 0: there is none. */
static int64_t token_of(const struct dli_member *member, int64_t owner)
{
    struct dli_entry *entry = dli_hold_find(member->entry, member->kind, owner);
    int64_t token = 0, count, remaining;

    if (!entry)
        return 0;
    dli_query_held(entry, owner, &token, &count, &remaining);
    dli_entry_unref(entry);
    return token;
}

size_t dli_multi_held(struct dli_multi *multi, int64_t owner, size_t count, int64_t *token)
{
    size_t held = 0;
    int64_t one;

    *token = 0;
    while (held < count && (one = token_of(&multi->member[held], owner)) > 0) {
        *token = one > *token ? one : *token;
        held++;
    }
    return held;
}

void dli_multi_give_up(struct dli_multi *multi, int64_t owner, size_t count)
{
    while (count-- > 0) {
        const struct dli_member *member = &multi->member[count];
        struct dli_entry *entry = dli_hold_find(member->entry, member->kind, owner);

        if (!entry)
            continue;
        dli_submit_give_up(entry, &member->terms, owner);
        dli_entry_unref(entry);
    }
}

/* ---- calls under way */

static void begin_call(struct dli_multi *multi, struct dli_call *call)
{
    pthread_mutex_lock(&multi->client->mutex);
    call->next = multi->calls;
    multi->calls = call;
    pthread_mutex_unlock(&multi->client->mutex);
}

/* The call cannot be cancelled any more. Returns whether it was. */
static int end_call(struct dli_multi *multi, struct dli_call *call)
{
    struct dli_call **link = &multi->calls;

    pthread_mutex_lock(&multi->client->mutex);
    while (*link != call)
        link = &(*link)->next;
    *link = call->next;
    pthread_mutex_unlock(&multi->client->mutex);
    return call->cancelled != 0;
}

/* Mark the calls of owner. Returns whether there is one. */
static int cancel_calls(struct dli_multi *multi, int64_t owner)
{
    int found = 0;

    pthread_mutex_lock(&multi->client->mutex);
    for (struct dli_call *call = multi->calls; call; call = call->next) {
        if (call->owner != owner)
            continue;
        __atomic_store_n(&call->cancelled, 1, __ATOMIC_RELEASE);
        found = 1;
    }
    pthread_mutex_unlock(&multi->client->mutex);
    return found;
}

/* ---- calls that were interrupted */

/* Remember where the interrupted call of owner goes on. 0, or -1 without memory. */
static int keep_place(struct dli_multi *multi, int64_t owner, size_t at)
{
    struct dli_pause *pause = malloc(sizeof *pause);

    if (!pause)
        return -1;
    *pause = (struct dli_pause){.owner = owner, .at = at};
    pthread_mutex_lock(&multi->client->mutex);
    pause->next = multi->paused;
    multi->paused = pause;
    pthread_mutex_unlock(&multi->client->mutex);
    return 0;
}

/* Where the interrupted call of owner goes on; 0: there is none. It is not remembered any more. */
static size_t take_place(struct dli_multi *multi, int64_t owner)
{
    struct dli_pause **link = &multi->paused, *pause;
    size_t at;

    pthread_mutex_lock(&multi->client->mutex);
    while ((pause = *link) && pause->owner != owner)
        link = &pause->next;
    if (pause)
        *link = pause->next;
    pthread_mutex_unlock(&multi->client->mutex);
    at = pause ? pause->at : 0;
    free(pause);
    return at;
}

/* Nobody goes on with the interrupted call of owner, which waits for member at. */
static void drop_place(struct dli_multi *multi, int64_t owner, size_t at)
{
    dli_multi_cancel_one(&multi->member[at], owner);
    dli_multi_give_up(multi, owner, at);
}

size_t dli_multi_resume(struct dli_multi *multi, int64_t owner)
{
    size_t at = take_place(multi, owner);
    int64_t token;

    if (dli_multi_held(multi, owner, at, &token) == at)
        return at;
    drop_place(multi, owner, at);
    return 0;
}

dlock_status dli_multi_cancel(struct dli_multi *multi, int64_t owner)
{
    size_t at = take_place(multi, owner);
    dlock_status status = DLOCK_NOT_HELD;
    int found = dli_run_cancel(multi, owner);

    found |= cancel_calls(multi, owner);
    for (size_t i = 0; i < multi->count && status != DLOCK_OK; i++)
        status = dli_multi_cancel_one(&multi->member[i], owner);
    if (at > 0)
        dli_multi_give_up(multi, owner, at);
    return found || at > 0 ? DLOCK_OK : status;
}

/* ---- acquire and release */

/* Acquire one by one the members after the first taken ones. When one cannot be had, release all. */
static dlock_status in_order(struct dli_multi *multi, const struct dli_call *call, int64_t until, size_t taken,
                             int64_t *token, size_t *blocked, dlock_error *reason)
{
    dlock_error unsaid = {.code = DLOCK_OK};
    dlock_status status = DLOCK_OK;
    int64_t owner = call->owner;

    while (taken < multi->count && status == DLOCK_OK) {
        int64_t now = dli_now(), wait = until == DLI_NEVER ? DLI_NEVER : until > now ? until - now : 0;

        status = acquire_one(&multi->member[taken], call, wait, token, reason);
        taken += status == DLOCK_OK;
    }
    *blocked = taken;
    if (status == DLOCK_OK && (*blocked = dli_multi_held(multi, owner, taken, token)) < taken)
        status = DLOCK_LOST; /* while later members were waited for */
    if (status == DLOCK_OK)
        return DLOCK_OK;
    if (status == DLOCK_INTERRUPTED) {
        if (keep_place(multi, owner, taken) == 0)
            return status;
        dli_multi_cancel_one(&multi->member[taken], owner);
    }
    while (taken > 0)
        release_one(&multi->member[--taken], owner, &unsaid);
    return status;
}

static dlock_status acquire_all(struct dli_multi *multi, const struct dli_call *call, int64_t wait, int64_t *token,
                                size_t *blocked, dlock_error *reason)
{
    int64_t until = dli_later(dli_now(), wait);
    size_t taken = dli_multi_resume(multi, call->owner);
    dlock_status status = DLOCK_WOULD_BLOCK;

    if (taken == 0)
        status = dli_multi_at_once(multi, call->owner, token, blocked, reason);
    if (status == DLOCK_OK || status == DLOCK_CANCELLED || (wait == 0 && status != DLOCK_WOULD_BLOCK))
        return status;
    status = in_order(multi, call, until, taken, token, blocked, reason);
    if (status == DLOCK_OK)
        dli_multi_together(multi);
    return status == DLOCK_BUSY && wait > 0 ? DLOCK_TIMED_OUT : status;
}

dlock_status dli_multi_acquire(struct dli_multi *multi, int64_t owner, int64_t wait, int64_t *token, size_t *blocked,
                               dlock_error *reason)
{
    struct dli_call call = {.owner = owner};
    dlock_status status;

    begin_call(multi, &call);
    status = acquire_all(multi, &call, wait, token, blocked, reason);
    if (!end_call(multi, &call) || (status != DLOCK_OK && status != DLOCK_INTERRUPTED))
        return status;
    *blocked = 0;
    if (status == DLOCK_INTERRUPTED)
        drop_place(multi, owner, take_place(multi, owner));
    else
        dli_multi_give_up(multi, owner, multi->count);
    return DLOCK_CANCELLED;
}

int dli_multi_is_worse(dlock_status before, dlock_status status)
{
    return status != DLOCK_OK && (before == DLOCK_OK || (status == DLOCK_LOST && before != DLOCK_LOST));
}

dlock_status dli_multi_release(struct dli_multi *multi, int64_t owner, size_t *blocked, dlock_error *reason)
{
    dlock_status worst = DLOCK_OK;

    for (size_t i = multi->count; i-- > 0;) {
        dlock_error one = {.code = DLOCK_OK};
        dlock_status status = release_one(&multi->member[i], owner, &one);

        if (!dli_multi_is_worse(worst, status))
            continue;
        worst = status;
        *reason = one;
        *blocked = i;
    }
    return worst;
}
