/*
 * tls_context.c: the trust and identity of a client as an SSL_CTX, and the end of OpenSSL at process exit.
 *
 * dli_tls.mutex guards context and stamp. inside and ended are atomics. No message repeats the value of an option, and
 * OpenSSL never asks a terminal for the password of a key.
 */
#include "tls_inner.h"

#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

struct dli_tls {
    pthread_mutex_t mutex;
    const struct dlock_options *options;
    SSL_CTX *context;
    uint64_t stamp; /* of the files that context was read from */
};

/* ---- the end of OpenSSL */

enum { END_MOST = 100 * 1000 };

static uint32_t inside; /* threads that are in OpenSSL for us; atomic, and a futex */
static int ended;       /* atomic */

int dli_tls_enter(void)
{
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    if (!__atomic_load_n(&ended, __ATOMIC_SEQ_CST))
        return 0;
    dli_tls_leave();
    return -1;
}

void dli_tls_leave(void)
{
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&ended, __ATOMIC_SEQ_CST))
        dli_futex_wake(&inside, 1);
}

/* OpenSSL is about to free what all connections use. Let nobody enter, and wait until those inside have left. */
static void end(void)
{
    int64_t deadline = dli_now() + END_MOST;
    uint32_t seen;

    __atomic_store_n(&ended, 1, __ATOMIC_SEQ_CST);
    while ((seen = __atomic_load_n(&inside, __ATOMIC_SEQ_CST)) > 0 && dli_now() < deadline)
        dli_futex_wait(&inside, seen, deadline);
}

/* Start OpenSSL. If it was not in use yet, it gets no cleanup at process exit: our threads may still run then. */
static int begin(void)
{
    static int begun;

    if (OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
        return -1;
    return __atomic_exchange_n(&begun, 1, __ATOMIC_SEQ_CST) || OPENSSL_atexit(end) == 1 ? 0 : -1;
}

/* ---- files */

static const char *text(const struct dli_tls *tls, int option)
{
    return dli_options_text(tls->options, option);
}

const char *dli_tls_server_name(const struct dli_tls *tls)
{
    return text(tls, DLI_OPT_TLS_SERVER_NAME);
}

static int key_option(const struct dli_tls *tls)
{
    return *text(tls, DLI_OPT_TLS_KEY_FILE) ? DLI_OPT_TLS_KEY_FILE : DLI_OPT_TLS_CERT_FILE;
}

/* Compute one stamp of the current state of all files. */
static dlock_status stamp_files(const struct dli_tls *tls, uint64_t *stamp, dlock_error *box)
{
    static const int options[] = {DLI_OPT_TLS_CA_FILE, DLI_OPT_TLS_CA_DIR, DLI_OPT_TLS_CRL_FILE, DLI_OPT_TLS_CERT_FILE,
                                  DLI_OPT_TLS_KEY_FILE};

    *stamp = 0;
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        const char *path = text(tls, options[i]);
        int error = *path ? dli_file_stamp(path, options[i] == DLI_OPT_TLS_CA_DIR, stamp) : 0;

        if (error)
            return dli_fail(box, error == ENOMEM ? DLOCK_OUT_OF_MEMORY : DLOCK_INVALID_OPTION,
                            "What the option %s names cannot be read: %s.", dli_option_table[options[i]].name,
                            dli_errno_text(error));
    }
    return DLOCK_OK;
}

/* ---- context */

int dli_tls_ran_out(void)
{
    unsigned long error;
    int found = 0;

    while ((error = ERR_get_error()) != 0)
        found |= ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
    return found;
}

static dlock_status no_memory(dlock_error *box)
{
    return dli_fail(box, DLOCK_OUT_OF_MEMORY, "No memory for TLS.");
}

/* OpenSSL refused what no option names. Only it knows why. */
static dlock_status unusable(dlock_error *box)
{
    unsigned long error = ERR_peek_error();
    const char *why = error ? ERR_reason_error_string(error) : NULL;

    if (dli_tls_ran_out())
        return no_memory(box);
    return dli_fail(box, DLOCK_SYSTEM_ERROR, "OpenSSL cannot be used in this process: %s.",
                    why ? why : "no reason was given");
}

