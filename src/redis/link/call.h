/*
 * call.h: Redis over a connection: replies, for an event loop (never blocking) or for one blocking caller.
 */
#ifndef DLI_REDIS_LINK_CALL_H
#define DLI_REDIS_LINK_CALL_H

#include "net/net.h"
#include "redis/codec/codec.h"

/* The Redis protocol, for the config of a connection. */
extern const struct dli_protocol dli_redis_protocol;

/* ---- driven by an event loop. Both do nothing on a FAILED connection, which keeps its first reason. */

/*
 * READY: read what is there (bounded per call) into the reader. 1: bytes came. 0: nothing there. -1: FAILED now (closed
 * by the peer, protocol). Take all replies with dli_conn_next before the next read: the reader holds a bounded number
 * of bytes. drained says whether a next read would find anything.
 */
int dli_conn_receive(struct dli_conn *conn);

/* The next reply, as dli_reader_next; -1 also sets FAILED with a reason. */
int dli_conn_next(struct dli_conn *conn, const struct dli_reply **reply);

/*
 * READY, and nothing is unanswered: call it before a command is written. 1: the connection is quiet. 0: FAILED now
 * (DLOCK_UNREACHABLE), because the server has closed it, or has sent what would be taken for the next command's reply.
 */
int dli_conn_quiet(struct dli_conn *conn);

/* ---- driven by its caller */

/*
 * READY: send conn->out (one command) and wait for its reply until deadline, whatever signals arrive. DLOCK_OK with
 * *reply; else the connection is FAILED (conn->reason). *sent tells whether any byte was given to the kernel: if not,
 * the server cannot have acted.
 *
 * In the usual case it makes three system calls (a look whether the connection is quiet, send, recv) and those of busy
 * polling (busy.h), and no poll. The look stands for the first read of busy polling.
 */
dlock_status dli_conn_call(struct dli_conn *conn, int64_t deadline, const struct dli_reply **reply, int *sent);

/*
 * Whether the reply says that the server is not the primary, or not any more, or loads a data set as a demoted one does. A
 * new connection may lead to the primary. The server did nothing then.
 */
int dli_conn_demoted(const struct dli_conn *conn, const struct dli_reply *reply);

/* ---- handshake.c */

/* Put the handshake into out. */
void dli_handshake_start(struct dli_conn *conn);

/* Continue the handshake as far as possible without blocking. Ends in HANDSHAKE, READY or FAILED. */
void dli_handshake_step(struct dli_conn *conn);

#endif
