/*
 * keepalive.c: the stream of keep-alives, and what the sessions' clocks say. See session.c. Belongs to lane 0's thread.
 *
 * A leader answers keep-alives by itself. One that was deposed and does not know it answers them, too, while the next leader lets
 * the lease end. So an answer counts only when a read after it has proof of a majority, and both name one term: the member had it
 * before it asked its leader to keep the lease, and that leader still led afterwards. One read proves the answers of all sessions
 * before it.
 */
#include "inner.h"

enum { AGAIN = 50 * 1000 };

static void alive_message(struct dli_grpc_call *call, const char *bytes, size_t size);
static void alive_ended(struct dli_grpc_call *call);
static void proof_ended(struct dli_grpc_call *call);

static const struct dli_grpc_method alive_method = {.path = "/etcdserverpb.Lease/LeaseKeepAlive",
                                                    .streaming = 1,
                                                    .leader = 1,
                                                    .message = alive_message,
                                                    .ended = alive_ended};
static const struct dli_grpc_method proof_method = {.path = "/etcdserverpb.KV/Txn", .ended = proof_ended};

/* When the session is over by our clock, which may be slow. */
static int64_t ends(const struct dli_etcd_session *session)
{
    return session->since + session->ttl - session->ttl / 1000000 * session->etcd->drift_ppm;
}

/* How long one keep-alive may take. */
static int64_t attempt(const struct dli_etcd_session *session)
{
    int64_t most = session->etcd->patience, part = session->ttl / 9;

    return part < most ? part : most;
}

/* Its keep-alive is not answered yet. A proof has a deadline of its own. */
static int is_silent(const struct dli_etcd_session *session)
{
    return session->asked && !session->heard;
}

static void ask(struct dli_etcd_session *session, int64_t now)
{
    struct dli_etcd *etcd = session->etcd;

    if (session->asked || !etcd->grpc.session)
        return;
    if (dli_etcd_encode_lease(&etcd->alive.out, session->id))
        return;
    session->asked = now;
    if (etcd->alive.grpc) {
        dli_grpc_more(&etcd->alive);
        return;
    }
    etcd->alive.method = &alive_method;
    etcd->alive.deadline = INT64_MAX;
    dli_grpc_begin(&etcd->grpc, &etcd->alive);
}

/* The keep-alive is over. The next one comes then. */
static void repeat(struct dli_etcd_session *session, int64_t at)
{
    session->asked = session->heard = 0;
    session->proving = 0;
    session->ask_at = at;
}

void dli_etcd_refresh(struct dli_job *job, struct dli_etcd_session *session, void (*resumed)(struct dli_job *job))
{
    job->resumed = resumed;
    dli_etcd_bind(job, session);
    dli_list_append(&session->parked, &job->base.link);
    session->ask_at = 0;
}

static struct dli_etcd_session *by_id(struct dli_etcd *etcd, int64_t id)
{
    for (struct dli_link *link = etcd->sessions.next; link != &etcd->sessions; link = link->next)
        if (DLI_OBJECT(link, struct dli_etcd_session, link)->id == id)
            return DLI_OBJECT(link, struct dli_etcd_session, link);
    return NULL;
}

/* ---- proofs */

static void mark_proving(void *owner, struct dli_link *link)
{
    struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);

    (void)owner;
    session->proving = session->heard != 0;
}

/* Any key will do. */
static void prove(struct dli_etcd_session *session)
{
    struct dli_grpc_call *call = &session->etcd->proof;
    struct dli_etcd_txn txn = {0};
    char key[DLI_ETCD_MARK_MAX];

    if (call->grpc)
        return;
    dli_etcd_then(&txn, DLI_ETCD_RANGE, dli_etcd_mark(session, key));
    dli_buffer_drop(&call->out, call->out.size);
    if (dli_etcd_encode_txn(&call->out, &txn)) {
        repeat(session, dli_now() + AGAIN);
        return;
    }
    dli_list_each(&session->etcd->sessions, mark_proving, NULL);
    call->method = &proof_method;
    call->deadline = dli_now() + attempt(session);
    dli_grpc_begin(&session->etcd->grpc, call);
}

static void judge(void *owner, struct dli_link *link)
{
    struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);
    const int64_t *term = owner;

    if (!session->proving)
        return;
    if (session->heard_term != *term) {
        repeat(session, dli_now() + AGAIN);
        return;
    }
    session->ttl = session->heard_ttl;
    session->since = session->asked;
    repeat(session, session->since + session->ttl / 3);
    dli_etcd_resume(session);
}

static void prove_late(void *owner, struct dli_link *link)
{
    struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);

    (void)owner;
    if (session->heard)
        prove(session);
}

static void proof_ended(struct dli_grpc_call *call)
{
    struct dli_etcd *etcd = DLI_OBJECT(call, struct dli_etcd, proof);
    struct dli_etcd_talk talk = dli_etcd_talk_of(call);
    struct dli_etcd_reply reply;
    int64_t term = -1;

    if (dli_etcd_token_is_old(etcd, call))
        dli_etcd_logout(etcd);
    else if (call->status == DLOCK_OK && dli_etcd_decode_txn(&talk, &reply))
        dli_grpc_refuse(&etcd->grpc, DLOCK_PROTOCOL_ERROR, "sent what is no answer to its call");
    else if (call->status == DLOCK_OK)
        term = reply.term;
    dli_list_each(&etcd->sessions, judge, &term);
    dli_list_each(&etcd->sessions, prove_late, NULL);
}

