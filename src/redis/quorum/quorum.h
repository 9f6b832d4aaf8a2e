/*
 * quorum.h: the store on a quorum of servers that know nothing of each other. It has no transactions.
 */
#ifndef DLI_REDIS_QUORUM_QUORUM_H
#define DLI_REDIS_QUORUM_QUORUM_H

#include "base/options.h"
#include "base/url.h"
#include "store/store.h"

/* As dli_redis_open. */
dlock_status dli_quorum_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                             dlock_error *box);

#endif
