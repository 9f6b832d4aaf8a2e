/*
 * txn.h: the transactions of a client: who may use one now. What they do is the store's, see store/txn.h.
 */
#ifndef DLI_CLIENT_TXN_H
#define DLI_CLIENT_TXN_H

#include "core.h"

struct dlock_txn {
    struct dli_client *client; /* with a ref */
    uint32_t inside;           /* atomic: who uses it now, see txn.c */
    struct dli_txn *txn;       /* guarded by inside */
};

/* A transaction of the client, with a ref to it. NULL without memory. */
struct dlock_txn *dli_txn_new(struct dli_client *client);

/* Free the transaction. In a forked child only its memory and its copies of descriptors are freed. */
void dli_txn_free(struct dlock_txn *txn);

/*
 * Before a call. DLOCK_OK makes the calling thread the only user until dli_txn_leave. With start, the client counts as
 * used from now on. DLOCK_FORKED. DLOCK_CLOSED: the round is over then. DLOCK_INVALID_ARGUMENT when another thread is in a
 * call, or a submitted call is under way.
 */
dlock_status dli_txn_enter(struct dlock_txn *txn, int start, dlock_error *reason);
void dli_txn_leave(struct dlock_txn *txn);

/* Enter, do the step with the verb, key and key_size of step, and leave. Blocks. Returns its status; step has the rest. */
dlock_status dli_txn_do(struct dlock_txn *txn, struct dli_txn_step *step);

/* Fill in reterr with a sentence that names key (NULL: the whole transaction) and server. Returns the status. */
dlock_status dli_txn_report(const struct dli_client *client, const char *key, size_t key_size,
                            const dlock_error *reason, dlock_error *reterr);

/*
 * Submit a step, instead of enter and leave. DLOCK_OK: an event with tag follows, and nobody else gets in before.
 * Otherwise the step was over at once, and reason says why.
 */
dlock_status dli_txn_submit(struct dlock_txn *txn, enum dli_txn_verb verb, const char *key, size_t key_size,
                            int64_t tag, dlock_error *reason);

#endif
