/*
 * replies.c: decodes the replies to the commands of commands.c. Anything unexpected is DLOCK_PROTOCOL_ERROR. A grant
 * with a token below request->above is DLOCK_SERVER_FORGOT. No state.
 */
#include "commands.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "errors.h"
#include "list.h"
#include "sys/sys.h"

enum { CLOCK_MOST = 5000000 };

/* The most that a number of a server may be: a token; a time in milliseconds, so that microseconds fit, too. */
#define NUMBER_MOST ((INT64_C(1) << 53) - 1)
#define MS_MOST     (NUMBER_MOST / 1000)

static dlock_status refusal(const struct dli_reply *reply, dlock_error *box)
{
    dlock_status status = dli_error_status(reply);
    char shown[260];

    dli_escape_error(shown, sizeof shown, reply);
    if (status == DLOCK_WRONG_SETUP)
        return dli_fail(box, status,
                        "the server is one of a cluster: the URL must begin with redis+cluster:// (it says: %s)",
                        shown);
    if (dli_error_unknown(reply))
        return dli_fail(box, status, "the server does not know a command that is needed here: %s", shown);
    return dli_fail(box, status, "the server says: %s", shown);
}

static dlock_status unexpected(dlock_error *box)
{
    return dli_fail(box, DLOCK_PROTOCOL_ERROR, "the server sent a reply that the script cannot give");
}

static int integer_at(const struct dli_reply *reply, size_t index, int64_t *out)
{
    if (reply->type != DLI_REPLY_ARRAY || index >= reply->size || reply->items[index].type != DLI_REPLY_INTEGER)
        return 0;
    *out = reply->items[index].integer;
    return 1;
}

/* The same, if the number is in this range. Nothing else is written to *out. */
static int number_at(const struct dli_reply *reply, size_t index, int64_t least, int64_t most, int64_t *out)
{
    int64_t number;

    if (!integer_at(reply, index, &number) || number < least || number > most)
        return 0;
    *out = number;
    return 1;
}

/* {-3, ms left}: the server may have lost its memory. */
static int decode_quarantine(const struct dli_reply *reply, int64_t *left, dlock_error *box)
{
    if (!number_at(reply, 1, 0, INT32_MAX, left))
        return 0;
    dli_fail(box, DLOCK_QUARANTINED,
             "the server may have lost its memory; nobody is granted a lock for the next %lld ms", (long long)*left);
    *left *= 1000;
    return 1;
}

/* {-4, the longest lease at this server}. */
static dlock_status refuse_lease(const struct dli_reply *reply, const struct dli_request *request)
{
    int64_t longest = 0;

    number_at(reply, 1, 0, MS_MOST, &longest);
    return dli_fail(request->reason, DLOCK_LEASE_REFUSED,
                    "the longest lease at this server is %lld ms, and this client's quarantine_ms is %lld",
                    (long long)longest, (long long)(request->quarantine ? request->quarantine->longest_ms : 0));
}

static int is_lease_refused(const struct dli_reply *reply)
{
    int64_t code;

    return integer_at(reply, 0, &code) && code == -4;
}

/*
 * The token at index at, and how many are reserved from it on. That number follows the token; it is left out if it is
 * most. 0: not a valid token. A number above most is refused: it could make two holders use one token.
 */
static int decode_tokens(const struct dli_reply *reply, size_t at, int64_t most, int64_t *token, int64_t *tokens)
{
    *tokens = most;
    if (!integer_at(reply, at, token))
        return 0;
    if (reply->size > at + 1 && !integer_at(reply, at + 1, tokens))
        return 0;
    return dli_grant_fits(*token, *tokens, most);
}

/*
 * What follows {0, ms, foreign}: when a hold of another libdlock process ends, the last token, and by how many ms the
 * lease was longer than it may be because the server's clock was set back.
 */
