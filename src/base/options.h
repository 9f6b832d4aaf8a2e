/*
 * options.h: the table of all options, and sets of options.
 *
 * dlock_options_set, the query part of a URL, introspection and the manual use the same rows. A set remembers which
 * options were given, so that one set can be laid over another: defaults, then URL, then client, then lock.
 */
#ifndef DLI_BASE_OPTIONS_H
#define DLI_BASE_OPTIONS_H

#include <stddef.h>

#include "dlock.h"

enum dli_option {
    DLI_OPT_LEASE_MS,
    DLI_OPT_RENEW,
    DLI_OPT_MAX_HOLD_MS,
    DLI_OPT_DRIFT_PPM,
    DLI_OPT_RELEASE_TIMEOUT_MS,
    DLI_OPT_SAFETY_MS,
    DLI_OPT_MIN_HOLD_MS,
    DLI_OPT_LOCK_DELAY_MS,
    DLI_OPT_PERMITS,
    DLI_OPT_NAMESPACE,
    DLI_OPT_HANDOVER_TURNS,
    DLI_OPT_HANDOVER_MS,
    DLI_OPT_LINGER_MS,
    DLI_OPT_POLLING_CLIENTS,
    DLI_OPT_TOKEN_TTL_MS,
    DLI_OPT_INTERRUPTIBLE,
    DLI_OPT_USERNAME,
    DLI_OPT_PASSWORD,
    DLI_OPT_DB,
    DLI_OPT_CLIENT_NAME,
    DLI_OPT_CONNECT_TIMEOUT_MS,
    DLI_OPT_COMMAND_TIMEOUT_MS,
    DLI_OPT_CONNECTS_PER_SECOND,
    DLI_OPT_PRIVATE_CONNECTIONS,
    DLI_OPT_BUSY_POLL_US,
    DLI_OPT_WATCHDOG_THREADS,
    DLI_OPT_EVENT_LIMIT,
    DLI_OPT_TLS_CA_FILE,
    DLI_OPT_TLS_CA_DIR,
    DLI_OPT_TLS_CRL_FILE,
    DLI_OPT_TLS_CERT_FILE,
    DLI_OPT_TLS_KEY_FILE,
    DLI_OPT_TLS_KEY_PASSWORD,
    DLI_OPT_TLS_SERVER_NAME,
    DLI_OPT_TLS_VERIFY,
    DLI_OPT_SENTINEL_USERNAME,
    DLI_OPT_SENTINEL_PASSWORD,
    DLI_OPT_QUARANTINE_MS,
    DLI_OPT_QUORUM,
    DLI_OPT_QUORUM_NAME,
    DLI_OPT_CLUSTER_PUBSUB,
    DLI_OPT_REPLICAS,
    DLI_OPT_CHECKS,
    DLI_OPT_COUNT,
    DLI_OPT_OF_CLIENTS = DLI_OPT_USERNAME /* from here on: options that all locks of a client share */
};

/* The type of an option's value. */
enum dli_option_type { DLI_TYPE_INTEGER, DLI_TYPE_BOOL, DLI_TYPE_TEXT, DLI_TYPE_SECRET };

struct dli_option_row {
    const char *name;
    enum dli_option_type type;
    const char *type_text; /* "integer 100..86400000", "bool", "text", "secret" */
    int64_t low, high;     /* the range of an integer; text: high is the longest length */
    const char *preset;    /* the default, as text */
    const char *help;
};

extern const struct dli_option_row dli_option_table[DLI_OPT_COUNT];

enum { DLI_TEXT_MAX = 1024 };

struct dlock_options {
    uint64_t given;                /* bit n: option n was given */
    int64_t number[DLI_OPT_COUNT]; /* integers and bools */
    char *text[DLI_OPT_COUNT];     /* owned; NULL means the default */
};

/* Set every option to its default. Never fails. */
void dli_options_init(struct dlock_options *set);

/* Wipe secrets and free the texts; the set may be used again after dli_options_init. */
void dli_options_fini(struct dlock_options *set);

/* The index of name (size bytes), or -1. */
int dli_option_find(const char *name, size_t size);

/* Parse and store one value (size bytes, not terminated). On failure nothing changes, and box says what is accepted. */
dlock_status dli_options_put(struct dlock_options *set, int option, const char *value, size_t size, dlock_error *box);

/*
 * Copy the options that were given in over (may be NULL) to set. DLOCK_OUT_OF_MEMORY leaves set usable, partly changed.
 */
dlock_status dli_options_overlay(struct dlock_options *set, const struct dlock_options *over, dlock_error *box);

/*
 * As dli_options_overlay, for a lock: set has its client's options. DLOCK_INVALID_OPTION when over changes one that is the
 * client's.
 */
dlock_status dli_options_overlay_lock(struct dlock_options *set, const struct dlock_options *over, dlock_error *box);

/*
 * Check the rules between options when a set is used: a renewed lease has at least 500 ms, max_hold_ms is not 0, tokens
 * are remembered for at least 10 leases, lease and lock delay fit into a quarantine, a key for TLS has a certificate,
 * a certificate can be for the name of a server, and an option that takes one of several texts has one of them.
 */
dlock_status dli_options_check(const struct dlock_options *set, dlock_error *box);

/* DLOCK_INVALID_OPTION when an option of refused (bit n: option n) was given. where: what it means nothing to. */
dlock_status dli_options_fit(const struct dlock_options *set, uint64_t refused, const char *where, dlock_error *box);

enum { DLI_CHECKS_OFF, DLI_CHECKS_WARN, DLI_CHECKS_REFUSE };

/* The option checks: what findings do when a client is opened. -1: not one of its values. */
int dli_options_checks(const struct dlock_options *set);

enum { DLI_PUBSUB_AUTO, DLI_PUBSUB_PLAIN, DLI_PUBSUB_BOTH };

/* The option cluster_pubsub: how messages about locks are sent on a cluster. -1: not one of its values. */
int dli_options_pubsub(const struct dlock_options *set);

/* The option replicas: how many replicas confirm a grant. 0: none; -1: all; -2: not one of its values. */
int dli_options_replicas(const struct dlock_options *set);

/* The text of an option, default applied, never NULL. */
const char *dli_options_text(const struct dlock_options *set, int option);

#endif
