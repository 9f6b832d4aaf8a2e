/*
 * open.c: choose the store for a URL. Only the open function of a store is known here.
 */
#include "base/options.h"
#include "base/url.h"
#include "store.h"

typedef dlock_status open_function(const struct dlock_options *options, const struct dli_site *site,
                                   struct dli_store **ret, dlock_error *box);

extern open_function dli_redis_open;

dlock_status dli_store_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                            dlock_error *box)
{
    return dli_redis_open(options, site, ret, box);
}