static void decode_seen(const struct dli_reply *reply, struct dli_answer *answer)
{
    struct dli_seen seen = {.left = answer->left};
    int64_t cut = 0;

    if (answer->left < 0 || !number_at(reply, 3, 0, NUMBER_MOST, &seen.ends) ||
        !number_at(reply, 4, 0, NUMBER_MOST, &seen.token) || !number_at(reply, 5, -MS_MOST, MS_MOST, &cut))
        return;
    answer->seen = seen;
    answer->cut = cut <= 0 ? 0 : cut * 1000;
}

/* Milliseconds in microseconds; -1 when they are negative or more than any lease. */
static int64_t micros(int64_t ms)
{
    return ms < 0 || ms > INT32_MAX ? -1 : ms * 1000;
}

/*
 * {1, token, tokens, permits left, ms} or {1, token, tokens, next} granted, {0, ms, foreign, ...} held, {-1} another kind,
 * {-2} closed gate,
 * {-3, ms} quarantine. foreign is 2 when the id gets nothing any more. ms: until the first lease ends.
 */
static int decode_try(const struct dli_reply *reply, int64_t most, struct dli_answer *answer, dlock_error *box)
{
    int64_t code, foreign;

    if (!integer_at(reply, 0, &code))
        return 0;
    if (code == -1 || code == -2) {
        answer->got = code == -1 ? DLI_TRY_WRONG_KIND : DLI_TRY_GATE;
        return 1;
    }
    if (code == -3) {
        answer->got = DLI_TRY_QUARANTINE;
        return decode_quarantine(reply, &answer->left, box);
    }
    if (code == 1) {
        answer->got = DLI_TRY_GRANTED;
        if (!number_at(reply, 3, -NUMBER_MOST, NUMBER_MOST, &answer->more))
            answer->more = -1;
        answer->left = integer_at(reply, 4, &answer->left) ? micros(answer->left) : -1;
        return decode_tokens(reply, 1, most, &answer->token, &answer->tokens);
    }
    if (!integer_at(reply, 1, &answer->left))
        return 0;
    answer->got = DLI_TRY_HELD;
    answer->left = micros(answer->left);
    if (!number_at(reply, 2, 0, 2, &foreign))
        return 0;
    answer->foreign = foreign == 1 || foreign == 2;
    answer->spent = foreign == 2;
    decode_seen(reply, answer);
    return code == 0;
}

static int decode_pass(const struct dli_reply *reply, int64_t most, struct dli_answer *answer, dlock_error *box)
{
    int64_t released;

    if (!integer_at(reply, 0, &released) || reply->size != 2)
        return 0;
    answer->released = released == 1;
    return decode_try(&reply->items[1], most, answer, box);
}

static dlock_status decode_exchange(const struct dli_reply *reply, struct dli_request *request)
{
    const struct dli_wish *wish = &request->exchange.wish;
    struct dli_answer *answer = &request->exchange.answer;
    int good;

    if (!wish->want) {
        good = reply->type == DLI_REPLY_INTEGER;
        answer->released = good && reply->integer >= 1;
        answer->others = answer->released ? dli_between(reply->integer - 1, 0, NUMBER_MOST) : 0;
    } else {
        int both = wish->drop && reply->type == DLI_REPLY_ARRAY && reply->size == 2;
        const struct dli_reply *said = both ? &reply->items[1] : reply;
        int64_t most = request->kind->handed ? wish->block : 1;

        if (is_lease_refused(said))
            return refuse_lease(said, request);
        good = wish->drop ? decode_pass(reply, most, answer, request->reason)
                          : decode_try(reply, most, answer, request->reason) &&
                                dli_next_decode(reply, answer, &request->exchange.next);
    }
    if (good && answer->got == DLI_TRY_GRANTED && answer->token < request->above)
        return dli_fail_forgot(request->reason, answer->token, request->above - 1);
    return good ? DLOCK_OK : unexpected(request->reason);
}

