/*
 * session.c: sessions: how they begin and end. One for each length of a lease. Belongs to lane 0's thread.
 *
 * When a session is over, by our clock or by the server's word, it is ended at the server, so that none of its nodes stays,
 * and the next request gets another one. heartbeat.c says how long it lasts, and why its timeout is longer than the lease.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

enum { LAST = 250 * 1000, EXTRA = 3 };

/* ---- begin */

static void bye_ended(struct dli_zk_call *call);

static struct dli_zk_session *session_new(struct dli_zk *zk, int64_t lease)
{
    struct dli_zk_session *session = calloc(1, sizeof *session);

    if (!session)
        return NULL;
    session->zk = zk;
    session->number = ++zk->numbers;
    session->lease = lease;
    session->ticket.timeout = (int32_t)((lease + lease / EXTRA) / DLI_ZK_MS);
    session->beat.ended = dli_zk_beat_ended;
    session->bye.ended = bye_ended;
    dli_list_init(&session->parked);
    dli_list_init(&session->link);
    if (dli_zk_link_init(session, (int)((uint64_t)dli_now() % (uint64_t)zk->members))) {
        free(session);
        return NULL;
    }
    dli_list_append(&zk->sessions, &session->link);
    return session;
}

void dli_zk_session_free(struct dli_zk_session *session)
{
    session->zk->ends -= session->over;
    dli_list_remove(&session->link);
    dli_zk_cancel(&session->beat);
    dli_zk_cancel(&session->bye);
    dli_zk_call_free(&session->beat);
    dli_zk_call_free(&session->bye);
    dli_zk_link_fini(session);
    explicit_bzero(&session->ticket, sizeof session->ticket);
    free(session);
}

struct dli_zk_session *dli_zk_session(struct dli_zk *zk, int64_t number)
{
    for (struct dli_link *link = zk->sessions.next; link != &zk->sessions; link = link->next)
        if (DLI_OBJECT(link, struct dli_zk_session, link)->number == number)
            return DLI_OBJECT(link, struct dli_zk_session, link);
    return NULL;
}

struct dli_zk_session *dli_zk_enter(struct dli_job *job, int64_t lease)
{
    struct dli_zk *zk = dli_zk_at(job->base.lane);
    struct dli_zk_session *session = NULL;
    int count = 0;

    for (struct dli_link *link = zk->sessions.next; link != &zk->sessions; link = link->next, count++) {
        session = DLI_OBJECT(link, struct dli_zk_session, link);
        if (lease ? session->lease == lease : session->phase == DLI_ZK_UP || link->next == &zk->sessions)
            return job->session = session;
    }
    if (count >= DLI_ZK_SESSIONS)
        dli_zk_fail(job, DLOCK_UNSUPPORTED, "a client has locks of 64 different leases on ZooKeeper at most");
    else if (!(job->session = session = session_new(zk, lease ? lease : zk->lease)))
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a session");
    else
        return session;
    return NULL;
}

/* Its end is all that is left to do. A server may make many of them: the oldest ones are left to it. */
static void leave_list(struct dli_zk_session *session)
{
    struct dli_zk *zk = session->zk;

    session->over = 1;
    dli_list_remove(&session->link);
    dli_list_append(&zk->ended, &session->link);
    if (++zk->ends > DLI_ZK_SESSIONS)
        DLI_OBJECT(zk->ended.next, struct dli_zk_session, link)->gone = 0;
}

/* The server gives no session that is long enough. */
static void too_short(struct dli_zk_session *session)
{
    dlock_error reason = {.code = DLOCK_OK};

    dli_fail(&reason, DLOCK_INVALID_OPTION,
             "The member %s gives sessions of at most %d ms, and lease_ms is %lld: lower it, or raise "
             "maxSessionTimeout at the servers.",
             session->conn->target->text, (int)(session->timeout / DLI_ZK_MS), (long long)(session->lease / DLI_ZK_MS));
    session->gone = dli_now() + 4 * session->timeout;
    leave_list(session);
    dli_zk_link_fail(session, &reason, 0);
}

void dli_zk_session_up(struct dli_zk_session *session, const struct dli_zk_ticket *ticket)
{
    int fresh = session->ticket.id == 0;

    if (ticket->timeout <= 0 && fresh) {
        dli_zk_leave(session, DLOCK_OK, "began no session");
        return;
    }
    if (ticket->timeout <= 0) {
        session->gone = 0;
        dli_zk_session_lost(session);
        return;
    }
    session->ticket = *ticket;
    session->timeout = (int64_t)ticket->timeout * DLI_ZK_MS;
    session->bells = 0;
    dli_zk_begun(session, session->greeted, fresh);
    if (fresh) {
        session->gone = INT64_MAX;
        if (session->timeout < session->lease)
            too_short(session);
    } else if (!session->over) {
        dli_zk_entries_doubt(session);
    }
    dli_zk_gates_doubt(session->zk);
}

