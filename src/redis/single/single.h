/*
 * single.h: the store on one server, or on the primary that sentinels name.
 */
#ifndef DLI_REDIS_SINGLE_SINGLE_H
#define DLI_REDIS_SINGLE_SINGLE_H

#include "base/options.h"
#include "base/url.h"
#include "store/store.h"

struct dli_txn;
struct dli_txn_step;

/* As dli_redis_open. */
dlock_status dli_single_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                             dlock_error *box);

void dli_single_txn(struct dli_store *store, struct dli_txn *txn);
int dli_single_txn_push(struct dli_lane *lane, struct dli_txn_step *step);

#endif
