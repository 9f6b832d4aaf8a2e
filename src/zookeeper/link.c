/*
 * link.c: the connection of a session to one of the members, and the calls on it. Belongs to lane 0's thread.
 *
 * It goes on to the next member when this one fails or does not answer. A call that has begun before the connection is up
 * waits for it, until its deadline. When the connection is lost, all calls that were sent end. A reply to a call that
 * was given up is passed over: replies come in the order of requests.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "inner.h"

enum { PIECE = 16 * 1024, PIECES = 16, BIG = 256 * 1024, KEPT_MAX = 12 * 1024 * 1024 };
enum { PAUSE = 20 * 1000, SILENCE = 500 * 1000, XIDS = 0x7fffffff };

/* The greeting is ours to send. */
static void greet(struct dli_conn *conn)
{
    conn->state = DLI_CONN_READY;
}

const struct dli_protocol dli_zk_protocol = {
    .plain = "zookeeper",
    .secure = "zookeepers",
    .greet = greet,
    .greet_step = greet,
};

/* ---- the connection */

int dli_zk_link_init(struct dli_zk_session *session, int at)
{
    dli_list_init(&session->waiting);
    dli_list_init(&session->flying);
    session->at = at;
    session->conn = dli_conn_new(&session->zk->member[at]);
    return session->conn ? 0 : -1;
}

void dli_zk_link_fini(struct dli_zk_session *session)
{
    dli_buffer_free(&session->in);
    dli_conn_free(session->conn);
}

/* The next step connects to the next member. */
static void lose(struct dli_zk_session *session, const dlock_error *reason)
{
    dlock_error why = *reason;
    int was_up = session->phase == DLI_ZK_UP;

    dli_conn_close(session->conn);
    dli_buffer_drop(&session->in, session->in.size);
    session->phase = DLI_ZK_DOWN;
    session->leaves = NULL;
    session->reason = why;
    dli_zk_calls_fail(&session->flying, &why, 0);
    if (was_up)
        dli_zk_session_down(session);
}

static void next_member(struct dli_zk_session *session)
{
    struct dli_conn *conn;
    int at = (session->at + 1) % session->zk->members;

    if (session->zk->members == 1 || !(conn = dli_conn_new(&session->zk->member[at])))
        return;
    dli_conn_free(session->conn);
    session->conn = conn;
    session->at = at;
}

void dli_zk_leave(struct dli_zk_session *session, dlock_status refused, const char *why)
{
    if (session->phase == DLI_ZK_DOWN || session->leaves)
        return;
    session->leaves = why;
    session->refused = refused;
}

static void leave(struct dli_zk_session *session, int64_t now)
{
    dlock_status refused = session->refused;
    dlock_error reason = {.code = DLOCK_OK};

    dli_fail(&reason, refused ? refused : DLOCK_UNREACHABLE, "The member %s %s.", session->conn->target->text,
             session->leaves);
    if (refused)
        dli_budget_failed(&session->zk->budget, &reason, now);
    session->refused = DLOCK_OK;
    lose(session, &reason);
    if (refused == DLOCK_DENIED)
        dli_zk_calls_fail(&session->waiting, &reason, 0);
    next_member(session);
}

static void failed(struct dli_zk_session *session, int64_t now)
{
    dlock_error reason = session->conn->reason;

    if (session->phase == DLI_ZK_GREETING)
        dli_fail(&reason, DLOCK_UNREACHABLE,
                 "The member %s closed the connection before a session began: it may have no leader.",
                 session->conn->target->text);
    if (session->phase != DLI_ZK_UP)
        dli_budget_failed(&session->zk->budget, &reason, now);
    lose(session, &reason);
    session->next_at = now + PAUSE;
    next_member(session);
}

/* While the members refuse us, calls need not wait. */
static void connect_now(struct dli_zk_session *session, int64_t now)
{
    dlock_error refusal;
    int64_t at;

    if (dli_budget_refused(&session->zk->budget, &refusal, now))
        dli_zk_calls_fail(&session->waiting, &refusal, 0);
    if (session->zk->lanes.shut || now < session->next_at)
        return;
    if ((at = dli_budget_take(&session->zk->budget, now)) > 0)
        session->next_at = at;
    else
        dli_conn_start(session->conn, now);
}

static void say_hello(struct dli_zk_session *session, int64_t now)
{
    session->zk->lanes.ups++;
    session->phase = DLI_ZK_GREETING;
    session->greeted = session->heard = now;
    if (dli_zk_encode_connect(&session->conn->out, &session->ticket, session->zxid))
        dli_conn_fail(session->conn, DLOCK_OUT_OF_MEMORY, "cannot be written to", "no memory");
}

