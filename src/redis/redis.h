/*
 * redis.h: the lock store on Redis; and transactions, which only stores on Redis have.
 */
#ifndef DLI_REDIS_REDIS_H
#define DLI_REDIS_REDIS_H

#include "base/options.h"
#include "store/store.h"
#include "base/url.h"
#include "redis/txn/txn.h"

/*
 * Open the store at a site. options must outlive it. DLOCK_OUT_OF_MEMORY, the errors of dli_tls_new, and for a cluster
 * DLOCK_INVALID_OPTION.
 */
dlock_status dli_redis_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                            dlock_error *box);

/* Prepare txn for this store's servers. Not for a quorum. */
void dli_redis_txn(struct dli_store *store, struct dli_txn *txn);

/*
 * Any thread: the lane's thread does the step, then calls its done. Returns 0, or -1 when the lane is shut. Not for a
 * quorum.
 */
int dli_redis_txn_push(struct dli_store *store, struct dli_lane *lane, struct dli_txn_step *step);

#endif
