/*
 * exchange.c: acquire, wait in line; drop.c releases. Belongs to lane 0's thread.
 *
 * A number that may wait stands in line: its key is put, whoever has the lock. A number that may not wait puts its key only
 * when there is no key that it would wait for. A key that exists already is the same acquisition: its create revision is its
 * place and its token. It has the lock when a read shows it, with the lease of a session that lives, and no key before it that
 * it waits for; the hold then counts from the session's last answered keep-alive.
 */
#include <stdio.h>
#include <string.h>

#include "kinds.h"

static void put(struct dli_job *job);
static void look(struct dli_job *job);

static struct dli_etcd_bytes own_key(const struct dli_job *job, char room[DLI_ETCD_KEY_MAX])
{
    return dli_etcd_key(job->request.kind, job->request.place, job->request.exchange.want, room);
}

int dli_etcd_stands(const struct dli_job *job)
{
    return job->request.exchange.wish.mode != DLI_MODE_TRY;
}

/* ---- results */

void dli_etcd_not_granted(struct dli_job *job)
{
    struct dli_answer *answer = &job->request.exchange.answer;

    answer->got = DLI_TRY_HELD;
    answer->left = -1;
    job->request.status = DLOCK_OK;
    if (!dli_etcd_stands(job))
        dli_etcd_slot_unused(job->request.place, job->request.exchange.wish.want);
    dli_etcd_finish(job);
}

void dli_etcd_granted(struct dli_job *job, int64_t more)
{
    struct dli_request *request = &job->request;
    struct dli_answer *answer = &request->exchange.answer;
    int64_t block = request->exchange.wish.block;

    dli_etcd_hold(dli_etcd_at(job->base.lane), request->exchange.wish.want, job->created);
    dli_etcd_slot_there(request->place, request->exchange.wish.want);
    if (job->created >= DLI_ETCD_FIT) {
        dli_etcd_fail(job, DLOCK_UNFIT, "the revision of etcd is too high for fencing tokens below 2^53");
        return;
    }
    answer->got = DLI_TRY_GRANTED;
    answer->token = job->created * DLI_ETCD_TURNS;
    answer->tokens = block < DLI_ETCD_TURNS ? block : DLI_ETCD_TURNS;
    answer->more = more;
    answer->left = -1;
    answer->since = dli_etcd_since(job->session, request->exchange.wish.lease + request->exchange.delay);
    request->status = DLOCK_OK;
    if (request->above && answer->token < request->above) {
        answer->got = DLI_TRY_NONE;
        answer->spent = 1;
        request->status = dli_fail_forgot(request->reason, answer->token, request->above - 1);
    }
    dli_etcd_finish(job);
}

/* ---- steps */

void dli_etcd_again(struct dli_job *job, void (*step)(struct dli_job *job))
{
    if (job->tries++ < DLI_ETCD_TRIES)
        step(job);
    else
        dli_etcd_fail(job, DLOCK_UNREACHABLE, "the lock changed too often while it was asked for");
}

static void ask_for(struct dli_job *job)
{
    dli_etcd_slot_ask(job->request.place, job->request.exchange.wish.want);
}

static void answered_for(struct dli_job *job)
{
    dli_etcd_slot_answered(job->request.place, job->request.exchange.wish.want);
}

static void cleaned(struct dli_job *job)
{
    answered_for(job);
    dli_etcd_again(job, dli_etcd_exchange);
}

/* The key has the lease of a session that is over: it ends at any time. The number puts another one, which is not meant. */
static void clean(struct dli_job *job, int64_t created)
{
    struct dli_etcd_txn txn = {0};
    char key[DLI_ETCD_KEY_MAX];

    ask_for(job);
    dli_etcd_test(&txn, DLI_ETCD_CREATED, own_key(job, key), created);
    dli_etcd_then(&txn, DLI_ETCD_DELETE, txn.test[0].key);
    dli_etcd_call_txn(job, &txn, cleaned);
}

