/*
 * txn.c: what every transaction allows, whatever its store is. See txn.h; no mutex.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store.h"

static dlock_status check(const struct dli_txn *txn, int needs_round, const char *key, size_t size, dlock_error *reason)
{
    if (needs_round && !txn->watching)
        return dli_fail(reason, DLOCK_NO_TRANSACTION, "%s", dli_status_find(DLOCK_NO_TRANSACTION)->text);
    return key && txn->watching && txn->ops->fits ? txn->ops->fits(txn, key, size, reason) : DLOCK_OK;
}

dlock_status dli_txn_may(const struct dli_txn *txn, enum dli_txn_verb verb, const char *key, size_t size,
                         dlock_error *reason)
{
    dlock_status status = check(txn, verb == DLI_TXN_GET || verb == DLI_TXN_COMMIT, key, size, reason);

    if (status != DLOCK_OK || txn->count == 0)
        return status;
    if (verb == DLI_TXN_WATCH)
        return dli_fail(reason, DLOCK_INVALID_ARGUMENT, "keys are watched before the first write");
    if (verb == DLI_TXN_GET)
        return dli_fail(reason, DLOCK_INVALID_ARGUMENT,
                        "keys are read before the first write: a read would not see what waits for the commit");
    return DLOCK_OK;
}

dlock_status dli_txn_write(struct dli_txn *txn, const struct dli_txn_write *write, dlock_error *reason)
{
    size_t bytes = txn->bytes + write->key_size + write->value_size;
    dlock_status status = check(txn, 1, write->key, write->key_size, reason);

    if (status != DLOCK_OK)
        return status;
    if (txn->count == DLI_TXN_WRITES_MAX || bytes > DLI_TXN_BYTES_MAX)
        return dli_fail(reason, DLOCK_INVALID_ARGUMENT, "a transaction has at most %d writes of %d bytes together",
                        DLI_TXN_WRITES_MAX, DLI_TXN_BYTES_MAX);
    status = txn->ops->write(txn, write, reason);
    if (status != DLOCK_OK)
        return status;
    txn->count++;
    txn->bytes = bytes;
    return DLOCK_OK;
}

/* ---- for a store */

int dli_txn_answered(struct dli_txn_step *step, dlock_status status)
{
    int fatal = status == DLOCK_UNREACHABLE || status == DLOCK_OUT_OF_MEMORY || status == DLOCK_PROTOCOL_ERROR ||
                status == DLOCK_CLOSED;

    step->status = status;
    if (status == DLOCK_CLOSED)
        dli_fail(&step->reason, status, "the client was closed");
    if (step->verb == DLI_TXN_WATCH && status == DLOCK_OK) {
        step->txn->watching = 1;
        return 0;
    }
    return step->verb != DLI_TXN_GET || fatal;
}

/* ---- writes: one buffer, of each a struct dli_txn_write and then the bytes of key and value */

dlock_status dli_txn_keep(struct dli_buffer *writes, const struct dli_txn_write *write, dlock_error *reason)
{
    size_t value = write->kind == DLI_TXN_SET ? write->value_size : 0, size = sizeof *write + write->key_size + value;

    if (dli_buffer_reserve(writes, size) || dli_buffer_add(writes, write, sizeof *write) ||
        dli_buffer_add(writes, write->key, write->key_size) ||
        (value > 0 && dli_buffer_add(writes, write->value, value)))
        return dli_fail(reason, DLOCK_OUT_OF_MEMORY, "no memory for the write");
    return DLOCK_OK;
}

int dli_txn_next(const struct dli_buffer *writes, size_t *at, struct dli_txn_write *write)
{
    if (*at >= writes->size)
        return 0;
    memcpy(write, writes->bytes + *at, sizeof *write);
    write->key = writes->bytes + *at + sizeof *write;
    write->value = write->key + write->key_size;
    *at += sizeof *write + write->key_size + (write->kind == DLI_TXN_SET ? write->value_size : 0);
    return 1;
}

int dli_txn_number(const char *text, size_t size, int64_t *ret)
{
    char digits[24], again[24];

    if (size == 0 || size >= sizeof digits)
        return -1;
    memcpy(digits, text, size);
    digits[size] = '\0';
    *ret = strtoll(digits, NULL, 10);
    snprintf(again, sizeof again, "%" PRId64, *ret);
    return strlen(again) == size && memcmp(again, digits, size) == 0 ? 0 : -1;
}
