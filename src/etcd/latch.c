/*
 * latch.c: count-down latches. Belongs to lane 0's thread.
 *
 * A latch is the key <name>/count, without a lease: its value is what is left, see number.c. An open latch has no key: the
 * ids of its changes go when it opens. Who waits watches the key.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "kinds.h"

static const char *const count_key = "count";

static struct dli_etcd_bytes key_of(const struct dli_job *job, char room[DLI_ETCD_KEY_MAX])
{
    return dli_etcd_key(job->request.kind, job->request.place, count_key, room);
}

/* One number for all who wait for this latch: negative, so that it is no grant number. */
static int64_t number_of(const struct dli_place *place)
{
    return -(int64_t)(dli_hash(place->name, place->size) >> 2) - 1;
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

    if (dli_etcd_read(job, &reply))
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

static void found(struct dli_job *job);
static void settled(struct dli_job *job);

static void again(struct dli_job *job)
{
    read_key(job, found);
}

static void refused(struct dli_job *job)
{
    read_key(job, settled);
}

static const struct dli_etcd_number left_over = {.key = key_of, .again = again, .refused = refused};

static void change(struct dli_job *job, int64_t modified, int64_t left, const char *before)
{
    job->created = left;
    dli_etcd_number_change(job, &left_over, left, modified, before);
}

/* There is nothing to change any more: 1. left: what is left. */
static int is_done(const struct dli_job *job, int64_t modified, const char *value)
{
    const char *what = job->request.change.what;

    return strcmp(what, "count") == 0 || dli_change_acted(&job->request.change, value) ||
           (strcmp(what, "down") == 0 && !modified);
}

/* The key is there with this value, or not. */
static void decide(struct dli_job *job, int64_t modified, const char *value, int64_t left)
{
    const char *what = job->request.change.what;
    int64_t number = job->request.change.number;

    if (is_done(job, modified, value))
        dli_etcd_number_finish(job, DLOCK_OK, left);
    else if (dli_etcd_number_unclear(job, modified, value))
        dli_etcd_fail(job, DLOCK_UNKNOWN_OUTCOME, "the answer was lost, and the latch has changed since");
    else if (strcmp(what, "set") == 0 && !modified)
        change(job, 0, number, "");
    else if (strcmp(what, "set") == 0)
        dli_etcd_number_finish(job, DLOCK_UNCHANGED, left);
    else
        change(job, modified, left > number ? left - number : 0, value);
}

/* The value, and what is left. 0, or -1: the job has failed. */
static int read_value(struct dli_job *job, int64_t *modified, char value[DLI_CHANGE_VALUE], int64_t *left)
{
    struct dli_etcd_reply reply;

    *left = 0;
    if (dli_etcd_read(job, &reply))
        return -1;
    *modified = dli_etcd_value(&reply.result[0], value);
    if (!*modified || dli_etcd_read_number(reply.result[0].found[0].value, 0, DLI_ETCD_NUMBER_MAX, left) == 0)
        return 0;
    dli_etcd_fail(job, DLOCK_WRONG_KIND, "another program has written a value of the latch that is no number");
    return -1;
}

static void found(struct dli_job *job)
{
    char value[DLI_CHANGE_VALUE];
    int64_t modified, left;

    if (read_value(job, &modified, value, &left) == 0)
        decide(job, modified, value, left);
}

static void settled(struct dli_job *job)
{
    char value[DLI_CHANGE_VALUE];
    int64_t modified, left;

    if (read_value(job, &modified, value, &left))
        return;
    if (is_done(job, modified, value))
        dli_etcd_number_finish(job, DLOCK_OK, left);
    else
        dli_etcd_number_full(job, modified, value);
}

void dli_etcd_latch_change(struct dli_job *job)
{
    dli_etcd_number_begin(job);
    read_key(job, found);
}
