/*
 * tls.c: TLS on one connection: handshake and records. No mutex: a session belongs to the thread of its connection.
 *
 * OpenSSL does not use the socket itself. Our BIO sends without SIGPIPE, never blocks, and keeps the socket's errno,
 * which says more than OpenSSL does. The error queue of the calling thread is empty before and after each call here. In
 * a forked child a session of the parent is forgotten and never freed: its locks may belong to threads that the child
 * does not have.
 */
#include "tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "conn_inner.h"
#include "tls_inner.h"
#include "sys/sys.h"

enum { RECORD_ALERT = 21, RECORD_HANDSHAKE = 22 };

/* ---- the socket */

static int bio_write(BIO *bio, const char *bytes, int size)
{
    struct dli_tls_session *session = BIO_get_data(bio);
    ssize_t sent;

    do
        sent = send(session->fd, bytes, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    BIO_clear_retry_flags(bio);
    if (sent < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    else if (sent < 0)
        session->error = errno;
    return (int)sent;
}

static int bio_read(BIO *bio, char *bytes, int size)
{
    struct dli_tls_session *session = BIO_get_data(bio);
    ssize_t came;

    do
        came = recv(session->fd, bytes, (size_t)size, MSG_DONTWAIT);
    while (came < 0 && errno == EINTR);
    BIO_clear_retry_flags(bio);
    if (came > 0 && !session->received)
        session->plain = bytes[0] != RECORD_HANDSHAKE && bytes[0] != RECORD_ALERT;
    session->received |= came > 0;
    session->ended |= came == 0;
    if (came < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    else if (came < 0)
        session->error = errno;
    return (int)came;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *make_method(void)
{
    BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "dlock");

    if (method && BIO_meth_set_write(method, bio_write) && BIO_meth_set_read(method, bio_read) &&
        BIO_meth_set_ctrl(method, bio_ctrl))
        return method;
    BIO_meth_free(method);
    return NULL;
}

/* One for the process, never freed. */
static const BIO_METHOD *method(void)
{
    static BIO_METHOD *made;
    BIO_METHOD *seen = __atomic_load_n(&made, __ATOMIC_ACQUIRE), *mine;

    if (seen || !(mine = make_method()))
        return seen;
    if (__atomic_compare_exchange_n(&made, &seen, mine, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return mine;
    BIO_meth_free(mine);
    return seen;
}

/* ---- a session */

static void fail_ended(struct dli_conn *conn)
{
    dli_conn_fail(conn, DLOCK_SYSTEM_ERROR, "cannot be spoken to", "OpenSSL has ended in this process");
}

/* OpenSSL calls this when the server asks for a client certificate. It is installed only if none is configured. */
static int note_certificate_request(SSL *ssl, void *opaque)
{
    struct dli_tls_session *session = SSL_get_app_data(ssl);

    (void)opaque;
    session->certificate_requested = 1;
    return 1;
}

/* NULL: see OpenSSL's errors. */
static SSL *make_ssl(const struct dli_conn *conn, struct dli_tls_session *session)
{
    SSL_CTX *context = dli_tls_context(conn->config->tls);
    SSL *ssl = SSL_new(context);
    const BIO_METHOD *socket_method = method();
    BIO *bio = socket_method ? BIO_new(socket_method) : NULL;

    SSL_CTX_free(context);
    if (!ssl || !bio || dli_tls_demand(ssl, conn)) {
        BIO_free(bio);
        SSL_free(ssl);
        return NULL;
    }
    BIO_set_data(bio, session);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    SSL_set_app_data(ssl, session);
    if (!SSL_get_certificate(ssl))
        SSL_set_cert_cb(ssl, note_certificate_request, NULL);
    SSL_set_connect_state(ssl);
    return ssl;
}

/* OpenSSL has no session for us. Most of its reasons have nothing to do with memory. */
static void fail_start(struct dli_conn *conn)
{
    unsigned long error = ERR_peek_error();
    const char *why = error ? ERR_reason_error_string(error) : NULL;

    if (dli_tls_ran_out())
        dli_conn_fail(conn, DLOCK_OUT_OF_MEMORY, "cannot be spoken to", "no memory for TLS");
    else
        dli_conn_fail(conn, DLOCK_SYSTEM_ERROR, "cannot be spoken to, OpenSSL refuses",
                      why ? why : "no reason was given");
}

static void start(struct dli_conn *conn, struct dli_tls_session *session)
{
    session->fd = conn->fd;
    session->generation = dli_fork_generation();
    ERR_clear_error();
    session->ssl = make_ssl(conn, session);
    if (session->ssl)
        conn->tls = session;
    else
        fail_start(conn);
    ERR_clear_error();
}

void dli_tls_start(struct dli_conn *conn)
{
    struct dli_tls_session *session = calloc(1, sizeof *session);

    conn->state = DLI_CONN_SECURING;
    if (!session) {
        dli_conn_fail(conn, DLOCK_OUT_OF_MEMORY, "cannot be spoken to", "no memory for TLS");
    } else if (dli_tls_enter()) {
        fail_ended(conn);
    } else {
        start(conn, session);
        dli_tls_leave();
    }
    if (!conn->tls)
        free(session);
}

void dli_tls_end(struct dli_conn *conn)
{
    struct dli_tls_session *session = conn->tls;

    conn->tls = NULL;
    if (!session || session->generation != dli_fork_generation())
        return;
    if (dli_tls_enter() == 0) {
        if (session->shaken && !session->broken)
            SSL_shutdown(session->ssl);
        SSL_free(session->ssl);
        ERR_clear_error();
        dli_tls_leave();
    }
    free(session);
}

/* ---- bytes */

int dli_tls_wants_write(const struct dli_conn *conn)
{
    return conn->tls->read_blocked || (conn->out.size > 0 && !conn->tls->write_unheard);
}

/* What an OpenSSL call without result waits for. 0: nothing, it failed. */
static int blocked(struct dli_tls_session *session, int result, int *reading, int *writing)
{
    int error = SSL_get_error(session->ssl, result);

    *reading = error == SSL_ERROR_WANT_READ;
    *writing = error == SSL_ERROR_WANT_WRITE;
    return *reading || *writing;
}

void dli_tls_step(struct dli_conn *conn)
{
    struct dli_tls_session *session = conn->tls;
    int result, reading;

    if (dli_tls_enter()) {
        fail_ended(conn);
        return;
    }
    ERR_clear_error();
    result = SSL_do_handshake(session->ssl);
    session->shaken = result == 1;
    if (result != 1 && !blocked(session, result, &reading, &conn->want_write))
        dli_tls_fail(conn);
    if (result == 1 && !dli_tls_agreed(session->ssl, conn))
        dli_tls_fail_protocol(conn);
    dli_tls_leave();
    if (result == 1 && conn->state == DLI_CONN_SECURING)
        dli_conn_greet(conn);
}

/* -1 with EAGAIN, 0 at the end of the stream, or FAILED. The caller has called dli_tls_enter. */
static ssize_t read_some(struct dli_conn *conn, char *bytes, size_t size)
{
    struct dli_tls_session *session = conn->tls;
    int result, reading;

    ERR_clear_error();
    result = SSL_read(session->ssl, bytes, (int)size);
    session->write_unheard = session->read_blocked = 0;
    if (result > 0)
        return result;
    errno = EAGAIN;
    if (blocked(session, result, &reading, &session->read_blocked))
        return -1;
    if (SSL_get_error(session->ssl, result) == SSL_ERROR_ZERO_RETURN)
        return 0;
    dli_tls_fail(conn);
    errno = EPROTO;
    return -1;
}

ssize_t dli_tls_receive(struct dli_conn *conn, char *bytes, size_t size)
{
    ssize_t came;

    if (dli_tls_enter()) {
        fail_ended(conn);
        errno = EPROTO;
        return -1;
    }
    came = read_some(conn, bytes, size);
    dli_tls_leave();
    return came;
}

/* A peer that hung up may have sent its reason before: read it. */
static void fail_writing(struct dli_conn *conn)
{
    char byte;
    int error = conn->tls->error;

    conn->tls->error = 0;
    if (error)
        read_some(conn, &byte, 1);
    if (conn->state == DLI_CONN_FAILED)
        return;
    conn->tls->error = error;
    dli_tls_fail(conn);
}

ssize_t dli_tls_send(struct dli_conn *conn, const char *bytes, size_t size)
{
    enum { MOST = 1 << 20 };
    struct dli_tls_session *session = conn->tls;
    int result, writing, code = EAGAIN;

    if (dli_tls_enter()) {
        fail_ended(conn);
        errno = EPROTO;
        return -1;
    }
    ERR_clear_error();
    result = SSL_write(session->ssl, bytes, size < MOST ? (int)size : MOST);
    session->write_unheard = 0;
    if (result <= 0 && !blocked(session, result, &session->write_unheard, &writing)) {
        fail_writing(conn);
        code = EPROTO;
    }
    dli_tls_leave();
    errno = code;
    return result > 0 ? result : -1;
}
