/*
 * replicas.c: one errand on its connection, see replicas.h. What is common to all is in lane.c.
 */
#include "replicas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/codec/codec.h"
#include "redis/link/link.h"
#include "sys/sys.h"

enum { MS = 1000 };

/* How many have to confirm. By the word of sentinels or of the cluster it is never none. */
static int needed(const struct dli_replicas *replicas)
{
    int known;

    if (replicas->needed > 0)
        return replicas->needed;
    known = __atomic_load_n(replicas->known, __ATOMIC_RELAXED);
    return known > 0 ? known : 1;
}

/* ---- the end of an errand: these return 1, it is over */

static int leave(struct dli_replicas_turn *turn, struct dli_errand *errand, int sleeps)
{
    turn->errand = NULL;
    if (sleeps) {
        __atomic_store_n(&errand->call.done, 1, __ATOMIC_RELEASE); /* the errand is its caller's from here on */
        dli_futex_wake(&errand->call.done, 1);
    }
    return 1;
}

static int tell(struct dli_replicas_turn *turn)
{
    struct dli_errand *errand = turn->errand;
    int sleeps = errand->call.sleeps != 0;

    dli_errand_tell(errand);
    return leave(turn, errand, sleeps);
}

/* 0: it is no redirect, that sends it elsewhere. */
static int turned(struct dli_replicas_turn *turn, dlock_status status, const struct dli_reply *reply)
{
    struct dli_errand *errand = turn->errand;
    int sleeps = errand->call.sleeps != 0;

    return errand->turn && errand->turn(errand, status, reply) ? leave(turn, errand, sleeps) : 0;
}

static int fail(struct dli_replicas_turn *turn, const dlock_error *why, int sent)
{
    struct dli_call *call = &turn->errand->call;

    if (call->why)
        *call->why = *why;
    if (turned(turn, why->code, NULL))
        return 1;
    dli_errand_hear(turn->errand, why->code, sent || call->repeated, NULL);
    return tell(turn);
}

/* The script ran, and its effect is not confirmed. */
static int unconfirmed(struct dli_replicas_turn *turn, dlock_status status)
{
    struct dli_request *request = &turn->errand->request;

    request->status = status;
    request->sent = 1;
    if (request->verb == DLI_VERB_EXCHANGE) {
        request->exchange.answer.status = status;
        request->exchange.answer.sent = 1;
        request->exchange.answer.got = DLI_TRY_NONE;
    }
    for (int i = 0; request->verb == DLI_VERB_RENEW && i < request->renew.count; i++)
        if (request->renew.row[i].kept == 1)
            request->renew.row[i].kept = -1;
    return tell(turn);
}

static const char *server_of(const struct dli_replicas *replicas)
{
    return replicas->config->target.text;
}

/* What WAIT says when the server becomes a replica meanwhile, or has become one. */
static int is_demotion(const struct dli_reply *reply)
{
    return reply->type == DLI_REPLY_ERROR &&
           (strncmp(reply->text, "UNBLOCKED ", 10) == 0 || strstr(reply->text, "WAIT cannot be used with replica"));
}

static int confirmed_by(const struct dli_replicas *replicas, struct dli_replicas_turn *turn,
                        const struct dli_reply *reply)
{
    dlock_error *why = turn->errand->request.why;
    char quote[200];

    if (reply->type == DLI_REPLY_INTEGER && reply->integer >= needed(replicas))
        return tell(turn);
    if (reply->type == DLI_REPLY_INTEGER)
        return unconfirmed(turn, dli_fail(why, DLOCK_NOT_REPLICATED, "%lld of %d replicas of %s confirmed it in time",
                                          (long long)reply->integer, needed(replicas), server_of(replicas)));
    dli_conn_close(turn->conn);
    if (is_demotion(reply))
        return unconfirmed(turn,
                           dli_fail(why, DLOCK_NOT_REPLICATED, "%s is not the primary any more", server_of(replicas)));
    if (reply->type != DLI_REPLY_ERROR)
        return unconfirmed(turn, dli_fail(why, DLOCK_PROTOCOL_ERROR, "the reply to WAIT is not a number"));
    return unconfirmed(turn, dli_fail(why, dli_error_status(reply), "WAIT is refused: %s",
                                      dli_quote_error(quote, sizeof quote, reply)));
}

