/*
 * round.c: the steps of a round, and what is read in it. See round.h.
 */
#include "round.h"

#include <stdlib.h>

enum { PAUSE = 20 * 1000, KEEP_ROOM = 64 * 1024, SMALL = 64 };

static struct dli_etcd_round *round_at(struct dli_txn *txn)
{
    return DLI_OBJECT(txn, struct dli_etcd_round, base);
}

/* ---- keys that were read */

struct dli_etcd_seen *dli_etcd_seen_find(const struct dli_etcd_round *round, struct dli_etcd_bytes key)
{
    for (size_t i = 0; i < round->seen_count; i++)
        if (dli_etcd_same(dli_etcd_text(round->seen[i].key, round->seen[i].key_size), key))
            return &round->seen[i];
    return NULL;
}

struct dli_etcd_seen *dli_etcd_seen_add(struct dli_etcd_round *round, struct dli_etcd_bytes key)
{
    struct dli_etcd_seen *seen;

    if (round->seen_count == round->seen_room) {
        size_t room = round->seen_room ? 2 * round->seen_room : 4;
        struct dli_etcd_seen *more = realloc(round->seen, room * sizeof *more);

        if (!more)
            return NULL;
        round->seen = more;
        round->seen_room = room;
    }
    seen = &round->seen[round->seen_count];
    *seen = (struct dli_etcd_seen){.key = malloc(key.size), .key_size = key.size};
    if (!seen->key)
        return NULL;
    memcpy(seen->key, key.bytes, key.size);
    round->seen_count++;
    return seen;
}

int dli_etcd_seen_set(struct dli_etcd_round *round, struct dli_etcd_seen *seen, const struct dli_etcd_found *found)
{
    size_t size = found->value.size;
    int keep =
        found->modified && size <= DLI_TXN_VALUE_MAX && (size <= SMALL || round->kept + size <= DLI_TXN_BYTES_MAX);

    free(seen->value);
    seen->value = NULL;
    seen->modified = found->modified;
    seen->lease = found->lease;
    seen->size = size;
    if (!keep)
        return 0;
    if (!(seen->value = malloc(size + 1)))
        return -1;
    if (size > 0)
        memcpy(seen->value, found->value.bytes, size);
    round->kept += size;
    return 0;
}

/* The round is over: forget all of it. */
static void clear(struct dli_etcd_round *round)
{
    for (size_t i = 0; i < round->seen_count; i++) {
        free(round->seen[i].key);
        free(round->seen[i].value);
    }
    round->seen_count = round->kept = 0;
    dli_buffer_drop(&round->writes, round->writes.size);
    if (round->writes.room > KEEP_ROOM)
        dli_buffer_free(&round->writes);
    free(round->effect);
    free(round->term);
    round->effect = NULL;
    round->term = NULL;
    round->effects = round->terms = 0;
    dli_txn_over(&round->base);
}

/* ---- calls */

const struct dli_grpc_method dli_etcd_round_method = {
    .path = "/etcdserverpb.KV/Txn", .most = DLI_ETCD_TXN_MOST, .ended = dli_etcd_round_ended};

void dli_etcd_round_over(struct dli_job *job, dlock_status status, const char *sentence)
{
    job->request.status = status;
    if (status != DLOCK_OK)
        dli_fail(job->request.reason, status, "%s", sentence ? sentence : job->call.reason.message);
    dli_etcd_finish(job);
}

void dli_etcd_round_go(struct dli_job *job, const struct dli_etcd_phase *phase)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);

    round->phase = phase;
    dli_buffer_drop(&job->call.out, job->call.out.size);
    if (phase->encode(job)) {
        job->call.status = dli_fail(&job->call.reason, DLOCK_OUT_OF_MEMORY, "no memory for the command");
        job->call.sent = 0;
        phase->failed(job);
        return;
    }
    job->call.method = phase->method;
    job->call.deadline = job->request.deadline;
    dli_grpc_begin(&round->etcd->grpc, &job->call);
}

int dli_etcd_round_again(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);

    round->again_at = dli_now() + PAUSE;
    if (round->again_at >= job->request.deadline || round->etcd->grpc.shut)
        return 0;
    dli_list_append(&round->etcd->resting, &job->base.link);
    return 1;
}

