/*
 * rest.c: leases that are no session's, and released locks that stay taken. Belongs to lane 0's thread.
 *
 * A released lock that rests keeps its key, and so its place before all others, with a lease that nobody keeps alive. Its
 * time is rounded up to what etcd grants.
 */
#include "kinds.h"

enum { MOST = 1000000000 };

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

static void rested(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, 0, &reply))
        return;
    job->request.exchange.answer.released = reply.succeeded;
    if (job->request.exchange.wish.doubt)
        dli_etcd_marked(dli_etcd_at(job->base.lane), reply.revision);
    dli_etcd_reply_free(&reply);
    dli_etcd_slot_end(job->request.place, job->request.exchange.wish.drop, 0);
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

static void leased(struct dli_job *job)
{
    const struct dli_exchange *exchange = &job->request.exchange;
    char key[DLI_ETCD_KEY_MAX];
    struct dli_etcd_lease lease;
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_marks marks;
    struct dli_etcd_step *step;
    size_t size;
    const char *bytes = dli_grpc_answer(&job->call, &size);

    if (!bytes || dli_etcd_decode_lease(bytes, size, &lease) || !lease.id) {
        dli_etcd_fail(job, DLOCK_PROTOCOL_ERROR, "The server granted no lease.");
        return;
    }
    dli_etcd_test_own(&txn, dli_etcd_key(job->request.kind, job->request.place, exchange->drop, key),
                      dli_etcd_slot_sure(job->request.place, exchange->wish.drop));
    step = dli_etcd_then(&txn, DLI_ETCD_PUT, txn.test[0].key);
    step->lease = lease.id;
    step->keep_value = 1;
    if (exchange->wish.doubt) {
        dli_etcd_mark_all(dli_etcd_at(job->base.lane), &txn, &marks, dli_etcd_then);
        dli_etcd_mark_all(dli_etcd_at(job->base.lane), &txn, &marks, dli_etcd_otherwise);
    }
    dli_etcd_call_txn(job, &txn, rested);
}

void dli_etcd_rest(struct dli_job *job)
{
    dli_etcd_forget(dli_etcd_at(job->base.lane), job->request.exchange.wish.drop);
    dli_etcd_lease_for(job, job->request.exchange.wish.rest, leased);
}