/* Whether OpenSSL only says that it did not find what the file should have. */
static int is_plain_absence(unsigned long error)
{
#ifdef ERR_LIB_OSSL_DECODER
    if (ERR_GET_LIB(error) == ERR_LIB_OSSL_DECODER)
        return 1;
#endif
    return error == 0 || (ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE);
}

/* What OpenSSL has against a file is added, as it may be another reason than a missing block of PEM. */
static dlock_status refuse(int option, const char *what, dlock_error *box)
{
    unsigned long error = ERR_peek_error();
    const char *why = is_plain_absence(error) ? NULL : ERR_reason_error_string(error);

    if (dli_tls_ran_out())
        return no_memory(box);
    return dli_fail(box, DLOCK_INVALID_OPTION, "What the option %s names %s%s%s.", dli_option_table[option].name, what,
                    why ? " that OpenSSL takes: " : "", why ? why : "");
}

/*
 * Load the lists of revoked certificates. They are checked for the server's certificate only, not for its authorities.
 */
static dlock_status load_crl(const struct dli_tls *tls, SSL_CTX *context, dlock_error *box)
{
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    const char *file = text(tls, DLI_OPT_TLS_CRL_FILE);
    X509_LOOKUP *lookup;

    if (!*file)
        return DLOCK_OK;
    if (!(lookup = X509_STORE_add_lookup(store, X509_LOOKUP_file())))
        return unusable(box);
    if (X509_load_crl_file(lookup, file, X509_FILETYPE_PEM) <= 0)
        return refuse(DLI_OPT_TLS_CRL_FILE, "has no list of revoked certificates in PEM form", box);
    return X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK) == 1 ? DLOCK_OK : unusable(box);
}

static dlock_status load_ca(const struct dli_tls *tls, SSL_CTX *context, dlock_error *box)
{
    const char *file = text(tls, DLI_OPT_TLS_CA_FILE), *folder = text(tls, DLI_OPT_TLS_CA_DIR);

    if (!tls->options->number[DLI_OPT_TLS_VERIFY])
        return DLOCK_OK;
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, dli_tls_note_refusal);
    if (*file && SSL_CTX_load_verify_locations(context, file, NULL) != 1)
        return refuse(DLI_OPT_TLS_CA_FILE, "has no certificate in PEM form", box);
    if (*folder && SSL_CTX_load_verify_locations(context, NULL, folder) != 1)
        return refuse(DLI_OPT_TLS_CA_DIR, "cannot be used as a folder of certificates", box);
    if (!*file && !*folder && SSL_CTX_set_default_verify_paths(context) != 1)
        return unusable(box);
    return load_crl(tls, context, box);
}

struct password {
    const char *text;
    int requested;
};

static int give_password(char *out, int room, int writing, void *opaque)
{
    struct password *password = opaque;
    size_t size = password ? strlen(password->text) : 0;

    (void)writing;
    if (password)
        password->requested = 1;
    if (size == 0 || size > (size_t)room)
        return -1;
    memcpy(out, password->text, size);
    return (int)size;
}

static int is_mismatch(void)
{
    unsigned long error = ERR_peek_error();

    return ERR_GET_LIB(error) == ERR_LIB_X509 &&
           (ERR_GET_REASON(error) == X509_R_KEY_VALUES_MISMATCH || ERR_GET_REASON(error) == X509_R_KEY_TYPE_MISMATCH);
}

static dlock_status load_key(const struct dli_tls *tls, SSL_CTX *context, dlock_error *box)
{
    struct password password = {.text = text(tls, DLI_OPT_TLS_KEY_PASSWORD)};
    int option = key_option(tls), loaded;

    SSL_CTX_set_default_passwd_cb(context, give_password);
    SSL_CTX_set_default_passwd_cb_userdata(context, &password);
    loaded = SSL_CTX_use_PrivateKey_file(context, text(tls, option), SSL_FILETYPE_PEM) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    if (loaded && SSL_CTX_check_private_key(context) == 1)
        return DLOCK_OK;
    if (is_mismatch())
        return refuse(option, "is the key of another certificate than that of tls_cert_file", box);
    if (password.requested)
        return refuse(option,
                      *password.text ? "is a key that tls_key_password does not decrypt"
                                     : "is an encrypted key, and tls_key_password is empty",
                      box);
    return refuse(option, "has no private key in PEM form", box);
}

