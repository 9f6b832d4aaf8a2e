/*
 * config.h: what the options and the URL say of connections.
 */
#ifndef DLI_REDIS_LINK_CONFIG_H
#define DLI_REDIS_LINK_CONFIG_H

#include "base/options.h"
#include "conn.h"

/* What the options say of connections to target, an empty config. options outlives it. */
void dli_open_configure(struct dli_conn_config *config, const struct dlock_options *options,
                        const struct dli_target *target);

/* What TLS and sentinels add to it, owned by the caller: config->tls and config->finder. DLOCK_OUT_OF_MEMORY, dli_tls_new. */
dlock_status dli_open_reach(struct dli_conn_config *config, const struct dlock_options *options,
                            const struct dli_site *site, dlock_error *box);

#endif
