/*
 * conn_io.c: sends and receives over a READY connection without blocking. No mutex: a connection belongs to one thread at
 * a time.
 */
#include "conn.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "conn_inner.h"
#include "tls.h"

struct pollfd dli_conn_poll(const struct dli_conn *conn)
{
    return (struct pollfd){.fd = conn->fd, .events = (short)(conn->want_write ? POLLIN | POLLOUT : POLLIN)};
}

int dli_conn_send(struct dli_conn *conn)
{
    while (conn->out.size > 0) {
        ssize_t sent = conn->tls ? dli_tls_send(conn, conn->out.bytes, conn->out.size)
                                 : send(conn->fd, conn->out.bytes, conn->out.size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) {
            dli_buffer_drop(&conn->out, (size_t)sent);
        } else if (errno == EAGAIN) {
            break;
        } else if (conn->state == DLI_CONN_FAILED) {
            return -1;
        } else if (errno != EINTR) {
            dli_conn_fail_errno(conn, "lost the connection", errno);
            return -1;
        }
    }
    return 0;
}

ssize_t dli_conn_read(struct dli_conn *conn, char *bytes, size_t size)
{
    if (!conn->tls)
        return recv(conn->fd, bytes, size, MSG_DONTWAIT);
    ssize_t came = dli_tls_receive(conn, bytes, size);
    conn->want_write = conn->tls && dli_tls_wants_write(conn);
    return came;
}

int dli_conn_is_drained(const struct dli_conn *conn, ssize_t came, size_t size)
{
    return !conn->tls && (size_t)came < size;
}

void dli_conn_flush(struct dli_conn *conn)
{
    if (conn->state != DLI_CONN_FAILED && dli_conn_send(conn) == 0)
        conn->want_write = conn->tls ? dli_tls_wants_write(conn) : conn->out.size > 0;
}
