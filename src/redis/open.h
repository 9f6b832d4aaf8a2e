/*
 * open.h: the stores there are, and what their connections share.
 */
#ifndef DLI_REDIS_OPEN_H
#define DLI_REDIS_OPEN_H

#include "redis/conn.h"
#include "redis/store.h"

/* What the options say of connections to target, an empty config. options outlives it. */
void dli_open_configure(struct dli_conn_config *config, const struct dlock_options *options,
                        const struct dli_target *target);

/* What TLS and sentinels add to it, owned by the caller: config->tls and config->finder. DLOCK_OUT_OF_MEMORY, dli_tls_new. */
dlock_status dli_open_reach(struct dli_conn_config *config, const struct dlock_options *options,
                            const struct dli_site *site, dlock_error *box);

/* single.c: one server, or the primary that sentinels name. As dli_redis_open. */
dlock_status dli_single_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                             dlock_error *box);

void dli_single_txn(struct dli_store *store, struct dli_txn *txn);
int dli_single_txn_push(struct dli_lane *lane, struct dli_txn_step *step);

/* cluster.c: a Redis Cluster. As dli_redis_open; DLOCK_INVALID_OPTION for another db than 0. */
dlock_status dli_cluster_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                              dlock_error *box);
int dli_is_cluster(const struct dli_store *store);
void dli_cluster_txn(struct dli_store *store, struct dli_txn *txn);
int dli_cluster_txn_push(struct dli_lane *lane, struct dli_txn_step *step);

/* quorum.c: servers that know nothing of each other. As dli_redis_open. It has no transactions. */
dlock_status dli_quorum_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                             dlock_error *box);

#endif
