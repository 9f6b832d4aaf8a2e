/*
 * txn.c: transactions. Arguments are checked here; the rounds are in redis/txn/txn.c.
 */
#include "client/client.h"

#include <stdio.h>
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
    if (txn)
        dli_txn_free(txn);
}

/* ---- watch and read */

dlock_status dlock_txn_watch(dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr)
{
    dlock_status status = check_key(txn, key, key_size, reterr);
    dlock_error reason = {.code = DLOCK_OK};

    if (status != DLOCK_OK)
        return status;
    status = dli_txn_enter(txn, 1, &reason);
    if (status == DLOCK_OK) {
        status = dli_txn_watch(&txn->txn, key, key_size, &reason);
        dli_txn_leave(txn);
    }
    return status == DLOCK_OK ? status : said(txn, key, key_size, &reason, reterr);
}

dlock_status dlock_txn_get(dlock_txn *txn, const char *key, size_t key_size, uint8_t *buffer, size_t size,
                           size_t *ret_size, dlock_error *reterr)
{
    dlock_status status = check_key(txn, key, key_size, reterr);
    dlock_error reason = {.code = DLOCK_OK};
    size_t used = 0;

    if (status != DLOCK_OK)
        return status;
    if (!buffer && size > 0)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no place for the value was given");
    status = dli_txn_enter(txn, 0, &reason);
    if (status == DLOCK_OK) {
        status = dli_txn_get(&txn->txn, key, key_size, buffer, size, &used, &reason);
        dli_txn_leave(txn);
    }
    if (ret_size && (status == DLOCK_OK || status == DLOCK_BUFFER_TOO_SMALL))
        *ret_size = used;
    return status == DLOCK_OK ? status : said(txn, key, key_size, &reason, reterr);
}

/* ---- write */

/* Queue one command on a key: words[1] is the key. */
static dlock_status queue(dlock_txn *txn, int count, const char *const *args, const size_t *sizes, dlock_error *reterr)
{
    dlock_error reason = {.code = DLOCK_OK};
    dlock_status status = dli_txn_enter(txn, 0, &reason);

    if (status == DLOCK_OK) {
        status = dli_txn_write(&txn->txn, count, args, sizes, &reason);
        dli_txn_leave(txn);
    }
    return status == DLOCK_OK ? status : said(txn, args[1], sizes[1], &reason, reterr);
}

dlock_status dlock_txn_set(dlock_txn *txn, const char *key, size_t key_size, const uint8_t *value, size_t value_size,
                           int64_t ttl_ms, dlock_error *reterr)
{
    dlock_status status = check_key(txn, key, key_size, reterr);
    char ttl[24];

    if (status != DLOCK_OK)
        return status;
    if ((!value && value_size > 0) || value_size > DLI_TXN_VALUE_MAX)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a value has 0 to %d bytes", DLI_TXN_VALUE_MAX);
    if (ttl_ms != -1 && (ttl_ms < 1 || ttl_ms > longest_ttl_ms))
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a time to live is -1 for no limit, or 1 to %lld ms",
                        (long long)longest_ttl_ms);
    snprintf(ttl, sizeof ttl, "%lld", (long long)ttl_ms);
    return queue(txn, ttl_ms == -1 ? 3 : 5,
                 (const char *[]){"SET", key, value_size > 0 ? (const char *)value : "", "PX", ttl},
                 (size_t[]){3, key_size, value_size, 2, strlen(ttl)}, reterr);
}

dlock_status dlock_txn_incr(dlock_txn *txn, const char *key, size_t key_size, int64_t by, dlock_error *reterr)
{
    dlock_status status = check_key(txn, key, key_size, reterr);
    char number[24];

    if (status != DLOCK_OK)
        return status;
    snprintf(number, sizeof number, "%lld", (long long)by);
    return queue(txn, 3, (const char *[]){"INCRBY", key, number}, (size_t[]){6, key_size, strlen(number)}, reterr);
}

dlock_status dlock_txn_delete(dlock_txn *txn, const char *key, size_t key_size, dlock_error *reterr)
{
    dlock_status status = check_key(txn, key, key_size, reterr);

    if (status != DLOCK_OK)
        return status;
    return queue(txn, 2, (const char *[]){"DEL", key}, (size_t[]){3, key_size}, reterr);
}

/* ---- the end */

static dlock_status enter_to_end(dlock_txn *txn, dlock_error *reterr)
{
    dlock_error reason = {.code = DLOCK_OK};
    dlock_status status;

    if (!txn)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no transaction was given");
    status = dli_txn_enter(txn, 0, &reason);
    return status == DLOCK_OK ? status : said(txn, NULL, 0, &reason, reterr);
}

dlock_status dlock_txn_commit(dlock_txn *txn, dlock_error *reterr)
{
    dlock_status status = enter_to_end(txn, reterr);
    dlock_error reason = {.code = DLOCK_OK};

    if (status != DLOCK_OK)
        return status;
    status = dli_txn_commit(&txn->txn, &reason);
    dli_txn_leave(txn);
    return status == DLOCK_OK ? status : said(txn, NULL, 0, &reason, reterr);
}

dlock_status dlock_txn_rollback(dlock_txn *txn, dlock_error *reterr)
{
    dlock_status status = enter_to_end(txn, reterr);

    if (status != DLOCK_OK)
        return status;
    dli_txn_rollback(&txn->txn);
    dli_txn_leave(txn);
    return DLOCK_OK;
}

int64_t dlock_txn_pause_ms(int32_t attempt)
{
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
    dlock_status status = check_key(txn, key, key_size, reterr);

    return status == DLOCK_OK ? submit(txn, DLI_TXN_WATCH, key, key_size, tag, reterr) : status;
}

dlock_status dlock_txn_submit_get(dlock_txn *txn, const char *key, size_t key_size, int64_t tag, dlock_error *reterr)
{
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
    return submit_end(txn, DLI_TXN_COMMIT, tag, reterr);
}

dlock_status dlock_txn_submit_rollback(dlock_txn *txn, int64_t tag, dlock_error *reterr)
{
    return submit_end(txn, DLI_TXN_ROLLBACK, tag, reterr);
}
