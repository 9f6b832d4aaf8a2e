/*
 * drop.c: release, or undo, also of what etcd refused for want of space; released locks that stay taken, and leases that are no
 * session's. Belongs to lane 0's thread.
 *
 * A released lock that rests keeps its key, and so its place before all others, with a lease that nobody keeps alive. Its
 * time is rounded up to what etcd grants.
 */
#include "kinds.h"

enum { MOST = 1000000000 };

void dli_etcd_mark_all(struct dli_etcd *etcd, struct dli_etcd_txn *txn, struct dli_etcd_marks *marks, dli_etcd_add *add)
{
    int count = 0;

    for (struct dli_link *link = etcd->sessions.next; link != &etcd->sessions; link = link->next) {
        const struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);

        if (session->id && count < DLI_ETCD_MARKS)
            add(txn, DLI_ETCD_PUT, dli_etcd_mark(session, marks->room[count++]))->lease = session->id;
    }
}

void dli_etcd_marked(struct dli_etcd *etcd, int64_t revision)
{
    for (struct dli_link *link = etcd->sessions.next; link != &etcd->sessions; link = link->next)
        DLI_OBJECT(link, struct dli_etcd_session, link)->mark = revision;
}

static void finish_drop(struct dli_job *job, int released)
{
    dli_etcd_slot_end(job->request.place, job->request.exchange.wish.drop);
    job->request.exchange.answer.released = released;
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

static void dropped_in_doubt(struct dli_job *job)
{
    struct dli_etcd_reply reply;
    int released;

    if (dli_etcd_read(job, &reply))
        return;
    released = reply.result[0].count > 0;
    dli_etcd_marked(dli_etcd_at(job->base.lane), reply.revision);
    finish_drop(job, released);
}

/* An earlier request for the number may still be under way. New marks make it fail whenever it arrives. */
static void drop_in_doubt(struct dli_job *job, struct dli_etcd_bytes key)
{
    struct dli_etcd_marks marks;
    struct dli_etcd_txn txn = {0};

    dli_etcd_slot_ask(job->request.place, job->request.exchange.wish.drop);
    dli_etcd_then(&txn, DLI_ETCD_DELETE, key);
    dli_etcd_mark_all(dli_etcd_at(job->base.lane), &txn, &marks, dli_etcd_then);
    dli_etcd_call_txn(job, &txn, dropped_in_doubt);
}

static void dropped(struct dli_job *job)
{
    struct dli_etcd_talk talk = dli_etcd_talk_of(&job->call);
    int64_t count;

    if (dli_etcd_decode_delete(&talk, &count)) {
        dli_etcd_senseless(job);
        return;
    }
    dli_etcd_slot_answered(job->request.place, job->request.exchange.wish.drop);
    finish_drop(job, count > 0);
}

void dli_etcd_drop(struct dli_job *job)
{
    static const struct dli_grpc_method method = {.path = "/etcdserverpb.KV/DeleteRange", .ended = dli_etcd_job_ended};
    char room[DLI_ETCD_KEY_MAX];
    struct dli_etcd_bytes key = dli_etcd_key(job->request.kind, job->request.place, job->request.exchange.drop, room);

    dli_etcd_forget(dli_etcd_at(job->base.lane), job->request.exchange.wish.drop);
    if (job->request.exchange.wish.doubt) {
        drop_in_doubt(job, key);
        return;
    }
    dli_etcd_slot_ask(job->request.place, job->request.exchange.wish.drop);
    dli_buffer_drop(&job->call.out, job->call.out.size);
    if (dli_etcd_encode_delete(&job->call.out, key))
        dli_etcd_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    else
        dli_etcd_call(job, &method, dropped);
}

/* ---- a rest */

void dli_etcd_lease_for(struct dli_job *job, int64_t time, void (*answered)(struct dli_job *job))
{
    static const struct dli_grpc_method method = {.path = "/etcdserverpb.Lease/LeaseGrant",
                                                  .ended = dli_etcd_job_ended};
    int64_t seconds = time / DLI_ETCD_SECOND + (time % DLI_ETCD_SECOND > 0);

    dli_buffer_drop(&job->call.out, job->call.out.size);
    if (dli_etcd_encode_lease_grant(&job->call.out, seconds < MOST ? seconds : MOST))
        dli_etcd_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    else
        dli_etcd_call(job, &method, answered);
}

int64_t dli_etcd_leased(struct dli_job *job)
{
    struct dli_etcd_talk talk = dli_etcd_talk_of(&job->call);
    struct dli_etcd_lease lease;

    if (dli_etcd_decode_grant(&talk, &lease) == 0)
        return lease.id;
    dli_etcd_fail(job, DLOCK_PROTOCOL_ERROR, "The server granted no lease.");
    return 0;
}

static void rested(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    job->failed = NULL;
    if (dli_etcd_read(job, &reply))
        return;
    job->request.exchange.answer.released = reply.succeeded;
    if (job->request.exchange.wish.doubt)
        dli_etcd_marked(dli_etcd_at(job->base.lane), reply.revision);
    dli_etcd_slot_end(job->request.place, job->request.exchange.wish.drop);
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

static void leased(struct dli_job *job)
{
    const struct dli_exchange *exchange = &job->request.exchange;
    int64_t lease = dli_etcd_leased(job);
    char key[DLI_ETCD_KEY_MAX];
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_marks marks;
    struct dli_etcd_step *step;

    if (!lease)
        return;
    /* Its key stays there: this request counts as one without an answer, so that the owner id is not used again. */
    dli_etcd_slot_ask(job->request.place, exchange->wish.drop);
    dli_etcd_test(&txn, DLI_ETCD_CREATED, dli_etcd_key(job->request.kind, job->request.place, exchange->drop, key), 0);
    txn.test[0].differs = 1;
    step = dli_etcd_then(&txn, DLI_ETCD_PUT, txn.test[0].key);
    step->lease = lease;
    step->keep_value = 1;
    if (exchange->wish.doubt) {
        dli_etcd_mark_all(dli_etcd_at(job->base.lane), &txn, &marks, dli_etcd_then);
        dli_etcd_mark_all(dli_etcd_at(job->base.lane), &txn, &marks, dli_etcd_otherwise);
    }
    dli_etcd_call_txn(job, &txn, rested);
}

/* Without space for a lease the lock is free at once. Until there is space nobody else can take it. */
static void not_rested(struct dli_job *job, dlock_status status, const char *sentence)
{
    if (status != DLOCK_SERVER_OUT_OF_MEMORY || job->request.exchange.wish.doubt) {
        dli_etcd_fail(job, status, sentence);
        return;
    }
    job->request.refused = 0;
    dli_etcd_drop(job);
}

void dli_etcd_rest(struct dli_job *job)
{
    job->failed = not_rested;
    dli_etcd_forget(dli_etcd_at(job->base.lane), job->request.exchange.wish.drop);
    dli_etcd_lease_for(job, job->request.exchange.wish.rest, leased);
}

/* ---- no space: etcd refuses to write, and what filled the space was done all the same. Deleting needs no space. */

/* The acquisition has failed as it did before. */
static void finish(struct dli_job *job, int refused)
{
    job->failed = NULL;
    job->request.refused = refused;
    job->request.status = DLOCK_SERVER_OUT_OF_MEMORY;
    dli_etcd_finish(job);
}

static void deleted(struct dli_job *job)
{
    dli_etcd_each_number(job, dli_etcd_slot_answered);
    if (job->tries == 0)
        dli_etcd_each_number(job, dli_etcd_slot_end);
    finish(job, job->tries == 0);
}

static void not_deleted(struct dli_job *job, dlock_status status, const char *sentence)
{
    (void)status, (void)sentence;
    finish(job, 0);
}

/* The keys that the request may have put. */
static void delete_all(struct dli_job *job, struct dli_etcd_txn *txn, char room[DLI_MULTI_MAX][DLI_ETCD_KEY_MAX])
{
    const struct dli_request *request = &job->request;

    if (request->verb == DLI_VERB_EXCHANGE)
        dli_etcd_then(txn, DLI_ETCD_DELETE,
                      dli_etcd_key(request->kind, request->place, request->exchange.want, room[0]));
    for (int i = 0; request->verb == DLI_VERB_ACQUIRE_ALL && i < request->multi.count; i++) {
        const struct dli_multi_row *row = &request->multi.row[i];

        dli_etcd_then(txn, DLI_ETCD_DELETE, dli_etcd_key(row->place->kind, row->place, row->owner, room[i]));
    }
}

int dli_etcd_take_back(struct dli_job *job)
{
    struct dli_request *request = &job->request;
    int puts = request->verb == DLI_VERB_ACQUIRE_ALL ||
               (request->verb == DLI_VERB_EXCHANGE && request->exchange.wish.want && !request->kind->momentary);
    char room[DLI_MULTI_MAX][DLI_ETCD_KEY_MAX];
    struct dli_etcd_txn txn = {0};

    if (!puts || job->failed || job->call.code <= 0 || job->call.status != DLOCK_SERVER_OUT_OF_MEMORY)
        return 0;
    if (request->reason)
        *request->reason = job->call.reason;
    job->failed = not_deleted;
    dli_etcd_each_number(job, dli_etcd_slot_ask);
    delete_all(job, &txn, room);
    dli_etcd_call_txn(job, &txn, deleted);
    return 1;
}
