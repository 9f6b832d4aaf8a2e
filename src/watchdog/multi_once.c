/*
 * multi_once.c: mutexes that nobody in this process uses, taken by one script: all or none. Each machine takes part as if
 * it had sent an exchange of its own, so that whatever comes of the script is settled by the usual rules.
 *
 * The mutexes of the members are taken together, in the order of their names; nobody else takes two.
 */
#include "multi.h"

#include <stdlib.h>

#include "sys/sys.h"

/* One member's part. */
struct part {
    struct dli_entry *entry;
    struct dli_waiter *waiter;
    struct dli_wish wish;
    struct dli_taking row;
};

struct attempt {
    struct dli_call call;
    size_t count;
    int64_t keep_ms;
    dlock_status status; /* of the transport or the server */
    int sent, refused;
    struct dli_taken result;
    struct part part[];
};

static int encode(struct dli_call *call, int full)
{
    struct attempt *attempt = DLI_OBJECT(call, struct attempt, call);
    const struct dli_taking *rows[DLI_MULTI_MAX];

    for (size_t i = 0; i < attempt->count; i++)
        rows[i] = &attempt->part[i].row;
    call->command.size = 0;
    return dli_encode_multi(&call->command, full, rows, (int)attempt->count, attempt->keep_ms);
}

static int complete(struct dli_call *call, dlock_status status, int sent, const struct dli_reply *reply)
{
    struct attempt *attempt = DLI_OBJECT(call, struct attempt, call);

    attempt->sent = sent;
    attempt->status = status;
    if (status != DLOCK_OK)
        return 0;
    attempt->sent = 1;
    attempt->refused = reply->type == DLI_REPLY_ERROR;
    attempt->status = dli_decode_multi(reply, (int)attempt->count, &attempt->result, call->why);
    return attempt->status == DLOCK_PROTOCOL_ERROR ? -1 : 0;
}

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

/* All mutexes held: whether nobody here uses any member. */
static int all_idle(const struct attempt *attempt)
{
    for (size_t i = 0; i < attempt->count; i++)
        if (!dli_mutex_idle(&attempt->part[i].entry->m) || attempt->part[i].entry->m.closed)
            return 0;
    return 1;
}

/* The member's machine takes part with a claim of its own. */
static void join(struct part *part, int64_t now)
{
    struct dli_entry *entry = part->entry;

    dli_mutex_acquire(&entry->m, &part->waiter->claim, now);
    part->waiter->tell = DLI_TELL_CALLER;
    dli_mutex_wish(&entry->m, DLI_LINE_ABSENT, now, &part->wish);
    dli_mutex_sent(&entry->m, &part->wish, now);
    dli_entry_owner(entry, part->wish.want, part->row.owner);
    part->row.names = &entry->names;
    part->row.lease = part->wish.lease + entry->rules.delay;
    part->row.block = part->wish.block;
}

/* What the script means for member i. */
static struct dli_answer answer(const struct attempt *attempt, size_t i)
{
    const struct dli_taken *result = &attempt->result;
    struct dli_answer said = {.status = attempt->status, .sent = attempt->sent, .refused = attempt->refused};

    said.left = -1;
    if (attempt->status != DLOCK_OK)
        return said;
    said.got = DLI_TRY_HELD;
    if (result->code == 1)
        said.got = DLI_TRY_GRANTED;
    else if (result->which == (int)i && result->code < 0)
        said.got = result->code == -1 ? DLI_TRY_WRONG_KIND : DLI_TRY_GATE;
    said.token = result->token[i];
    return said;
}

/* Let the member's machine have its answer; what came of the claim. */
static dlock_status part_answered(struct attempt *attempt, size_t i, int64_t *token)
{
    struct part *part = &attempt->part[i];
    struct dli_answer said = answer(attempt, i);
    dlock_status status;
    int64_t now = dli_now();

    dli_entry_lock(part->entry);
    dli_mutex_answer(&part->entry->m, &said, now);
    dli_entry_pump(part->entry, now);
    status = part->waiter->claim.state == DLI_CLAIM_DONE ? part->waiter->claim.result : DLOCK_OK;
    if (status == DLOCK_OK)
        status = dli_ask_receive(part->waiter, token);
    dli_entry_unlock(part->entry);
    return status;
}

