/*
 * tls_inner.h: what the files of TLS share: tls.c (a connection), tls_reason.c (its failures), tls_context.c (a client).
 */
#ifndef DLI_REDIS_LINK_TLS_INNER_H
#define DLI_REDIS_LINK_TLS_INNER_H

#include <openssl/ssl.h>

#include "tls.h"

struct dli_tls_session {
    SSL *ssl;
    uint64_t generation; /* of fork */
    int fd;
    int shaken;        /* the handshake is done */
    int broken;        /* OpenSSL must not be asked any more */
    int error;         /* errno of the socket */
    int ended;         /* the peer closed without a goodbye */
    int heard;         /* a byte has come */
    int plain;         /* and the first one was not TLS */
    int asked;         /* the peer asked for a certificate, and there was none to give */
    int read_blocked;  /* a read waits for the socket to take bytes */
    int write_unheard; /* a write waits for bytes to come */
};

/* Empty the error queue. Whether it says that memory was short, in whatever place. */
int dli_tls_ran_out(void);

/* What the peer must be called. */
const char *dli_tls_name(const struct dli_conn *conn);

/* FAILED, by what the socket, the verification and OpenSSL say, in this order of what explains most. */
void dli_tls_fail(struct dli_conn *conn);

/* The current context, with a reference for the caller. Never NULL. */
SSL_CTX *dli_tls_context(struct dli_tls *tls);

/* The option, default applied: the name to verify instead of the host, or "". */
const char *dli_tls_server_name(const struct dli_tls *tls);

/* Enter OpenSSL, which another thread may be taking down at the end of the process: then -1, and it must not be called. */
int dli_tls_enter(void);
void dli_tls_leave(void);

#endif