/* The answer may come still, so the connection goes; one that is being made is for whoever comes next. */
static int late(const struct dli_replicas *replicas, struct dli_replicas_turn *turn)
{
    dlock_error why = {.code = DLOCK_OK};
    int said = turn->said;

    if (said)
        dli_conn_close(turn->conn);
    if (turn->waits)
        return unconfirmed(turn,
                           dli_fail(turn->errand->request.why, DLOCK_NOT_REPLICATED,
                                    "no answer from %d replicas of %s in time", needed(replicas), server_of(replicas)));
    dli_fail(&why, DLOCK_UNREACHABLE, "The server %s did not answer in time.", replicas->config->target.text);
    return fail(turn, &why, said);
}

/* ---- phases: 0, it goes on later; 1, over; 2, go on at once */

/* An idle connection may have been closed meanwhile: once more on a new one. */
static int lost(struct dli_replicas_turn *turn)
{
    struct dli_call *call = &turn->errand->call;
    dlock_error why = turn->conn->why;

    if (turn->waits)
        return unconfirmed(turn, dli_fail(turn->errand->request.why, DLOCK_NOT_REPLICATED,
                                          "the connection was lost before replicas confirmed it"));
    if (turn->fresh || !call->repeatable)
        return fail(turn, &why, turn->said);
    call->repeated = call->repeated || turn->said;
    turn->said = 0;
    return 2;
}

static int connect_now(struct dli_replicas *replicas, struct dli_replicas_turn *turn, int64_t now)
{
    int64_t when = dli_gate_ask(replicas->gate, now);
    dlock_error why = {.code = DLOCK_OK};

    turn->alarm = when;
    if (when && dli_gate_refused(replicas->gate, &why, now))
        return fail(turn, &why, turn->said);
    if (when)
        return 0;
    turn->connecting = turn->fresh = 1;
    dli_conn_start(turn->conn, now);
    return 2;
}

void dli_replicas_settle(struct dli_replicas *replicas, struct dli_replicas_turn *turn, int64_t now)
{
    struct dli_conn *conn = turn->conn;

    if (dli_conn_under_way(conn))
        dli_conn_step(conn, now);
    turn->alarm = conn->deadline;
    turn->connecting = dli_conn_under_way(conn);
    if (turn->connecting)
        return;
    if (conn->state == DLI_CONN_READY)
        dli_gate_result(replicas->gate, 1, now);
    else
        dli_gate_failed(replicas->gate, &conn->why, now);
}

static int go_on_connecting(struct dli_replicas *replicas, struct dli_replicas_turn *turn, int64_t now)
{
    dli_replicas_settle(replicas, turn, now);
    if (turn->connecting)
        return 0;
    return turn->conn->state == DLI_CONN_READY ? 2 : lost(turn);
}

