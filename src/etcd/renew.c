/*
 * renew.c: renewals. A keep-alive of the session has done the work for all locks already, or does it now; only a lock that
 * gets another lease is written. Belongs to lane 0's thread.
 *
 * A row is held when its session lives and is not younger than its key: the token names the key's create revision. And its
 * key was not deleted: a lock that lives long enough to be renewed has a watch. Where the watch may have missed something, the
 * keys are read, those of many rows at once.
 */
#include "inner.h"

enum { UNSURE = 2, CHECKS = 32 }; /* a row's kept, until its key was read; rows in one reading */

static void next_row(struct dli_job *job);

static struct dli_renewal *row_of(const struct dli_job *job)
{
    return &job->request.renew.row[job->at];
}

static void decide(struct dli_renewal *row, const struct dli_etcd_session *session, int value)
{
    row->kept = value;
    row->since = value == 1 ? dli_etcd_since(session, row->lease) : 0;
}

static void kept(struct dli_job *job, int value)
{
    decide(row_of(job), job->session, value);
    job->at++;
}

/* Whether the row's key had the lease of an earlier session. */
static int is_older(const struct dli_renewal *row, const struct dli_etcd_session *session)
{
    return row->last > 0 && row->last / DLI_ETCD_TURNS <= session->born;
}

/* ---- another lease */

static void moved(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    dli_etcd_slot_answered(row_of(job)->place, dli_etcd_number(row_of(job)->owner));
    if (reply.succeeded)
        dli_etcd_hold(dli_etcd_at(job->base.lane), dli_etcd_number(row_of(job)->owner), reply.revision);
    kept(job, reply.succeeded && !job->session->over);
    next_row(job);
}

static void move(struct dli_job *job)
{
    const struct dli_renewal *row = row_of(job);
    struct dli_etcd_txn txn = {0};
    char key[DLI_ETCD_KEY_MAX];
    struct dli_etcd_step *step;

    dli_etcd_slot_ask(row->place, dli_etcd_number(row->owner));
    dli_etcd_test(&txn, DLI_ETCD_CREATED, dli_etcd_key(row->kind, row->place, row->owner, key), 0);
    txn.test[0].differs = 1;
    step = dli_etcd_then(&txn, DLI_ETCD_PUT, txn.test[0].key);
    step->lease = job->session->id;
    step->keep_value = 1;
    dli_etcd_call_txn(job, &txn, moved);
}

/* ---- the same lease */

/* 1: the row is decided, or its key has to be read. 0: the job is parked. */
static int same(struct dli_job *job, const struct dli_renewal *row)
{
    struct dli_etcd_session *session = dli_etcd_session(dli_etcd_at(job->base.lane), row->lease);
    const struct dli_etcd_waiter *hold;

    dli_etcd_bind(job, session);
    if (!session || is_older(row, session)) {
        kept(job, 0);
        return 1;
    }
    if (dli_now() - dli_etcd_since(session, row->lease) > (row->lease - row->delay) / 4) {
        dli_etcd_refresh(job, session, next_row);
        return 0;
    }
    hold = dli_etcd_watch_hold(dli_etcd_at(job->base.lane), row);
    if (hold && hold->unsure)
        kept(job, UNSURE);
    else
        kept(job, !(hold && hold->gone));
    return 1;
}

/* ---- keys that are read */

/* The next row from i on whose key has to be read; the number of rows: there is none. */
static int next_unsure(const struct dli_job *job, int i)
{
    while (i < job->request.renew.count && job->request.renew.row[i].kept != UNSURE)
        i++;
    return i;
}

/* 1: the row is decided. 0: its key has another lease. */
static int judge(const struct dli_job *job, struct dli_renewal *row, const struct dli_etcd_result *own)
{
    struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    const struct dli_etcd_session *session = dli_etcd_session(etcd, row->lease);
    struct dli_etcd_waiter *hold = dli_etcd_waiter(etcd, dli_etcd_number(row->owner));

    if (session && own->keys > 0 && own->found[0].lease != session->id)
        return 0;
    decide(row, session, session && own->keys > 0);
    if (hold) {
        hold->gone = own->keys == 0;
        hold->unsure = 0;
    }
    return 1;
}

static void checked(struct dli_job *job)
{
    struct dli_etcd_reply reply;
    int other = -1, row = next_unsure(job, 0);

    if (dli_etcd_read(job, &reply))
        return;
    for (int i = 0; i < reply.results && row < job->request.renew.count; i++, row = next_unsure(job, row + 1))
        if (!judge(job, &job->request.renew.row[row], &reply.result[i]))
            other = row;
    if (other < 0) {
        next_row(job);
        return;
    }
    job->at = other;
    dli_etcd_bind(job, dli_etcd_session(dli_etcd_at(job->base.lane), row_of(job)->lease));
    move(job);
}

static void check(struct dli_job *job)
{
    char room[CHECKS][DLI_ETCD_KEY_MAX];
    struct dli_etcd_txn txn = {0};

    for (int row = next_unsure(job, 0); row < job->request.renew.count && txn.then < CHECKS;
         row = next_unsure(job, row + 1)) {
        const struct dli_renewal *of = &job->request.renew.row[row];

        dli_etcd_then(&txn, DLI_ETCD_RANGE, dli_etcd_key(of->kind, of->place, of->owner, room[txn.then]));
    }
    dli_etcd_call_txn(job, &txn, checked);
}

static void next_row(struct dli_job *job)
{
    while (job->at < job->request.renew.count) {
        const struct dli_renewal *row = row_of(job);

        if (row->changed) {
            if (dli_etcd_enter(job, row->lease, next_row))
                move(job);
            return;
        }
        if (!same(job, row))
            return;
    }
    if (next_unsure(job, 0) < job->request.renew.count) {
        check(job);
        return;
    }
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

void dli_etcd_renew(struct dli_job *job)
{
    if (job->request.renew.row[0].transfer) {
        dli_etcd_fail(job, DLOCK_UNSUPPORTED, "on etcd no grant moves to another process");
        return;
    }
    job->at = 0;
    next_row(job);
}
