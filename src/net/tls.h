/*
 * tls.h: TLS between a connection and its socket. tls.c, tls_peer.c, tls_reason.c and tls_context.c implement it and are the only
 * files that use OpenSSL. tls_loaded.c finds it at run time, if the build is for machines that may lack it. tls_none.c replaces them in a build without it: dli_tls_new returns DLOCK_UNSUPPORTED there.
 *
 * TLS is 1.2 or newer. No byte of the protocol is sent before the TLS handshake is done and, unless tls_verify
 * is off, the server's certificate and name are verified.
 */
#ifndef DLI_NET_TLS_H
#define DLI_NET_TLS_H

#include <sys/types.h>

#include "base/error.h"
#include "base/options.h"

struct dli_conn;

/* Trust and identity of a client, read from the files that the options name. Its connections share it. */
struct dli_tls;

/*
 * Read the files. options must outlive the result. A connection that begins after they changed reads them again; if
 * that fails, the earlier content stays in use. DLOCK_INVALID_OPTION, DLOCK_OUT_OF_MEMORY, DLOCK_UNSUPPORTED or
 * DLOCK_SYSTEM_ERROR, with a sentence.
 */
dlock_status dli_tls_new(const struct dlock_options *options, struct dli_tls **ret, dlock_error *box);

/* Call it after the last connection was freed. NULL is fine. */
void dli_tls_free(struct dli_tls *tls);

/* ---- one connection, whose config has a tls. A failure sets FAILED with a reason. */

/* The socket is connected: set SECURING. */
void dli_tls_start(struct dli_conn *conn);

/* SECURING, and the time is over: set FAILED. */
void dli_tls_late(struct dli_conn *conn);

/* SECURING: continue the TLS handshake without blocking. Ends in SECURING, HANDSHAKE or FAILED. */
void dli_tls_step(struct dli_conn *conn);

/*
 * As recv and send on a socket that never blocks. -1 with EAGAIN: nothing can be done now. -1 with another errno:
 * FAILED. With a size of 16 KiB or more a receive takes the whole record, so that no bytes stay in OpenSSL where poll
 * does not see them.
 */
ssize_t dli_tls_receive(struct dli_conn *conn, char *bytes, size_t size);
ssize_t dli_tls_send(struct dli_conn *conn, const char *bytes, size_t size);

/*
 * Whether to poll for writing. TLS can need it without bytes to send, and can wait for bytes to come before it sends
 * more.
 */
int dli_tls_wants_write(const struct dli_conn *conn);

/*
 * Send the TLS close alert, as far as that does not block, and free. The socket stays open. In a forked child it only
 * forgets the session.
 */
void dli_tls_end(struct dli_conn *conn);

#endif