/* {1, token, lease} the heir has it, {1} it is offered, {0} it is not held, {-1} the proof or the attempt does not count. */
static dlock_status decode_transfer(const struct dli_reply *reply, struct dli_request *request)
{
    struct dli_renewal *row = request->renew.row;
    struct dli_transfer *transfer = row->transfer;
    int64_t code, token, lease;

    if (!number_at(reply, 0, -1, 1, &code))
        return unexpected(request->reason);
    row->kept = code == 1;
    transfer->forged = code == -1;
    if (code != 1 || !transfer->heir[0])
        return DLOCK_OK;
    if (!integer_at(reply, 1, &token) || !dli_grant_fits(token, 1, 1) ||
        !number_at(reply, 2, DLI_LEASE_LEAST_MS, DLI_LEASE_MOST_MS, &lease))
        return unexpected(request->reason);
    transfer->token = token;
    transfer->lease = micros(lease);
    row->lease = transfer->lease + row->delay;
    return DLOCK_OK;
}

static dlock_status decode_renew(const struct dli_reply *reply, struct dli_request *request)
{
    if (request->renew.count == 1 && request->renew.row[0].transfer && !request->renew.again)
        return decode_transfer(reply, request);
    if (reply->type != DLI_REPLY_ARRAY || reply->size != (size_t)request->renew.count)
        return unexpected(request->reason);
    for (size_t i = 0; i < reply->size; i++) {
        if (reply->items[i].type != DLI_REPLY_INTEGER)
            return unexpected(request->reason);
        request->renew.row[i].kept = reply->items[i].integer == 1;
    }
    return DLOCK_OK;
}

static dlock_status decode_take(const struct dli_reply *reply, struct dli_request *request)
{
    static const enum dli_multi_result results[] = {DLI_MULTI_QUARANTINE, DLI_MULTI_GATE, DLI_MULTI_WRONG_KIND,
                                                    DLI_MULTI_IN_USE, DLI_MULTI_ALL};
    struct dli_multi_row *row = request->multi.row;
    int64_t code, which;

    request->multi.which = -1;
    if (is_lease_refused(reply))
        return refuse_lease(reply, request);
    if (!number_at(reply, 0, -3, 1, &code))
        return unexpected(request->reason);
    request->multi.result = results[code + 3];
    if (code == -3)
        return decode_quarantine(reply, &request->multi.left, request->reason) ? DLOCK_OK : unexpected(request->reason);
    if (code == 1) {
        for (int i = 0; i < request->multi.count; i++)
            if (!decode_tokens(reply, 2 * (size_t)i + 1, row[i].block, &row[i].token, &row[i].tokens))
                return unexpected(request->reason);
        return DLOCK_OK;
    }
    if (!number_at(reply, 1, 1, request->multi.count, &which))
        return unexpected(request->reason);
    request->multi.which = (int)which - 1;
    return DLOCK_OK;
}

/* 1: done, 0: the status otherwise, -1: wrong kind. */
static dlock_status decode_done(const struct dli_reply *reply, dlock_status otherwise, dlock_error *box)
{
    if (reply->type != DLI_REPLY_INTEGER)
        return unexpected(box);
    if (reply->integer == 1)
        return DLOCK_OK;
    if (reply->integer == 0)
        return otherwise;
    return dli_fail(box, DLOCK_WRONG_KIND, "the key belongs to another kind of lock");
}

static dlock_status decode_force(const struct dli_reply *reply, struct dli_request *request)
{
    return decode_done(reply, DLOCK_NOT_HELD, request->reason);
}

/* A text: more waiters are to be sent away. */
static dlock_status decode_gate(const struct dli_reply *reply, struct dli_request *request)
{
    request->gate_rest[0] = '\0';
    if (reply->type == DLI_REPLY_TEXT && reply->size > 0 && reply->size < sizeof request->gate_rest) {
        memcpy(request->gate_rest, reply->text, reply->size);
        request->gate_rest[reply->size] = '\0';
        return DLOCK_OK;
    }
    return decode_done(reply, DLOCK_UNCHANGED, request->reason);
}

