/*
 * single.h: the store on one server, or on the primary that sentinels name.
 */
#ifndef DLI_REDIS_SINGLE_SINGLE_H
#define DLI_REDIS_SINGLE_SINGLE_H

#include "base/options.h"
#include "base/url.h"
#include "store/store.h"

/* As dli_redis_open. */
dlock_status dli_single_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                             dlock_error *box);

/* Before the first lane is made: this store is one of so many of a client, which share what answers may use. */
void dli_single_among(struct dli_store *store, int count);

#endif
