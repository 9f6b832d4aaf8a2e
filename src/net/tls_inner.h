/*
 * tls_inner.h: shared by the files of TLS: tls.c (a connection), tls_peer.c (what it demands), tls_reason.c (its
 * failures), tls_context.c (a client).
 */
#ifndef DLI_NET_TLS_INNER_H
#define DLI_NET_TLS_INNER_H

#include <openssl/ssl.h>

#include "tls.h"

struct dli_tls_session {
    SSL *ssl;
    uint64_t generation; /* the fork generation that made it */
    int fd;
    int shaken;                /* the handshake is done */
    int broken;                /* ssl must not be used any more */
    int error;                 /* errno of the socket */
    int ended;                 /* the peer closed the socket */
    int received;              /* a byte has come */
    int plain;                 /* the first byte was not TLS */
    int nameless;              /* the certificate was refused for its names, and has none but its subject */
    int certificate_requested; /* the server asked for a client certificate, and there is none */
    int read_blocked;          /* a read waits for POLLOUT */
    int write_unheard;         /* a write waits for POLLIN */
};

#if DLI_TLS_LOADED
/* Find the machine's OpenSSL, before any call of it. DLOCK_UNSUPPORTED with a sentence when it cannot be used. */
dlock_status dli_tls_load(dlock_error *box);
#endif

/* Empty the error queue. Returns whether any error in it was a lack of memory. */
int dli_tls_ran_out(void);

/* Demand of the peer what it must prove: its name, and the protocol. 0, or -1: see OpenSSL's errors. */
int dli_tls_demand(SSL *ssl, const struct dli_conn *conn);

/* Whether the peer speaks the protocol that was offered. */
int dli_tls_agreed(SSL *ssl, const struct dli_conn *conn);

/* OpenSSL calls it with each verdict on the peer's certificates. It keeps what a sentence needs, and changes nothing. */
int dli_tls_note_refusal(int good, X509_STORE_CTX *judged);

/* The name to verify: the option tls_server_name, or the host. */
const char *dli_tls_name(const struct dli_conn *conn);

/* Set FAILED. The reason comes from the socket, the verification or OpenSSL, whichever explains most. */
void dli_tls_fail(struct dli_conn *conn);

/* Set FAILED: the peer did not choose the protocol that was offered. */
void dli_tls_fail_protocol(struct dli_conn *conn);

/* The current context, with a reference for the caller. Never NULL. */
SSL_CTX *dli_tls_context(struct dli_tls *tls);

/* The option tls_server_name: the name to verify instead of the host, or "". */
const char *dli_tls_server_name(const struct dli_tls *tls);

/* Enter and leave OpenSSL. -1: it is being cleaned up at process exit, and must not be called. */
int dli_tls_enter(void);
void dli_tls_leave(void);

#endif
