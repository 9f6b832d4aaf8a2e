/*
 * number.c: a number in the value of a key, which clients change: the count of a latch, the total of a semaphore. Belongs to
 * lane 0's thread.
 *
 * Behind the number stand the ids of the last changes, so that a change that is sent twice acts once. A change compares the
 * revision that it has read.
 *
 * Old ids give way to new ones. So a change whose answer was lost is made again only while the revision is the one that it
 * named, or the change before it is still remembered: then its own id would be, too. Otherwise nobody can tell whether it
 * has acted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "kinds.h"

enum { CHANGES = 100 }; /* of others, that a change gives way to */

/* ---- values */

int64_t dli_etcd_value(const struct dli_etcd_result *result, char out[DLI_ETCD_VALUE])
{
    const struct dli_etcd_found *key = &result->found[0];

    out[0] = '\0';
    if (result->keys == 0)
        return 0;
    snprintf(out, DLI_ETCD_VALUE, "%.*s",
             (int)(key->value.size < DLI_ETCD_VALUE ? key->value.size : DLI_ETCD_VALUE - 1), key->value.bytes);
    return key->modified;
}

static int knows(const char *value, const char *id)
{
    size_t size = strlen(id);

    for (const char *at = strstr(value, id); at; at = strstr(at + size, id))
        if (at[size] == ' ' || at[size] == '\0')
            return 1;
    return 0;
}

/* The number behind the change with this id, and as many ids of the value before as there is room for. */
static void write(char out[DLI_ETCD_VALUE], int64_t number, const char *id, const char *before)
{
    int size = snprintf(out, DLI_ETCD_VALUE, "%" PRId64 " %s", number, id);
    const char *ids = strchr(before, ' ');

    snprintf(out + size, (size_t)(DLI_ETCD_VALUE - size), "%s", ids ? ids : "");
    for (int spaces = 0; *out; out++)
        if (*out == ' ' && ++spaces > DLI_ETCD_IDS)
            *out-- = '\0';
}

/* The id of the last change in a value; "" if there is none. */
static void first_id(const char *value, char out[DLI_OWNER_MAX])
{
    const char *id = strchr(value, ' ');

    snprintf(out, DLI_OWNER_MAX, "%.*s", id ? (int)strcspn(id + 1, " ") : 0, id ? id + 1 : "");
}

/* ---- changes */

void dli_etcd_number_begin(struct dli_job *job)
{
    struct dli_request *request = &job->request;

    job->at = 0;
    request->change.doubt |= request->change.writes && job->call.sent;
    request->change.writes = 0;
}

int dli_etcd_number_acted(const struct dli_job *job, const char *value)
{
    return knows(value, job->request.change.id);
}

int dli_etcd_number_unclear(const struct dli_job *job, int64_t modified, const char *value)
{
    const struct dli_request *request = &job->request;
    const char *seen = request->change.seen;

    return request->change.doubt && !(modified && modified == request->change.version) &&
           !(*seen && knows(value, seen));
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
    if (dli_etcd_read(job, 0, &reply))
        return;
    done = reply.succeeded;
    job->request.change.writes = 0;
    dli_etcd_reply_free(&reply);
    if (done)
        dli_etcd_number_finish(job, DLOCK_OK, job->created);
    else if (job->at++ < CHANGES)
        job->number->again(job);
    else
        dli_etcd_fail(job, DLOCK_SERVER_BUSY, "the number changes too often");
}

void dli_etcd_number_change(struct dli_job *job, const struct dli_etcd_number *how, int64_t number, int64_t modified,
                            const char *before)
{
    char room[DLI_ETCD_KEY_MAX], value[DLI_ETCD_VALUE];
    struct dli_etcd_bytes key = how->key(job, room);
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_step *step;

    job->number = how;
    write(value, number, job->request.change.id, before);
    dli_etcd_test(&txn, DLI_ETCD_MODIFIED, key, modified);
    step = dli_etcd_then(&txn, how->stays || number > 0 ? DLI_ETCD_PUT : DLI_ETCD_DELETE, key);
    step->value = dli_etcd_text(value, strlen(value));
    job->request.change.writes = 1;
    job->request.change.version = modified;
    first_id(before, job->request.change.seen);
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
