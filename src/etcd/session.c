/*
 * session.c: leases. One for each length of a lease; a keep-alive extends all locks that have it. Belongs to lane 0's thread.
 *
 * A session lasts from the stamp of the last keep-alive that was answered and proven, see keepalive.c, until its time to live is over, by our clock.
 * When it is over, by our clock or by the server's word, it is revoked, so that none of its keys stays, and the next
 * request gets another one.
 *
 * A session may have a mark: a key with its lease. Each put of a lock's key names the mark's revision. When a put may still
 * be under way that nobody wants any more, the mark is written anew, and the put fails whenever it arrives.
 */
#include <stdlib.h>
#include <string.h>

#include "inner.h"

enum { AGAIN = 200 * 1000, LAST = 250 * 1000 };

static void grant_ended(struct dli_grpc_call *call);
static void revoke_ended(struct dli_grpc_call *call);

static const struct dli_grpc_method grant_method = {.path = "/etcdserverpb.Lease/LeaseGrant", .ended = grant_ended};
static const struct dli_grpc_method revoke_method = {.path = "/etcdserverpb.Lease/LeaseRevoke", .ended = revoke_ended};

static int64_t seconds_of(int64_t lease)
{
    return (lease + DLI_ETCD_SECOND - 1) / DLI_ETCD_SECOND;
}

void dli_etcd_resume(struct dli_etcd_session *session)
{
    struct dli_link all, *link;

    dli_list_init(&all);
    while ((link = dli_list_pop(&session->parked)))
        dli_list_append(&all, link);
    while ((link = dli_list_pop(&all))) {
        struct dli_job *job = dli_etcd_job_at(link);

        job->resumed(job);
    }
}

/* ---- the grant of a session */

struct dli_etcd_session *dli_etcd_session(struct dli_etcd *etcd, int64_t lease)
{
    int64_t seconds = seconds_of(lease);

    for (struct dli_link *link = etcd->sessions.next; link != &etcd->sessions; link = link->next) {
        struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);

        if (session->seconds == seconds && session->id)
            return session;
    }
    return NULL;
}

static struct dli_etcd_session *pending(struct dli_etcd *etcd, int64_t seconds)
{
    for (struct dli_link *link = etcd->sessions.next; link != &etcd->sessions; link = link->next) {
        struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);

        if (session->seconds == seconds)
            return session;
    }
    return NULL;
}

static void free_session(struct dli_etcd_session *session)
{
    dli_grpc_cancel(&session->call);
    dli_grpc_call_free(&session->call);
    dli_list_remove(&session->link);
    free(session);
}

/* All jobs that wait for the grant get its reason. */
static void grant_failed(struct dli_etcd_session *session, dlock_status status, const char *sentence)
{
    struct dli_link *link;

    while ((link = dli_list_pop(&session->parked))) {
        struct dli_job *job = dli_etcd_job_at(link);

        dli_etcd_bind(job, NULL);
        dli_etcd_fail(job, status, sentence);
    }
    free_session(session);
}

static void ask_grant(struct dli_etcd_session *session)
{
    dli_buffer_drop(&session->call.out, session->call.out.size);
    session->asked = dli_now();
    if (dli_etcd_encode_lease_grant(&session->call.out, session->seconds))
        grant_failed(session, DLOCK_OUT_OF_MEMORY, "no memory for a lease");
    else
        dli_grpc_begin(&session->etcd->grpc, &session->call);
}

/* Whether another session has a lease of this id. */
static int is_taken(const struct dli_etcd *etcd, int64_t id)
{
    for (const struct dli_link *link = etcd->sessions.next; link != &etcd->sessions; link = link->next)
        if (DLI_OBJECT(link, struct dli_etcd_session, link)->id == id)
            return 1;
    return 0;
}

static void grant_ended(struct dli_grpc_call *call)
{
    struct dli_etcd_session *session = DLI_OBJECT(call, struct dli_etcd_session, call);
    struct dli_etcd_lease lease;
    struct dli_etcd_talk talk = dli_etcd_talk_of(call);

    if (dli_etcd_token_is_old(session->etcd, call) && session->tries++ < DLI_ETCD_TRIES) {
        dli_etcd_logout(session->etcd);
        ask_grant(session);
        return;
    }
    if (call->status != DLOCK_OK) {
        grant_failed(session, call->status, call->reason.message);
        return;
    }
    if (dli_etcd_decode_grant(&talk, &lease) || is_taken(session->etcd, lease.id)) {
        grant_failed(session, DLOCK_PROTOCOL_ERROR, "The server granted no lease.");
        return;
    }
    session->id = lease.id;
    session->ttl = lease.ttl * DLI_ETCD_SECOND;
    session->born = lease.revision;
    session->since = session->asked;
    session->asked = 0;
    session->ask_at = session->since + session->ttl / 3;
    dli_etcd_resume(session);
}

