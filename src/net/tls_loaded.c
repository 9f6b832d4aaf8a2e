/*
 * tls_loaded.c: OpenSSL's functions for a library that is not linked with OpenSSL (-Dtls_loaded=true). Each passes the call on to the
 * OpenSSL of the machine, which dli_tls_load finds at run time. No mutex: the table is published once and never freed.
 *
 * OpenSSL is looked for under the name of the ABI of OpenSSL 3, whose headers this file was compiled with.
 */
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "tls_inner.h"
#include "sys/sys.h"

#define LIBRARY "libssl.so.3"

struct calls {
#define CALL(result, name, parameters, arguments) __typeof__ (&(name))(name);
#define ACT(name, parameters, arguments)          __typeof__ (&(name))(name);
#include "tls_calls.h"
#undef CALL
#undef ACT
};

static const char *const names[] = {
#define CALL(result, name, parameters, arguments) #name,
#define ACT(name, parameters, arguments)          #name,
#include "tls_calls.h"
#undef CALL
#undef ACT
};

static struct calls *loaded; /* atomic */

static const struct calls *calls(void)
{
    return __atomic_load_n(&loaded, __ATOMIC_ACQUIRE);
}

static dlock_status refuse(const char *why, dlock_error *box)
{
    return dli_fail(box, DLOCK_UNSUPPORTED,
                    "rediss://, etcds:// and zookeepers:// need OpenSSL 3, which this build of the library uses as the "
                    "machine has it: "
                    "%s. Install it (Debian: libssl3, Red Hat: openssl-libs).",
                    why);
}

/* Fill the table. NULL, or what is missing. */
static const char *fill(struct calls *made)
{
    void *library = dli_shared_open(LIBRARY), **call = (void **)made;

    _Static_assert(sizeof *made == sizeof names, "the table has one pointer for each name");
    if (!library)
        return "there is no " LIBRARY;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (!(call[i] = dli_shared_symbol(library, names[i])))
            return names[i];
    }
    return NULL;
}

dlock_status dli_tls_load(dlock_error *box)
{
    struct calls *made, *seen = NULL;
    const char *missing;

    if (calls())
        return DLOCK_OK;
    if (!(made = calloc(1, sizeof *made)))
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "No memory for TLS.");
    if ((missing = fill(made))) {
        free(made);
        return refuse(missing, box);
    }
    if (!__atomic_compare_exchange_n(&loaded, &seen, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        free(made);
    return DLOCK_OK;
}

/* ---- the functions */

#define CALL(result, name, parameters, arguments)                                                                      \
    result name parameters                                                                                             \
    {                                                                                                                  \
        return calls()->name arguments;                                                                                \
    }
#define ACT(name, parameters, arguments)                                                                               \
    void name parameters                                                                                               \
    {                                                                                                                  \
        calls()->name arguments;                                                                                       \
    }
#include "tls_calls.h"
