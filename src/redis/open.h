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

#endif
