/*
 * tls_reason.c: turns a TLS failure into a reason and a remedy. No state.
 */
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "conn_inner.h"
#include "tls_inner.h"

static const struct {
    long result;
    const char *what;
} verdicts[] = {
    {X509_V_ERR_CERT_HAS_EXPIRED, "has a certificate that has expired, or its authority's has: renew it"},
    {X509_V_ERR_CERT_NOT_YET_VALID, "has a certificate that is not valid yet: compare the clocks"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT,
     "has a certificate of an authority that tls_ca_file and tls_ca_dir do not hold"},
    {X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
     "has a certificate of an authority that tls_ca_file and tls_ca_dir do not hold"},
    {X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE,
     "has a certificate of an authority that tls_ca_file and tls_ca_dir do not hold"},
    {X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN,
     "has a certificate of an authority that tls_ca_file and tls_ca_dir do not hold"},
    {X509_V_ERR_CERT_SIGNATURE_FAILURE,
     "has a certificate that its authority, as tls_ca_file and tls_ca_dir hold it, did not sign"},
    {X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT,
     "has a self-signed certificate that tls_ca_file and tls_ca_dir do not hold"},
    {X509_V_ERR_CERT_REVOKED, "has a certificate that was revoked, as tls_crl_file says"},
    {X509_V_ERR_UNABLE_TO_GET_CRL, "has a certificate of an authority of which tls_crl_file has no list"},
    {X509_V_ERR_CRL_HAS_EXPIRED, "has a certificate whose authority has a newer list than that in tls_crl_file"},
    {X509_V_ERR_CRL_NOT_YET_VALID,
     "has a certificate, and its authority's list in tls_crl_file is not valid yet: compare the clocks"},
    {X509_V_ERR_CRL_SIGNATURE_FAILURE, "has a certificate, and its authority did not sign the list in tls_crl_file"},
    {X509_V_ERR_INVALID_PURPOSE, "has a certificate that is not one for servers"},
};

const char *dli_tls_name(const struct dli_conn *conn)
{
    const char *given = dli_tls_server_name(conn->config->tls);

    return *given ? given : conn->target->host;
}

/* The certificate is for other names, or for none. */
static void fail_name(struct dli_conn *conn)
{
    const char *name = dli_tls_name(conn);
    char escaped[160], what[320];

    if (name == conn->target->host && !strstr(conn->target->text, name))
        name = "***"; /* a server has named it by a secret */
    dli_escape(escaped, sizeof escaped, name, strlen(name));
    snprintf(what, sizeof what,
             conn->tls->nameless
                 ? "has a certificate without names (subjectAltName), and a common name does not count: "
                   "issue one for '%s'"
                 : "has a certificate for other names than '%s': correct the URL or set tls_server_name",
             escaped);
    dli_conn_fail(conn, DLOCK_TLS_FAILED, what, NULL);
}

/* The peer's certificate was refused. */
static void fail_verdict(struct dli_conn *conn, long result)
{
    for (size_t i = 0; i < sizeof verdicts / sizeof verdicts[0]; i++) {
        if (verdicts[i].result == result) {
            dli_conn_fail(conn, DLOCK_TLS_FAILED, verdicts[i].what, NULL);
            return;
        }
    }
    if (result == X509_V_ERR_HOSTNAME_MISMATCH || result == X509_V_ERR_IP_ADDRESS_MISMATCH) {
        fail_name(conn);
        return;
    }
    dli_conn_fail(conn, DLOCK_TLS_FAILED, "has a certificate that is refused", X509_verify_cert_error_string(result));
}

static void fail_wanting(struct dli_conn *conn)
{
    dli_conn_fail(conn, DLOCK_DENIED, "wants a client certificate: set tls_cert_file and tls_key_file", NULL);
}

/* The peer refused our certificate, or that there is none: many servers have one alert for both. */
static void fail_refused(struct dli_conn *conn, const char *text)
{
    if (conn->tls->certificate_requested)
        fail_wanting(conn);
    else
        dli_conn_fail(conn, DLOCK_DENIED, "refused the certificate of tls_cert_file", text);
}

