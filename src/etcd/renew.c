/*
 * renew.c: renewals. A keep-alive of the session has done the work for all locks already, or does it now; only a lock that
 * gets another lease is written. Belongs to lane 0's thread.
 *
 * A row is held when its key has the lease of its session, and was not deleted: a lock that lives long enough to be renewed has a
 * watch. A key that never moved to another lease has that of the session which was there at its create revision, which is the
 * token. Of one that has moved, the lease is noted. Where the watch may have missed something, or the lease is not known, the
 * keys are read, those of many rows at once.
 */
#include "inner.h"

enum { UNSURE = 2, MOVES = 3, CHECKS = 32 }; /* a row's kept, until its key was read, or moved; rows in one reading */

static void next_row(struct dli_job *job);
static void next_step(struct dli_job *job);

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

/* The next row from i on whose kept is this; the number of rows: there is none. */
static int next_as(const struct dli_job *job, int i, int value)
{
    while (i < job->request.renew.count && job->request.renew.row[i].kept != value)
        i++;
    return i;
}

/* ---- another lease */

static void moved(struct dli_job *job)
{
    struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    const struct dli_renewal *row = row_of(job);
    struct dli_etcd_waiter *hold;
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    dli_etcd_slot_answered(row->place, dli_etcd_number(row->owner));
    if (reply.succeeded && (hold = dli_etcd_watch_hold(etcd, row))) {
        dli_etcd_hold(etcd, dli_etcd_number(row->owner), reply.revision);
        hold->lease = job->session->id;
    }
    kept(job, reply.succeeded && !job->session->over);
    next_step(job);
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

/* Its lease may be another one. Alone it is written at once; of many, only those whose key says so. */
static void may_move(struct dli_job *job)
{
    kept(job, job->request.renew.count == 1 ? MOVES : UNSURE);
}

/* ---- the same lease */

/* Whether the row's key has this session's lease, as far as is known. */
static int is_of(const struct dli_renewal *row, const struct dli_etcd_session *session,
                 const struct dli_etcd_waiter *hold)
{
    if (hold && hold->lease)
        return hold->lease == session->id;
    return row->last <= 0 || row->last / DLI_ETCD_TURNS > session->born;
}

/* 1: the row is decided, or its key has to be read. 0: the job is parked. */
static int same(struct dli_job *job, const struct dli_renewal *row)
{
    struct dli_etcd_session *session = dli_etcd_session(dli_etcd_at(job->base.lane), row->lease);
    const struct dli_etcd_waiter *hold;

    dli_etcd_bind(job, session);
    if (!session) {
        kept(job, 0);
        return 1;
    }
    if (dli_now() - dli_etcd_since(session, row->lease) > (row->lease - row->delay) / 4) {
        dli_etcd_refresh(job, session, next_row);
        return 0;
    }
    hold = dli_etcd_watch_hold(dli_etcd_at(job->base.lane), row);
    if (hold && hold->gone)
        kept(job, 0);
    else
        kept(job, (hold && hold->unsure) || !is_of(row, session, hold) ? UNSURE : 1);
    return 1;
}

/* ---- keys that are read */

static void judge(const struct dli_job *job, struct dli_renewal *row, const struct dli_etcd_result *own)
{
    struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    const struct dli_etcd_session *session = dli_etcd_session(etcd, row->lease);
    struct dli_etcd_waiter *hold = dli_etcd_waiter(etcd, dli_etcd_number(row->owner));

    if (session && own->keys > 0 && own->found[0].lease != session->id) {
        row->kept = MOVES;
        return;
    }
    decide(row, session, own->keys == 0 ? 0 : session ? 1 : -1);
    if (!hold)
        return;
    hold->gone = own->keys == 0;
    hold->unsure = 0;
    hold->lease = session && own->keys > 0 ? session->id : hold->lease;
}

static void checked(struct dli_job *job)
{
    int row = next_as(job, 0, UNSURE);
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    for (int i = 0; i < reply.results && row < job->request.renew.count; i++, row = next_as(job, row + 1, UNSURE))
        judge(job, &job->request.renew.row[row], &reply.result[i]);
    next_step(job);
}

static void check(struct dli_job *job)
{
    char room[CHECKS][DLI_ETCD_KEY_MAX];
    struct dli_etcd_txn txn = {0};

    for (int row = next_as(job, 0, UNSURE); row < job->request.renew.count && txn.then < CHECKS;
         row = next_as(job, row + 1, UNSURE)) {
        const struct dli_renewal *of = &job->request.renew.row[row];

        dli_etcd_then(&txn, DLI_ETCD_RANGE, dli_etcd_key(of->kind, of->place, of->owner, room[txn.then]));
    }
    dli_etcd_call_txn(job, &txn, checked);
}

/* All rows have been looked at: write what moves, read what is unsure. */
static void next_step(struct dli_job *job)
{
    struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    struct dli_etcd_session *session = NULL;
    int count = job->request.renew.count;

    while ((job->at = next_as(job, 0, MOVES)) < count && !(session = dli_etcd_session(etcd, row_of(job)->lease)))
        kept(job, -1);
    if (job->at < count) {
        dli_etcd_bind(job, session);
        move(job);
    } else if (next_as(job, 0, UNSURE) < count) {
        check(job);
    } else {
        job->request.status = DLOCK_OK;
        dli_etcd_finish(job);
    }
}

static void next_row(struct dli_job *job)
{
    while (job->at < job->request.renew.count) {
        const struct dli_renewal *row = row_of(job);

        if (!row->changed) {
            if (!same(job, row))
                return;
        } else if (dli_etcd_enter(job, row->lease, next_row)) {
            may_move(job);
        } else {
            return;
        }
    }
    next_step(job);
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
