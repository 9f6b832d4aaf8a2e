/*
 * messages.c: leases, watches, login and status, see codec.h. No state.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
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

int dli_etcd_decode_lease(const char *bytes, size_t size, struct dli_etcd_lease *lease)
{
    Etcd__LeaseGrantResponse *response = etcd__lease_grant_response__unpack(NULL, size, (const uint8_t *)bytes);

    if (!response)
        return -1;
    *lease = (struct dli_etcd_lease){response->header ? response->header->revision : 0, response->id, response->ttl};
    etcd__lease_grant_response__free_unpacked(response, NULL);
    return 0;
}

int dli_etcd_decode_lease_left(const char *bytes, size_t size, int64_t *seconds)
{
    Etcd__LeaseTimeToLiveResponse *response =
        etcd__lease_time_to_live_response__unpack(NULL, size, (const uint8_t *)bytes);

    if (!response)
        return -1;
    *seconds = response->ttl;
    etcd__lease_time_to_live_response__free_unpacked(response, NULL);
    return 0;
}

/* ---- one key */

int dli_etcd_encode_delete(struct dli_buffer *out, struct dli_etcd_bytes key)
{
    Etcd__DeleteRequest request = ETCD__DELETE_REQUEST__INIT;

    request.key = dli_etcd_data(key);
    return dli_etcd_pack(out, &request.base);
}

int dli_etcd_decode_delete(const char *bytes, size_t size, int64_t *count)
{
    Etcd__DeleteResponse *response = etcd__delete_response__unpack(NULL, size, (const uint8_t *)bytes);

    if (!response)
        return -1;
    *count = response->deleted;
    etcd__delete_response__free_unpacked(response, NULL);
    return 0;
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

int dli_etcd_decode_watch(const char *bytes, size_t size, struct dli_etcd_news *news)
{
    Etcd__WatchResponse *response = etcd__watch_response__unpack(NULL, size, (const uint8_t *)bytes);

    if (!response)
        return -1;
    *news = (struct dli_etcd_news){.id = response->watch_id,
                                   .revision = response->header ? response->header->revision : 0,
                                   .created = response->created,
                                   .ended = response->canceled || response->compact_revision > 0,
                                   .events = (int)response->n_events,
                                   .memory = response};
    return 0;
}

struct dli_etcd_event dli_etcd_event_at(const struct dli_etcd_news *news, int index)
{
    const Etcd__WatchResponse *response = news->memory;
    const Etcd__Event *event = response->events[index];

    if (!event->kv)
        return (struct dli_etcd_event){0};
    return (struct dli_etcd_event){event->type == 1, dli_etcd_bytes_of(event->kv->key),
                                   dli_etcd_bytes_of(event->kv->value)};
}

void dli_etcd_news_free(struct dli_etcd_news *news)
{
    etcd__watch_response__free_unpacked(news->memory, NULL);
    news->memory = NULL;
}

/* ---- the server */

int dli_etcd_encode_login(struct dli_buffer *out, const char *user, const char *password)
{
    Etcd__AuthenticateRequest request = ETCD__AUTHENTICATE_REQUEST__INIT;

    request.name = (char *)(uintptr_t)user;
    request.password = (char *)(uintptr_t)password;
    return dli_etcd_pack(out, &request.base);
}

int dli_etcd_decode_login(const char *bytes, size_t size, char **token)
{
    Etcd__AuthenticateResponse *response = etcd__authenticate_response__unpack(NULL, size, (const uint8_t *)bytes);

    if (!response)
        return -1;
    *token = strdup(response->token);
    explicit_bzero(response->token, strlen(response->token));
    etcd__authenticate_response__free_unpacked(response, NULL);
    return *token ? 0 : -1;
}

int dli_etcd_encode_status(struct dli_buffer *out)
{
    Etcd__StatusRequest request = ETCD__STATUS_REQUEST__INIT;

    return dli_etcd_pack(out, &request.base);
}

int dli_etcd_decode_status(const char *bytes, size_t size, struct dli_etcd_status *status)
{
    Etcd__StatusResponse *response = etcd__status_response__unpack(NULL, size, (const uint8_t *)bytes);
    size_t used = 0;

    if (!response)
        return -1;
    memset(status, 0, sizeof *status);
    dli_escape(status->version, sizeof status->version, response->version, strlen(response->version));
    status->leader = response->leader;
    status->member = response->header ? response->header->member_id : 0;
    status->size = response->db_size;
    status->learner = response->is_learner;
    for (size_t i = 0; i < response->n_errors && used + 2 < sizeof status->errors; i++) {
        char *at = status->errors + used;

        dli_escape(at, sizeof status->errors - used, response->errors[i], strlen(response->errors[i]));
        used += strlen(at);
    }
    etcd__status_response__free_unpacked(response, NULL);
    return 0;
}
