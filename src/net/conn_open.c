/*
 * conn_open.c: from a target to a READY connection: search through sentinels, look up the host, try each address within
 * its share of the time left, then TLS and the handshake. No mutex: a connection belongs to one thread at a time.
 */
#include "conn.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/un.h>

#include "conn_inner.h"
#include "resolve.h"
#include "tls.h"
#include "sys/sys.h"

/* A dead peer is noticed after about 25 seconds of silence, also while data is on its way to it. */
enum { IDLE_SECONDS = 10, PROBE_SECONDS = 5, PROBES = 3, UNACKED_MS = 25000 };

static void set_int(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof value);
}

static void tune_tcp(int fd)
{
    set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, IDLE_SECONDS);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_SECONDS);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKED_MS);
}

void dli_conn_greet(struct dli_conn *conn)
{
    conn->state = DLI_CONN_HANDSHAKE;
    conn->want_write = 1;
    conn->config->protocol->greet(conn);
}

/* From here on only intended calls block: all others pass MSG_DONTWAIT. */
static void connected(struct dli_conn *conn)
{
    fcntl(conn->fd, F_SETFL, 0);
    conn->deadline = conn->give_up;
    if (conn->config->tls)
        dli_tls_start(conn);
    else
        dli_conn_greet(conn);
}

/* Begin to connect to one address. 0: under way or done. -1: connect_error is set. */
static int try_address(struct dli_conn *conn, const struct dli_address *address)
{
    int family = address->sockaddr.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        goto fail;
    dli_conn_use(conn, fd);
    if (family != AF_UNIX)
        tune_tcp(fd);
    if (connect(fd, (const struct sockaddr *)&address->sockaddr, address->size) == 0) {
        connected(conn);
        return 0;
    }
    if (errno != EINPROGRESS)
        goto fail;
    conn->state = DLI_CONN_CONNECTING;
    conn->want_write = 1;
    return 0;

fail:
    conn->connect_error = errno;
    return -1;
}

static void try_next(struct dli_conn *conn, int64_t now)
{
    while (conn->addr_next < conn->addr_count) {
        const struct dli_address *address = &conn->addresses[conn->addr_next];
        conn->deadline = now + (conn->give_up - now) / (conn->addr_count - conn->addr_next);
        conn->addr_next++;
        if (try_address(conn, address) == 0)
            return;
    }
    dli_conn_fail_errno(conn, "cannot be reached", conn->connect_error);
}

static void start_unix(struct dli_conn *conn, int64_t now)
{
    struct sockaddr_un local = {.sun_family = AF_UNIX};
    memcpy(local.sun_path, conn->config->target.path, sizeof local.sun_path);
    memcpy(&conn->addresses[0].sockaddr, &local, sizeof local);
    conn->addresses[0].size = sizeof local;
    conn->addr_count = 1;
    try_next(conn, now);
}

void dli_conn_go(struct dli_conn *conn, int64_t now)
{
    struct dli_resolve *resolve = dli_resolve_start(conn->target->host, conn->target->port);
    if (!resolve && conn->addr_known > 0) {
        conn->addr_count = conn->addr_known;
        try_next(conn, now);
        return;
    }
    if (!resolve) {
        dli_conn_fail_errno(conn, "cannot be looked up", errno);
        return;
    }
    dli_conn_use(conn, dli_resolve_fd(resolve));
    conn->resolve = resolve;
    conn->state = DLI_CONN_RESOLVING;
    conn->deadline = conn->addr_known > 0 ? now + (conn->give_up - now) / 2 : conn->give_up;
}

static void begin(struct dli_conn *conn, int64_t now, int64_t give_up)
{
    dli_conn_close(conn);
    conn->reason = (dlock_error){0};
    conn->give_up = give_up;
    conn->addr_next = conn->addr_count = 0;
    conn->connect_error = 0;
    conn->target = &conn->config->target;
    if (conn->config->protocol->search && conn->config->protocol->search(conn, now))
        ;
    else if (conn->target->path[0])
        start_unix(conn, now);
    else
        dli_conn_go(conn, now);
    dli_conn_step(conn, now);
}

/* If the name server is down or slow, the connection falls back to the addresses of the last look-up. */
static void step_resolving(struct dli_conn *conn, int64_t now)
{
    const char *reason = NULL;
    int unknown = 1, count = dli_resolve_result(conn->resolve, conn->addresses, &reason, &unknown);
    if (count < 0 && (now < conn->deadline || conn->addr_known == 0))
        return;
    if (count > 0)
        conn->addr_known = count;
    else if (!unknown)
        conn->addr_known = 0;
    conn->addr_count = conn->addr_known;
    if (conn->addr_count > 0)
        try_next(conn, now);
    else
        dli_conn_fail(conn, DLOCK_UNREACHABLE, "cannot be found", reason);
}

static void step_connecting(struct dli_conn *conn, int64_t now)
{
    struct pollfd ready = {.fd = conn->fd, .events = POLLOUT};
    int error = ETIMEDOUT;
    socklen_t size = sizeof error;
    if (poll(&ready, 1, 0) == 1)
        getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    else if (now < conn->deadline)
        return;
    if (error == 0) {
        connected(conn);
        return;
    }
    conn->connect_error = error;
    try_next(conn, now);
}

void dli_conn_start(struct dli_conn *conn, int64_t now)
{
    begin(conn, now, now + conn->config->connect_timeout);
}

static void give_up(struct dli_conn *conn)
{
    if (conn->state == DLI_CONN_SECURING)
        dli_tls_late(conn);
    else
        dli_conn_fail(conn, DLOCK_UNREACHABLE,
                      conn->state <= DLI_CONN_RESOLVING    ? "was not found in time"
                      : conn->state == DLI_CONN_CONNECTING ? "did not accept a connection in time"
                                                           : "did not answer the handshake in time",
                      NULL);
}

void dli_conn_step(struct dli_conn *conn, int64_t now)
{
    if (conn->state == DLI_CONN_SEARCHING)
        conn->config->protocol->search_step(conn, now);
    if (conn->state == DLI_CONN_RESOLVING)
        step_resolving(conn, now);
    if (conn->state == DLI_CONN_CONNECTING)
        step_connecting(conn, now);
    if (conn->state == DLI_CONN_SECURING)
        dli_tls_step(conn);
    if (conn->state == DLI_CONN_HANDSHAKE)
        conn->config->protocol->greet_step(conn);
    if (dli_conn_under_way(conn) && now >= conn->give_up)
        give_up(conn);
}

dlock_status dli_conn_open(struct dli_conn *conn, int64_t deadline)
{
    int64_t now = dli_now(), latest = now + conn->config->connect_timeout;
    begin(conn, now, deadline < latest ? deadline : latest);
    while (dli_conn_under_way(conn)) {
        dli_conn_wait(conn, conn->want_write ? POLLIN | POLLOUT : POLLIN, conn->deadline);
        dli_conn_step(conn, dli_now());
    }
    return conn->state == DLI_CONN_READY ? DLOCK_OK : conn->reason.code;
}
