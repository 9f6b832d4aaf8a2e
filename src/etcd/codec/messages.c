/*
 * messages.c: requests about leases, watches, a login and a member, see codec.h. No state.
 */
#include "inner.h"

/* ---- leases */

int dli_etcd_encode_lease_grant(struct dli_buffer *out, int64_t ttl)
{
    Etcd__LeaseGrantRequest request = ETCD__LEASE_GRANT_REQUEST__INIT;

    request.ttl = ttl;
    return dli_etcd_pack(out, &request.base);
}

int dli_etcd_encode_lease(struct dli_buffer *out, int64_t id)
{
    Etcd__LeaseKeepAliveRequest request = ETCD__LEASE_KEEP_ALIVE_REQUEST__INIT;

    request.id = id;
    return dli_etcd_pack(out, &request.base);
}

/* ---- one key */

int dli_etcd_encode_delete(struct dli_buffer *out, struct dli_etcd_bytes key)
{
    Etcd__DeleteRequest request = ETCD__DELETE_REQUEST__INIT;

    request.key = dli_etcd_data(key);
    return dli_etcd_pack(out, &request.base);
}

/* ---- watches */

int dli_etcd_encode_watch(struct dli_buffer *out, const struct dli_etcd_watching *watching)
{
    Etcd__WatchCreateRequest create = ETCD__WATCH_CREATE_REQUEST__INIT;
    Etcd__WatchRequest request = ETCD__WATCH_REQUEST__INIT;
    int32_t no_puts = 0;

    create.key = dli_etcd_data(watching->key);
    create.range_end = dli_etcd_data(watching->end);
    create.start_revision = watching->revision;
    create.filters = &no_puts;
    create.n_filters = watching->puts ? 0 : 1;
    create.watch_id = watching->id;
    request.request_case = ETCD__WATCH_REQUEST__REQUEST_CREATE;
    request.create = &create;
    return dli_etcd_pack(out, &request.base);
}

int dli_etcd_encode_unwatch(struct dli_buffer *out, int64_t id)
{
    Etcd__WatchCancelRequest cancel = ETCD__WATCH_CANCEL_REQUEST__INIT;
    Etcd__WatchRequest request = ETCD__WATCH_REQUEST__INIT;

    cancel.watch_id = id;
    request.request_case = ETCD__WATCH_REQUEST__REQUEST_CANCEL;
    request.cancel = &cancel;
    return dli_etcd_pack(out, &request.base);
}

/* ---- the server */

int dli_etcd_encode_login(struct dli_buffer *out, const char *user, const char *password)
{
    Etcd__AuthenticateRequest request = ETCD__AUTHENTICATE_REQUEST__INIT;

    request.name = (char *)(uintptr_t)user;
    request.password = (char *)(uintptr_t)password;
    return dli_etcd_pack(out, &request.base);
}

int dli_etcd_encode_status(struct dli_buffer *out)
{
    Etcd__StatusRequest request = ETCD__STATUS_REQUEST__INIT;

    return dli_etcd_pack(out, &request.base);
}
