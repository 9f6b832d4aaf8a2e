/*
 * redis.h: the lock store on Redis.
 */
#ifndef DLI_REDIS_REDIS_H
#define DLI_REDIS_REDIS_H

#include "base/options.h"
#include "store/store.h"
#include "base/url.h"

/*
 * Open the store at a site. options must outlive it. DLOCK_OUT_OF_MEMORY, the errors of dli_tls_new, and for a cluster
 * DLOCK_INVALID_OPTION.
 */
dlock_status dli_redis_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                            dlock_error *box);

#endif