void dli_tls_fail_protocol(struct dli_conn *conn)
{
    const struct dli_protocol *protocol = conn->config->protocol;
    char what[128];

    snprintf(what, sizeof what, "speaks TLS, but not '%s' over it (ALPN), as a server of %s:// does", protocol->alpn,
             protocol->secure);
    dli_conn_fail(conn, DLOCK_TLS_FAILED, what, NULL);
}

/* Fail with what the peer or OpenSSL reports. */
static void fail_reason(struct dli_conn *conn, unsigned long error)
{
    const char *text = ERR_reason_error_string(error);

    switch (ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0) {
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_REQUIRED:
        fail_wanting(conn);
        break;
    case SSL_AD_REASON_OFFSET + SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_REASON_OFFSET + SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_REASON_OFFSET + SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_REASON_OFFSET + SSL_AD_UNKNOWN_CA:
    case SSL_AD_REASON_OFFSET + SSL_AD_ACCESS_DENIED:
        fail_refused(conn, text);
        break;
    case SSL_AD_REASON_OFFSET + SSL_AD_UNRECOGNIZED_NAME:
        dli_conn_fail(conn, DLOCK_TLS_FAILED,
                      "has no certificate for this name: correct the URL or set tls_server_name", NULL);
        break;
    case SSL_AD_REASON_OFFSET + SSL_AD_PROTOCOL_VERSION:
    case SSL_R_UNSUPPORTED_PROTOCOL:
    case SSL_R_VERSION_TOO_LOW:
        dli_conn_fail(conn, DLOCK_TLS_FAILED, "offers no version of TLS from 1.2 on", NULL);
        break;
    case SSL_AD_REASON_OFFSET + SSL_AD_NO_APPLICATION_PROTOCOL:
        dli_tls_fail_protocol(conn);
        break;
    default:
        dli_conn_fail(conn, DLOCK_TLS_FAILED, "did not agree on TLS", text ? text : "no reason was given");
    }
}

static void fail_plain(struct dli_conn *conn)
{
    char what[96];

    snprintf(what, sizeof what, "does not speak TLS: use %s://, or the port where it does",
             conn->config->protocol->plain);
    dli_conn_fail(conn, DLOCK_TLS_FAILED, what, NULL);
}

void dli_tls_fail(struct dli_conn *conn)
{
    struct dli_tls_session *session = conn->tls;
    unsigned long error = ERR_peek_error();
    long verdict = session->shaken ? X509_V_OK : SSL_get_verify_result(session->ssl);
    int shaken = session->shaken, code = session->error, certificate_requested = session->certificate_requested;

    session->broken = 1;
    if (dli_tls_ran_out())
        dli_conn_fail(conn, DLOCK_OUT_OF_MEMORY, "needs memory for TLS, and there is none", NULL);
    else if (session->plain)
        fail_plain(conn);
    else if (SSL_get_verify_mode(session->ssl) != SSL_VERIFY_NONE && verdict != X509_V_OK)
        fail_verdict(conn, verdict);
    else if (code)
        dli_conn_fail_errno(conn, shaken ? "lost the connection" : "lost the connection during the TLS handshake",
                            code);
    else if (session->ended)
        dli_conn_fail(conn, DLOCK_UNREACHABLE,
                      shaken ? "closed the connection" : "closed the connection during the TLS handshake", NULL);
    else if (certificate_requested && ERR_GET_REASON(error) == SSL_AD_REASON_OFFSET + SSL_AD_HANDSHAKE_FAILURE)
        fail_wanting(conn);
    else
        fail_reason(conn, error);
}

static void fail_silent(struct dli_conn *conn)
{
    char why[64];

    snprintf(why, sizeof why, "perhaps it has none, as in %s://", conn->config->protocol->plain);
    dli_conn_fail(conn, DLOCK_UNREACHABLE, "said nothing in the TLS handshake", why);
}

/* A Redis without TLS takes our first bytes for the start of a line and waits for the rest. */
void dli_tls_late(struct dli_conn *conn)
{
    if (conn->tls->received)
        dli_conn_fail(conn, DLOCK_UNREACHABLE, "did not finish the TLS handshake in time", NULL);
    else
        fail_silent(conn);
}
