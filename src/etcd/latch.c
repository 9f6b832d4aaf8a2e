/*
 * latch.c: count-down latches. Belongs to lane 0's thread.
 *
 * A latch is the key <name>/count, without a lease: its value is what is left, and the ids of the last changes, so that a
 * change that is sent twice acts once. An open latch has no key. A change compares the revision that it has read. Who waits
 * watches the key.
 *
 * The ids go when the latch opens, and old ones give way to new ones. So a change whose answer was lost is made again only
 * where the change before it is still known: then its own id would be, too. Otherwise nobody can tell whether it has acted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

static const char *const count_key = "count";

static struct dli_etcd_bytes key_of(const struct dli_job *job, char room[DLI_ETCD_KEY_MAX])
{
    return dli_etcd_key(job->request.kind, job->request.place, count_key, room);
}

/* One number for all who wait for this latch: negative, so that it is no grant number. */
static int64_t number_of(const struct dli_place *place)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < place->size; i++)
        hash = (hash ^ (unsigned char)place->name[i]) * UINT64_C(1099511628211);
    return -(int64_t)(hash >> 2) - 1;
}

static void read_key(struct dli_job *job, void (*answered)(struct dli_job *job))
{
    struct dli_etcd_txn txn = {0};
    char key[DLI_ETCD_KEY_MAX], gate[DLI_ETCD_KEY_MAX];

    dli_etcd_then(&txn, DLI_ETCD_RANGE, key_of(job, key));
    dli_etcd_then(&txn, DLI_ETCD_RANGE, dli_etcd_gate_key(job->request.place, gate));
    dli_etcd_call_txn(job, &txn, answered);
}

/* ---- a wait */

