/*
 * place.c: where a lock is kept on a quorum: one place that suits all nodes. A round may outlive the place, so they share it.
 */
#include "inner.h"

#include <stdlib.h>

struct dli_shared_place *dli_shared_place_ref(struct dli_shared_place *shared)
{
    __atomic_add_fetch(&shared->refs, 1, __ATOMIC_RELAXED);
    return shared;
}

void dli_shared_place_unref(struct dli_shared_place *shared)
{
    if (__atomic_sub_fetch(&shared->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    shared->store->ops->place_free(shared->place);
    free(shared);
}

struct dli_place *dli_quorum_place_new(struct dli_store *store, const struct dli_kind *kind, const char *name,
                                       size_t size)
{
    struct dli_place *place = calloc(1, sizeof *place);
    struct dli_shared_place *shared = calloc(1, sizeof *shared);

    if (!place || !shared)
        goto fail;
    shared->refs = 1;
    shared->store = dli_quorum_of(store)->node[0].store;
    if (!(shared->place = shared->store->ops->place_new(shared->store, kind, name, size)))
        goto fail;
    place->shared = shared;
    return place;

fail:
    free(shared);
    free(place);
    return NULL;
}

void dli_quorum_place_in(struct dli_place *place, size_t space)
{
    if (place->shared->store->ops->place_in)
        place->shared->store->ops->place_in(place->shared->place, space);
}

const char *dli_quorum_place_name(const struct dli_place *place)
{
    return place->shared->store->ops->place_name(place->shared->place);
}

void dli_quorum_place_free(struct dli_place *place)
{
    if (!place)
        return;
    dli_shared_place_unref(place->shared);
    free(place);
}
