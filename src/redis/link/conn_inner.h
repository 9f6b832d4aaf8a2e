/*
 * conn_inner.h: what the files of a connection share: conn.c, conn_open.c, conn_io.c, handshake.c.
 */
#ifndef DLI_REDIS_LINK_CONN_INNER_H
#define DLI_REDIS_LINK_CONN_INNER_H

#include "conn.h"

/* Close what fd was and poll fd from now on. */
void dli_conn_use(struct dli_conn *conn, int fd);

/* The same for an errno, which also gives the status. */
void dli_conn_fail_errno(struct dli_conn *conn, const char *what, int error);

/* Begin to connect to conn->target. */
void dli_conn_go(struct dli_conn *conn, int64_t now);

/* Put the greeting into out and turn GREETING. */
void dli_handshake_start(struct dli_conn *conn);

/* Send, read and judge as far as possible without blocking; ends in GREETING, READY or FAILED. */
void dli_handshake_step(struct dli_conn *conn);

#endif
