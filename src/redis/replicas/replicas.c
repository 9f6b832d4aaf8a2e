/*
 * replicas.c: one job on its connection, on the lane's thread. See replicas.h; lane.c does what all jobs share.
 */
#include "replicas.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/codec/codec.h"
#include "redis/link/link.h"
#include "sys/sys.h"

enum { MS = 1000, SETTLE = 5000000 };

/* ---- how many */

/* Whether those who list replicas were asked so late that they know, or have forgotten, what the primary had. */
static int has_passed(const struct dli_replicas *replicas)
{
    return __atomic_load_n(&replicas->listed->at, __ATOMIC_RELAXED) >= replicas->linked_at + SETTLE;
}

/* How many replicas must confirm: at least one, even if nobody knows of one. */
static int needed(const struct dli_replicas *replicas)
{
    int known;

    if (replicas->needed > 0)
        return replicas->needed;
    known = __atomic_load_n(&replicas->listed->count, __ATOMIC_RELAXED);
    if (replicas->linked > known && !has_passed(replicas))
        known = replicas->linked;
    return known > 0 ? known : 1;
}

/* The answer to INFO. Without the right to it, a replica counts when it is listed. */
static void take_linked(struct dli_replicas *replicas, const struct dli_reply *reply, int64_t now)
{
    int count = reply->type == DLI_REPLY_TEXT ? dli_linked_replicas(reply->text, reply->size) : 0;

    if (count < replicas->linked && !has_passed(replicas))
        return;
    replicas->linked = count;
    replicas->linked_at = now;
}

/* ---- the end of a job: these return 1, it is over */

static int leave(struct dli_replicas_carrier *carrier, struct dli_job *job, int sleeps)
{
    carrier->job = NULL;
    if (sleeps) {
        __atomic_store_n(&job->call.done, 1, __ATOMIC_RELEASE); /* the job is its caller's from here on */
        dli_futex_wake(&job->call.done, 1);
    }
    return 1;
}

static int complete(struct dli_replicas_carrier *carrier)
{
    struct dli_job *job = carrier->job;
    int sleeps = job->call.sleeps != 0;

    dli_job_done(job);
    return leave(carrier, job, sleeps);
}

/* 1: a redirect sends the job elsewhere. 0: it is none. */
static int turned(struct dli_replicas_carrier *carrier, dlock_status status, const struct dli_reply *reply)
{
    struct dli_job *job = carrier->job;
    int sleeps = job->call.sleeps != 0;

    return job->intercept && job->intercept(job, status, reply) ? leave(carrier, job, sleeps) : 0;
}

static int fail(struct dli_replicas_carrier *carrier, const dlock_error *reason, int sent)
{
    struct dli_call *call = &carrier->job->call;

    if (call->reason)
        *call->reason = *reason;
    if (turned(carrier, reason->code, NULL))
        return 1;
    dli_job_answer(carrier->job, reason->code, sent || call->repeated, NULL);
    return complete(carrier);
}

/* The script ran, but its effect is not confirmed. */
static int unconfirmed(struct dli_replicas_carrier *carrier, dlock_status status)
{
    struct dli_request *request = &carrier->job->request;

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
    return complete(carrier);
}

static const char *server_of(const struct dli_replicas *replicas)
{
    return replicas->config->target.text;
}

/* The error of WAIT when the server has become a replica, before it or meanwhile. */
static int is_demotion(const struct dli_reply *reply)
{
    return reply->type == DLI_REPLY_ERROR &&
           (strncmp(reply->text, "UNBLOCKED ", 10) == 0 || strstr(reply->text, "WAIT cannot be used with replica"));
}

/* The connection failed before WAIT could be sent, or what came first would be taken for its answer. */
static int unasked(struct dli_replicas_carrier *carrier)
{
    return unconfirmed(carrier, dli_fail(carrier->job->request.reason, DLOCK_NOT_REPLICATED, "WAIT was not sent: %s",
                                         carrier->conn->reason.message));
}

static int say_wait(const struct dli_replicas *replicas, struct dli_replicas_carrier *carrier, int64_t now)
{
    int64_t left = (carrier->job->call.deadline - now) / MS /
                   2; /* WAIT may answer 100 ms late, yet must answer before the deadline */
    char number[24], timeout[24];

    if (!dli_conn_quiet(carrier->conn))
        return unasked(carrier);
    carrier->told = needed(replicas);
    snprintf(number, sizeof number, "%d", carrier->told);
    snprintf(timeout, sizeof timeout, "%lld", (long long)(left > 1 ? left : 1));
    carrier->asks = replicas->needed < 0;
    if ((carrier->asks && dli_encode_args(&carrier->conn->out, 2, (const char *[]){"INFO", "replication"})) ||
        dli_encode_args(&carrier->conn->out, 3, (const char *[]){"WAIT", number, timeout}))
        return unconfirmed(carrier, DLOCK_OUT_OF_MEMORY);
    carrier->waits = 1;
    return 2;
}

