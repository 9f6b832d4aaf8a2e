/*
 * tls.h: TLS between a connection and its socket. tls.c, tls_reason.c and tls_context.c do it with OpenSSL and are the only files that
 * name it; tls_none.c stands for them in a build without, where dli_tls_new answers DLOCK_UNSUPPORTED.
 *
 * The peer is verified with the name it is called by, TLS is 1.2 or newer, and nothing of the greeting is sent before that.
 */
#ifndef DLI_REDIS_LINK_TLS_H
#define DLI_REDIS_LINK_TLS_H

#include <sys/types.h>

#include "base/error.h"
#include "base/options.h"

struct dli_conn;

/* What the connections of one client share: trust and identity, read from the files that options name. */
struct dli_tls;

/*
 * Read the files. options must outlive the result. They are read again for a connection that begins after they changed; when
 * that fails, what was read before stays. DLOCK_INVALID_OPTION, DLOCK_OUT_OF_MEMORY, DLOCK_UNSUPPORTED, with a sentence.
 */
dlock_status dli_tls_new(const struct dlock_options *options, struct dli_tls **ret, dlock_error *box);

/* After the last connection was freed. NULL is fine. */
void dli_tls_free(struct dli_tls *tls);

/* ---- one connection, whose config has a tls. What fails turns it FAILED with a sentence. */

/* Connected: turn SECURING. */
void dli_tls_start(struct dli_conn *conn);

/* SECURING, and too late: FAILED. */
void dli_tls_late(struct dli_conn *conn);

/* SECURING: go on with the handshake without blocking; ends in SECURING, GREETING or FAILED. */
void dli_tls_step(struct dli_conn *conn);

/*
 * As recv and send on a socket that never blocks: -1 with EAGAIN when nothing can be done now. Another -1: FAILED. Whole
 * records are taken when size is 16 KiB or more: then nothing is left behind that poll does not see.
 */
ssize_t dli_tls_receive(struct dli_conn *conn, char *bytes, size_t size);
ssize_t dli_tls_send(struct dli_conn *conn, const char *bytes, size_t size);

/* Whether to poll for writing, with or without bytes to send. */
int dli_tls_wants_write(const struct dli_conn *conn);

/* Tell the peer goodbye, as far as that does not block, and free. Leaves the socket open. In a forked child: only forget. */
void dli_tls_end(struct dli_conn *conn);

#endif
