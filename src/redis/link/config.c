/*
 * config.c: the part of options and URL that concerns connections: target, credentials, timeouts, TLS, sentinels.
 */
#include "config.h"

#include "call.h"
#include "sentinel.h"

enum { MS = 1000 };

void dli_open_configure(struct dli_conn_config *config, const struct dlock_options *options,
                        const struct dli_target *target)
{
    config->protocol = &dli_redis_protocol;
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
    if ((config->sentinels = dli_sentinels_new(options, site, config->tls, config->replies)))
        return DLOCK_OK;
    dli_tls_free(config->tls);
    return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
}
