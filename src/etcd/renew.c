/*
 * renew.c: renewals. A keep-alive of the session has done the work for all locks already, or does it now; only a lock that
 * gets another lease is written. Belongs to lane 0's thread.
 *
 * A row is held when its session lives and is not younger than its key: the token names the key's create revision. And its
 * key was not deleted: a lock that lives long enough to be renewed has a watch.
 */
#include "inner.h"

static void next_row(struct dli_job *job);

static struct dli_renewal *row_of(const struct dli_job *job)
{
    return &job->request.renew.row[job->at];
}

static void kept(struct dli_job *job, int value)
{
    struct dli_renewal *row = row_of(job);

    row->kept = value;
    row->since = value == 1 ? dli_etcd_since(job->session, row->lease) : 0;
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

    if (dli_etcd_read(job, 0, &reply))
        return;
    dli_etcd_slot_answered(row_of(job)->place, dli_etcd_number(row_of(job)->owner));
    if (reply.succeeded)
        dli_etcd_hold(dli_etcd_at(job->base.lane), dli_etcd_number(row_of(job)->owner), reply.revision);
    kept(job, reply.succeeded && !job->session->over);
    dli_etcd_reply_free(&reply);
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

/* 1: the row is decided. 0: the job is parked. */
static int same(struct dli_job *job, const struct dli_renewal *row)
{
    struct dli_etcd_session *session = dli_etcd_session(dli_etcd_at(job->base.lane), row->lease);
    const struct dli_etcd_waiter *hold;

    job->session = session;
    if (!session || is_older(row, session)) {
        kept(job, 0);
        return 1;
    }
    if (dli_now() - dli_etcd_since(session, row->lease) > (row->lease - row->delay) / 4) {
        dli_etcd_refresh(job, session, next_row);
        return 0;
    }
    hold = dli_etcd_watch_hold(dli_etcd_at(job->base.lane), row);
    if (hold && hold->unsure) {
        move(job);
        return 0;
    }
    kept(job, !(hold && hold->gone));
    return 1;
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
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

void dli_etcd_renew(struct dli_job *job)
{
    if (job->request.renew.row[0].heir[0]) {
        dli_etcd_fail(job, DLOCK_UNSUPPORTED, "on etcd no grant moves to another process");
        return;
    }
    job->at = 0;
    next_row(job);
}