void dli_etcd_round_ended(struct dli_grpc_call *call)
{
    struct dli_job *job = DLI_OBJECT(call, struct dli_job, call);

    if (call->status == DLOCK_OK) {
        dli_etcd_round_of(job)->phase->answered(job);
    } else if (dli_etcd_token_is_old(dli_etcd_round_of(job)->etcd, call) && job->tries++ < DLI_ETCD_TRIES) {
        dli_etcd_logout(dli_etcd_round_of(job)->etcd);
        dli_etcd_round_go(job, dli_etcd_round_of(job)->phase);
    } else {
        dli_etcd_round_of(job)->phase->failed(job);
    }
}

/* ---- steps that rest */

static struct dli_etcd_round *resting(const struct dli_link *link)
{
    return dli_etcd_round_of(dli_etcd_job_at(link));
}

static void rested(void *owner, struct dli_link *link)
{
    struct dli_etcd_round *round = resting(link);
    const int64_t *now = owner;

    if (*now < round->again_at)
        return;
    dli_list_remove(link);
    dli_etcd_round_go(round->job, round->phase);
}

void dli_etcd_rounds_step(struct dli_etcd *etcd, int64_t now)
{
    dli_list_each(&etcd->resting, rested, &now);
}

int64_t dli_etcd_rounds_alarm(const struct dli_etcd *etcd)
{
    int64_t at = INT64_MAX;

    for (const struct dli_link *link = etcd->resting.next; link != &etcd->resting; link = link->next)
        at = resting(link)->again_at < at ? resting(link)->again_at : at;
    return at;
}

void dli_etcd_rounds_end(struct dli_etcd *etcd)
{
    struct dli_link *link;

    while ((link = dli_list_pop(&etcd->resting))) {
        struct dli_job *job = dli_etcd_job_at(link);

        job->call.status = dli_fail(&job->call.reason, DLOCK_CLOSED, "the client was closed");
        dli_etcd_round_of(job)->phase->failed(job);
    }
}

/* ---- watch and read */

static struct dli_etcd_bytes wanted(const struct dli_etcd_round *round)
{
    return dli_etcd_text(round->step->key, round->step->key_size);
}

static int encode_read(struct dli_job *job)
{
    struct dli_etcd_txn txn = {0};

    dli_etcd_then(&txn, DLI_ETCD_RANGE, wanted(dli_etcd_round_of(job)));
    return dli_etcd_encode_txn(&job->call.out, &txn);
}

/* Copy the value of a key that was read. */
static dlock_status take_value(struct dli_txn_step *step, int there, const char *bytes, size_t size,
                               dlock_error *reason)
{
    if (!there)
        return dli_fail(reason, DLOCK_NOT_FOUND, "there is no such key");
    if (size > DLI_TXN_VALUE_MAX)
        return dli_fail(reason, DLOCK_PROTOCOL_ERROR, "the value has %zu bytes, at most %d are read", size,
                        DLI_TXN_VALUE_MAX);
    if (!(step->value = malloc(size + 1)))
        return dli_fail(reason, DLOCK_OUT_OF_MEMORY, "no memory for the value");
    if (size > 0)
        memcpy(step->value, bytes, size);
    step->size = size;
    return DLOCK_OK;
}

static dlock_status take_watched(struct dli_etcd_round *round, const struct dli_etcd_found *found, dlock_error *reason)
{
    struct dli_etcd_seen *seen = dli_etcd_seen_add(round, wanted(round));

    if (!seen || dli_etcd_seen_set(round, seen, found))
        return dli_fail(reason, DLOCK_OUT_OF_MEMORY, "no memory for the value");
    seen->watched = 1;
    return DLOCK_OK;
}

static void was_read(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    dlock_error reason = {.code = DLOCK_OK};
    struct dli_etcd_reply reply;
    struct dli_etcd_found found;

    if (dli_etcd_read(job, &reply))
        return;
    if (dli_etcd_first_key(&reply, 0, &found))
        dli_fail(&reason, DLOCK_PROTOCOL_ERROR, "%s", dli_etcd_senseless_text(job));
    else if (round->step->verb == DLI_TXN_WATCH)
        take_watched(round, &found, &reason);
    else
        take_value(round->step, found.modified > 0, found.value.bytes, found.value.size, &reason);
    dli_etcd_round_over(job, reason.code, reason.message);
}

