/*
 * renew.c: renewals. A heartbeat of the session has done the work for all locks already, or does it now. Belongs to lane 0's
 * thread.
 *
 * A row is held when its session lives, and its node was not deleted: a lock that lives long enough to be renewed has a
 * watch. The first watches of many rows are set at once. A hold cannot move to another session, so it cannot get a lease that is
 * longer than its session's timeout.
 */
#include <stdlib.h>

#include "kinds.h"

enum { UNSURE = 2, PASSES = 4 }; /* a row's kept, until it has a watch; how often watches are set for one request */

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

/* The watch of permit i of an entry has its reply: the node was there, or not. Returns another error; 0: none. */
static int32_t see(struct dli_zk_entry *entry, int i, int32_t error)
{
    if (error && error != DLI_ZK_NO_NODE)
        return error;
    if (!entry)
        return 0;
    entry->gone |= error != 0;
    if (entry->sure == i && dli_zk_watch_of(entry, i)->spot) /* no other job was faster */
        entry->sure++;
    return 0;
}

static void watched(struct dli_job *job)
{
    struct dli_zk_entry *entry = dli_zk_entry(dli_zk_at(job->base.lane), dli_zk_number(row_of(job)->owner));

    for (int i = 0; i < job->calls; i++) {
        int32_t error = see(entry, (int)job->value + i, job->call[i].error);

        if (error) {
            dli_zk_fail_error(job, error);
            return;
        }
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
        ask[count].path =
            dli_zk_numbered(row->kind, dli_zk_home(row->place), row->owner, (int64_t)entry->seq + i, room[count]);
        failed = dli_zk_watch(dli_zk_at(job->base.lane), dli_zk_watch_of(entry, i), ask[count].path);
    }
    if (failed)
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a watch");
    else
        dli_zk_ask(job, ask, count, watched);
}

/* ---- the first watches of many rows */

struct eye {
    struct dli_zk_call call;
    struct eyes *all;
    int64_t session, number; /* numbers: a session may be gone before the last reply comes */
};

struct eyes {
    struct dli_job *job;
    int count, left;
    struct eye eye[DLI_RENEW_MAX];
};

static void eyes_free(struct eyes *eyes)
{
    for (int i = 0; i < eyes->count; i++)
        dli_zk_call_free(&eyes->eye[i].call);
    free(eyes);
}

static void all_seen(struct eyes *eyes)
{
    struct dli_job *job = eyes->job;
    struct dli_zk *zk = dli_zk_at(job->base.lane);
    struct dli_zk_outcome outcome = {0};
    int32_t error = 0;

    for (int i = 0; i < eyes->count; i++)
        dli_zk_note(job, dli_zk_session(zk, eyes->eye[i].session), &eyes->eye[i].call, &outcome);
    if (dli_zk_conclude(job, &outcome)) {
        eyes_free(eyes);
        return;
    }
    for (int i = 0; i < eyes->count; i++) {
        const struct eye *eye = &eyes->eye[i];
        int32_t other = see(dli_zk_entry(zk, eye->number), 0, eye->call.error);

        error = error ? error : other;
    }
    job->session = dli_zk_session(zk, eyes->eye[0].session);
    eyes_free(eyes);
    job->at = 0;
    if (error)
        dli_zk_fail_error(job, error);
    else
        next_row(job);
}

static void seen(struct dli_zk_call *call)
{
    struct eyes *eyes = DLI_OBJECT(call, struct eye, call)->all;

    if (--eyes->left == 0)
        all_seen(eyes);
}

static int is_held(const struct dli_zk_entry *entry)
{
    return entry && entry->held && !entry->gone;
}

/* The watch of one row is about to be set, if it is still held. 0, or -1 without memory. */
static int open_eye(struct eyes *eyes, struct dli_renewal *row)
{
    struct dli_zk *zk = dli_zk_at(eyes->job->base.lane);
    struct eye *eye = &eyes->eye[eyes->count];
    struct dli_zk_entry *entry = dli_zk_entry(zk, dli_zk_number(row->owner));
    struct dli_zk_ask ask = {.op = DLI_ZK_GET_DATA, .watch = 1};
    struct dli_zk_session *session = is_held(entry) ? dli_zk_session(zk, entry->session) : NULL;
    char room[DLI_ZK_PATH_MAX];

    if (!session) {
        row->kept = 0;
        return 0;
    }
    eye->session = session->number;
    eye->all = eyes;
    eye->number = entry->number;
    eye->call.ended = seen;
    eye->call.deadline = eyes->job->request.deadline;
    ask.path = dli_zk_numbered(row->kind, dli_zk_home(row->place), row->owner, entry->seq, room);
    eyes->count++;
    return dli_zk_watch(zk, &entry->watch[1], ask.path) || dli_zk_begin(session, &eye->call, &ask) ? -1 : 0;
}

static void no_memory(struct dli_job *job, struct eyes *eyes)
{
    for (int i = 0; eyes && i < eyes->count; i++)
        dli_zk_cancel(&eyes->eye[i].call);
    if (eyes)
        eyes_free(eyes);
    dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a watch");
}

/* Set the watches of all rows that are unsure. */
static void watch_unsure(struct dli_job *job)
{
    struct eyes *eyes = calloc(1, sizeof *eyes);
    int failed = !eyes;

    if (eyes)
        eyes->job = job;
    for (int i = 0; i < job->request.renew.count && !failed; i++)
        if (job->request.renew.row[i].kept == UNSURE)
            failed = open_eye(eyes, &job->request.renew.row[i]);
    if (failed) {
        no_memory(job, eyes);
        return;
    }
    eyes->left = eyes->count;
    if (eyes->left > 0)
        return;
    eyes_free(eyes);
    next_row(job);
}

/* ---- rows */

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
    if (row->permits > 1 && entry->sure < row->permits) {
        watch(job, entry);
        return 0;
    }
    kept(job, entry->sure > 0 ? 1 : UNSURE);
    return 1;
}

static int any_unsure(const struct dli_job *job)
{
    for (int i = 0; i < job->request.renew.count; i++)
        if (job->request.renew.row[i].kept == UNSURE)
            return 1;
    return 0;
}

static void next_row(struct dli_job *job)
{
    while (job->at < job->request.renew.count)
        if (!decide(job))
            return;
    if (any_unsure(job) && job->passes++ < PASSES) {
        watch_unsure(job);
        return;
    }
    for (int i = 0; i < job->request.renew.count; i++)
        if (job->request.renew.row[i].kept == UNSURE)
            job->request.renew.row[i].kept = -1;
    job->request.status = DLOCK_OK;
    dli_zk_finish(job);
}

void dli_zk_renew(struct dli_job *job)
{
    if (job->request.renew.row[0].transfer) {
        dli_zk_fail(job, DLOCK_UNSUPPORTED, "on ZooKeeper no grant moves to another process");
        return;
    }
    job->at = job->refreshed = job->passes = 0;
    next_row(job);
}