int dli_etcd_lives(struct dli_job *job, const struct dli_etcd_found *own)
{
    if (own->lease == job->session->id && !job->session->over)
        return 1;
    clean(job, own->created);
    return 0;
}

static void was_shut_out(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    job->session->mark = reply.revision;
    dli_etcd_forget(dli_etcd_at(job->base.lane), job->request.exchange.wish.want);
    answered_for(job);
    dli_etcd_slot_end(job->request.place, job->request.exchange.wish.want);
    job->request.exchange.answer.got = DLI_TRY_GATE;
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

void dli_etcd_shut_out(struct dli_job *job)
{
    char key[DLI_ETCD_KEY_MAX], mark[DLI_ETCD_MARK_MAX];
    struct dli_etcd_txn txn = {0};

    ask_for(job);
    dli_etcd_then(&txn, DLI_ETCD_DELETE, own_key(job, key));
    dli_etcd_then(&txn, DLI_ETCD_PUT, dli_etcd_mark(job->session, mark))->lease = job->session->id;
    dli_etcd_call_txn(job, &txn, was_shut_out);
}

/* ---- look: the key is known to be there */

static void looked_at(struct dli_job *job, const struct dli_etcd_reply *reply)
{
    const struct dli_etcd_result *own = &reply->result[0], *before = &reply->result[1];
    int64_t created = job->created;

    if (reply->result[2].keys > 0) {
        dli_etcd_shut_out(job);
    } else if (own->keys == 0) { /* it vanished: stand in line anew */
        dli_etcd_forget(dli_etcd_at(job->base.lane), job->request.exchange.wish.want);
        dli_etcd_again(job, put);
    } else if (dli_etcd_lives(job, &own->found[0])) {
        job->created = own->found[0].created;
        if (job->created != created) {
            dli_etcd_again(job, look);
        } else if (before->keys == 0) {
            dli_etcd_granted(job, -1);
        } else {
            dli_etcd_wait(job, own->found[0].key, before->found[0].key, reply->revision);
            dli_etcd_not_granted(job);
        }
    }
}

static void look_answered(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    looked_at(job, &reply);
}

/* Only reads: its own key, the last one before it that it waits for, the gate. */
static void look(struct dli_job *job)
{
    struct dli_etcd_rivals rivals;
    char key[DLI_ETCD_KEY_MAX], gate[DLI_ETCD_KEY_MAX];
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_step *before;

    dli_etcd_rivals(job->request.kind, job->request.place, &rivals);
    dli_etcd_then(&txn, DLI_ETCD_RANGE, own_key(job, key));
    before = dli_etcd_then(&txn, DLI_ETCD_RANGE, rivals.key);
    before->end = rivals.end;
    before->before = job->created;
    before->last = 1;
    dli_etcd_then(&txn, DLI_ETCD_RANGE, dli_etcd_gate_key(job->request.place, gate));
    dli_etcd_call_txn(job, &txn, look_answered);
}

/* ---- put: the key may be there */

static void was_there(struct dli_job *job, const struct dli_etcd_reply *reply)
{
    const struct dli_etcd_result *own = &reply->result[0], *mark = &reply->result[1], *rival = &reply->result[2],
                                 *gate = &reply->result[3];
    int64_t known = job->session->mark;

    job->session->mark = mark->keys ? mark->found[0].modified : 0;
    if (gate->keys > 0) {
        dli_etcd_shut_out(job);
    } else if (own->keys > 0 && dli_etcd_lives(job, &own->found[0])) {
        job->created = own->found[0].created;
        look(job);
    } else if (own->keys == 0 && rival->keys > 0 && known == job->session->mark && !dli_etcd_stands(job)) {
        dli_etcd_not_granted(job);
    } else if (own->keys == 0) {
        dli_etcd_again(job, put);
    }
}

/* last: the last two keys, its own one among them if it is a rival of itself. */
static void was_put(struct dli_job *job, const struct dli_etcd_reply *reply)
{
    const struct dli_etcd_result *last = &reply->result[1];
    char room[DLI_ETCD_KEY_MAX];
    struct dli_etcd_bytes own = own_key(job, room);
    int at = last->keys > 0 && dli_etcd_same(last->found[0].key, own);

    job->created = reply->revision;
    if (job->session->over) {
        dli_etcd_again(job, put);
    } else if (last->keys <= at) {
        dli_etcd_granted(job, -1);
    } else {
        dli_etcd_wait(job, own, last->found[at].key, reply->revision);
        dli_etcd_not_granted(job);
    }
}

static void put_answered(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    answered_for(job);
    if (reply.succeeded)
        was_put(job, &reply);
    else
        was_there(job, &reply);
}

static void put_now(struct dli_job *job)
{
    char key[DLI_ETCD_KEY_MAX], mark_key[DLI_ETCD_MARK_MAX], gate_key[DLI_ETCD_KEY_MAX];
    struct dli_etcd_bytes own, mark = dli_etcd_mark(job->session, mark_key),
                               gate = dli_etcd_gate_key(job->request.place, gate_key);
    struct dli_etcd_rivals rivals;
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_step *last;

    dli_etcd_slot_take(job->request.place, job->request.exchange.wish.want);
    own = own_key(job, key);
    dli_etcd_rivals(job->request.kind, job->request.place, &rivals);
    dli_etcd_test(&txn, DLI_ETCD_CREATED, own, 0);
    dli_etcd_test(&txn, DLI_ETCD_MODIFIED, mark, job->session->mark);
    if (!dli_etcd_stands(job)) {
        dli_etcd_test(&txn, DLI_ETCD_CREATED, rivals.key, 0);
        txn.test[2].end = rivals.end;
    }
    dli_etcd_test(&txn, DLI_ETCD_CREATED, gate, 0);
    dli_etcd_then(&txn, DLI_ETCD_PUT, own)->lease = job->session->id;
    last = dli_etcd_then(&txn, DLI_ETCD_RANGE, rivals.key);
    last->end = rivals.end;
    last->limit = 2;
    last->last = 1;
    dli_etcd_otherwise(&txn, DLI_ETCD_RANGE, own);
    dli_etcd_otherwise(&txn, DLI_ETCD_RANGE, mark);
    dli_etcd_otherwise(&txn, DLI_ETCD_RANGE, rivals.key)->end = rivals.end;
    dli_etcd_otherwise(&txn, DLI_ETCD_RANGE, gate);
    dli_etcd_call_txn(job, &txn, put_answered);
}

static void put(struct dli_job *job)
{
    if (dli_etcd_enter(job, job->request.exchange.wish.lease + job->request.exchange.delay, put_now))
        put_now(job);
}

static void acquire(struct dli_job *job)
{
    struct dli_etcd_waiter *waiter = dli_etcd_waiter(dli_etcd_at(job->base.lane), job->request.exchange.wish.want);
    struct dli_etcd_session *session =
        dli_etcd_session(dli_etcd_at(job->base.lane), job->request.exchange.wish.lease + job->request.exchange.delay);

    if (!waiter || waiter->held || !session || !dli_etcd_stands(job)) {
        put(job);
        return;
    }
    job->created = waiter->created;
    dli_etcd_bind(job, session);
    look(job);
}

void dli_etcd_exchange(struct dli_job *job)
{
    memset(&job->request.exchange.answer, 0, sizeof job->request.exchange.answer);
    if (job->request.kind->momentary)
        dli_etcd_latch_wait(job);
    else if (job->request.exchange.under[0])
        dli_etcd_fail(job, DLOCK_UNSUPPORTED, "on etcd a writer cannot read under its own write lock");
    else if (job->request.exchange.wish.want && job->request.kind->slots)
        dli_etcd_permit_acquire(job);
    else if (job->request.exchange.wish.want)
        acquire(job);
    else if (job->request.exchange.wish.rest > 0)
        dli_etcd_rest(job);
    else
        dli_etcd_drop(job);
}
