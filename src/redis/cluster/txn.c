/*
 * txn.c: transactions in a cluster. All keys of a round are in one slot; the round runs on the slot's owner. Mutexes:
 * see inner.h.
 */
#include "inner.h"

#include "sys/sys.h"

enum { REST = 20000 };

static struct dli_cluster *cluster_of(struct dli_redis_txn *txn)
{
    return txn->guide_of;
}

/* The owner of the slot is unknown: a refresh is under way, or has failed. */
static dlock_status wait_for_map(struct dli_redis_txn *txn, int64_t *at, dlock_error *reason)
{
    struct dli_cluster *cluster = cluster_of(txn);
    uint32_t version = __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE);

    if (version != txn->version && __atomic_load_n(&cluster->failed, __ATOMIC_ACQUIRE) == version) {
        pthread_mutex_lock(&cluster->mutex);
        *reason = cluster->reason;
        pthread_mutex_unlock(&cluster->mutex);
        txn->version = version; /* another attempt starts another refresh */
        return reason->code;
    }
    dli_refresh_want(cluster);
    *at = dli_now() + REST;
    return DLOCK_WOULD_BLOCK;
}

static dlock_status lead(struct dli_redis_txn *txn, const char *key, size_t size, int64_t *at, dlock_error *reason)
{
    struct dli_cluster *cluster = cluster_of(txn);
    int slot = dli_slot_of(key, size);
    struct dli_node *node = dli_node_owner(cluster, slot);

    if (!node)
        return wait_for_map(txn, at, reason);
    if (txn->conn && txn->conn->config != &node->config) {
        dli_conn_free(txn->conn);
        txn->conn = NULL;
    }
    txn->config = &node->config;
    txn->budget = &node->budget;
    txn->slot = slot;
    return DLOCK_OK;
}

static int follow(struct dli_redis_txn *txn, const struct dli_redirect *redirect)
{
    struct dli_cluster *cluster = cluster_of(txn);
    const struct dli_node *from = DLI_OBJECT(txn->config, const struct dli_node, config);

    if (redirect->kind == DLI_REDIRECT_LATER && redirect->down)
        dli_refresh_want(cluster);
    return redirect->kind == DLI_REDIRECT_MOVED && dli_refresh_moved(cluster, from, redirect) != NULL;
}

static void lost(struct dli_redis_txn *txn)
{
    dli_refresh_want(cluster_of(txn));
}

static const struct dli_redis_txn_guide guide = {lead, follow, lost};

struct dli_txn *dli_cluster_txn_new(struct dli_store *store)
{
    struct dli_cluster *cluster = dli_cluster_of(store);
    struct dli_txn *base =
        dli_redis_txn_new(&cluster->txns, &cluster->config, &cluster->refresh.budget, cluster->patience);
    struct dli_redis_txn *txn = DLI_OBJECT(base, struct dli_redis_txn, base);

    if (!base)
        return NULL;
    txn->guide = &guide;
    txn->guide_of = cluster;
    txn->version = __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE);
    return base;
}
