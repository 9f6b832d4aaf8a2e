/*
 * renew.c: renewals. A heartbeat of the session has done the work for all locks already, or does it now. Belongs to lane 0's
 * thread.
 *
 * A row is held when its session lives, and its node was not deleted: a lock that lives long enough to be renewed has a
 * watch. A hold cannot move to another session, so it cannot get a lease that is longer than its session's timeout.
 */
#include "kinds.h"

static void next_row(struct dli_job *job);

static struct dli_renewal *row_of(const struct dli_job *job)
{
    return &job->request.renew.row[job->at];
}

static void kept(struct dli_job *job, int value)
{
    struct dli_renewal *row = row_of(job);

    row->kept = value;
    row->since = value == 1 ? dli_zk_since(job->session, row->lease) : 0;
    job->refreshed = 0;
    job->at++;
}

static void watched(struct dli_job *job)
{
    struct dli_zk_entry *entry = dli_zk_entry(dli_zk_at(job->base.lane), dli_zk_number(row_of(job)->owner));

    for (int i = 0; i < job->calls; i++) {
        int32_t error = job->call[i].error;

        if (error && error != DLI_ZK_NO_NODE) {
            dli_zk_fail_error(job, error);
            return;
        }
        if (!entry)
            continue;
        entry->gone |= error != 0;
        if (entry->sure == job->value + i && dli_zk_watch_of(entry, entry->sure)->spot) /* no other job was faster */
            entry->sure++;
    }
    next_row(job);
}

/* Watch some nodes of the row, which also shows whether they are there. */
static void watch(struct dli_job *job, struct dli_zk_entry *entry)
{
    const struct dli_renewal *row = row_of(job);
    char room[DLI_ZK_CALLS][DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask[DLI_ZK_CALLS];
    int count = 0, failed = dli_zk_watches(entry, (int)row->permits);

    job->value = entry->sure;
    for (int i = entry->sure; i <= entry->rests && count < DLI_ZK_CALLS && !failed; i++, count++) {
        ask[count] = (struct dli_zk_ask){.op = DLI_ZK_GET_DATA, .watch = 1};
        ask[count].path = dli_zk_numbered(row->kind, dli_zk_home(row->place), row->owner, entry->seq + i, room[count]);
        failed = dli_zk_watch(dli_zk_at(job->base.lane), dli_zk_watch_of(entry, i), ask[count].path);
    }
    if (failed)
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a watch");
    else
        dli_zk_ask(job, ask, count, watched);
}

static int is_held(const struct dli_zk_entry *entry)
{
    return entry && entry->held && !entry->gone;
}

/* 1: the row is decided. 0: the job goes on later. */
static int decide(struct dli_job *job)
{
    const struct dli_renewal *row = row_of(job);
    struct dli_zk_entry *entry = dli_zk_entry(dli_zk_at(job->base.lane), dli_zk_number(row->owner));
    struct dli_zk_session *session = is_held(entry) ? dli_zk_session(dli_zk_at(job->base.lane), entry->session) : NULL;

    job->session = session;
    if (!session) {
        kept(job, 0);
        return 1;
    }
    if (row->lease > session->timeout) {
        dli_zk_fail(job, DLOCK_UNSUPPORTED,
                    "on ZooKeeper a hold keeps its session, and cannot get a lease that is longer than its timeout");
        return 0;
    }
    if (!job->refreshed && dli_now() - dli_zk_since(session, row->lease) > row->lease / 4) {
        job->refreshed = 1;
        dli_zk_refresh(job, session, next_row);
        return 0;
    }
    if (entry->sure < (row->permits > 1 ? row->permits : 1)) {
        watch(job, entry);
        return 0;
    }
    kept(job, 1);
    return 1;
}

static void next_row(struct dli_job *job)
{
    while (job->at < job->request.renew.count)
        if (!decide(job))
            return;
    job->request.status = DLOCK_OK;
    dli_zk_finish(job);
}

void dli_zk_renew(struct dli_job *job)
{
    if (job->request.renew.row[0].heir[0]) {
        dli_zk_fail(job, DLOCK_UNSUPPORTED, "on ZooKeeper no grant moves to another process");
        return;
    }
    job->at = job->refreshed = 0;
    next_row(job);
}