/* Everybody's answer; what was granted is given back when not all were. */
static dlock_status settle(struct attempt *attempt, int64_t owner, const struct dli_multi *multi, int64_t *token,
                           size_t *blocked)
{
    dlock_error unsaid = {.code = DLOCK_OK};
    dlock_status first = DLOCK_OK, status[DLI_MULTI_MAX];

    *token = 0;
    for (size_t i = 0; i < attempt->count; i++) {
        int64_t one = 0;

        status[i] = part_answered(attempt, i, &one);
        *token = one > *token ? one : *token;
        if (status[i] == DLOCK_OK || (first != DLOCK_OK && attempt->result.which != (int)i))
            continue;
        first = status[i];
        *blocked = i;
    }
    for (size_t i = 0; first != DLOCK_OK && i < attempt->count; i++)
        if (status[i] == DLOCK_OK)
            dli_ask_release(attempt->part[i].entry, &multi->member[i].terms, owner, &unsaid);
    return first;
}

static void attempt_free(struct attempt *attempt, int begun)
{
    for (size_t i = 0; attempt && i < attempt->count; i++) {
        struct dli_waiter *waiter = attempt->part[i].waiter;

        if (waiter && !begun)
            dli_waiter_unref(waiter);
        if (waiter)
            dli_waiter_unref(waiter);
    }
    if (attempt)
        dli_buffer_free(&attempt->call.command);
    free(attempt);
}

/* NULL without memory. */
static struct attempt *attempt_new(struct dli_multi *multi, int64_t owner, int64_t now)
{
    struct attempt *attempt = calloc(1, sizeof *attempt + multi->count * sizeof attempt->part[0]);

    if (!attempt)
        return NULL;
    attempt->count = multi->count;
    attempt->result.which = -1;
    attempt->call.encode = encode;
    attempt->call.complete = complete;
    attempt->call.repeatable = 1;
    for (size_t i = 0; i < multi->count; i++) {
        struct part *part = &attempt->part[i];

        part->entry = multi->member[i].entry;
        part->waiter = dli_ask_waiter(part->entry, &multi->member[i].terms, owner, 0, now);
        if (!part->waiter) {
            attempt_free(attempt, 0);
            return NULL;
        }
        if (attempt->keep_ms < part->entry->rules.keep_ms)
            attempt->keep_ms = part->entry->rules.keep_ms;
    }
    return attempt;
}

static int possible(const struct dli_multi *multi)
{
    if (multi->count > DLI_MULTI_MAX)
        return 0;
    for (size_t i = 0; i < multi->count; i++)
        if (multi->member[i].kind->id != DLOCK_KIND_MUTEX)
            return 0;
    return 1;
}

dlock_status dli_multi_at_once(struct dli_multi *multi, int64_t owner, int64_t *token, size_t *blocked,
                               dlock_error *why)
{
    struct attempt *attempt;
    dlock_status status;
    int64_t now = dli_now();
    int begin;

    if (!possible(multi))
        return DLOCK_WOULD_BLOCK;
    if (!(attempt = attempt_new(multi, owner, now)))
        return DLOCK_OUT_OF_MEMORY;
    lock_all(attempt);
    begin = all_idle(attempt);
    for (size_t i = 0; begin && i < attempt->count; i++)
        join(&attempt->part[i], now);
    unlock_all(attempt);
    if (!begin) {
        attempt_free(attempt, 0);
        return DLOCK_WOULD_BLOCK;
    }
    attempt->call.deadline = now + attempt->part[0].wish.attempt;
    attempt->call.why = why;
    if (encode(&attempt->call, 0))
        complete(&attempt->call, DLOCK_OUT_OF_MEMORY, 0, NULL);
    else
        dli_carry(multi->client, attempt->part[0].entry->loop, &attempt->call);
    status = settle(attempt, owner, multi, token, blocked);
    attempt_free(attempt, 1);
    return status;
}