static struct dli_etcd_session *session_new(struct dli_etcd *etcd, int64_t seconds)
{
    struct dli_etcd_session *session = calloc(1, sizeof *session);

    if (!session)
        return NULL;
    session->etcd = etcd;
    session->seconds = seconds;
    session->call.method = &grant_method;
    session->call.deadline = INT64_MAX;
    dli_list_init(&session->parked);
    dli_list_init(&session->link);
    dli_list_append(&etcd->sessions, &session->link);
    return session;
}

int64_t dli_etcd_since(const struct dli_etcd_session *session, int64_t lease)
{
    return session->since + session->ttl - lease;
}

int dli_etcd_enter(struct dli_job *job, int64_t lease, void (*resumed)(struct dli_job *job))
{
    struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    struct dli_etcd_session *session = pending(etcd, seconds_of(lease));
    int begun = session != NULL;

    if (!session && !(session = session_new(etcd, seconds_of(lease)))) {
        dli_etcd_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a lease");
        return 0;
    }
    dli_etcd_bind(job, session);
    if (session->id)
        return 1;
    job->resumed = resumed;
    dli_list_append(&session->parked, &job->base.link);
    if (job->request.deadline < session->call.deadline)
        session->call.deadline = job->request.deadline;
    if (!begun)
        ask_grant(session);
    return 0;
}

/* ---- its end */

void dli_etcd_revoke(struct dli_etcd_session *session)
{
    struct dli_grpc_call *call = &session->call;

    call->method = &revoke_method;
    call->deadline = dli_now() + session->etcd->patience;
    dli_buffer_drop(&call->out, call->out.size);
    if (dli_etcd_encode_lease(&call->out, session->id) == 0)
        dli_grpc_begin(&session->etcd->grpc, call);
}

/* Answered, also when the server does not know it: its keys are gone. Else it is tried again. */
static void revoke_ended(struct dli_grpc_call *call)
{
    struct dli_etcd_session *session = DLI_OBJECT(call, struct dli_etcd_session, call);

    session->ask_at = call->status == DLOCK_OK || call->code > 0 ? INT64_MAX : dli_now() + AGAIN;
    if (dli_now() > session->gone)
        session->ask_at = INT64_MAX;
}

void dli_etcd_session_lost(struct dli_etcd_session *session)
{
    struct dli_etcd *etcd = session->etcd;
    int64_t most = session->seconds * DLI_ETCD_SECOND;

    if (session->over || !session->id)
        return;
    session->over = 1;
    session->ask_at = INT64_MAX;
    session->gone = dli_now() + 4 * session->ttl;
    dli_list_remove(&session->link);
    dli_list_append(&etcd->ended, &session->link);
    dli_etcd_revoke(session);
    dli_etcd_resume(session);
    etcd->store.hooks->lapsed(etcd->store.owner, most - DLI_ETCD_SECOND, most);
    dli_etcd_hint_all(etcd);
}

static void end_at_server(void *owner, struct dli_link *link)
{
    struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);

    (void)owner;
    dli_grpc_cancel(&session->call);
    if (session->id)
        dli_etcd_revoke(session);
}

static void end_parked(void *owner, struct dli_link *link)
{
    struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);
    struct dli_link *parked;

    (void)owner;
    while ((parked = dli_list_pop(&session->parked)))
        dli_etcd_fail(dli_etcd_job_at(parked), DLOCK_CLOSED, "the client was closed");
}

/* A server may end many of them: one that is revoked, and that no job has, goes. */
static void step_ended(void *owner, struct dli_link *link)
{
    struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);
    const int64_t *now = owner;

    if (session->call.grpc)
        return;
    if (session->ask_at == INT64_MAX && session->users == 0)
        free_session(session);
    else if (*now >= session->ask_at)
        dli_etcd_revoke(session);
}

void dli_etcd_ended_step(struct dli_etcd *etcd, int64_t now)
{
    dli_list_each(&etcd->ended, step_ended, &now);
}

void dli_etcd_sessions_end(struct dli_etcd *etcd)
{
    dli_list_each(&etcd->sessions, end_at_server, NULL);
    dli_grpc_cancel(&etcd->alive);
    dli_grpc_cancel(&etcd->proof);
    dli_grpc_cancel(&etcd->watches);
    dli_grpc_drain(&etcd->grpc, dli_now() + LAST);
    dli_list_each(&etcd->sessions, end_parked, NULL);
}

void dli_etcd_sessions_free(struct dli_etcd *etcd)
{
    while (!dli_list_empty(&etcd->sessions))
        free_session(DLI_OBJECT(etcd->sessions.next, struct dli_etcd_session, link));
    while (!dli_list_empty(&etcd->ended))
        free_session(DLI_OBJECT(etcd->ended.next, struct dli_etcd_session, link));
}
