/*
 * multi_once.c: one request acquires all members or none. They are mutexes that nobody in this process uses. Each
 * machine takes part as if it had sent an exchange of its own, so the usual rules settle every outcome.
 *
 * The mutexes of the members are taken together, in the order of their names. Nobody else takes two.
 */
#include "multi.h"

#include <stdlib.h>

#include "sys/sys.h"

/* One member's part. */
struct part {
    struct dli_entry *entry;
    struct dli_waiter *waiter;
    struct dli_wish wish;
};

struct attempt {
    struct dli_request *request;
    struct dli_multi *multi;
    struct dli_run *run; /* gets the result; NULL: the caller waits */
    int64_t owner;
    size_t count;
    struct dli_multi_row row[DLI_MULTI_MAX];
    struct part part[];
};

static void lock_all(struct attempt *attempt)
{
    for (size_t i = 0; i < attempt->count; i++)
        dli_entry_lock(attempt->part[i].entry);
}

static void unlock_all(struct attempt *attempt)
{
    for (size_t i = attempt->count; i-- > 0;)
        dli_entry_unlock(attempt->part[i].entry);
}

/* All mutexes held: whether nobody here uses any member, and all may begin. */
static int all_idle(const struct attempt *attempt)
{
    for (size_t i = 0; i < attempt->count; i++) {
        struct dli_mutex *m = &attempt->part[i].entry->m;

        if (!dli_mutex_idle(m) || m->closed || dli_active_make(m))
            return 0;
    }
    return 1;
}

/* All mutexes held: the member's machine takes part with a claim of its own. */
static void join(struct part *part, struct dli_multi_row *row, int64_t now)
{
    struct dli_entry *entry = part->entry;

    dli_mutex_acquire(&entry->m, &part->waiter->claim, now);
    dli_acquire_asked(part->waiter, now);
    part->waiter->notify = DLI_NOTIFY_CALLER;
    dli_mutex_wish(&entry->m, DLI_LINE_ABSENT, now, &part->wish);
    dli_mutex_sent(&entry->m, &part->wish, now);
    dli_entry_owner(entry, part->wish.want, row->owner);
    row->place = entry->place;
    row->lease = part->wish.lease + entry->m.rules->delay;
    row->block = part->wish.block;
}

/* The answer of the request for member i. */
static struct dli_answer answer(const struct attempt *attempt, size_t i)
{
    const struct dli_request *request = attempt->request;
    struct dli_answer said = {
        .status = request->status, .sent = request->sent, .refused = request->refused, .repeated = request->repeated};

    if (request->status != DLOCK_OK)
        return said;
    said.got = request->multi.result == DLI_MULTI_QUARANTINE ? DLI_TRY_QUARANTINE : DLI_TRY_HELD;
    said.left = request->multi.result == DLI_MULTI_QUARANTINE ? request->multi.left : -1;
    if (request->multi.result == DLI_MULTI_ALL)
        said.got = DLI_TRY_GRANTED;
    else if (request->multi.which == (int)i && request->multi.result > DLI_MULTI_IN_USE)
        said.got = request->multi.result == DLI_MULTI_WRONG_KIND ? DLI_TRY_WRONG_KIND : DLI_TRY_GATE;
    said.token = attempt->row[i].token;
    said.tokens = attempt->row[i].tokens;
    said.since = attempt->row[i].since;
    return said;
}

/*
 * Give the member's machine its answer. Returns the result of its claim. The claim is not tried again, even when the
 * grant came too late to be of use: all members are settled now.
 */
static dlock_status part_answered(struct attempt *attempt, size_t i, int64_t *token)
{
    struct part *part = &attempt->part[i];
    struct dli_answer said = answer(attempt, i);
    dlock_status status;
    int64_t now = dli_now();

    dli_entry_lock(part->entry);
    dli_mutex_answer(&part->entry->m, &said, now);
    dli_mutex_give_up(&part->entry->m, &part->waiter->claim, DLOCK_UNREACHABLE, now);
    dli_entry_pump(part->entry, now);
    status = part->waiter->claim.state == DLI_CLAIM_DONE ? part->waiter->claim.result : DLOCK_OK;
    if (status == DLOCK_OK)
        status = dli_acquire_receive(part->waiter, token);
    dli_entry_unlock(part->entry);
    return status;
}

/* Member i was granted, but not all were. */
static void give_back(const struct attempt *attempt, size_t i)
{
    const struct dli_terms *terms = &attempt->multi->member[i].terms;
    dlock_error unsaid = {.code = DLOCK_OK};

    if (attempt->run)
        dli_submit_give_up(attempt->part[i].entry, terms, attempt->owner);
    else
        dli_release(attempt->part[i].entry, terms, attempt->owner, &unsaid);
}

/*
 * Whether the server refused the request because of one member that it does not name. Then the members are acquired
 * one by one until that succeeds.
 */
static int refused_unnamed(const struct attempt *attempt, dlock_status status)
{
    const struct dli_request *request = attempt->request;

    if (status != request->status || !request->refused || !dli_request_blamed(request) || attempt->count < 2)
        return 0;
    __atomic_store_n(&attempt->multi->apart, 1, __ATOMIC_RELAXED);
    return 1;
}

/* Give every member its answer. Returns the result for all; *blocked is the member in the way. */
static dlock_status settle(struct attempt *attempt, int64_t *token, size_t *blocked)
{
    dlock_status first = DLOCK_OK, status[DLI_MULTI_MAX];

    *token = 0;
    for (size_t i = 0; i < attempt->count; i++) {
        int64_t one = 0;

        status[i] = part_answered(attempt, i, &one);
        *token = one > *token ? one : *token;
        if (status[i] == DLOCK_OK || first == DLOCK_CANCELLED ||
            (first != DLOCK_OK && status[i] != DLOCK_CANCELLED && attempt->request->multi.which != (int)i))
            continue;
        first = status[i];
        *blocked = i;
    }
    for (size_t i = 0; first != DLOCK_OK && i < attempt->count; i++)
        if (status[i] == DLOCK_OK)
            give_back(attempt, i);
    return refused_unnamed(attempt, first) ? DLOCK_WOULD_BLOCK : first;
}

