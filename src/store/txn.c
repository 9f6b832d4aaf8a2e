/*
 * txn.c: what every transaction allows, whatever its store is. See txn.h; no mutex.
 */
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