static int confirmed_by(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier,
                        const struct dli_reply *reply, int64_t now)
{
    dlock_error *reason = carrier->job->request.reason;
    int count = dli_decode_replicas(reply);
    char escaped[200];

    if (count >= needed(replicas))
        return complete(carrier);
    if (count >= carrier->told)
        return say_wait(replicas, carrier, now); /* there are more than it was told */
    replicas->missed = 1;
    if (count >= 0)
        return unconfirmed(carrier,
                           dli_fail(reason, DLOCK_NOT_REPLICATED, "%d of %d replicas of %s confirmed it in time", count,
                                    needed(replicas), server_of(replicas)));
    dli_conn_close(carrier->conn);
    if (is_demotion(reply))
        return unconfirmed(
            carrier, dli_fail(reason, DLOCK_NOT_REPLICATED, "%s is not the primary any more", server_of(replicas)));
    if (reply->type != DLI_REPLY_ERROR)
        return unconfirmed(carrier, dli_fail(reason, DLOCK_PROTOCOL_ERROR, "the reply to WAIT is not a number"));
    return unconfirmed(carrier, dli_fail(reason, dli_error_status(reply), "WAIT is refused: %s",
                                         dli_escape_error(escaped, sizeof escaped, reply)));
}

/* Its time is over. The reply may still come, so a used connection is closed; a new one is kept for the next job. */
static int late(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier)
{
    dlock_error reason = {.code = DLOCK_OK};
    int said = carrier->said;

    if (said)
        dli_conn_close(carrier->conn);
    replicas->missed |= carrier->waits;
    if (carrier->waits)
        return unconfirmed(carrier,
                           dli_fail(carrier->job->request.reason, DLOCK_NOT_REPLICATED,
                                    "no answer from %d replicas of %s in time", needed(replicas), server_of(replicas)));
    dli_fail(&reason, DLOCK_UNREACHABLE, "The server %s did not answer in time.", replicas->config->target.text);
    return fail(carrier, &reason, said);
}

/* ---- phases: 0, it goes on later; 1, it is over; 2, it goes on at once */

/* An idle connection may have been closed meanwhile: try once more on a new one. */
static int lost(struct dli_replicas_carrier *carrier)
{
    struct dli_call *call = &carrier->job->call;
    dlock_error reason = carrier->conn->reason;

    if (carrier->waits)
        return unconfirmed(carrier, dli_fail(carrier->job->request.reason, DLOCK_NOT_REPLICATED,
                                             "the connection was lost before replicas confirmed it"));
    if (carrier->fresh || !call->repeatable)
        return fail(carrier, &reason, carrier->said);
    call->repeated = call->repeated || carrier->said;
    carrier->said = 0;
    return 2;
}

static int connect_now(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier, int64_t now)
{
    int64_t when = dli_budget_take(replicas->budget, now);
    dlock_error reason = {.code = DLOCK_OK};

    carrier->alarm = when;
    if (when && dli_budget_refused(replicas->budget, &reason, now))
        return fail(carrier, &reason, carrier->said);
    if (when)
        return 0;
    carrier->connecting = carrier->fresh = 1;
    dli_conn_start(carrier->conn, now);
    return 2;
}

void dli_replicas_settle(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier, int64_t now)
{
    struct dli_conn *conn = carrier->conn;

    if (dli_conn_under_way(conn))
        dli_conn_step(conn, now);
    carrier->alarm = conn->deadline;
    carrier->connecting = dli_conn_under_way(conn);
    if (carrier->connecting)
        return;
    if (conn->state == DLI_CONN_READY)
        dli_budget_result(replicas->budget, 1, now);
    else
        dli_budget_failed(replicas->budget, &conn->reason, now);
}

static int go_on_connecting(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier, int64_t now)
{
    dli_replicas_settle(replicas, carrier, now);
    if (carrier->connecting)
        return 0;
    return carrier->conn->state == DLI_CONN_READY ? 2 : lost(carrier);
}

