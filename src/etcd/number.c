/*
 * number.c: a number in the value of a key, which clients change: the count of a latch, the total of a semaphore. Belongs to
 * lane 0's thread.
 *
 * A change compares the revision that it has read. store/change.h has what stands in the value, and why.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kinds.h"

int64_t dli_etcd_value(const struct dli_etcd_result *result, char out[DLI_CHANGE_VALUE])
{
    const struct dli_etcd_found *key = &result->found[0];

    out[0] = '\0';
    if (result->keys == 0)
        return 0;
    snprintf(out, DLI_CHANGE_VALUE, "%.*s",
             (int)(key->value.size < DLI_CHANGE_VALUE ? key->value.size : DLI_CHANGE_VALUE - 1), key->value.bytes);
    return key->modified;
}

void dli_etcd_number_begin(struct dli_job *job)
{
    job->at = 0;
    dli_change_begin(&job->request.change, job->call.sent);
}

int dli_etcd_number_unclear(const struct dli_job *job, int64_t modified, const char *value)
{
    const struct dli_change *change = &job->request.change;

    return dli_change_unclear(change, value, modified && modified == change->version);
}

/* etcd refuses the write that fills its space, and has done it: the key tells. The reason stays. */
static void refused(struct dli_job *job, dlock_status status, const char *sentence)
{
    struct dli_request *request = &job->request;

    if (status != DLOCK_SERVER_OUT_OF_MEMORY) {
        dli_etcd_fail(job, status, sentence);
        return;
    }
    if (request->reason)
        *request->reason = job->call.reason;
    request->change.doubt = 1;
    job->number->refused(job);
}

static void changed(struct dli_job *job)
{
    struct dli_etcd_reply reply;
    int done;

    job->failed = NULL;
    if (dli_etcd_read(job, &reply))
        return;
    done = reply.succeeded;
    job->request.change.writes = 0;
    if (done)
        dli_etcd_number_finish(job, DLOCK_OK, job->created);
    else if (job->at++ < DLI_CHANGE_TRIES)
        job->number->again(job);
    else
        dli_etcd_fail(job, DLOCK_SERVER_BUSY, "the number changes too often");
}

void dli_etcd_number_change(struct dli_job *job, const struct dli_etcd_number *how, int64_t number, int64_t modified,
                            const char *before)
{
    char room[DLI_ETCD_KEY_MAX], front[DLI_CHANGE_FRONT], value[DLI_CHANGE_VALUE];
    struct dli_etcd_bytes key = how->key(job, room);
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_step *step;

    job->number = how;
    snprintf(front, sizeof front, "%" PRId64, number);
    dli_change_write(&job->request.change, modified, front, before, value);
    dli_etcd_test(&txn, DLI_ETCD_MODIFIED, key, modified);
    step = dli_etcd_then(&txn, how->stays || number > 0 ? DLI_ETCD_PUT : DLI_ETCD_DELETE, key);
    step->value = dli_etcd_text(value, strlen(value));
    job->failed = refused;
    dli_etcd_call_txn(job, &txn, changed);
}

void dli_etcd_number_finish(struct dli_job *job, dlock_status status, int64_t value)
{
    job->request.change.value = value;
    job->request.status = status;
    dli_etcd_finish(job);
}

void dli_etcd_number_full(struct dli_job *job, int64_t modified, const char *value)
{
    int unclear = dli_etcd_number_unclear(job, modified, value);

    dli_etcd_number_finish(job, unclear ? DLOCK_UNKNOWN_OUTCOME : DLOCK_SERVER_OUT_OF_MEMORY, 0);
}