/* ---- answers */

static void alive_message(struct dli_grpc_call *call, const char *bytes, size_t size)
{
    struct dli_etcd *etcd = DLI_OBJECT(call, struct dli_etcd, alive);
    struct dli_etcd_session *session;
    struct dli_etcd_lease lease;

    if (dli_etcd_decode_alive(dli_etcd_text(bytes, size), &lease)) {
        dli_grpc_refuse(&etcd->grpc, DLOCK_PROTOCOL_ERROR, "sent what is no answer to a keep-alive");
        return;
    }
    if (!(session = by_id(etcd, lease.id)) || !session->asked || session->heard)
        return;
    if (lease.ttl == 0) {
        dli_etcd_session_lost(session);
        return;
    }
    session->heard = dli_now();
    session->heard_ttl = lease.ttl * DLI_ETCD_SECOND;
    session->heard_term = lease.term;
    prove(session);
}

/* The stream is over, with all answers that it owed. */
static void alive_ended(struct dli_grpc_call *call)
{
    struct dli_etcd *etcd = DLI_OBJECT(call, struct dli_etcd, alive);

    dli_buffer_drop(&call->out, call->out.size);
    dli_buffer_drop(&call->in, call->in.size);
    for (struct dli_link *link = etcd->sessions.next; link != &etcd->sessions; link = link->next) {
        struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);

        if (session->id && session->asked)
            repeat(session, dli_now() + AGAIN);
    }
    if (etcd->grpc.session && call->code > 0)
        dli_grpc_leave(&etcd->grpc, "does not keep leases alive now");
}

/* Jobs that wait for a keep-alive do not wait longer than they may. */
static void expire_parked(void *owner, struct dli_link *link)
{
    struct dli_job *job = dli_etcd_job_at(link);
    const struct dli_grpc *grpc = &dli_etcd_at(job->base.lane)->grpc;
    const int64_t *now = owner;

    if (*now < job->request.deadline)
        return;
    dli_list_remove(link);
    job->request.sent = 1;
    dli_etcd_fail(job, DLOCK_UNREACHABLE,
                  grpc->reason.code != DLOCK_OK ? grpc->reason.message : "No keep-alive was answered in time.");
}

void dli_etcd_sessions_doubt(struct dli_etcd *etcd)
{
    for (struct dli_link *link = etcd->sessions.next; link != &etcd->sessions; link = link->next)
        DLI_OBJECT(link, struct dli_etcd_session, link)->ask_at = 0;
}

void dli_etcd_sessions_up(struct dli_etcd *etcd)
{
    for (struct dli_link *link = etcd->sessions.next; link != &etcd->sessions; link = link->next) {
        struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);

        if (session->id && is_silent(session))
            session->asked = dli_now();
    }
}

static void step_session(void *owner, struct dli_link *link)
{
    struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);
    int64_t now = *(const int64_t *)owner;

    if (!session->id)
        return;
    if (now >= ends(session)) {
        dli_etcd_session_lost(session);
        return;
    }
    if (is_silent(session) && session->etcd->grpc.session && now >= session->asked + attempt(session))
        dli_grpc_leave(&session->etcd->grpc, "does not answer keep-alives");
    else if (!session->asked && now >= session->ask_at)
        ask(session, now);
    dli_list_each(&session->parked, expire_parked, owner);
}

void dli_etcd_sessions_step(struct dli_etcd *etcd, int64_t now)
{
    dli_list_each(&etcd->sessions, step_session, &now);
    dli_etcd_ended_step(etcd, now);
}

static int64_t alarm_of(const struct dli_etcd_session *session)
{
    int64_t at = ends(session), other = session->ask_at;

    if (session->asked)
        other = is_silent(session) ? session->asked + attempt(session) : INT64_MAX;
    if (!session->id)
        return INT64_MAX;
    if (!session->etcd->grpc.session) /* up() asks, and counts anew how long it takes */
        other = at;
    at = other < at ? other : at;
    for (const struct dli_link *link = session->parked.next; link != &session->parked; link = link->next) {
        other = dli_etcd_job_at(link)->request.deadline;
        at = other < at ? other : at;
    }
    return at;
}

int64_t dli_etcd_sessions_alarm(const struct dli_etcd *etcd)
{
    int64_t at = INT64_MAX;

    for (const struct dli_link *link = etcd->sessions.next; link != &etcd->sessions; link = link->next) {
        int64_t other = alarm_of(DLI_OBJECT(link, struct dli_etcd_session, link));

        at = other < at ? other : at;
    }
    for (const struct dli_link *link = etcd->ended.next; link != &etcd->ended; link = link->next) {
        const struct dli_etcd_session *session = DLI_OBJECT(link, struct dli_etcd_session, link);

        if (!session->call.grpc && session->ask_at < at)
            at = session->ask_at;
    }
    return at;
}
