/*
 * txn.h: the transactions of a client: who may use one now, and what it needs of the client.
 */
#ifndef DLI_CLIENT_TXN_H
#define DLI_CLIENT_TXN_H

#include "core.h"
#include "redis/txn/txn.h"

struct dlock_txn {
    struct dli_client *client; /* with a ref */
    uint32_t inside;           /* atomic: who is in it, see txn.c */
    struct dli_txn txn;        /* its own */
};

/* A transaction of the client, with a ref to it. NULL without memory. */
struct dlock_txn *dli_txn_new(struct dli_client *client);

/* Give it back. In a forked child only its memory and its copies of descriptors go. */
void dli_txn_free(struct dlock_txn *txn);

/* The client is closed: close the connections that are in no round. Never blocks. */
void dli_txn_end_spares(struct dli_client *client);

/*
 * Before a call: DLOCK_OK makes the calling thread its only user until dli_txn_leave; with start the client counts as used
 * from now on. DLOCK_FORKED, DLOCK_CLOSED (the connection is closed then), DLOCK_INVALID_ARGUMENT when another thread is
 * in a call.
 */
dlock_status dli_txn_enter(struct dlock_txn *txn, int start, dlock_error *reason);
void dli_txn_leave(struct dlock_txn *txn);

/* Say what happened to which key (NULL: to all of it) on which server. */
dlock_status dli_txn_report(const struct dli_client *client, const char *key, size_t key_size,
                            const dlock_error *reason, dlock_error *reterr);

/*
 * A step that nobody waits for, instead of enter and leave. DLOCK_OK: an event with tag follows; nobody else gets in
 * before. Else it was over at once, as why says.
 */
dlock_status dli_txn_submit(struct dlock_txn *txn, enum dli_txn_verb verb, const char *key, size_t key_size,
                            int64_t tag, dlock_error *reason);

#endif