static int no_memory(struct dli_replicas_turn *turn)
{
    dlock_error why = {.code = DLOCK_OK};

    dli_fail(&why, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    return fail(turn, &why, turn->said);
}

static int say(struct dli_replicas_turn *turn, int full)
{
    struct dli_call *call = &turn->errand->call;

    call->fallback = full;
    turn->skip = call->asking;
    if ((call->asking && dli_encode_words(&turn->conn->out, 1, (const char *[]){"ASKING"})) ||
        (full && call->encode(call, 1)) || dli_buffer_add(&turn->conn->out, call->command.bytes, call->command.size))
        return no_memory(turn);
    turn->said = 1;
    turn->alarm = call->deadline;
    return 2;
}

static int say_wait(const struct dli_replicas *replicas, struct dli_replicas_turn *turn, int64_t now)
{
    int64_t left = (turn->errand->call.deadline - now) / MS /
                   2; /* it answers up to 100 ms late, but before nobody waits any more */
    char number[24], timeout[24];

    snprintf(number, sizeof number, "%d", needed(replicas));
    snprintf(timeout, sizeof timeout, "%lld", (long long)(left > 1 ? left : 1));
    if (dli_encode_words(&turn->conn->out, 3, (const char *[]){"WAIT", number, timeout}))
        return unconfirmed(turn, DLOCK_OUT_OF_MEMORY);
    turn->waits = 1;
    return 2;
}

/* Whether the script did something that has to be confirmed. */
static int matters(const struct dli_request *request)
{
    if (request->status != DLOCK_OK)
        return 0;
    if (request->verb == DLI_VERB_EXCHANGE)
        return request->exchange.answer.got == DLI_TRY_GRANTED;
    return request->verb == DLI_VERB_RENEW || (request->verb == DLI_VERB_TAKE && request->take.result == DLI_TAKE_ALL);
}

static int hear(struct dli_replicas *replicas, struct dli_replicas_turn *turn, const struct dli_reply *reply,
                int64_t now)
{
    struct dli_errand *errand = turn->errand;
    dlock_error why = {.code = DLOCK_OK};

    if (turn->skip) {
        turn->skip = 0;
        return 2;
    }
    if (turn->waits)
        return confirmed_by(replicas, turn, reply);
    if (turned(turn, DLOCK_OK, reply))
        return 1;
    if (dli_call_unknown_script(&errand->call, reply)) {
        __atomic_add_fetch(replicas->reloads, 1, __ATOMIC_RELAXED);
        return say(turn, 1);
    }
    if (dli_conn_demoted(turn->conn, reply)) {
        dli_fail(&why, DLOCK_UNREACHABLE, "%s: it is not the primary any more", turn->conn->target->text);
        dli_conn_close(turn->conn);
        return fail(turn, &why, 0);
    }
    if (dli_errand_hear(errand, DLOCK_OK, 1, reply))
        dli_conn_close(turn->conn);
    return matters(&errand->request) ? say_wait(replicas, turn, now) : tell(turn);
}

static int converse(struct dli_replicas *replicas, struct dli_replicas_turn *turn, int64_t now)
{
    const struct dli_reply *reply;
    struct dli_conn *conn = turn->conn;
    int got;

    if (!turn->said)
        return say(turn, 0);
    dli_conn_flush(conn);
    turn->alarm = turn->errand->call.deadline;
    got = conn->state == DLI_CONN_READY ? dli_conn_next(conn, &reply) : 0;
    if (got == 0 && conn->state == DLI_CONN_READY && dli_conn_receive(conn) == 1)
        got = dli_conn_next(conn, &reply);
    if (conn->state != DLI_CONN_READY)
        return lost(turn);
    return got == 1 ? hear(replicas, turn, reply, now) : 0;
}

void dli_replicas_drive(struct dli_replicas *replicas, struct dli_replicas_turn *turn, int64_t now)
{
    int more = 2;

    if (!turn->conn && !(turn->conn = dli_conn_new(replicas->config))) {
        no_memory(turn);
        return;
    }
    while (more == 2) {
        if (now >= turn->errand->call.deadline)
            more = late(replicas, turn);
        else if (turn->connecting)
            more = go_on_connecting(replicas, turn, now);
        else if (turn->conn->state != DLI_CONN_READY)
            more = connect_now(replicas, turn, now);
        else
            more = converse(replicas, turn, now);
    }
}

void dli_replicas_end(struct dli_replicas *replicas, struct dli_errand *errand, dlock_status status)
{
    struct dli_replicas_turn none = {.errand = errand};
    dlock_error why = {.code = DLOCK_OK};

    if (status == DLOCK_UNREACHABLE) {
        late(replicas, &none);
        return;
    }
    dli_fail(&why, status, "%s", dli_status_find(status)->text);
    fail(&none, &why, 0);
}

void dli_replicas_cut(struct dli_replicas_turn *turn)
{
    dlock_error why = {.code = DLOCK_OK};

    dli_fail(&why, DLOCK_CLOSED, "%s", dli_status_find(DLOCK_CLOSED)->text);
    if (turn->waits)
        unconfirmed(turn, DLOCK_CLOSED);
    else
        fail(turn, &why, 1);
}
