/*
 * txn.c: transactions. Arguments are checked here; the rounds are in the store.
 */
#include "client/client.h"

#include <stdlib.h>
#include <string.h>

#include "handles.h"
#include "sys/sys.h"

enum { LONGEST_PAUSE = 250 }; /* milliseconds */

static const int64_t longest_ttl_ms = INT64_C(1) << 53;

/* ---- checks */

static dlock_status said(const dlock_txn *txn, const char *key, size_t key_size, const dlock_error *reason,
                         dlock_error *reterr)
{
    return dli_txn_report(txn->client, key, key_size, reason, reterr);
}

static dlock_status check_key(const dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr)
{
    if (!txn)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no transaction was given");
    if (!key || key_size == 0 || key_size > DLI_TXN_KEY_MAX)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a key has 1 to %d bytes", DLI_TXN_KEY_MAX);
    return DLOCK_OK;
}

/* ---- handles */

dlock_status dlock_txn_new(dlock_client *client, dlock_txn **ret_txn, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status;
    dlock_txn *txn;

    if (!client || !ret_txn)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a transaction needs a client and a place for the result");
    status = dli_client_usable(client->core, reterr);
    if (status != DLOCK_OK)
        return status;
    if (!dli_store_can(client->core->store, DLI_CAN_TRANSACTIONS))
        return dli_fail(reterr, DLOCK_UNSUPPORTED, "%s: %s there are no transactions", client->core->store->text,
                        client->core->store->traits->where);
    if (!(txn = dli_txn_new(client->core)))
        return dli_fail(reterr, DLOCK_OUT_OF_MEMORY, "no memory for a transaction");
    *ret_txn = txn;
    return DLOCK_OK;
}

void dlock_txn_free(dlock_txn *txn)
{
    DLI_UNCANCELLED;
    if (txn)
        dli_txn_free(txn);
}

/* ---- watch and read */

dlock_status dlock_txn_watch(dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = check_key(txn, key, key_size, reterr);
    struct dli_txn_step step = {.verb = DLI_TXN_WATCH, .key = key, .key_size = key_size};

    if (status != DLOCK_OK)
        return status;
    status = dli_txn_do(txn, &step);
    return status == DLOCK_OK ? status : said(txn, key, key_size, &step.reason, reterr);
}

static dlock_status take_value(const struct dli_txn_step *step, uint8_t *buffer, size_t size, dlock_error *reason)
{
    if (step->size > size)
        return dli_fail(reason, DLOCK_BUFFER_TOO_SMALL, "the value has %zu bytes, the buffer %zu", step->size, size);
    if (step->size > 0)
        memcpy(buffer, step->value, step->size);
    return DLOCK_OK;
}

dlock_status dlock_txn_get(dlock_txn *txn, const char *key, size_t key_size, uint8_t *buffer, size_t size,
                           size_t *ret_size, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = check_key(txn, key, key_size, reterr);
    struct dli_txn_step step = {.verb = DLI_TXN_GET, .key = key, .key_size = key_size};

    if (status != DLOCK_OK)
        return status;
    if (!buffer && size > 0)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no place for the value was given");
    status = dli_txn_do(txn, &step);
    if (status == DLOCK_OK) {
        status = take_value(&step, buffer, size, &step.reason);
        if (ret_size)
            *ret_size = step.size;
    }
    free(step.value);
    return status == DLOCK_OK ? status : said(txn, key, key_size, &step.reason, reterr);
}

/* ---- write */

static dlock_status queue(dlock_txn *txn, const struct dli_txn_write *write, dlock_error *reterr)
{
    dlock_error reason = {.code = DLOCK_OK};
    dlock_status status = dli_txn_enter(txn, 0, &reason);

    if (status == DLOCK_OK) {
        status = dli_txn_write(txn->txn, write, &reason);
        dli_txn_leave(txn);
    }
    return status == DLOCK_OK ? status : said(txn, write->key, write->key_size, &reason, reterr);
}