void dli_zk_session_down(struct dli_zk_session *session)
{
    struct dli_zk *zk = session->zk;

    if (!zk->lanes.shut && !session->over)
        zk->store.hooks->log(zk->store.owner, session->reason.code, session->reason.message);
}

/* ---- its end */

/* Answered or not, its connection is over. It is tried again until the server must have forgotten it. */
static void bye_ended(struct dli_zk_call *call)
{
    struct dli_zk_session *session = DLI_OBJECT(call, struct dli_zk_session, bye);

    if (call->status == DLOCK_OK)
        session->gone = 0;
}

void dli_zk_say_bye(struct dli_zk_session *session)
{
    struct dli_zk_ask ask = {.op = DLI_ZK_CLOSE};

    if (session->bye.session || session->phase != DLI_ZK_UP)
        return;
    session->bye.deadline = dli_now() + session->zk->patience;
    if (dli_zk_begin(session, &session->bye, &ask))
        dli_zk_leave(session, DLOCK_OK, "cannot be written to");
}

void dli_zk_session_lost(struct dli_zk_session *session)
{
    dlock_error reason = {.code = DLOCK_UNREACHABLE, .message = "The session at ZooKeeper is over."};
    struct dli_zk *zk = session->zk;

    if (session->over || !session->ticket.id)
        return;
    session->gone = session->gone ? dli_now() + 4 * session->timeout : 0;
    leave_list(session);
    dli_zk_cancel(&session->beat);
    dli_zk_link_fail(session, &reason, 1);
    dli_zk_resume(session);
    zk->store.hooks->lapsed(zk->store.owner, session->lease - DLI_ZK_MS, session->lease);
    dli_zk_hint_orphans(zk);
    dli_zk_gates_doubt(zk);
}

/* ---- the end of all */

static void step_bye(void *owner, struct dli_link *link)
{
    struct dli_zk_session *session = DLI_OBJECT(link, struct dli_zk_session, link);

    (void)owner;
    if (session->bye.session)
        dli_zk_link_step(session, dli_now());
}

/* One that has not said good-bye yet. NULL: all have. */
static const struct dli_zk_session *one_open(const struct dli_zk *zk)
{
    for (const struct dli_link *link = zk->sessions.next; link != &zk->sessions; link = link->next)
        if (DLI_OBJECT(link, struct dli_zk_session, link)->bye.session)
            return DLI_OBJECT(link, struct dli_zk_session, link);
    return NULL;
}

/* Step all until each has said good-bye, or its connection is lost. */
static void drain(struct dli_zk *zk, int64_t deadline)
{
    while (dli_now() < deadline) {
        const struct dli_zk_session *open;

        dli_list_each(&zk->sessions, step_bye, NULL);
        if (!(open = one_open(zk)))
            return;
        dli_conn_wait(open->conn, dli_conn_poll(open->conn).events, deadline);
    }
}

static void end_session(void *owner, struct dli_link *link)
{
    struct dli_zk_session *session = DLI_OBJECT(link, struct dli_zk_session, link);
    const dlock_error *reason = owner;
    struct dli_link *parked;

    dli_zk_cancel(&session->beat);
    dli_zk_link_fail(session, reason, 0);
    while ((parked = dli_list_pop(&session->parked)))
        dli_zk_fail(dli_zk_job_at(parked), DLOCK_CLOSED, reason->message);
    dli_zk_say_bye(session);
}

/* Nobody steps it any more. */
static void hang_up(void *owner, struct dli_link *link)
{
    struct dli_zk_session *session = DLI_OBJECT(link, struct dli_zk_session, link);

    (void)owner;
    dli_conn_close(session->conn);
    session->phase = DLI_ZK_DOWN;
}

void dli_zk_sessions_end(struct dli_zk *zk)
{
    dlock_error reason = {.code = DLOCK_CLOSED, .message = "the client was closed"};

    dli_list_each(&zk->sessions, end_session, &reason);
    drain(zk, dli_now() + LAST);
    dli_list_each(&zk->sessions, hang_up, NULL);
    dli_list_each(&zk->ended, hang_up, NULL);
}

void dli_zk_sessions_free(struct dli_zk *zk)
{
    while (!dli_list_empty(&zk->sessions))
        dli_zk_session_free(DLI_OBJECT(zk->sessions.next, struct dli_zk_session, link));
    while (!dli_list_empty(&zk->ended))
        dli_zk_session_free(DLI_OBJECT(zk->ended.next, struct dli_zk_session, link));
}
