/*
 * option_table.c: the options, one row each. Everything else about an option is derived from its row.
 */
#include "options.h"

#define TEXT_OF_(value) #value
#define TEXT_OF(value)  TEXT_OF_(value)

/* By hand: releases of clang-format disagree here. */
/* clang-format off */
#define INTEGER(name, low, high, preset, help) \
    {name, DLI_TYPE_INTEGER, "integer " TEXT_OF(low) ".." TEXT_OF(high), low, high, preset, help}
#define BOOL(name, preset, help)         {name, DLI_TYPE_BOOL, "bool", 0, 1, preset, help}
#define TEXT(name, high, preset, help)   {name, DLI_TYPE_TEXT, "text", 0, high, preset, help}
#define SECRET(name, high, preset, help) {name, DLI_TYPE_SECRET, "secret", 0, high, preset, help}
/* clang-format on */

const struct dli_option_row dli_option_table[DLI_OPT_COUNT] = {
    [DLI_OPT_LEASE_MS] =
        INTEGER("lease_ms", 100, 86400000, "30000", "How long the server keeps a lock without renewal."),
    [DLI_OPT_RENEW] =
        BOOL("renew", "true", "Whether a held lock is renewed until it is released; needs a lease_ms of 500 or more."),
    [DLI_OPT_MAX_HOLD_MS] =
        INTEGER("max_hold_ms", -1, 31536000000, "-1",
                "The longest time that a lock is renewed; after it the lock is lost. -1: no limit."),
    [DLI_OPT_DRIFT_PPM] = INTEGER("drift_ppm", 0, 200000, "10000",
                                  "How far the clocks of client and server may run apart, in millionths of the lease."),
    [DLI_OPT_RELEASE_TIMEOUT_MS] =
        INTEGER("release_timeout_ms", 1, 600000, "3000",
                "How long a release waits for the server before it goes on in the background."),
    [DLI_OPT_SAFETY_MS] =
        INTEGER("safety_ms", 50, 60000, "1000", "How often a waiter asks the server when no message comes."),
    [DLI_OPT_MIN_HOLD_MS] = INTEGER(
        "min_hold_ms", 0, 86400000, "0",
        "The shortest time that a grant keeps others out. An earlier release leaves the lock taken for the rest."),
    [DLI_OPT_LOCK_DELAY_MS] = INTEGER("lock_delay_ms", 0, 600000, "0",
                                      "How long a lock stays taken after its lease ended without a release."),
    [DLI_OPT_PERMITS] = INTEGER("permits", 1, 1024, "1", "How many permits of a semaphore one acquisition takes."),
    [DLI_OPT_NAMESPACE] = TEXT("namespace", 256, "", "A prefix of every lock name, joined by a colon; empty: none."),
    [DLI_OPT_HANDOVER_TURNS] =
        INTEGER("handover_turns", 0, 1024, "64",
                "How often a lock is handed over within the process before other processes have a turn."),
    [DLI_OPT_HANDOVER_MS] =
        INTEGER("handover_ms", 0, 1000, "2",
                "How long a lock is handed over within the process before other processes have a turn."),
    [DLI_OPT_LINGER_MS] =
        INTEGER("linger_ms", 0, 1000, "0",
                "How long a released mutex stays with the process when nobody here waits for it, within handover_turns "
                "and handover_ms; 0: not at all."),
    [DLI_OPT_POLLING_CLIENTS] = INTEGER(
        "polling_clients", 0, 100, "0",
        "How many clients of Redisson poll for a mutex, with tryLock in a loop or as a spin lock. They get turns, "
        "as if they were subscribed."),
    [DLI_OPT_TOKEN_TTL_MS] =
        INTEGER("token_ttl_ms", 60000, 31536000000, "86400000",
                "How long the server remembers the last token after the last grant; at least 10 leases."),
    [DLI_OPT_INTERRUPTIBLE] =
        BOOL("interruptible", "false",
             "Whether a blocking acquire returns DLOCK_INTERRUPTED after a handled signal, and after each second."),
    [DLI_OPT_USERNAME] = TEXT("username", 256, "", "The user to log in as; empty: the default user."),
    [DLI_OPT_PASSWORD] = SECRET("password", 256, "", "The password to log in with; empty: none."),
    [DLI_OPT_DB] = INTEGER("db", 0, 1000000, "0", "The number of the database that keeps the locks."),
    [DLI_OPT_CLIENT_NAME] = TEXT("client_name", 64, "",
                                 "The name of the connections on the server, after \"dlock-\"; printable, no spaces."),
    [DLI_OPT_CONNECT_TIMEOUT_MS] = INTEGER("connect_timeout_ms", 1, 600000, "2000",
                                           "How long resolving, connecting and logging in may take together."),
    [DLI_OPT_COMMAND_TIMEOUT_MS] = INTEGER(
        "command_timeout_ms", 1, 600000, "1000",
        "How long the server may take to answer one command. For locks a ninth of the lease counts if it is less, "
        "but at least 50."),
    [DLI_OPT_CONNECTS_PER_SECOND] = INTEGER("connects_per_second", 1, 1000, "10",
                                            "The largest number of connections that are tried in one second."),
    [DLI_OPT_PRIVATE_CONNECTIONS] =
        INTEGER("private_connections", 0, 64, "8", "The largest number of private connections of blocking callers."),
    [DLI_OPT_BUSY_POLL_US] = INTEGER(
        "busy_poll_us", 0, 10000, "100",
        "How long a caller polls for the answer before it sleeps. Blocking callers with a private connection poll, and "
        "asynchronous calls while the client is idle. Polling yields to other threads, and stops where it is mostly in "
        "vain. 0: off."),
    [DLI_OPT_WATCHDOG_THREADS] = INTEGER("watchdog_threads", 1, 16, "1", "The number of threads that renew locks."),
    [DLI_OPT_EVENT_LIMIT] = INTEGER("event_limit", 16, 1000000, "4096",
                                    "How many events may wait before new log lines and AT_RISK are dropped."),
    [DLI_OPT_TLS_CA_FILE] = TEXT("tls_ca_file", 1024, "",
                                 "A file with the authorities that may certify the server of a URL with TLS; if "
                                 "tls_ca_dir is empty, too: the system's."),
    [DLI_OPT_TLS_CA_DIR] =
        TEXT("tls_ca_dir", 1024, "", "A folder of such files, with the names that openssl rehash gives them."),
    [DLI_OPT_TLS_CRL_FILE] =
        TEXT("tls_crl_file", 1024, "",
             "A file with the authorities' lists of revoked certificates; a server on it is refused."),
    [DLI_OPT_TLS_CERT_FILE] =
        TEXT("tls_cert_file", 1024, "",
             "A file with the certificate that this client shows to a server with TLS, and the intermediate ones."),
    [DLI_OPT_TLS_KEY_FILE] =
        TEXT("tls_key_file", 1024, "", "A file with the private key of that certificate; empty: tls_cert_file has it."),
    [DLI_OPT_TLS_KEY_PASSWORD] = SECRET("tls_key_password", 256, "", "The password of the private key."),
    [DLI_OPT_TLS_SERVER_NAME] = TEXT(
        "tls_server_name", 255, "", "The name or address that a server with TLS must have; empty: the one in the URL."),
    [DLI_OPT_TLS_VERIFY] = BOOL(
        "tls_verify", "true",
        "Whether a server with TLS must prove who it is. If not, anybody in between can read and change everything."),
    [DLI_OPT_SENTINEL_USERNAME] =
        TEXT("sentinel_username", 256, "", "The user to log in as at sentinels; empty: the default user."),
    [DLI_OPT_SENTINEL_PASSWORD] =
        SECRET("sentinel_password", 256, "", "The password to log in with at sentinels; empty: none."),
    [DLI_OPT_QUARANTINE_MS] = INTEGER("quarantine_ms", 0, 86400000, "0",
                                      "The longest lease of all clients. Nobody gets a lock for so long after the "
                                      "server may have lost some. 0: off."),
    [DLI_OPT_QUORUM] =
        INTEGER("quorum", 0, 15, "0",
                "How many servers of redis+quorum:// must agree, more than half; 0: just more than half."),
    [DLI_OPT_QUORUM_NAME] =
        TEXT("quorum_name", 64, "",
             "The name of the quorum, for clients that name its servers differently; printable, no spaces; empty: the "
             "servers of the URL."),
    [DLI_OPT_CLUSTER_PUBSUB] = TEXT(
        "cluster_pubsub", 16, "auto",
        "How lock messages travel on a cluster. auto: by sharded Pub/Sub where the servers have it; plain: by plain "
        "Pub/Sub, as Redisson with shardedSubscriptionMode=OFF or before 3.22; both. One value for all clients."),
    [DLI_OPT_REPLICAS] = TEXT("replicas", 4, "none",
                              "How many replicas must confirm each grant and renewal: none, a number, or all that the "
                              "sentinels or the cluster know."),
    [DLI_OPT_CHECKS] =
        TEXT("checks", 6, "off",
             "Whether opening a client checks the server: off, warn (findings become events) or refuse."),
};
