/*
 * tls_none.c: replaces the other TLS files in a build without OpenSSL. No state.
 */
#include "tls.h"

#include <errno.h>

dlock_status dli_tls_new(const struct dlock_options *options, struct dli_tls **ret, dlock_error *box)
{
    (void)options;
    *ret = NULL;
    return dli_fail(box, DLOCK_UNSUPPORTED,
                    "This build of the library has no TLS, which rediss://, etcds:// and zookeepers:// need: it was "
                    "made without OpenSSL.");
}

void dli_tls_free(struct dli_tls *tls)
{
    (void)tls;
}

/* ---- never called, as no connection has a dli_tls */

void dli_tls_start(struct dli_conn *conn)
{
    (void)conn;
}

void dli_tls_step(struct dli_conn *conn)
{
    (void)conn;
}

void dli_tls_late(struct dli_conn *conn)
{
    (void)conn;
}

ssize_t dli_tls_receive(struct dli_conn *conn, char *bytes, size_t size)
{
    (void)conn, (void)bytes, (void)size;
    errno = ENOSYS;
    return -1;
}

ssize_t dli_tls_send(struct dli_conn *conn, const char *bytes, size_t size)
{
    (void)conn, (void)bytes, (void)size;
    errno = ENOSYS;
    return -1;
}

int dli_tls_wants_write(const struct dli_conn *conn)
{
    (void)conn;
    return 0;
}

void dli_tls_end(struct dli_conn *conn)
{
    (void)conn;
}