/* A closed gate always has an expiry. Below zero: the gate is open. */
static dlock_status decode_gate_left(const struct dli_reply *reply, struct dli_request *request)
{
    if (reply->type != DLI_REPLY_INTEGER)
        return unexpected(request->reason);
    request->gate_ms = dli_between(reply->integer, -1, MS_MOST);
    return DLOCK_OK;
}

static dlock_status decode_change(const struct dli_reply *reply, struct dli_request *request)
{
    int64_t code, more = 0;

    if (!integer_at(reply, 0, &code) || (code != -1 && !integer_at(reply, 1, &request->change.value)))
        return unexpected(request->reason);
    if (code == -1)
        return dli_fail(request->reason, DLOCK_WRONG_KIND, "the key does not belong to this kind of lock");
    request->change.more = integer_at(reply, 2, &more) && more == 1;
    return code == 1 ? DLOCK_OK : DLOCK_UNCHANGED;
}

static dlock_status decode_inspect(const struct dli_reply *reply, struct dli_request *request)
{
    struct dli_inspection *inspection = &request->inspection;

    if (reply->type == DLI_REPLY_INTEGER && reply->integer == -1)
        return dli_fail(request->reason, DLOCK_WRONG_KIND, "the key does not belong to this kind of lock");
    if (reply->type != DLI_REPLY_ARRAY || reply->size != 5 || reply->items[0].type != DLI_REPLY_TEXT ||
        !integer_at(reply, 1, &inspection->left_ms) || !integer_at(reply, 2, &inspection->token) ||
        !number_at(reply, 3, 0, NUMBER_MOST, &inspection->now_us) ||
        !number_at(reply, 4, -1, NUMBER_MOST, &inspection->waiters))
        return unexpected(request->reason);
    inspection->left_ms = dli_between(inspection->left_ms, -2, MS_MOST); /* whoever made the key chose its end */
    inspection->token = dli_between(inspection->token, -1, NUMBER_MOST); /* and the counter's value */
    dli_escape_error(inspection->holder, sizeof inspection->holder, &reply->items[0]);
    return DLOCK_OK;
}

static dlock_status decode_floor(const struct dli_reply *reply, struct dli_request *request)
{
    struct dli_floor *floor = request->own;

    floor->stands = reply->type == DLI_REPLY_INTEGER && reply->integer == 1;
    return reply->type == DLI_REPLY_INTEGER ? DLOCK_OK : unexpected(request->reason);
}

/* Whether the reply is a node of a cluster refusing a key of another node's slot. */
static int from_shard(const struct dli_reply *reply)
{
    static const char *const prefixes[] = {"MOVED ", "CLUSTERDOWN "};

    for (size_t i = 0; reply->type == DLI_REPLY_ERROR && i < 2; i++)
        if (reply->size > strlen(prefixes[i]) && memcmp(reply->text, prefixes[i], strlen(prefixes[i])) == 0)
            return 1;
    return 0;
}

static dlock_status decode_join(const struct dli_reply *reply, struct dli_request *request)
{
    struct dli_join *join = request->own;
    int64_t sharded;

    join->run_id[0] = join->stands[0] = join->shown[0] = '\0';
    join->up = 0;
    join->sharded = from_shard(reply);
    if (join->sharded)
        return DLOCK_OK;
    if (reply->type != DLI_REPLY_ARRAY || reply->size != 5 || reply->items[0].type != DLI_REPLY_TEXT ||
        !integer_at(reply, 1, &sharded) || reply->items[2].type != DLI_REPLY_TEXT ||
        !number_at(reply, 3, 0, NUMBER_MOST, &join->clock) || !number_at(reply, 4, 0, INT32_MAX, &join->up))
        return unexpected(request->reason);
    dli_escape(join->run_id, sizeof join->run_id, reply->items[0].text, reply->items[0].size);
    dli_escape(join->stands, sizeof join->stands, reply->items[2].text, reply->items[2].size);
    dli_escape_error(join->shown, sizeof join->shown, &reply->items[2]);
    join->sharded = sharded == 1;
    return DLOCK_OK;
}

