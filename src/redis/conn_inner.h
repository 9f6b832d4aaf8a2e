/*
 * conn_inner.h: what the files of a connection share: conn.c, conn_open.c, conn_io.c, greeting.c. txn_exec.c
 * uses it to wait.
 */
#ifndef DLI_REDIS_CONN_INNER_H
#define DLI_REDIS_CONN_INNER_H

#include "redis/conn.h"

/* Close what fd was and poll fd from now on. */
void dli_conn_use(struct dli_conn *conn, int fd);

/* Close, and turn FAILED with "The server <target> <what>: <detail>."; detail may be NULL. */
void dli_conn_fail(struct dli_conn *conn, dlock_status status, const char *what, const char *detail);

/* The same for an errno, which also gives the status. */
void dli_conn_fail_errno(struct dli_conn *conn, const char *what, int error);

/* Sleep until fd is ready for events, a signal, or deadline (at most a millisecond late). */
void dli_conn_wait(const struct dli_conn *conn, short events, int64_t deadline);

/* Begin to connect to conn->target. */
void dli_conn_go(struct dli_conn *conn, int64_t now);

/* Put the greeting into out and turn GREETING. */
void dli_greeting_start(struct dli_conn *conn);

/* Send, read and judge as far as possible without blocking; ends in GREETING, READY or FAILED. */
void dli_greeting_step(struct dli_conn *conn);

#endif
