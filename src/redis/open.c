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
