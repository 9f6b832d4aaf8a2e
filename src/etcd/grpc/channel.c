/*
 * channel.c: the connection of a channel and the life of calls, see grpc.h. No mutex: a channel belongs to one thread.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"
#include "sys/sys.h"

enum {
    PIECE = 16 * 1024,
    PIECES = 16,
    PAUSE = 20 * 1000,
    FAREWELL = 500 * 1000,
    DROPS = 500 * 1000,
    STUCK = 5 * 1000 * 1000
};
enum { KEEP_IN = 4 * 1024, KEEP_OUT = 64 * 1024 }; /* room that a call keeps for the next one */

/* ---- the protocol: HTTP/2 needs no handshake before its first frames */

static void greet(struct dli_conn *conn)
{
    conn->state = DLI_CONN_READY;
}

const struct dli_protocol dli_grpc_protocol = {
    .plain = "etcd",
    .secure = "etcds",
    .alpn = "h2",
    .greet = greet,
    .greet_step = greet,
};

/* ---- calls */

/* A buffer with more room than this is not the call's any more. */
static struct dli_buffer detach(struct dli_buffer *buffer, size_t room)
{
    struct dli_buffer large = {0};

    if (buffer->room > room) {
        large = *buffer;
        *buffer = (struct dli_buffer){0};
    }
    return large;
}

static void wipe(struct dli_buffer *buffer)
{
    if (buffer->room > 0)
        explicit_bzero(buffer->bytes, buffer->room);
}

/* The call may be gone afterwards. A large answer is freed here: many calls that rest would keep much. */
static void tell_ended(struct dli_grpc_call *call)
{
    int secret = call->method->secret;
    struct dli_buffer in, out;

    if (call->method->streaming) {
        call->method->ended(call);
        return;
    }
    call->came = call->in.bytes;
    call->came_size = call->in.size;
    call->asked = call->out.bytes;
    call->asked_size = call->out.size;
    in = detach(&call->in, secret ? 0 : KEEP_IN);
    out = detach(&call->out, secret ? 0 : KEEP_OUT);
    call->method->ended(call);
    if (secret) {
        wipe(&in);
        wipe(&out);
    }
    dli_buffer_free(&in);
    dli_buffer_free(&out);
}

/* A leader that hands its office over is soon of use again: to leave it would cost all watches. */
static int is_of_no_use(struct dli_grpc *grpc, const struct dli_grpc_call *call)
{
    if (!dli_grpc_dropped(call)) {
        if (call->code == 0 && !call->method->streaming)
            grpc->dropping = 0;
        return dli_grpc_unfit(call);
    }
    if (!grpc->dropping)
        grpc->dropping = dli_now();
    return dli_now() - grpc->dropping > DROPS;
}

void dli_grpc_ended(struct dli_grpc_call *call)
{
    call->grpc->taken -= call->in.size;
    if (is_of_no_use(call->grpc, call) && call->grpc->count > 1)
        dli_grpc_leave(call->grpc, "cannot serve now");
    dli_list_remove(&call->link);
    call->grpc = NULL;
    call->stream = 0;
    if (call->status == DLOCK_OK && call->code != 0)
        call->status = DLOCK_PROTOCOL_ERROR;
    tell_ended(call);
}

static void fail_call(struct dli_grpc_call *call, const dlock_error *reason)
{
    call->status = reason->code;
    call->reason = *reason;
    dli_grpc_ended(call);
}

void dli_grpc_begin(struct dli_grpc *grpc, struct dli_grpc_call *call)
{
    dli_grpc_cancel(call);
    call->grpc = grpc;
    call->stream = call->answered = call->sent = 0;
    call->given = call->heads = 0;
    call->stuck = 0;
    call->code = -1;
    call->text[0] = call->said[0] = '\0';
    call->status = DLOCK_OK;
    call->reason.code = DLOCK_OK;
    call->began = dli_now();
    dli_buffer_drop(&call->in, call->in.size);
    dli_list_append(&grpc->waiting, &call->link);
}

void dli_grpc_more(struct dli_grpc_call *call)
{
    if (call->grpc && call->stream > 0)
        nghttp2_session_resume_data(call->grpc->session, call->stream);
}