/* A read may be repeated. */
static void was_not_read(struct dli_job *job)
{
    if (job->call.status != DLOCK_UNREACHABLE || !dli_etcd_round_again(job))
        dli_etcd_round_over(job, job->call.status, NULL);
}

static const struct dli_etcd_phase reading = {&dli_etcd_round_method, encode_read, was_read, was_not_read};

void dli_etcd_round_begin(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);

    job->request.deadline = dli_now() + round->etcd->patience;
    if (round->step->verb == DLI_TXN_COMMIT)
        dli_etcd_commit(job);
    else
        dli_etcd_round_go(job, &reading);
}

/* ---- the table of store/txn.h */

/* Do a step that needs no server. 0: it needs one. */
static int do_at_once(struct dli_etcd_round *round, struct dli_txn_step *step)
{
    const struct dli_etcd_seen *seen =
        step->key ? dli_etcd_seen_find(round, dli_etcd_text(step->key, step->key_size)) : NULL;

    step->status = DLOCK_OK;
    if (step->verb == DLI_TXN_ROLLBACK)
        clear(round);
    else if (step->verb == DLI_TXN_GET && seen && (seen->value || !seen->modified))
        step->status = take_value(step, seen->modified > 0, seen->value, seen->size, &step->reason);
    else
        return step->verb == DLI_TXN_WATCH && seen;
    if (step->status == DLOCK_OUT_OF_MEMORY)
        clear(round);
    return 1;
}

static void prepare(struct dli_etcd_round *round, struct dli_txn_step *step, void (*done)(struct dli_request *))
{
    struct dli_request *request = &round->job->request;

    round->step = step;
    request->verb = DLI_VERBS;
    request->own = round;
    request->done = done;
    request->reason = &step->reason;
}

/* The request is answered. */
static void settle(struct dli_etcd_round *round)
{
    if (dli_txn_answered(round->step, round->job->request.status))
        clear(round);
}

static void execute(struct dli_txn_step *step, int lane)
{
    struct dli_etcd_round *round = round_at(step->txn);

    if (do_at_once(round, step))
        return;
    prepare(round, step, NULL);
    dli_etcd_execute(round->etcd->lanes.lane[lane], &round->job->request);
    settle(round);
}

static void done(struct dli_request *request)
{
    struct dli_etcd_round *round = request->own;

    settle(round);
    round->step->done(round->step);
}

static int push(struct dli_txn_step *step, int lane)
{
    struct dli_etcd_round *round = round_at(step->txn);

    if (do_at_once(round, step)) {
        step->done(step);
        return 0;
    }
    prepare(round, step, done);
    return dli_etcd_push(round->etcd->lanes.lane[lane], &round->job->request) == DLOCK_OK ? 0 : -1;
}

static dlock_status keep(struct dli_txn *txn, const struct dli_txn_write *write, dlock_error *reason)
{
    return dli_txn_keep(&round_at(txn)->writes, write, reason);
}

static void drop(struct dli_txn *txn)
{
    clear(round_at(txn));
}

static void round_free(struct dli_txn *txn)
{
    struct dli_etcd_round *round = round_at(txn);

    clear(round);
    dli_buffer_free(&round->writes);
    free(round->seen);
    dli_etcd_request_free(&round->job->request);
    free(round);
}

static const struct dli_txn_ops ops = {
    .free = round_free, .free_child = round_free, .drop = drop, .write = keep, .execute = execute, .push = push};

struct dli_txn *dli_etcd_txn_new(struct dli_store *store)
{
    struct dli_etcd_round *round = calloc(1, sizeof *round);
    struct dli_request *request = dli_etcd_request_new(store);

    if (!round || !request) {
        free(round);
        dli_etcd_request_free(request);
        return NULL;
    }
    round->base.ops = &ops;
    round->etcd = dli_etcd_of(store);
    round->job = dli_etcd_job_of(request);
    return &round->base;
}
