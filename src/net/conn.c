/*
 * conn.c: creates, closes and fails a connection. No mutex: a connection belongs to one thread at a time.
 */
#include "conn.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "conn_inner.h"
#include "resolve.h"
#include "tls.h"
#include "sys/sys.h"

struct dli_conn *dli_conn_new(const struct dli_conn_config *config)
{
    struct dli_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return NULL;
    conn->config = config;
    conn->target = &config->target;
    conn->fd = -1;
    conn->addresses = calloc(DLI_ADDRESS_MAX, sizeof *conn->addresses);
    if (!conn->addresses)
        goto fail;
    if (config->protocol->attach && config->protocol->attach(conn))
        goto fail;
    return conn;

fail:
    dli_conn_free(conn);
    return NULL;
}

void dli_conn_free(struct dli_conn *conn)
{
    if (!conn)
        return;
    dli_conn_close(conn);
    if (conn->config->protocol->detach)
        conn->config->protocol->detach(conn);
    dli_buffer_free(&conn->out);
    free(conn->addresses);
    free(conn);
}

void dli_conn_use(struct dli_conn *conn, int fd)
{
    if (conn->tls)
        dli_tls_end(conn);
    if (conn->config->protocol->search_stop)
        conn->config->protocol->search_stop(conn);
    if (conn->resolve)
        dli_resolve_end(conn->resolve);
    else if (conn->fd >= 0)
        close(conn->fd);
    conn->resolve = NULL;
    conn->fd = fd;
    conn->receive_timeout = 0;
}

/* The buffer held the handshake, and with it the password: wipe it. */
void dli_conn_close(struct dli_conn *conn)
{
    dli_conn_use(conn, -1);
    if (conn->config->protocol->reset)
        conn->config->protocol->reset(conn);
    if (conn->out.room > 0)
        explicit_bzero(conn->out.bytes, conn->out.room);
    dli_buffer_drop(&conn->out, conn->out.size);
    conn->want_write = 0;
    conn->state = DLI_CONN_IDLE;
}

void dli_conn_fail(struct dli_conn *conn, dlock_status status, const char *what, const char *detail)
{
    dli_fail(&conn->reason, status, "The server %s %s%s%s.", conn->target->text, what, detail ? ": " : "",
             detail ? detail : "");
    dli_conn_close(conn);
    conn->state = DLI_CONN_FAILED;
}

static dlock_status errno_status(int error)
{
    switch (error) {
    case ENOMEM:
    case ENOBUFS:
        return DLOCK_OUT_OF_MEMORY;
    case EMFILE:
    case ENFILE:
        return DLOCK_SYSTEM_ERROR;
    default:
        return DLOCK_UNREACHABLE;
    }
}

void dli_conn_fail_errno(struct dli_conn *conn, const char *what, int error)
{
    dli_conn_fail(conn, errno_status(error), what, dli_errno_text(error));
}

void dli_conn_wait(const struct dli_conn *conn, short events, int64_t deadline)
{
    enum { LONGEST_MS = 60 * 1000 };
    struct pollfd ready = {.fd = conn->fd, .events = events};
    int64_t left = (deadline - dli_now()) / 1000 + 1;
    poll(&ready, 1, left < 0 ? 0 : left > LONGEST_MS ? LONGEST_MS : (int)left);
}

int dli_conn_under_way(const struct dli_conn *conn)
{
    return conn->state >= DLI_CONN_SEARCHING && conn->state <= DLI_CONN_HANDSHAKE;
}