void dli_grpc_cancel(struct dli_grpc_call *call)
{
    if (!call->grpc)
        return;
    if (call->stream > 0)
        dli_http2_reset(call->grpc, call);
    dli_list_remove(&call->link);
    call->grpc->taken -= call->in.size;
    call->grpc = NULL;
    call->stream = 0;
}

void dli_grpc_call_free(struct dli_grpc_call *call)
{
    dli_buffer_free(&call->out);
    dli_buffer_free(&call->in);
}

/* ---- the connection */

int dli_grpc_init(struct dli_grpc *grpc)
{
    dli_list_init(&grpc->waiting);
    dli_list_init(&grpc->flying);
    grpc->conn = dli_conn_new(&grpc->member[grpc->at]);
    return grpc->conn ? 0 : -1;
}

static void end_session(struct dli_grpc *grpc)
{
    nghttp2_session *session = grpc->session;

    grpc->session = NULL;
    if (session)
        nghttp2_session_del(session);
}

void dli_grpc_fini(struct dli_grpc *grpc)
{
    end_session(grpc);
    dli_conn_free(grpc->conn);
}

/* End all calls of a list. New ones may join it meanwhile. */
static void fail_all(struct dli_link *list, const dlock_error *reason)
{
    struct dli_link ended, *link;

    dli_list_init(&ended);
    while ((link = dli_list_pop(list)))
        dli_list_append(&ended, link);
    while ((link = dli_list_pop(&ended)))
        fail_call(DLI_OBJECT(link, struct dli_grpc_call, link), reason);
}

/* No call has a stream any more: one that ends may cancel another. */
static void forget_streams(struct dli_grpc *grpc)
{
    for (const struct dli_link *link = grpc->flying.next; link != &grpc->flying; link = link->next)
        DLI_OBJECT(link, struct dli_grpc_call, link)->stream = 0;
}

/* The connection is over; all its calls end with reason. The next step connects to the next member. */
static void lose(struct dli_grpc *grpc, const dlock_error *reason)
{
    dlock_error why = *reason;
    int was_up = grpc->session != NULL;

    end_session(grpc);
    dli_conn_close(grpc->conn);
    grpc->leaves = NULL;
    grpc->farewell = grpc->dropping = 0;
    grpc->excess = 0;
    grpc->reason = why;
    forget_streams(grpc);
    fail_all(&grpc->flying, &why);
    if (was_up)
        grpc->down(grpc->owner);
}

/* A connection to the next member, when the time has come. */
static void next_member(struct dli_grpc *grpc)
{
    struct dli_conn *conn;
    int at = (grpc->at + 1) % grpc->count;

    if (grpc->count == 1 || !(conn = dli_conn_new(&grpc->member[at])))
        return;
    dli_conn_free(grpc->conn);
    grpc->conn = conn;
    grpc->at = at;
}

static void leave(struct dli_grpc *grpc)
{
    dlock_error reason = {.code = DLOCK_OK};

    dli_fail(&reason, grpc->refused ? grpc->refused : DLOCK_UNREACHABLE, "The member %s %s.", grpc->conn->target->text,
             grpc->leaves);
    if (grpc->refused)
        dli_budget_failed(grpc->budget, &reason, dli_now());
    lose(grpc, &reason);
    if (grpc->refused == DLOCK_DENIED)
        fail_all(&grpc->waiting, &reason);
    grpc->refused = DLOCK_OK;
    next_member(grpc);
}

void dli_grpc_refuse(struct dli_grpc *grpc, dlock_status status, const char *why)
{
    dli_grpc_leave(grpc, why);
    grpc->refused = status;
}

/* A call of the session may be running: the next step leaves. */
void dli_grpc_leave(struct dli_grpc *grpc, const char *why)
{
    if (grpc->session && !grpc->leaves)
        grpc->leaves = why;
}

void dli_grpc_bid_farewell(struct dli_grpc *grpc)
{
    if (!grpc->farewell)
        grpc->farewell = dli_now() + FAREWELL;
}

/* Streams would go on for ever: nobody waits for their end. */
static int is_farewell_over(const struct dli_grpc *grpc, int64_t now)
{
    if (now >= grpc->farewell)
        return 1;
    for (const struct dli_link *link = grpc->flying.next; link != &grpc->flying; link = link->next)
        if (!DLI_OBJECT(link, struct dli_grpc_call, link)->method->streaming)
            return 0;
    return 1;
}

