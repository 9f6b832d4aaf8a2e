/*
 * full.c: etcd has no space. It refuses to write, and what filled the space was done all the same. So keys that a refused
 * acquisition may have put are deleted, which needs no space. Belongs to lane 0's thread.
 */
#include "kinds.h"

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
