/*
 * open.c: chooses the store on Redis that a URL names.
 */
#include "redis.h"

#include "redis/cluster/cluster.h"
#include "redis/quorum/quorum.h"
#include "redis/single/single.h"

dlock_status dli_redis_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                            dlock_error *box)
{
    switch (site->kind) {
    case DLI_SITE_CLUSTER:
        return dli_cluster_open(options, site, ret, box);
    case DLI_SITE_QUORUM:
        return dli_quorum_open(options, site, ret, box);
    default:
        return dli_single_open(options, site, ret, box);
    }
}

void dli_redis_txn(struct dli_store *store, struct dli_txn *txn)
{
    if (dli_is_cluster(store))
        dli_cluster_txn(store, txn);
    else
        dli_single_txn(store, txn);
}

int dli_redis_txn_push(struct dli_store *store, struct dli_lane *lane, struct dli_txn_step *step)
{
    return dli_is_cluster(store) ? dli_cluster_txn_push(lane, step) : dli_single_txn_push(lane, step);
}