static void connect_failed(struct dli_grpc *grpc, int64_t now)
{
    dlock_error reason = grpc->conn->reason;

    if (!grpc->session)
        dli_budget_failed(grpc->budget, &reason, now);
    lose(grpc, &reason);
    grpc->next_at = now + PAUSE;
    next_member(grpc);
}

/* While the members refuse us, calls need not wait. */
static void connect_now(struct dli_grpc *grpc, int64_t now)
{
    dlock_error refusal;
    int64_t at;

    if (dli_budget_refused(grpc->budget, &refusal, now))
        fail_all(&grpc->waiting, &refusal);
    if (grpc->shut || now < grpc->next_at)
        return;
    if ((at = dli_budget_take(grpc->budget, now)) > 0) {
        grpc->next_at = at;
        return;
    }
    dli_conn_start(grpc->conn, now);
}

static void connected(struct dli_grpc *grpc, int64_t now)
{
    dlock_error reason = {.code = DLOCK_OUT_OF_MEMORY, .message = "no memory for the connection"};

    dli_budget_result(grpc->budget, 1, now);
    grpc->heard = now;
    if (dli_http2_open(grpc))
        lose(grpc, &reason);
    else
        grpc->up(grpc->owner);
}

/* ---- steps */

static void submit(struct dli_grpc *grpc, struct dli_grpc_call *call, int64_t now)
{
    dlock_error reason = {.code = DLOCK_OUT_OF_MEMORY, .message = "no memory for the call"};

    dli_list_remove(&call->link);
    dli_list_append(&grpc->flying, &call->link);
    if (dli_http2_submit(grpc, call, now))
        fail_call(call, &reason);
}

void dli_grpc_begin_first(struct dli_grpc *grpc, struct dli_grpc_call *call)
{
    dli_grpc_begin(grpc, call);
    if (grpc->session && !grpc->farewell)
        submit(grpc, call, dli_now());
}

static int may_send(const struct dli_grpc *grpc)
{
    return grpc->session && !grpc->leaves && !grpc->farewell && !grpc->hold && !dli_list_empty(&grpc->waiting);
}

static void send_waiting(struct dli_grpc *grpc, int64_t now)
{
    while (may_send(grpc))
        submit(grpc, DLI_OBJECT(dli_list_pop(&grpc->waiting), struct dli_grpc_call, link), now);
}

/* Read what is there. 0, or -1: the connection is over. */
static int receive(struct dli_grpc *grpc, int64_t now)
{
    char piece[PIECE];

    for (int i = 0; i < PIECES; i++) {
        ssize_t size = dli_conn_read(grpc->conn, piece, sizeof piece);

        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (size <= 0) {
            if (grpc->conn->state != DLI_CONN_FAILED)
                dli_conn_fail(grpc->conn, DLOCK_UNREACHABLE, "closed the connection", NULL);
            return -1;
        }
        grpc->heard = now;
        if (dli_http2_take(grpc, piece, (size_t)size)) {
            dli_conn_fail(grpc->conn, DLOCK_PROTOCOL_ERROR,
                          grpc->excess ? "sent more than an answer can have" : "sent what is not gRPC", NULL);
            return -1;
        }
        if (dli_conn_is_drained(grpc->conn, size, sizeof piece))
            return 0;
    }
    return 0;
}

static int send_frames(struct dli_grpc *grpc, int64_t now)
{
    if (dli_http2_give(grpc, now))
        dli_conn_fail(grpc->conn, DLOCK_OUT_OF_MEMORY, "cannot be written to", "no memory");
    dli_conn_flush(grpc->conn);
    return grpc->conn->state == DLI_CONN_FAILED ? -1 : 0;
}

static void late(struct dli_grpc_call *call, const char *member)
{
    if (call->grpc->session && call->stream > 0)
        dli_http2_reset(call->grpc, call);
    call->status = DLOCK_UNREACHABLE;
    dli_fail(&call->reason, call->status, "The member %s did not answer in time.", member);
    dli_grpc_ended(call);
}

struct lateness {
    struct dli_grpc *grpc;
    int64_t now;
    int silent; /* one of those that are late began after the last sign of life */
};

