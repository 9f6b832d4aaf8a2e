/*
 * open.c: which store a URL means, and what the connections to a server of its are made with.
 */
#include "redis/open.h"

#include "redis/finder.h"
#include "redis/tls.h"

enum { MS = 1000 };

void dli_open_configure(struct dli_conn_config *config, const struct dlock_options *options,
                        const struct dli_target *target)
{
    config->target = *target;
    config->username = dli_options_text(options, DLI_OPT_USERNAME);
    config->password = dli_options_text(options, DLI_OPT_PASSWORD);
    config->client_name = dli_options_text(options, DLI_OPT_CLIENT_NAME);
    config->db = (int)options->number[DLI_OPT_DB];
    config->connect_timeout = options->number[DLI_OPT_CONNECT_TIMEOUT_MS] * MS;
    config->busy_poll = options->number[DLI_OPT_BUSY_POLL_US];
}

dlock_status dli_open_reach(struct dli_conn_config *config, const struct dlock_options *options,
                            const struct dli_site *site, dlock_error *box)
{
    dlock_status status = site->target.tls ? dli_tls_new(options, &config->tls, box) : DLOCK_OK;

    if (status != DLOCK_OK || site->kind != DLI_SITE_SENTINEL)
        return status;
    if ((config->finder = dli_finder_new(options, site, config->tls)))
        return DLOCK_OK;
    dli_tls_free(config->tls);
    return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
}

dlock_status dli_redis_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                            dlock_error *box)
{
    switch (site->kind) {
    case DLI_SITE_CLUSTER:
        return dli_cluster_open(options, site, ret, box);
    case DLI_SITE_QUORUM:
        return dli_quorum_open(options, site, ret, box);
    default:
        return dli_single_open(options, site, ret, box);
    }
}

void dli_redis_txn(struct dli_store *store, struct dli_txn *txn)
{
    if (dli_is_cluster(store))
        dli_cluster_txn(store, txn);
    else
        dli_single_txn(store, txn);
}

int dli_redis_txn_push(struct dli_store *store, struct dli_lane *lane, struct dli_txn_step *step)
{
    return dli_is_cluster(store) ? dli_cluster_txn_push(lane, step) : dli_single_txn_push(lane, step);
}
