/*
 * heartbeat.c: how long a session lasts. Its heartbeat keeps all locks that have it. Belongs to lane 0's thread.
 *
 * The leader ends a session when it has not heard of it for its timeout. It hears of it at once when a session begins or comes
 * to another member. Of requests it hears from the member, at the latest half a tick after they came, and half a tick is at
 * most a quarter of the timeout. So an answer that came through the leader shows that it has heard of all requests which
 * were sent a quarter of the timeout earlier; the session lasts from the latest of them. A member that is cut off from the
 * leader answers no heartbeat, since that is a sync.
 *
 * So that a lease counts from the last heartbeat nevertheless, the timeout that is asked for is a third longer.
 */
#include <string.h>

#include "inner.h"

enum { AGAIN = 50 * 1000 };

/* Each heartbeat is a twelfth of the timeout after the one before. */
enum { BEATS = 12, NEAR = 4 };

/* When the session is over by our clock, which may be slow. */
static int64_t ends(const struct dli_zk_session *session)
{
    return session->since + session->timeout - session->timeout / 1000000 * session->zk->drift_ppm;
}

static int64_t attempt(const struct dli_zk_session *session)
{
    int64_t most = session->zk->patience, part = session->timeout / 9;

    return part < most ? part : most;
}

int64_t dli_zk_since(const struct dli_zk_session *session, int64_t lease)
{
    return session->since + session->timeout - lease;
}

/* ---- the stamps of answers */

/* An answer to what was sent then has come through the leader. */
static void confirm(struct dli_zk_session *session, int64_t stamp)
{
    int64_t *last = &session->stamp[DLI_ZK_STAMPS - 1];

    for (int i = DLI_ZK_STAMPS - session->stamps; i < DLI_ZK_STAMPS; i++)
        if (session->stamp[i] <= stamp - session->timeout / NEAR && session->stamp[i] > session->since)
            session->since = session->stamp[i];
    if (session->stamps && stamp - *last < session->timeout / BEATS / 2)
        return;
    memmove(session->stamp, session->stamp + 1, sizeof session->stamp - sizeof session->stamp[0]);
    *last = stamp;
    session->stamps += session->stamps < DLI_ZK_STAMPS;
}

void dli_zk_begun(struct dli_zk_session *session, int64_t stamp, int fresh)
{
    session->ask_at = stamp + session->timeout / BEATS;
    confirm(session, stamp);
    if (fresh)
        session->since = stamp;
}

/* ---- parked jobs */

void dli_zk_refresh(struct dli_job *job, struct dli_zk_session *session, void (*resumed)(struct dli_job *job))
{
    job->resumed = resumed;
    job->session = session;
    dli_list_append(&session->parked, &job->base.link);
    session->ask_at = 0;
}

void dli_zk_resume(struct dli_zk_session *session)
{
    struct dli_link all, *link;

    dli_list_init(&all);
    while ((link = dli_list_pop(&session->parked)))
        dli_list_append(&all, link);
    while ((link = dli_list_pop(&all))) {
        struct dli_job *job = dli_zk_job_at(link);

        job->resumed(job);
    }
}

/* Jobs that wait for a heartbeat do not wait longer than they may. */
static void expire_parked(void *owner, struct dli_link *link)
{
    struct dli_job *job = dli_zk_job_at(link);
    const dlock_error *reason = &job->session->reason;
    const int64_t *now = owner;

    if (*now < job->request.deadline)
        return;
    dli_list_remove(link);
    job->request.sent = 1;
    dli_zk_fail(job, DLOCK_UNREACHABLE,
                reason->code != DLOCK_OK ? reason->message : "No heartbeat was answered in time.");
}

/* ---- heartbeats */

static void beat(struct dli_zk_session *session, int64_t now)
{
    struct dli_zk_ask ask = {.op = DLI_ZK_SYNC, .path = {"/", 1}};

    if (session->beat.session || session->phase != DLI_ZK_UP)
        return;
    session->beat.deadline = now + attempt(session);
    if (dli_zk_begin(session, &session->beat, &ask))
        session->ask_at = now + AGAIN;
}

void dli_zk_beat_ended(struct dli_zk_call *call)
{
    struct dli_zk_session *session = DLI_OBJECT(call, struct dli_zk_session, beat);

    session->ask_at = dli_now() + AGAIN;
    if (call->status != DLOCK_OK || call->error) {
        if (call->error == DLI_ZK_SESSION_EXPIRED)
            dli_zk_session_lost(session);
        else
            dli_zk_leave(session, DLOCK_OK, "does not answer heartbeats");
        return;
    }
    session->ask_at = call->sent_at + session->timeout / BEATS;
    confirm(session, call->sent_at);
    dli_zk_resume(session);
}

/* ---- steps */

static void step_session(void *owner, struct dli_link *link)
{
    struct dli_zk_session *session = DLI_OBJECT(link, struct dli_zk_session, link);
    int64_t now = *(const int64_t *)owner;

    dli_zk_link_step(session, now);
    if (session->over)
        return;
    if (session->ticket.id && now >= ends(session)) {
        dli_zk_session_lost(session);
        return;
    }
    if (session->ticket.id && now >= session->ask_at)
        beat(session, now);
    if (session->beat.session)
        dli_zk_link_step(session, now);
    dli_list_each(&session->parked, expire_parked, owner);
}

static void step_ended(void *owner, struct dli_link *link)
{
    struct dli_zk_session *session = DLI_OBJECT(link, struct dli_zk_session, link);
    int64_t now = *(const int64_t *)owner;

    if (now < session->gone) {
        dli_zk_say_bye(session);
        dli_zk_link_step(session, now);
    }
    if (now >= session->gone)
        dli_zk_session_free(session);
}

void dli_zk_sessions_step(struct dli_zk *zk, int64_t now)
{
    dli_list_each(&zk->sessions, step_session, &now);
    dli_list_each(&zk->ended, step_ended, &now);
}

static int64_t alarm_of(const struct dli_zk_session *session)
{
    int64_t at = dli_zk_link_alarm(session), other = session->ticket.id ? ends(session) : INT64_MAX;

    if (session->over)
        return session->gone < at ? session->gone : at;
    at = other < at ? other : at;
    if (session->phase == DLI_ZK_UP && !session->beat.session && session->ask_at < at)
        at = session->ask_at;
    for (const struct dli_link *link = session->parked.next; link != &session->parked; link = link->next) {
        other = dli_zk_job_at(link)->request.deadline;
        at = other < at ? other : at;
    }
    return at;
}

int64_t dli_zk_sessions_alarm(const struct dli_zk *zk)
{
    const struct dli_link *lists[] = {&zk->sessions, &zk->ended};
    int64_t at = INT64_MAX;

    for (int i = 0; i < 2; i++)
        for (const struct dli_link *link = lists[i]->next; link != lists[i]; link = link->next) {
            int64_t other = alarm_of(DLI_OBJECT(link, struct dli_zk_session, link));

            at = other < at ? other : at;
        }
    return at;
}
