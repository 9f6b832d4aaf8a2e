/*
 * call.c: replies over a READY connection, for an event loop (never blocking) or for one blocking caller. No mutex: a
 * connection belongs to one thread at a time.
 *
 * With TLS the blocking caller sleeps in poll. Otherwise it sleeps in recv with SO_RCVTIMEO, which is set again only if
 * it differs much from the time left. It is set an eighth too short, so that it also suits the next call with about the
 * same time. If recv ends too early, the caller waits for the rest. Busy polling may come before either sleep.
 */
#include "call.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "sentinel.h"
#include "sys/sys.h"

enum { PIECE = 16 * 1024, PIECES_PER_CALL = 4, EXACT_BELOW = 20 * 1000, SHORTEST = 1000 };

/* The reader refused the bytes. */
static void fail_reading(struct dli_conn *conn)
{
    if (dli_reader_starved(conn->reader))
        dli_conn_fail(conn, DLOCK_OUT_OF_MEMORY, "sent an answer for which there is no memory", NULL);
    else
        dli_conn_fail(conn, DLOCK_PROTOCOL_ERROR, "sent what is not the Redis protocol or passes its limits", NULL);
}

/*
 * Fail: something else came instead of a reply, in a handshake without TLS. A TLS port sends an alert (a record of type
 * 21) or hangs up.
 */
static void fail_handshake(struct dli_conn *conn, const char *bytes, ssize_t size, int error)
{
    if (size > 0 && bytes[0] == 21)
        dli_conn_fail(conn, DLOCK_TLS_FAILED, "speaks TLS at this port: the URL must begin with rediss://", NULL);
    else if (size > 0)
        fail_reading(conn);
    else if (size == 0)
        dli_conn_fail(conn, DLOCK_UNREACHABLE, "closed the connection", "perhaps it wants TLS, as in rediss://");
    else
        dli_conn_fail_errno(conn, "lost the connection, perhaps because it wants TLS as in rediss://", error);
}

/* Process the result of recv. 1: fed to the reader, 0: nothing came, -1: FAILED. */
static int take(struct dli_conn *conn, const char *bytes, ssize_t size)
{
    int handshaking = conn->state == DLI_CONN_HANDSHAKE && !conn->tls && !conn->target->path[0];
    if (size > 0 && !(handshaking && bytes[0] == 21) && dli_reader_feed(conn->reader, bytes, (size_t)size) == 0)
        return 1;
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (conn->state == DLI_CONN_FAILED)
        return -1;
    if (handshaking)
        fail_handshake(conn, bytes, size, errno);
    else if (size > 0)
        fail_reading(conn);
    else if (size == 0)
        dli_conn_fail(conn, DLOCK_UNREACHABLE, "closed the connection", NULL);
    else
        dli_conn_fail_errno(conn, "lost the connection", errno);
    return -1;
}

int dli_conn_receive(struct dli_conn *conn)
{
    char piece[PIECE];
    int came = 0;

    conn->drained = 0;
    if (conn->state == DLI_CONN_FAILED)
        return -1;
    for (int i = 0; i < PIECES_PER_CALL; i++) {
        ssize_t size = dli_conn_read(conn, piece, sizeof piece);
        if (came && size <= 0)
            break;
        int taken = take(conn, piece, size);
        if (taken <= 0)
            return taken;
        came = 1;
        conn->drained = dli_conn_is_drained(conn, size, sizeof piece);
        if (conn->tls || conn->drained)
            break;
    }
    return came;
}

int dli_conn_next(struct dli_conn *conn, const struct dli_reply **reply)
{
    if (conn->state == DLI_CONN_FAILED)
        return -1;
    int found = dli_reader_next(conn->reader, reply);
    if (found < 0)
        fail_reading(conn);
    return found;
}

int dli_conn_quiet(struct dli_conn *conn)
{
    char byte;
    ssize_t size = 1;

    if (conn->state != DLI_CONN_READY)
        return 0;
    if (dli_reader_left(conn->reader) == 0) {
        size = conn->tls ? dli_tls_receive(conn, &byte, 1) : recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return 1;
    }
    if (conn->state != DLI_CONN_FAILED)
        dli_conn_fail(conn, DLOCK_UNREACHABLE, size > 0 ? "sent what nobody asked for" : "closed an idle connection",
                      NULL);
    return 0;
}

/* ---- one blocking caller */

static dlock_status fail_late(struct dli_conn *conn)
{
    dli_conn_fail(conn, DLOCK_UNREACHABLE, "did not answer in time", NULL);
    return conn->reason.code;
}

static dlock_status send_all(struct dli_conn *conn, int64_t deadline, int *sent)
{
    size_t whole = conn->out.size;
    for (;;) {
        size_t before = conn->out.size;
        int failed = dli_conn_send(conn);
        *sent |= failed ? before < whole : conn->out.size < whole;
        if (failed)
            return conn->reason.code;
        if (conn->out.size == 0)
            return DLOCK_OK;
        if (dli_now() >= deadline)
            return fail_late(conn);
        dli_conn_wait(conn, conn->tls && !dli_tls_wants_write(conn) ? POLLIN : POLLOUT, deadline);
    }
}