/* ---- replies. 0, or -1: the bytes are none. */

static int welcomed(struct dli_zk_session *session, struct dli_zk_text frame)
{
    const struct dli_zk *zk = session->zk;
    struct dli_zk_ticket ticket = session->ticket;

    if (dli_zk_decode_connect(frame, &ticket))
        return -1;
    dli_budget_result(&session->zk->budget, 1, session->heard);
    session->phase = DLI_ZK_UP;
    session->replied = session->xid;
    if (zk->user[0] && dli_zk_encode_auth(&session->conn->out, zk->user, zk->password))
        dli_conn_fail(session->conn, DLOCK_OUT_OF_MEMORY, "cannot be written to", "no memory");
    dli_zk_session_up(session, &ticket);
    return 0;
}

static int32_t after(int32_t xid)
{
    return xid < XIDS ? xid + 1 : 1;
}

/* Bytes of answers, and of messages that are not all there. */
static size_t kept(const struct dli_zk *zk)
{
    const struct dli_link *lists[] = {&zk->sessions, &zk->ended};
    size_t size = zk->kept;

    for (int i = 0; i < 2; i++)
        for (const struct dli_link *link = lists[i]->next; link != lists[i]; link = link->next)
            size += DLI_OBJECT(link, struct dli_zk_session, link)->in.room;
    return size;
}

/* Every request that was sent has one reply, in their order. That of a call that was given up is passed over. */
static int answered(struct dli_zk_session *session, const struct dli_zk_reply *reply)
{
    struct dli_zk_call *call = DLI_OBJECT(session->flying.next, struct dli_zk_call, link);
    dlock_error reason = {.code = DLOCK_OUT_OF_MEMORY, .message = "no memory for the reply"};
    int failed;

    if (session->replied == session->xid || reply->xid != after(session->replied))
        return -1;
    session->replied = reply->xid;
    if (dli_list_empty(&session->flying) || call->xid != reply->xid)
        return 0;
    failed = dli_zk_decode_answer(&call->out, reply, &call->answer);
    if (failed == -1)
        return -1;
    session->zk->kept += call->answer.room_size;
    call->error = reply->error;
    if (failed)
        dli_zk_call_fail(call, &reason);
    else
        dli_zk_call_end(call);
    return 0;
}

static int take_frame(struct dli_zk_session *session, struct dli_zk_text frame)
{
    struct dli_zk_reply reply;
    struct dli_zk_text path;
    int32_t type;

    if (session->phase == DLI_ZK_GREETING)
        return welcomed(session, frame);
    if (dli_zk_decode_reply(frame, &reply))
        return -1;
    if (reply.zxid > session->zxid)
        session->zxid = reply.zxid;
    if (reply.xid == DLI_ZK_XID_EVENT) {
        if (dli_zk_decode_event(reply.body, &type, &path))
            return -1;
        if (type)
            dli_zk_event(session, type, path);
        return 0;
    }
    if (reply.xid == DLI_ZK_XID_AUTH) {
        if (reply.error)
            dli_zk_leave(session, DLOCK_DENIED, "refused the user name or password");
        return 0;
    }
    return answered(session, &reply);
}

static int take(struct dli_zk_session *session)
{
    size_t used = 0;
    int64_t size = 0;

    while (session->phase != DLI_ZK_DOWN &&
           (size = dli_zk_decode_frame(session->in.bytes + used, session->in.size - used)) > 0) {
        struct dli_zk_text frame = {session->in.bytes + used + 4, (size_t)size - 4};

        used += (size_t)size;
        if (take_frame(session, frame))
            return -1;
    }
    if (used > 0)
        dli_buffer_drop(&session->in, used < session->in.size ? used : session->in.size);
    return size < 0 ? -1 : 0;
}

static void receive(struct dli_zk_session *session, int64_t now)
{
    char piece[PIECE];

    for (int i = 0; i < PIECES && session->conn->state == DLI_CONN_READY; i++) {
        ssize_t size = dli_conn_read(session->conn, piece, sizeof piece);

        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (size <= 0) {
            if (session->conn->state != DLI_CONN_FAILED)
                dli_conn_fail(session->conn, DLOCK_UNREACHABLE, "closed the connection", NULL);
            return;
        }
        session->heard = now;
        if (dli_buffer_add(&session->in, piece, (size_t)size))
            dli_conn_fail(session->conn, DLOCK_OUT_OF_MEMORY, "cannot be read from", "no memory");
        else if (take(session))
            dli_conn_fail(session->conn, DLOCK_PROTOCOL_ERROR, "sent what is not ZooKeeper's protocol", NULL);
        else if (session->in.size > BIG && kept(session->zk) > KEPT_MAX)
            dli_conn_fail(session->conn, DLOCK_PROTOCOL_ERROR, "sent more than a client keeps", NULL);
        if (dli_conn_is_drained(session->conn, size, sizeof piece))
            return;
    }
}