static int no_memory(struct dli_replicas_carrier *carrier)
{
    dlock_error reason = {.code = DLOCK_OK};

    dli_fail(&reason, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    return fail(carrier, &reason, carrier->said);
}

static int say(struct dli_replicas_carrier *carrier, int full)
{
    struct dli_call *call = &carrier->job->call;

    if (!dli_conn_quiet(carrier->conn))
        return lost(carrier);
    call->fallback = full;
    carrier->skip = call->asking;
    if ((call->asking && dli_encode_args(&carrier->conn->out, 1, (const char *[]){"ASKING"})) ||
        (full && call->encode(call, 1)) || dli_buffer_add(&carrier->conn->out, call->command.bytes, call->command.size))
        return no_memory(carrier);
    carrier->said = 1;
    carrier->alarm = call->deadline;
    return 2;
}

/* Whether the script did something that must be confirmed. */
static int matters(const struct dli_request *request)
{
    if (request->status != DLOCK_OK)
        return 0;
    if (request->verb == DLI_VERB_EXCHANGE)
        return request->exchange.answer.got == DLI_TRY_GRANTED;
    return request->verb == DLI_VERB_RENEW ||
           (request->verb == DLI_VERB_ACQUIRE_ALL && request->multi.result == DLI_MULTI_ALL);
}

static int handle_reply(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier,
                        const struct dli_reply *reply, int64_t now)
{
    struct dli_job *job = carrier->job;
    dlock_error reason = {.code = DLOCK_OK};

    if (carrier->skip) {
        carrier->skip = 0;
        return 2;
    }
    if (carrier->asks) {
        carrier->asks = 0;
        take_linked(replicas, reply, now);
        return 2;
    }
    if (carrier->waits)
        return confirmed_by(replicas, carrier, reply, now);
    if (turned(carrier, DLOCK_OK, reply))
        return 1;
    if (dli_call_unknown_script(&job->call, reply)) {
        __atomic_add_fetch(replicas->reloads, 1, __ATOMIC_RELAXED);
        return say(carrier, 1);
    }
    if (dli_conn_demoted(carrier->conn, reply) && !carrier->fresh) { /* a new one may lead to the primary */
        dli_conn_close(carrier->conn);
        carrier->said = 0;
        return 2;
    }
    if (dli_conn_demoted(carrier->conn, reply) && replicas->config->sentinels) {
        dli_fail(&reason, DLOCK_UNREACHABLE, "%s: it is not the primary any more", carrier->conn->target->text);
        dli_conn_close(carrier->conn);
        return fail(carrier, &reason, 0);
    }
    if (dli_job_answer(job, DLOCK_OK, 1, reply))
        dli_conn_close(carrier->conn);
    return matters(&job->request) ? say_wait(replicas, carrier, now) : complete(carrier);
}

static int exchange_commands(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier, int64_t now)
{
    const struct dli_reply *reply;
    struct dli_conn *conn = carrier->conn;
    int got;

    if (!carrier->said)
        return say(carrier, 0);
    dli_conn_flush(conn);
    carrier->alarm = carrier->job->call.deadline;
    got = conn->state == DLI_CONN_READY ? dli_conn_next(conn, &reply) : 0;
    if (got == 0 && conn->state == DLI_CONN_READY && dli_conn_receive(conn) == 1)
        got = dli_conn_next(conn, &reply);
    if (conn->state != DLI_CONN_READY)
        return lost(carrier);
    return got == 1 ? handle_reply(replicas, carrier, reply, now) : 0;
}

void dli_replicas_drive(struct dli_replicas *replicas, struct dli_replicas_carrier *carrier, int64_t now)
{
    int more = 2;

    if (!carrier->conn && !(carrier->conn = dli_conn_new(replicas->config))) {
        no_memory(carrier);
        return;
    }
    while (more == 2) {
        if (now >= carrier->job->call.deadline)
            more = late(replicas, carrier);
        else if (carrier->connecting)
            more = go_on_connecting(replicas, carrier, now);
        else if (carrier->conn->state != DLI_CONN_READY)
            more = connect_now(replicas, carrier, now);
        else
            more = exchange_commands(replicas, carrier, now);
    }
}

void dli_replicas_end(struct dli_replicas *replicas, struct dli_job *job, dlock_status status)
{
    struct dli_replicas_carrier none = {.job = job};
    dlock_error reason = {.code = DLOCK_OK};

    if (status == DLOCK_UNREACHABLE) {
        late(replicas, &none);
        return;
    }
    dli_fail(&reason, status, "%s", dli_status_find(status)->text);
    fail(&none, &reason, 0);
}

void dli_replicas_cut(struct dli_replicas_carrier *carrier)
{
    dlock_error reason = {.code = DLOCK_OK};

    dli_fail(&reason, DLOCK_CLOSED, "%s", dli_status_find(DLOCK_CLOSED)->text);
    if (carrier->waits)
        unconfirmed(carrier, DLOCK_CLOSED);
    else
        fail(carrier, &reason, 1);
}
