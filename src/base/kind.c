/*
 * kind.c: the table of kinds, see kind.h.
 */
#include "kind.h"

static const struct dli_kind kinds[] = {
    {
        .id = DLOCK_KIND_MUTEX,
        .family = DLOCK_KIND_MUTEX,
        .name = "mutex",
        .renewal = 1,
        .pass = 1,
        .handed = 1,
        .forcible = 1,
    },
    {
        .id = DLOCK_KIND_FAIR,
        .family = DLOCK_KIND_FAIR,
        .name = "fair",
        .renewal = 1,
        .handed = 1,
        .forcible = 1,
        .per_owner = 1,
        .queued = 1,
        .own_channel = 1,
    },
    {
        .id = DLOCK_KIND_READ,
        .family = DLOCK_KIND_WRITE,
        .name = "read",
        .renewal = 2,
        .forcible = 1,
        .per_owner = 1,
        .queued = 1,
    },
    {
        .id = DLOCK_KIND_WRITE,
        .family = DLOCK_KIND_WRITE,
        .name = "write",
        .renewal = 2,
        .handed = 1,
        .forcible = 1,
        .per_owner = 1,
        .queued = 1,
        .called = 1,
    },
    {
        .id = DLOCK_KIND_SEMAPHORE,
        .family = DLOCK_KIND_SEMAPHORE,
        .name = "semaphore",
        .renewal = 4,
        .handed = 1,
        .per_owner = 1,
        .queued = 1,
        .called = 1,
        .slots = 1,
        .lasting = 1,
    },
    {
        .id = DLOCK_KIND_PERMIT_SEMAPHORE,
        .family = DLOCK_KIND_PERMIT_SEMAPHORE,
        .name = "permit semaphore",
        .renewal = 3,
        .handed = 1,
        .per_owner = 1,
        .queued = 1,
        .called = 1,
        .slots = 1,
    },
    {
        .id = DLOCK_KIND_LATCH,
        .family = DLOCK_KIND_LATCH,
        .name = "latch",
        .momentary = 1,
    },
};

const struct dli_kind *dli_kind_find(int32_t kind)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (kinds[i].id == kind)
            return &kinds[i];
    return NULL;
}