/* ---- steps */

static void send_waiting(struct dli_zk_session *session, int64_t now)
{
    struct dli_buffer *out = &session->conn->out;
    struct dli_link *link;

    while (session->phase == DLI_ZK_UP && !session->leaves && (link = dli_list_pop(&session->waiting))) {
        struct dli_zk_call *call = DLI_OBJECT(link, struct dli_zk_call, link);
        dlock_error reason = {.code = DLOCK_OUT_OF_MEMORY, .message = "no memory for the call"};

        session->xid = after(session->xid);
        call->xid = session->xid;
        for (int i = 0; i < 4; i++)
            call->out.bytes[4 + i] = (char)((uint32_t)call->xid >> (24 - 8 * i));
        if (dli_buffer_add(out, call->out.bytes, call->out.size)) {
            dli_zk_call_fail(call, &reason);
            continue;
        }
        call->sent = 1;
        call->sent_at = now;
        dli_list_append(&session->flying, &call->link);
    }
}

struct lateness {
    const struct dli_zk_session *session;
    int64_t now;
    int silent; /* the member is silent since one of those that are late was sent */
};

static void end_if_late(void *owner, struct dli_link *link)
{
    struct dli_zk_call *call = DLI_OBJECT(link, struct dli_zk_call, link);
    struct lateness *late = owner;
    const struct dli_zk_session *session = late->session;
    dlock_error reason = session->reason;

    if (late->now < call->deadline)
        return;
    late->silent |= call->sent && call->sent_at > session->heard && late->now > call->sent_at + SILENCE;
    if (call->sent || reason.code == DLOCK_OK || session->phase == DLI_ZK_UP)
        dli_fail(&reason, DLOCK_UNREACHABLE, "The member %s did not answer in time.", session->conn->target->text);
    dli_zk_call_fail(call, &reason);
}

/* End the calls of a list whose time is over. Returns whether the member is silent since one of them was sent. */
static int end_late(struct dli_zk_session *session, struct dli_link *list, int64_t now)
{
    struct lateness late = {.session = session, .now = now};

    dli_list_each(list, end_if_late, &late);
    return late.silent;
}

void dli_zk_link_step(struct dli_zk_session *session, int64_t now)
{
    struct dli_conn *conn = session->conn;

    if (conn->state == DLI_CONN_IDLE || conn->state == DLI_CONN_FAILED)
        connect_now(session, now);
    else if (dli_conn_under_way(conn))
        dli_conn_step(conn, now);
    if (conn->state == DLI_CONN_READY && session->phase == DLI_ZK_DOWN)
        say_hello(session, now);
    send_waiting(session, now);
    if (conn->state == DLI_CONN_READY) {
        dli_conn_flush(conn);
        receive(session, now);
        send_waiting(session, now);
        dli_conn_flush(conn);
    }
    if (conn->state == DLI_CONN_FAILED)
        failed(session, now);
    else if (session->phase == DLI_ZK_GREETING && now >= session->greeted + conn->config->connect_timeout)
        dli_zk_leave(session, DLOCK_OK, "did not answer the greeting in time");
    if (end_late(session, &session->flying, now))
        dli_zk_leave(session, DLOCK_OK, "does not answer");
    end_late(session, &session->waiting, now);
    if (session->leaves)
        leave(session, now);
}

static int64_t earliest(const struct dli_link *list, int64_t at)
{
    for (const struct dli_link *link = list->next; link != list; link = link->next) {
        int64_t deadline = DLI_OBJECT(link, struct dli_zk_call, link)->deadline;

        at = deadline < at ? deadline : at;
    }
    return at;
}

int64_t dli_zk_link_alarm(const struct dli_zk_session *session)
{
    int64_t at = earliest(&session->waiting, earliest(&session->flying, INT64_MAX)), other = at;

    if (session->leaves || (session->phase == DLI_ZK_UP && !dli_list_empty(&session->waiting)))
        return 0;
    if (dli_conn_under_way(session->conn))
        other = session->conn->deadline;
    else if (session->phase == DLI_ZK_GREETING)
        other = session->greeted + session->conn->config->connect_timeout;
    else if (session->phase == DLI_ZK_DOWN && !session->zk->lanes.shut)
        other = session->next_at;
    return other < at ? other : at;
}
