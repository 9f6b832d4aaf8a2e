/*
 * txn.c: the life of a transaction, see txn.h. It has no mutex: inside says who is in it.
 */
#include "txn.h"

#include <stdlib.h>

#include "redis/store.h"

struct dlock_txn *dli_txn_new(struct dli_client *client)
{
    struct dlock_txn *txn = calloc(1, sizeof *txn);

    if (!txn)
        return NULL;
    dli_client_ref(client);
    txn->client = client;
    dli_redis_txn(client->store, &txn->txn);
    return txn;
}

/* In a child a call that was under way never ends: nothing of it can be trusted, and it stays. */
static void free_in_child(struct dlock_txn *txn)
{
    if (__atomic_load_n(&txn->inside, __ATOMIC_ACQUIRE))
        return;
    dli_txn_fini_child(&txn->txn);
    free(txn);
}

void dli_txn_free(struct dlock_txn *txn)
{
    if (dli_client_usable(txn->client, NULL) == DLOCK_FORKED) {
        free_in_child(txn);
        return;
    }
    dli_txn_fini(&txn->txn);
    dli_client_unref(txn->client);
    free(txn);
}

dlock_status dli_txn_enter(struct dlock_txn *txn, int start, dlock_error *why)
{
    dlock_status status = dli_client_usable(txn->client, why);

    if (status == DLOCK_FORKED)
        return status;
    if (__atomic_exchange_n(&txn->inside, 1, __ATOMIC_ACQUIRE))
        return dli_fail(why, DLOCK_INVALID_ARGUMENT, "another thread is in a call of this transaction");
    if (status == DLOCK_OK && start)
        status = dli_client_start(txn->client, why);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    if (status == DLOCK_CLOSED)
        dli_txn_drop(&txn->txn);
    dli_txn_leave(txn);
    return status;
}

void dli_txn_leave(struct dlock_txn *txn)
{
    dli_client_count(txn->client, DLOCK_STAT_COMMANDS, txn->txn.asked);
    txn->txn.asked = 0;
    __atomic_store_n(&txn->inside, 0, __ATOMIC_RELEASE);
}
