/*
 * config.h: the configuration of connections, from the options and the URL.
 */
#ifndef DLI_REDIS_LINK_CONFIG_H
#define DLI_REDIS_LINK_CONFIG_H

#include "base/options.h"
#include "net/net.h"

/* Fill in an empty config for connections to target. options outlives it. */
void dli_open_configure(struct dli_conn_config *config, const struct dlock_options *options,
                        const struct dli_target *target);

/*
 * Add TLS and sentinels to a config: config->tls and config->sentinels, owned by the caller. DLOCK_OUT_OF_MEMORY, or
 * the failures of dli_tls_new.
 */
dlock_status dli_open_reach(struct dli_conn_config *config, const struct dlock_options *options,
                            const struct dli_site *site, dlock_error *box);

#endif
