/*
 * redis.h: the lock store on Redis; and what is Redis's own, transactions.
 */
#ifndef DLI_REDIS_REDIS_H
#define DLI_REDIS_REDIS_H

#include "base/options.h"
#include "store/store.h"
#include "base/url.h"
#include "redis/txn/txn.h"

/* The store at a site; options outlives it. DLOCK_OUT_OF_MEMORY, and what dli_tls_new says. */
dlock_status dli_redis_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                            dlock_error *box);

/* Make txn one of this store's servers. */
void dli_redis_txn(struct dli_store *store, struct dli_txn *txn);

/* Any thread: the lane does the step, then done runs. 0, or -1 when the lane was shut. */
int dli_redis_txn_push(struct dli_store *store, struct dli_lane *lane, struct dli_txn_step *step);

#endif
