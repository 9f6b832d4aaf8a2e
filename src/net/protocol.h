/*
 * protocol.h: what a protocol adds to a connection: its memory, its search for the server, its handshake. And what it may
 * call for that.
 */
#ifndef DLI_NET_PROTOCOL_H
#define DLI_NET_PROTOCOL_H

#include <sys/types.h>

#include "conn.h"

/* A function may be NULL where the protocol has nothing to do. */
struct dli_protocol {
    const char *plain, *secure; /* the schemes without and with TLS, for messages: "redis", "rediss" */
    const char *alpn;           /* what TLS must agree on, for example "h2"; NULL: nothing */

    int (*attach)(struct dli_conn *conn);  /* memory for a new connection. 0, or -1: detach is called next */
    void (*detach)(struct dli_conn *conn); /* free it */
    void (*reset)(struct dli_conn *conn);  /* the connection was closed: forget what came */

    /* Begin to search for the server: set SEARCHING, and later call dli_conn_go. 0: the target is the server. */
    int (*search)(struct dli_conn *conn, int64_t now);
    void (*search_step)(struct dli_conn *conn, int64_t now);
    void (*search_stop)(struct dli_conn *conn); /* also when there is none */

    /* Begin the handshake, with HANDSHAKE set; continue it without blocking, until READY or FAILED. */
    void (*greet)(struct dli_conn *conn);
    void (*greet_step)(struct dli_conn *conn);
};

/* Begin to connect to conn->target: look up its host first. */
void dli_conn_go(struct dli_conn *conn, int64_t now);

/* dli_conn_fail for an errno, which also gives the status. */
void dli_conn_fail_errno(struct dli_conn *conn, const char *what, int error);

/*
 * Read as recv does without waiting. -1 with EAGAIN: nothing is there. After another -1 the connection may be FAILED, and
 * what failed may be in errno.
 */
ssize_t dli_conn_read(struct dli_conn *conn, char *bytes, size_t size);

/* A read of up to size bytes gave came of them: whether nothing more was there. 0: that is not known. */
int dli_conn_is_drained(const struct dli_conn *conn, ssize_t came, size_t size);

/* Send what the socket takes now of conn->out. 0, or -1 and FAILED. */
int dli_conn_send(struct dli_conn *conn);

#endif
