/*
 * open.c: the engines that keep locks, and the choice of one for a URL. Only the open function of an engine is known here.
 */
#include "base/options.h"
#include "base/url.h"
#include "store.h"

typedef dlock_status open_function(const struct dlock_options *options, const struct dli_site *site,
                                   struct dli_store **ret, dlock_error *box);

extern open_function dli_redis_open, dli_memory_open;
#if DLI_ETCD
extern open_function dli_etcd_open;
#else
#define dli_etcd_open NULL
#endif
#if DLI_ZOOKEEPER
extern open_function dli_zookeeper_open;
#else
#define dli_zookeeper_open NULL
#endif

/* One row for each engine of base/url.h. */
static const struct engine {
    open_function *open;
    const char *lacks; /* open is NULL: what the build needs to have it */
} engines[] = {
    [DLI_ENGINE_REDIS] = {dli_redis_open, NULL},
    [DLI_ENGINE_MEMORY] = {dli_memory_open, NULL},
    [DLI_ENGINE_ETCD] = {dli_etcd_open, "the build option etcd"},
    [DLI_ENGINE_ZOOKEEPER] = {dli_zookeeper_open, "the build option zookeeper"},
};

dlock_status dli_store_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                            dlock_error *box)
{
    const struct engine *engine = &engines[site->engine];
    dlock_status status;

    if (!engine->open)
        return dli_fail(box, DLOCK_UNSUPPORTED, "This build of the library has no %s:// URLs: it was made without %s.",
                        site->scheme, engine->lacks);
    status = engine->open(options, site, ret, box);
    if (status == DLOCK_OK)
        (*ret)->refused = site->refused;
    return status;
}