/* Whether the member has taken nothing of a stream for long: what waits to be sent would grow for ever. */
static int is_stuck(struct dli_grpc_call *call, int64_t now)
{
    if (!call->method->streaming || call->stream <= 0 || call->out.size == 0)
        call->stuck = 0;
    else if (!call->stuck)
        call->stuck = now;
    return call->stuck && now - call->stuck > STUCK;
}

static void end_if_late(void *owner, struct dli_link *link)
{
    struct dli_grpc_call *call = DLI_OBJECT(link, struct dli_grpc_call, link);
    struct lateness *lateness = owner;
    struct dli_grpc *grpc = lateness->grpc;

    if (is_stuck(call, lateness->now))
        dli_grpc_leave(grpc, "does not read");
    if (lateness->now < call->deadline)
        return;
    lateness->silent |= call->began > grpc->heard || grpc->count > 1;
    if (!call->sent && grpc->reason.code != DLOCK_OK && (!grpc->session || grpc->hold))
        fail_call(call, &grpc->reason);
    else
        late(call, grpc->conn->target->text);
}

/* End the calls of a list whose time is over. Returns whether there were any that began after the last sign of life. */
static int end_late(struct dli_grpc *grpc, struct dli_link *list, int64_t now)
{
    struct lateness lateness = {.grpc = grpc, .now = now};

    dli_list_each(list, end_if_late, &lateness);
    return lateness.silent;
}

void dli_grpc_step(struct dli_grpc *grpc, int64_t now)
{
    if (grpc->conn->state == DLI_CONN_IDLE || grpc->conn->state == DLI_CONN_FAILED)
        connect_now(grpc, now);
    else if (dli_conn_under_way(grpc->conn))
        dli_conn_step(grpc->conn, now);
    if (grpc->conn->state == DLI_CONN_READY && !grpc->session)
        connected(grpc, now);
    send_waiting(grpc, now);
    if (grpc->session && send_frames(grpc, now) == 0 && receive(grpc, now) == 0)
        send_frames(grpc, now);
    if (grpc->conn->state == DLI_CONN_FAILED)
        connect_failed(grpc, now);
    if (end_late(grpc, &grpc->flying, now))
        dli_grpc_leave(grpc, "does not answer");
    end_late(grpc, &grpc->waiting, now);
    if (grpc->farewell && is_farewell_over(grpc, now))
        dli_grpc_leave(grpc, "is about to stop");
    if (grpc->leaves)
        leave(grpc);
}

static int64_t earliest(const struct dli_link *list, int64_t at)
{
    for (const struct dli_link *link = list->next; link != list; link = link->next) {
        int64_t deadline = DLI_OBJECT(link, struct dli_grpc_call, link)->deadline;

        at = deadline < at ? deadline : at;
    }
    return at;
}

int64_t dli_grpc_alarm(const struct dli_grpc *grpc)
{
    int64_t at = earliest(&grpc->waiting, earliest(&grpc->flying, INT64_MAX));

    if (grpc->leaves || may_send(grpc) || (grpc->session && dli_http2_gives(grpc)))
        return 0;
    if (grpc->farewell && grpc->farewell < at)
        at = grpc->farewell;
    if (grpc->session && grpc->pinged && grpc->pinged + DLI_PING_LIMIT < at)
        at = grpc->pinged + DLI_PING_LIMIT;
    if (dli_conn_under_way(grpc->conn) && grpc->conn->deadline < at)
        return grpc->conn->deadline;
    if (!grpc->session && !dli_conn_under_way(grpc->conn) && !grpc->shut && grpc->next_at < at)
        return grpc->next_at;
    return at;
}

void dli_grpc_drain(struct dli_grpc *grpc, int64_t deadline)
{
    while (grpc->session && dli_now() < deadline) {
        dli_grpc_step(grpc, dli_now());
        if (!grpc->session || (dli_list_empty(&grpc->flying) && dli_list_empty(&grpc->waiting)))
            return;
        dli_conn_wait(grpc->conn, dli_conn_poll(grpc->conn).events, deadline);
    }
}

void dli_grpc_shut(struct dli_grpc *grpc)
{
    dlock_error reason = {.code = DLOCK_CLOSED, .message = "the client was closed"};
    struct dli_link *link;

    grpc->shut = 1;
    lose(grpc, &reason);
    while ((link = dli_list_pop(&grpc->waiting)))
        fail_call(DLI_OBJECT(link, struct dli_grpc_call, link), &reason);
}
