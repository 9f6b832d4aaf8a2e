/*
 * cluster.h: the store on a Redis Cluster.
 */
#ifndef DLI_REDIS_CLUSTER_CLUSTER_H
#define DLI_REDIS_CLUSTER_CLUSTER_H

#include "base/options.h"
#include "base/url.h"
#include "store/store.h"

/* As dli_redis_open; DLOCK_INVALID_OPTION for another db than 0. */
dlock_status dli_cluster_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                              dlock_error *box);

#endif