dlock_status dlock_txn_set(dlock_txn *txn, const char *key, size_t key_size, const uint8_t *value, size_t value_size,
                           int64_t ttl_ms, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = check_key(txn, key, key_size, reterr);
    struct dli_txn_write write = {.kind = DLI_TXN_SET, .key = key, .key_size = key_size, .number = ttl_ms};

    if (status != DLOCK_OK)
        return status;
    if ((!value && value_size > 0) || value_size > DLI_TXN_VALUE_MAX)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a value has 0 to %d bytes", DLI_TXN_VALUE_MAX);
    if (ttl_ms != -1 && (ttl_ms < 1 || ttl_ms > longest_ttl_ms))
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a time to live is -1 for no limit, or 1 to %lld ms",
                        (long long)longest_ttl_ms);
    write.value = value_size > 0 ? (const char *)value : "";
    write.value_size = value_size;
    return queue(txn, &write, reterr);
}

dlock_status dlock_txn_incr(dlock_txn *txn, const char *key, size_t key_size, int64_t by, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_txn_write write = {.kind = DLI_TXN_ADD, .key = key, .key_size = key_size, .number = by};
    dlock_status status = check_key(txn, key, key_size, reterr);

    return status == DLOCK_OK ? queue(txn, &write, reterr) : status;
}

dlock_status dlock_txn_delete(dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_txn_write write = {.kind = DLI_TXN_DELETE, .key = key, .key_size = key_size};
    dlock_status status = check_key(txn, key, key_size, reterr);

    return status == DLOCK_OK ? queue(txn, &write, reterr) : status;
}

/* ---- the end */

static dlock_status end(dlock_txn *txn, enum dli_txn_verb verb, dlock_error *reterr)
{
    struct dli_txn_step step = {.verb = verb};
    dlock_status status;

    if (!txn)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no transaction was given");
    status = dli_txn_do(txn, &step);
    return status == DLOCK_OK ? status : said(txn, NULL, 0, &step.reason, reterr);
}

dlock_status dlock_txn_commit(dlock_txn *txn, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    return end(txn, DLI_TXN_COMMIT, reterr);
}

dlock_status dlock_txn_rollback(dlock_txn *txn, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    return end(txn, DLI_TXN_ROLLBACK, reterr);
}

int64_t dlock_txn_pause_ms(int32_t attempt)
{
    DLI_UNCANCELLED;
    uint32_t most = attempt < 1 ? 1 : attempt < 8 ? UINT32_C(1) << attempt : LONGEST_PAUSE, drawn;

    return dli_random(&drawn, sizeof drawn) ? most / 2 : drawn % (most + 1);
}

/* ---- submitted calls */

static dlock_status submit(dlock_txn *txn, enum dli_txn_verb verb, const char *key, size_t key_size, int64_t tag,
                           dlock_error *reterr)
{
    dlock_error reason = {.code = DLOCK_OK};
    struct dli_client *client = txn->client;
    dlock_status status;

    dli_client_ref(client); /* the handle may be freed as soon as the event is read */
    status = dli_txn_submit(txn, verb, key, key_size, tag, &reason);
    if (status != DLOCK_OK)
        dli_txn_report(client, key, key_size, &reason, reterr);
    dli_client_unref(client);
    return status;
}

dlock_status dlock_txn_submit_watch(dlock_txn *txn, const char *key, size_t key_size, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = check_key(txn, key, key_size, reterr);

    return status == DLOCK_OK ? submit(txn, DLI_TXN_WATCH, key, key_size, tag, reterr) : status;
}

dlock_status dlock_txn_submit_get(dlock_txn *txn, const char *key, size_t key_size, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = check_key(txn, key, key_size, reterr);

    return status == DLOCK_OK ? submit(txn, DLI_TXN_GET, key, key_size, tag, reterr) : status;
}

static dlock_status submit_end(dlock_txn *txn, enum dli_txn_verb verb, int64_t tag, dlock_error *reterr)
{
    if (!txn)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no transaction was given");
    return submit(txn, verb, NULL, 0, tag, reterr);
}

dlock_status dlock_txn_submit_commit(dlock_txn *txn, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    return submit_end(txn, DLI_TXN_COMMIT, tag, reterr);
}

dlock_status dlock_txn_submit_rollback(dlock_txn *txn, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    return submit_end(txn, DLI_TXN_ROLLBACK, tag, reterr);
}
