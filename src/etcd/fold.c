/*
 * fold.c: what the writes of a round come to, one effect for each key: etcd takes no key twice. No I/O. See round.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "round.h"

/* ---- effects */

static struct dli_etcd_effect *effect_of(struct dli_etcd_round *round, struct dli_etcd_bytes key)
{
    for (size_t i = 0; i < round->effects; i++)
        if (dli_etcd_same(round->effect[i].key, key))
            return &round->effect[i];
    return NULL;
}

/* Add to what the key had before; NULL: that is the server's. 0, or -1: it is no number, or the sum is none. */
static int add(struct dli_etcd_round *round, struct dli_etcd_effect *effect, int fresh, int64_t by)
{
    const struct dli_etcd_seen *seen = fresh ? dli_etcd_seen_find(round, effect->key) : NULL;
    int there = fresh ? seen && seen->modified : !effect->deletes;
    int64_t sum = 0;

    if (fresh && seen) {
        effect->value = dli_etcd_text(seen->value, seen->value ? seen->size : 0);
        effect->lease = seen->lease;
    }
    if (there && dli_txn_number(effect->value.bytes, effect->value.size, &sum))
        return -1;
    if (__builtin_add_overflow(sum, by, &sum))
        return -1;
    effect->deletes = 0;
    effect->value = dli_etcd_text(effect->number, dli_decimal(effect->number, sum));
    return 0;
}

static int apply(struct dli_etcd_round *round, const struct dli_txn_write *write)
{
    struct dli_etcd_bytes key = dli_etcd_text(write->key, write->key_size);
    struct dli_etcd_effect *effect = effect_of(round, key);
    int fresh = !effect;

    if (fresh) {
        effect = &round->effect[round->effects++];
        *effect = (struct dli_etcd_effect){.key = key, .ttl_ms = -1};
    }
    if (write->kind == DLI_TXN_ADD)
        return add(round, effect, fresh, write->number);
    effect->deletes = write->kind == DLI_TXN_DELETE;
    effect->value = dli_etcd_text(write->value, effect->deletes ? 0 : write->value_size);
    effect->ttl_ms = effect->deletes ? -1 : write->number;
    effect->lease = 0;
    return 0;
}

dlock_status dli_etcd_fold(struct dli_etcd_round *round, dlock_error *reason)
{
    struct dli_txn_write write;
    char shown[120];
    size_t at = 0;

    if (!round->effect && !(round->effect = calloc((size_t)round->base.count, sizeof *round->effect)))
        return dli_fail(reason, DLOCK_OUT_OF_MEMORY, "no memory for the writes");
    round->effects = 0;
    while (dli_txn_next(&round->writes, &at, &write))
        if (apply(round, &write))
            return dli_fail(
                reason, DLOCK_SERVER_ERROR,
                "nothing was written: key '%s' has no decimal number to add to, or the sum has more than 64 bits",
                dli_escape(shown, sizeof shown, write.key, write.key_size));
    return DLOCK_OK;
}

int dli_etcd_fold_needs(struct dli_etcd_round *round)
{
    struct dli_txn_write write;
    size_t at = 0;

    while (dli_txn_next(&round->writes, &at, &write)) {
        struct dli_etcd_bytes key = dli_etcd_text(write.key, write.key_size);

        if (write.kind == DLI_TXN_ADD && !dli_etcd_seen_find(round, key) && !dli_etcd_seen_add(round, key))
            return -1;
    }
    return 0;
}
