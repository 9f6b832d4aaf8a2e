/*
 * tls_peer.c: what a session demands of its peer before any byte of the protocol is sent: a certificate for its name,
 * and the protocol that speaks over TLS. No state.
 *
 * A name comes from the URL, from servers, or from tls_server_name. dli_is_host has seen it, so OpenSSL never gets an
 * empty name, which it would not compare at all, nor one with a dot in front, which stands for all subdomains.
 */
#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "conn_inner.h"
#include "tls_inner.h"

/*
 * Only the alternative names of a certificate count (RFC 6125, RFC 9525). Its common name may be any text that the
 * authority did not check as a host. An asterisk stands for one whole label.
 */
enum { NAMES = X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS };

/* The name without the zone of an address, and without the last dot of a name. */
static void plain_name(char *name, size_t room, const char *given)
{
    size_t size = strchr(given, ':') ? strcspn(given, "%") : strlen(given);

    snprintf(name, room, "%.*s", (int)size, given);
    size = strlen(name);
    if (size > 1 && name[size - 1] == '.')
        name[size - 1] = '\0';
}

/* Verify the server's name. Unless it is an IP address, also send it to the server (SNI). 0, or -1: see OpenSSL's errors. */
static int call_by_name(SSL *ssl, const char *given)
{
    X509_VERIFY_PARAM *param = SSL_get0_param(ssl);
    unsigned char address[sizeof(struct in6_addr)];
    char name[256];

    plain_name(name, sizeof name, given);
    X509_VERIFY_PARAM_set_hostflags(param, NAMES);
    if (inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1)
        return X509_VERIFY_PARAM_set1_ip_asc(param, name) == 1 ? 0 : -1;
    return X509_VERIFY_PARAM_set1_host(param, name, 0) == 1 && SSL_set_tlsext_host_name(ssl, name) == 1 ? 0 : -1;
}

/* Offer one protocol. 0, or -1: see OpenSSL's errors. */
static int offer(SSL *ssl, const char *alpn)
{
    unsigned char list[16];
    size_t size = strlen(alpn);

    list[0] = (unsigned char)size;
    memcpy(list + 1, alpn, size);
    return SSL_set_alpn_protos(ssl, list, (unsigned)size + 1) == 0 ? 0 : -1;
}

int dli_tls_demand(SSL *ssl, const struct dli_conn *conn)
{
    const char *alpn = conn->config->protocol->alpn;

    return call_by_name(ssl, dli_tls_name(conn)) || (alpn && offer(ssl, alpn)) ? -1 : 0;
}

int dli_tls_agreed(SSL *ssl, const struct dli_conn *conn)
{
    const char *alpn = conn->config->protocol->alpn;
    const unsigned char *chosen = NULL;
    unsigned size = 0;

    if (!alpn)
        return 1;
    SSL_get0_alpn_selected(ssl, &chosen, &size);
    return size == strlen(alpn) && memcmp(chosen, alpn, size) == 0;
}

int dli_tls_note_refusal(int good, X509_STORE_CTX *judged)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(judged, SSL_get_ex_data_X509_STORE_CTX_idx());
    struct dli_tls_session *session = SSL_get_app_data(ssl);
    int error = good ? X509_V_OK : X509_STORE_CTX_get_error(judged);
    const X509 *shown = X509_STORE_CTX_get_current_cert(judged);

    if ((error == X509_V_ERR_HOSTNAME_MISMATCH || error == X509_V_ERR_IP_ADDRESS_MISMATCH) && shown)
        session->nameless = X509_get_ext_by_NID(shown, NID_subject_alt_name, -1) < 0;
    return good;
}
