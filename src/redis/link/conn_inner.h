/*
 * conn_inner.h: shared by the files of a connection: conn.c, conn_open.c, conn_io.c, handshake.c, sentinel.c, tls.c.
 */
#ifndef DLI_REDIS_LINK_CONN_INNER_H
#define DLI_REDIS_LINK_CONN_INNER_H

#include "conn.h"

/* Close the current descriptor, TLS session or look-up, and use fd from now on. */
void dli_conn_use(struct dli_conn *conn, int fd);

/* dli_conn_fail for an errno, which also gives the status. */
void dli_conn_fail_errno(struct dli_conn *conn, const char *what, int error);

/* Begin to connect to conn->target: look up its host first. */
void dli_conn_go(struct dli_conn *conn, int64_t now);

/* Put the handshake into out and set HANDSHAKE. */
void dli_handshake_start(struct dli_conn *conn);

/* Continue the handshake as far as possible without blocking. Ends in HANDSHAKE, READY or FAILED. */
void dli_handshake_step(struct dli_conn *conn);

#endif
