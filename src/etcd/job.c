/*
 * job.c: the life of a request in the store: begun on lane 0, perhaps after a wait for a session, answered by one call or
 * several, and given back to its asker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"
#include "round.h"

enum { UNAUTHENTICATED = 16 };

struct dli_request *dli_etcd_request_new(struct dli_store *store)
{
    struct dli_job *job = calloc(1, sizeof *job);

    (void)store;
    if (!job)
        return NULL;
    dli_list_init(&job->base.link);
    job->base.request = &job->request;
    return &job->request;
}

void dli_etcd_request_free(struct dli_request *request)
{
    struct dli_job *job;

    if (!request)
        return;
    job = dli_etcd_job_of(request);
    dli_grpc_call_free(&job->call);
    free(job);
}

/* ---- the end */

void dli_etcd_finish(struct dli_job *job)
{
    dli_etcd_bind(job, NULL);
    dli_lanes_finish(&job->base);
}

static void end_badly(struct dli_job *job, dlock_status status, const char *sentence)
{
    dli_etcd_bind(job, NULL);
    dli_lanes_fail(&job->base, status, sentence);
}

void dli_etcd_fail(struct dli_job *job, dlock_status status, const char *sentence)
{
    void (*failed)(struct dli_job *, dlock_status, const char *) = job->failed;

    job->failed = NULL;
    if (failed)
        failed(job, status, sentence);
    else
        end_badly(job, status, sentence);
}

/* ---- calls */

void dli_etcd_each_number(const struct dli_job *job, void (*visit)(const struct dli_place *place, int64_t number))
{
    const struct dli_request *request = &job->request;

    if (request->verb == DLI_VERB_EXCHANGE && request->exchange.wish.want)
        visit(request->place, request->exchange.wish.want);
    for (int i = 0; request->verb == DLI_VERB_ACQUIRE_ALL && i < request->multi.count; i++)
        visit(request->multi.row[i].place, dli_etcd_number(request->multi.row[i].owner));
}

static void not_put(const struct dli_place *place, int64_t number)
{
    dli_etcd_slot_answered(place, number);
    dli_etcd_slot_unused(place, number);
}

/* The call has failed: what the request's owner may believe. */
static void call_failed(struct dli_job *job)
{
    struct dli_request *request = &job->request;

    request->sent |= job->call.sent;
    request->refused = request->sent && job->tries == 0 && dli_grpc_refused(&job->call);
    if (dli_etcd_take_back(job))
        return;
    if (!request->sent || request->refused)
        dli_etcd_each_number(job, not_put);
    dli_etcd_fail(job, job->call.status, job->call.reason.message);
}

int dli_etcd_token_is_old(const struct dli_etcd *etcd, const struct dli_grpc_call *call)
{
    return etcd->user[0] && call->code > 0 &&
           (dli_grpc_says(call, "invalid auth token") || dli_grpc_says(call, "auth store is old"));
}

void dli_etcd_job_ended(struct dli_grpc_call *call)
{
    struct dli_job *job = DLI_OBJECT(call, struct dli_job, call);

    if (dli_etcd_token_is_old(dli_etcd_at(job->base.lane), call) && job->tries++ < DLI_ETCD_TRIES) {
        dli_etcd_logout(dli_etcd_at(job->base.lane));
        dli_etcd_start(job);
    } else if (call->status == DLOCK_NOT_FOUND && job->session && job->tries++ < DLI_ETCD_TRIES) {
        dli_etcd_session_lost(job->session);
        dli_etcd_start(job);
    } else if (call->status == DLOCK_NOT_FOUND) {
        dli_etcd_sessions_doubt(dli_etcd_at(job->base.lane));
        call->status = DLOCK_UNREACHABLE;
        call_failed(job);
    } else if (call->status != DLOCK_OK) {
        call_failed(job);
    } else {
        job->request.sent = 1;
        job->answered(job);
    }
}

const struct dli_grpc_method dli_etcd_txn_method = {
    .path = "/etcdserverpb.KV/Txn", .most = DLI_ETCD_TXN_MOST, .ended = dli_etcd_job_ended};

void dli_etcd_call(struct dli_job *job, const struct dli_grpc_method *method, void (*answered)(struct dli_job *job))
{
    job->answered = answered;
    job->call.method = method;
    job->call.deadline = job->request.deadline;
    dli_grpc_begin(&dli_etcd_at(job->base.lane)->grpc, &job->call);
}

void dli_etcd_call_txn(struct dli_job *job, const struct dli_etcd_txn *txn, void (*answered)(struct dli_job *job))
{
    dli_buffer_drop(&job->call.out, job->call.out.size);
    if (dli_etcd_encode_txn(&job->call.out, txn))
        dli_etcd_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    else
        dli_etcd_call(job, &dli_etcd_txn_method, answered);
}

struct dli_etcd_talk dli_etcd_talk_of(const struct dli_grpc_call *call)
{
    struct dli_etcd_talk talk;

    talk.asked.bytes = dli_grpc_asked(call, &talk.asked.size);
    talk.answer.bytes = dli_grpc_answer(call, &talk.answer.size);
    return talk;
}

const char *dli_etcd_senseless_text(struct dli_job *job)
{
    dli_fail(&job->call.reason, DLOCK_PROTOCOL_ERROR, "The member %s sent what is no answer to its call.",
             dli_etcd_at(job->base.lane)->grpc.conn->target->text);
    return job->call.reason.message;
}

void dli_etcd_senseless(struct dli_job *job)
{
    dli_etcd_fail(job, DLOCK_PROTOCOL_ERROR, dli_etcd_senseless_text(job));
}

int dli_etcd_read(struct dli_job *job, struct dli_etcd_reply *reply)
{
    struct dli_etcd_talk talk = dli_etcd_talk_of(&job->call);

    if (dli_etcd_decode_txn(&talk, reply) == 0)
        return 0;
    dli_etcd_senseless(job);
    return -1;
}

/* ---- the begin */

static void change(struct dli_job *job)
{
    if (job->request.kind->slots)
        dli_etcd_permit_change(job);
    else
        dli_etcd_latch_change(job);
}

void dli_etcd_start(struct dli_job *job)
{
    static void (*const verbs[DLI_VERBS + 1])(struct dli_job *) = {
        [DLI_VERB_EXCHANGE] = dli_etcd_exchange,
        [DLI_VERB_RENEW] = dli_etcd_renew,
        [DLI_VERB_ACQUIRE_ALL] = dli_etcd_acquire_all,
        [DLI_VERB_FORCE] = dli_etcd_force,
        [DLI_VERB_INSPECT] = dli_etcd_inspect,
        [DLI_VERB_PING] = dli_etcd_ping,
        [DLI_VERB_CHECK] = dli_etcd_check,
        [DLI_VERB_CHANGE] = change,
        [DLI_VERB_GATE] = dli_etcd_gate,
        [DLI_VERB_GATE_LEFT] = dli_etcd_gate_left,
        [DLI_VERBS] = dli_etcd_round_begin,
    };
    void (*begin)(struct dli_job *) = verbs[job->request.verb];

    if (begin)
        begin(job);
    else
        dli_etcd_fail(job, DLOCK_UNSUPPORTED, "etcd has no such operation");
}