/* begun: one ref on each waiter is the machine's. Otherwise both refs are dropped. */
static void attempt_free(struct attempt *attempt, int begun)
{
    for (size_t i = 0; attempt && i < attempt->count; i++) {
        struct dli_waiter *waiter = attempt->part[i].waiter;

        if (waiter && !begun)
            dli_waiter_unref(waiter);
        if (waiter)
            dli_waiter_unref(waiter);
    }
    if (attempt && attempt->request)
        attempt->part[0].entry->client->store->ops->request_free(attempt->request);
    free(attempt);
}

/* NULL without memory. */
static struct attempt *attempt_new(struct dli_multi *multi, int64_t owner, int64_t now)
{
    struct attempt *attempt = calloc(1, sizeof *attempt + multi->count * sizeof attempt->part[0]);
    struct dli_store *store = multi->client->store;
    struct dli_request *request;

    if (!attempt)
        return NULL;
    if (!(request = store->ops->request_new(store))) {
        free(attempt);
        return NULL;
    }
    attempt->request = request;
    attempt->multi = multi;
    attempt->owner = owner;
    attempt->count = multi->count;
    request->verb = DLI_VERB_ACQUIRE_ALL;
    request->repeatable = 1;
    request->multi.row = attempt->row;
    request->multi.count = (int)multi->count;
    request->multi.which = -1;
    for (size_t i = 0; i < multi->count; i++) {
        struct part *part = &attempt->part[i];

        part->entry = multi->member[i].entry;
        part->waiter = dli_acquire_waiter(part->entry, &multi->member[i].terms, owner, 0, now);
        if (!part->waiter) {
            attempt_free(attempt, 0);
            return NULL;
        }
        if (request->multi.keep_ms < part->entry->m.rules->keep_ms)
            request->multi.keep_ms = part->entry->m.rules->keep_ms;
    }
    return attempt;
}

static int fits_one_script(const struct dli_multi *multi)
{
    const struct dli_store *store = multi->client->store;
    uint32_t shard = store->ops->shard(store, multi->member[0].entry->place);

    if (multi->count > DLI_MULTI_MAX || !dli_store_can(store, DLI_CAN_ACQUIRE_ALL) ||
        __atomic_load_n(&multi->apart, __ATOMIC_RELAXED))
        return 0;
    for (size_t i = 0; i < multi->count; i++)
        if (multi->member[i].kind->id != DLOCK_KIND_MUTEX ||
            store->ops->shard(store, multi->member[i].entry->place) != shard)
            return 0;
    return 1;
}

/* All machines take part: 1. 0: a member is in use. */
static int join_all(struct attempt *attempt, int64_t now)
{
    int idle;

    lock_all(attempt);
    idle = all_idle(attempt);
    for (size_t i = 0; idle && i < attempt->count; i++)
        join(&attempt->part[i], &attempt->row[i], now);
    unlock_all(attempt);
    return idle;
}

/* An attempt whose request can be sent. DLOCK_WOULD_BLOCK, DLOCK_OUT_OF_MEMORY. */
static dlock_status begin(struct dli_multi *multi, int64_t owner, struct attempt **ret)
{
    struct attempt *attempt;
    int64_t now = dli_now();

    if (!fits_one_script(multi))
        return DLOCK_WOULD_BLOCK;
    if (!(attempt = attempt_new(multi, owner, now)))
        return DLOCK_OUT_OF_MEMORY;
    if (!join_all(attempt, now)) {
        attempt_free(attempt, 0);
        return DLOCK_WOULD_BLOCK;
    }
    attempt->request->deadline = now + attempt->part[0].wish.attempt;
    *ret = attempt;
    return DLOCK_OK;
}

dlock_status dli_multi_at_once(struct dli_multi *multi, int64_t owner, int64_t *token, size_t *blocked,
                               dlock_error *reason)
{
    struct attempt *attempt;
    dlock_status status = begin(multi, owner, &attempt);

    if (status != DLOCK_OK)
        return status;
    attempt->request->reason = reason;
    multi->client->store->ops->execute(dli_entry_loop(multi->member[0].entry)->lane, attempt->request);
    status = settle(attempt, token, blocked);
    attempt_free(attempt, 1);
    if (status == DLOCK_WOULD_BLOCK)
        reason->code = DLOCK_OK;
    return status;
}

static void answered(struct dli_request *request)
{
    struct attempt *attempt = request->context;
    struct dli_run *run = attempt->run;
    size_t blocked = 0;
    int64_t token;
    dlock_status status = settle(attempt, &token, &blocked);

    attempt_free(attempt, 1);
    dli_run_taken(run, status, blocked);
}

dlock_status dli_multi_submit_at_once(struct dli_multi *multi, int64_t owner, struct dli_run *run)
{
    struct attempt *attempt;
    struct dli_request *request;
    dlock_status status = begin(multi, owner, &attempt);

    if (status != DLOCK_OK)
        return status;
    attempt->run = run;
    request = attempt->request;
    request->done = answered;
    request->context = attempt;
    request->direct = dli_events_one_by_one(&multi->client->events, dli_now());
    status = multi->client->store->ops->push(dli_entry_loop(multi->member[0].entry)->lane, request);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    request->status = status;
    request->sent = 0;
    answered(request);
    return DLOCK_OK;
}