static void waited(struct dli_job *job)
{
    struct dli_answer *answer = &job->request.exchange.answer;
    int64_t number = number_of(job->request.place);
    struct dli_etcd_reply reply;
    int open, shut;

    if (dli_etcd_read(job, 2, &reply))
        return;
    shut = reply.result[1].keys > 0;
    open = !shut && reply.result[0].keys == 0;
    answer->got = shut ? DLI_TRY_GATE : open ? DLI_TRY_GRANTED : DLI_TRY_HELD;
    answer->token = answer->tokens = open;
    answer->left = -1;
    if (open)
        dli_etcd_forget(dli_etcd_at(job->base.lane), number);
    else if (!shut && job->request.exchange.wish.patient)
        dli_etcd_watch_for(job, number, reply.result[0].found[0].key, reply.revision);
    dli_etcd_reply_free(&reply);
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

/* Who waited gives up. */
static void stop_waiting(struct dli_job *job)
{
    dli_etcd_forget(dli_etcd_at(job->base.lane), number_of(job->request.place));
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

void dli_etcd_latch_wait(struct dli_job *job)
{
    if (job->request.exchange.wish.want)
        read_key(job, waited);
    else
        stop_waiting(job);
}

/* ---- a change */

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

int dli_etcd_value_knows(const char *value, const char *id)
{
    size_t size = strlen(id);

    for (const char *at = strstr(value, id); at; at = strstr(at + size, id))
        if (at[size] == ' ' || at[size] == '\0')
            return 1;
    return 0;
}

void dli_etcd_value_write(char out[DLI_ETCD_VALUE], int64_t number, const char *id, const char *before)
{
    int size = snprintf(out, DLI_ETCD_VALUE, "%" PRId64 " %s", number, id);
    const char *ids = strchr(before, ' ');

    snprintf(out + size, (size_t)(DLI_ETCD_VALUE - size), "%s", ids ? ids : "");
    for (int spaces = 0; *out; out++)
        if (*out == ' ' && ++spaces > DLI_ETCD_IDS)
            *out-- = '\0';
}

static void finish(struct dli_job *job, dlock_status status, int64_t value)
{
    job->request.change.value = value;
    job->request.status = status;
    dli_etcd_finish(job);
}

static void found(struct dli_job *job);
static void settled(struct dli_job *job);

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
        finish(job, DLOCK_OK, job->created);
    else if (job->at++ < 100) /* somebody else has changed it meanwhile */
        read_key(job, found);
    else
        dli_etcd_fail(job, DLOCK_SERVER_BUSY, "the latch changes too often");
}

/* The id of the last change in a value; "" if there is none. */
static void first_id(const char *value, char out[DLI_OWNER_MAX])
{
    const char *id = strchr(value, ' ');

    snprintf(out, DLI_OWNER_MAX, "%.*s", id ? (int)strcspn(id + 1, " ") : 0, id ? id + 1 : "");
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
    read_key(job, settled);
}

/* Write left, if the key is as it was; created keeps the result. */
static void change(struct dli_job *job, int64_t modified, int64_t left, const char *before)
{
    char key[DLI_ETCD_KEY_MAX], value[DLI_ETCD_VALUE];
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_step *step;

    dli_etcd_value_write(value, left, job->request.change.id, before);
    dli_etcd_test(&txn, DLI_ETCD_MODIFIED, key_of(job, key), modified);
    step = dli_etcd_then(&txn, left > 0 ? DLI_ETCD_PUT : DLI_ETCD_DELETE, txn.test[0].key);
    step->value = dli_etcd_text(value, strlen(value));
    job->created = left;
    job->request.change.writes = 1;
    first_id(before, job->request.change.seen);
    job->failed = refused;
    dli_etcd_call_txn(job, &txn, changed);
}

/* Whether an earlier try may have acted, and the value does not tell. */
static int is_unclear(const struct dli_job *job, const char *value)
{
    const char *seen = job->request.change.seen;

    return job->request.change.doubt && !(*seen && dli_etcd_value_knows(value, seen));
}

/* There is nothing to change any more: 1. left: what is left. */
static int is_done(const struct dli_job *job, int64_t modified, const char *value, int64_t *left)
{
    const char *what = job->request.change.what;

    *left = strtoll(value, NULL, 10);
    return strcmp(what, "count") == 0 || (modified && dli_etcd_value_knows(value, job->request.change.id)) ||
           (strcmp(what, "down") == 0 && !modified);
}

/* The key is there with this value, or not. */
static void decide(struct dli_job *job, int64_t modified, const char *value)
{
    const char *what = job->request.change.what;
    int64_t number = job->request.change.number, left;

    if (is_done(job, modified, value, &left))
        finish(job, DLOCK_OK, left);
    else if (is_unclear(job, value))
        dli_etcd_fail(job, DLOCK_UNKNOWN_OUTCOME, "the answer was lost, and the latch has changed since");
    else if (strcmp(what, "set") == 0 && !modified)
        change(job, 0, number, "");
    else if (strcmp(what, "set") == 0)
        finish(job, DLOCK_UNCHANGED, left);
    else
        change(job, modified, left > number ? left - number : 0, value);
}

/* 0, or -1: the job has failed. */
static int read_value(struct dli_job *job, int64_t *modified, char value[DLI_ETCD_VALUE])
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, 2, &reply))
        return -1;
    *modified = dli_etcd_value(&reply.result[0], value);
    dli_etcd_reply_free(&reply);
    return 0;
}

static void found(struct dli_job *job)
{
    char value[DLI_ETCD_VALUE];
    int64_t modified;

    if (read_value(job, &modified, value) == 0)
        decide(job, modified, value);
}

static void settled(struct dli_job *job)
{
    char value[DLI_ETCD_VALUE];
    int64_t modified, left;

    if (read_value(job, &modified, value))
        return;
    if (is_done(job, modified, value, &left))
        finish(job, DLOCK_OK, left);
    else
        finish(job, is_unclear(job, value) ? DLOCK_UNKNOWN_OUTCOME : DLOCK_SERVER_OUT_OF_MEMORY, 0);
}

void dli_etcd_latch_change(struct dli_job *job)
{
    job->at = 0;
    job->request.change.doubt |= job->request.change.writes && job->call.sent;
    job->request.change.writes = 0;
    read_key(job, found);
}
