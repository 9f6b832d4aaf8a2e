/*
 * keys.c: names of keys, and the parts of transactions. No state.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"

struct dli_place *dli_etcd_place_new(struct dli_store *store, const struct dli_kind *kind, const char *name,
                                     size_t size)
{
    struct dli_place *place = malloc(sizeof *place + size + 1);

    (void)store;
    if (!place)
        return NULL;
    place->kind = kind;
    place->size = (uint16_t)size;
    memcpy(place->name, name, size);
    place->name[size] = '/';
    return place;
}

void dli_etcd_place_free(struct dli_place *place)
{
    free(place);
}

struct dli_etcd_bytes dli_etcd_prefix(const struct dli_place *place)
{
    return dli_etcd_text(place->name, (size_t)place->size + 1);
}

/* The byte after '/' is '0'. */
struct dli_etcd_bytes dli_etcd_prefix_end(const struct dli_place *place, char out[DLI_ETCD_KEY_MAX])
{
    memcpy(out, place->name, place->size);
    out[place->size] = '/' + 1;
    return dli_etcd_text(out, (size_t)place->size + 1);
}

struct dli_etcd_bytes dli_etcd_key(const struct dli_place *place, const char *owner, char out[DLI_ETCD_KEY_MAX])
{
    size_t size = (size_t)place->size + 1, more = strlen(owner);

    memcpy(out, place->name, size);
    memcpy(out + size, owner, more);
    return dli_etcd_text(out, size + more);
}

int64_t dli_etcd_number(const char *owner)
{
    const char *colon = strrchr(owner, ':');

    return colon ? strtoll(colon + 1, NULL, 10) : 0;
}

struct dli_etcd_bytes dli_etcd_mark(const struct dli_etcd_session *session, char out[DLI_ETCD_MARK_MAX])
{
    return dli_etcd_text(out, (size_t)snprintf(out, DLI_ETCD_MARK_MAX, "dlock_mark/%" PRIx64, (uint64_t)session->id));
}

void dli_etcd_test(struct dli_etcd_txn *txn, enum dli_etcd_target target, struct dli_etcd_bytes key, int64_t revision)
{
    txn->test[txn->tests++] = (struct dli_etcd_test){.target = target, .key = key, .revision = revision};
}

struct dli_etcd_step *dli_etcd_then(struct dli_etcd_txn *txn, enum dli_etcd_step_kind kind, struct dli_etcd_bytes key)
{
    struct dli_etcd_step *step = &txn->then_step[txn->then++];

    *step = (struct dli_etcd_step){.kind = kind, .key = key, .limit = 1};
    return step;
}

struct dli_etcd_step *dli_etcd_otherwise(struct dli_etcd_txn *txn, enum dli_etcd_step_kind kind,
                                         struct dli_etcd_bytes key)
{
    struct dli_etcd_step *step = &txn->otherwise_step[txn->otherwise++];

    *step = (struct dli_etcd_step){.kind = kind, .key = key, .limit = 1};
    return step;
}