static dlock_status load_certificate(const struct dli_tls *tls, SSL_CTX *context, dlock_error *box)
{
    const char *file = text(tls, DLI_OPT_TLS_CERT_FILE);

    if (!*file)
        return DLOCK_OK;
    if (SSL_CTX_use_certificate_chain_file(context, file) != 1)
        return refuse(DLI_OPT_TLS_CERT_FILE, "has no certificate in PEM form", box);
    return load_key(tls, context, box);
}

/* The system's policy may demand more than TLS 1.2; it is kept then. */
static int harden(SSL_CTX *context)
{
    SSL_CTX_set_options(context, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(context, 0);
    if (SSL_CTX_get_min_proto_version(context) >= TLS1_2_VERSION)
        return 0;
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 ? 0 : -1;
}

static dlock_status make(const struct dli_tls *tls, SSL_CTX **ret, dlock_error *box)
{
    dlock_status status;
    SSL_CTX *context;

    ERR_clear_error();
    if (!(context = SSL_CTX_new(TLS_client_method())))
        return unusable(box);
    status = harden(context) ? unusable(box) : load_ca(tls, context, box);
    if (status == DLOCK_OK)
        status = load_certificate(tls, context, box);
    ERR_clear_error();
    if (status == DLOCK_OK)
        *ret = context;
    else
        SSL_CTX_free(context);
    return status;
}

/* ---- the dli_tls of a client */

static dlock_status load(dlock_error *box)
{
#if DLI_TLS_LOADED
    return dli_tls_load(box);
#else
    (void)box;
    return DLOCK_OK;
#endif
}

static dlock_status read_files(struct dli_tls *tls, dlock_error *box)
{
    dlock_status status;

    if (dli_tls_enter())
        return dli_fail(box, DLOCK_SYSTEM_ERROR, "OpenSSL has ended in this process.");
    if (begin())
        status = unusable(box);
    else if ((status = stamp_files(tls, &tls->stamp, box)) == DLOCK_OK)
        status = make(tls, &tls->context, box);
    dli_tls_leave();
    return status;
}

dlock_status dli_tls_new(const struct dlock_options *options, struct dli_tls **ret, dlock_error *box)
{
    struct dli_tls *tls;
    dlock_status status = load(box);

    if (status != DLOCK_OK)
        return status;
    if (!(tls = calloc(1, sizeof *tls)))
        return no_memory(box);
    tls->options = options;
    status = read_files(tls, box);
    if (status != DLOCK_OK) {
        free(tls);
        return status;
    }
    pthread_mutex_init(&tls->mutex, NULL);
    *ret = tls;
    return DLOCK_OK;
}

void dli_tls_free(struct dli_tls *tls)
{
    if (!tls)
        return;
    if (dli_tls_enter() == 0) {
        SSL_CTX_free(tls->context);
        dli_tls_leave();
    }
    pthread_mutex_destroy(&tls->mutex);
    free(tls);
}

/* Read the files again if they changed. mutex held. */
static void refresh(struct dli_tls *tls)
{
    SSL_CTX *context = NULL;
    uint64_t stamp = 0;

    if (stamp_files(tls, &stamp, NULL) != DLOCK_OK || stamp == tls->stamp || make(tls, &context, NULL) != DLOCK_OK)
        return;
    SSL_CTX_free(tls->context);
    tls->context = context;
    tls->stamp = stamp;
}

SSL_CTX *dli_tls_context(struct dli_tls *tls)
{
    SSL_CTX *context;

    pthread_mutex_lock(&tls->mutex);
    refresh(tls);
    context = tls->context;
    SSL_CTX_up_ref(context);
    pthread_mutex_unlock(&tls->mutex);
    return context;
}