static dlock_status no_room(dlock_error *box)
{
    return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for what was found");
}

static dlock_status note_clock(int64_t server_us, struct dli_request *request)
{
    int64_t apart = server_us > 0 ? server_us - dli_wall() : 0; /* the server may send any number */
    struct dli_finding *finding;

    if (apart > -CLOCK_MOST && apart < CLOCK_MOST)
        return DLOCK_OK;
    if (!(finding = dli_findings_add(request->check.found, DLOCK_FINDING_CLOCK)))
        return no_room(request->reason);
    snprintf(finding->detail, sizeof finding->detail, "%lld", (long long)(apart / 1000000));
    return DLOCK_OK;
}

/* {microseconds, name, detail, name, detail ...}. Names that this version does not know are skipped. */
static dlock_status decode_check(const struct dli_reply *reply, struct dli_request *request)
{
    int64_t server_us;

    request->check.found->count = 0;
    if (!integer_at(reply, 0, &server_us))
        return unexpected(request->reason);
    for (size_t i = 1; i + 1 < reply->size; i += 2) {
        const struct dli_reply *name = &reply->items[i], *detail = name + 1;
        const struct dli_finding_row *row;
        struct dli_finding *finding;

        if (name->type != DLI_REPLY_TEXT || detail->type != DLI_REPLY_TEXT)
            return unexpected(request->reason);
        if (!(row = dli_finding_named(name->text, name->size)))
            continue;
        if (!(finding = dli_findings_add(request->check.found, row->code)))
            return no_room(request->reason);
        dli_escape_error(finding->detail, sizeof finding->detail, detail);
    }
    return note_clock(server_us, request);
}

static dlock_status decode_ping(const struct dli_reply *reply, struct dli_request *request)
{
    (void)reply;
    (void)request;
    return DLOCK_OK;
}

void dli_decode_request(const struct dli_reply *reply, struct dli_request *request)
{
    static dlock_status (*const decode[])(const struct dli_reply *, struct dli_request *) = {
        [DLI_VERB_EXCHANGE] = decode_exchange,   [DLI_VERB_RENEW] = decode_renew,
        [DLI_VERB_ACQUIRE_ALL] = decode_take,    [DLI_VERB_FORCE] = decode_force,
        [DLI_VERB_INSPECT] = decode_inspect,     [DLI_VERB_GATE] = decode_gate,
        [DLI_VERB_GATE_LEFT] = decode_gate_left, [DLI_VERB_CHANGE] = decode_change,
        [DLI_VERB_PING] = decode_ping,           [DLI_VERB_PROVISION] = decode_ping,
        [DLI_VERB_CHECK] = decode_check,         [DLI_VERB_FLOOR] = decode_floor,
        [DLI_VERB_JOIN] = decode_join,           [DLI_VERB_LIST] = dli_decode_list,
    };

    request->sent = 1;
    request->refused = reply->type == DLI_REPLY_ERROR && /* scripts check what the keys are before they write */
                       (!dli_error_midway(reply) || dli_error_status(reply) == DLOCK_WRONG_KIND);
    if (reply->type == DLI_REPLY_ERROR && !(request->verb == DLI_VERB_JOIN && from_shard(reply)))
        request->status = refusal(reply, request->reason);
    else
        request->status = decode[request->verb](reply, request);
    if (request->status == DLOCK_LEASE_REFUSED && !(request->verb == DLI_VERB_EXCHANGE && request->exchange.wish.drop))
        request->refused = 1;
}

dlock_status dli_decode_word(const struct dli_reply *reply, dlock_error *box)
{
    return reply->type == DLI_REPLY_ERROR ? refusal(reply, box) : DLOCK_OK;
}

int dli_decode_replicas(const struct dli_reply *reply)
{
    return reply->type != DLI_REPLY_INTEGER ? -1 : (int)dli_between(reply->integer, 0, INT32_MAX);
}