/* Make recv return within left microseconds. */
static void limit_receive(struct dli_conn *conn, int64_t left)
{
    int64_t limit = conn->receive_timeout;
    if (limit > 0 && limit <= left && left - limit <= left / 4)
        return;
    limit = left < EXACT_BELOW ? left : left - left / 8;
    if (limit < SHORTEST)
        limit = SHORTEST;
    struct timeval value = {.tv_sec = (time_t)(limit / 1000000), .tv_usec = (suseconds_t)(limit % 1000000)};
    setsockopt(conn->fd, SOL_SOCKET, SO_RCVTIMEO, &value, sizeof value);
    conn->receive_timeout = limit;
}

/* Read as receive_some does, after a wait of at most left microseconds. */
static ssize_t await_some(struct dli_conn *conn, char *bytes, size_t size, int64_t left)
{
    if (!conn->tls) {
        limit_receive(conn, left);
        return recv(conn->fd, bytes, size, 0);
    }
    dli_conn_wait(conn, dli_tls_wants_write(conn) ? POLLIN | POLLOUT : POLLIN, dli_now() + left);
    return dli_tls_receive(conn, bytes, size);
}

/* The state of busy polling for an answer. */
struct answer {
    struct dli_conn *conn;
    char *bytes;
    size_t size;
    ssize_t came;
    int polled; /* at least once */
};

/* The caller has looked just before it sent: an answer cannot be there at once, and the first read is saved. */
static int poll_once(void *whose, int64_t now)
{
    struct answer *answer = whose;
    (void)now;
    if (!answer->polled++)
        return 0;
    answer->came = dli_conn_read(answer->conn, answer->bytes, answer->size);
    return answer->came >= 0 || errno != EAGAIN;
}

/* Read by busy polling, as long as busy.h allows. */
static ssize_t busy_poll(struct dli_conn *conn, char *bytes, size_t size, int64_t began, int64_t limit)
{
    struct answer answer = {conn, bytes, size, -1, 0};
    if (!dli_busy_poll(&conn->busy, began, limit, poll_once, &answer))
        errno = EAGAIN;
    return answer.came;
}

static dlock_status await_reply(struct dli_conn *conn, int64_t deadline, int64_t began, const struct dli_reply **reply)
{
    char piece[PIECE];
    int64_t limit = conn->config->busy_poll, left = deadline - began;
    ssize_t size = busy_poll(conn, piece, sizeof piece, began, limit < left ? limit : left);
    for (;;) {
        int taken = take(conn, piece, size);
        int found = taken > 0 ? dli_conn_next(conn, reply) : 0;
        if (taken < 0 || found < 0)
            return conn->reason.code;
        if (found > 0)
            break;
        left = deadline - dli_now();
        if (left <= 0)
            return fail_late(conn);
        size = await_some(conn, piece, sizeof piece, left);
    }
    if (dli_reader_left(conn->reader) == 0)
        return DLOCK_OK;
    dli_conn_fail(conn, DLOCK_PROTOCOL_ERROR, "sent more than it was asked for", NULL);
    return conn->reason.code;
}

dlock_status dli_conn_call(struct dli_conn *conn, int64_t deadline, const struct dli_reply **reply, int *sent)
{
    int64_t now = dli_now();
    *sent = 0;
    if (now >= deadline)
        return fail_late(conn);
    if (!dli_conn_quiet(conn))
        return conn->reason.code;
    dlock_status status = send_all(conn, deadline, sent);
    return status ? status : await_reply(conn, deadline, now, reply);
}

/* ---- the protocol */

static int attach(struct dli_conn *conn)
{
    if (!(conn->reader = dli_reader_new()))
        return -1;
    dli_reader_hide(conn->reader, conn->config->password);
    dli_reader_share(conn->reader, conn->config->replies);
    return conn->config->sentinels && !(conn->search = dli_sentinel_search_new()) ? -1 : 0;
}

static void detach(struct dli_conn *conn)
{
    dli_reader_free(conn->reader);
    free(conn->search);
}

static void reset(struct dli_conn *conn)
{
    if (conn->reader)
        dli_reader_reset(conn->reader);
    conn->unanswered = 0;
}

static int search(struct dli_conn *conn, int64_t now)
{
    if (!conn->config->sentinels)
        return 0;
    dli_sentinel_search_start(conn, now);
    return 1;
}

const struct dli_protocol dli_redis_protocol = {
    .plain = "redis",
    .secure = "rediss",
    .attach = attach,
    .detach = detach,
    .reset = reset,
    .search = search,
    .search_step = dli_sentinel_search_step,
    .search_stop = dli_sentinel_search_stop,
    .greet = dli_handshake_start,
    .greet_step = dli_handshake_step,
};
