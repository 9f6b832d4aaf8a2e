/*
 * kinds.c: the table of kinds.
 */
#include "kinds.h"

#include "scripts/scripts.h"

#define FENCE "redisson_lock_token:@"
#define GATE  "dlock_gate%@"
#define ONCE  "dlock_once%@"

static const struct dli_kind kinds[] = {
    {
        .id = DLOCK_KIND_MUTEX,
        .family = DLOCK_KIND_MUTEX,
        .name = "mutex",
        .key = {"=", FENCE, "dlock_queue%@", "dlock_waiters%@", GATE},
        .channel = "redisson_lock__channel:@",
        .acquire = DLI_SCRIPT_ACQUIRE,
        .release = DLI_SCRIPT_RELEASE,
        .pass = DLI_SCRIPT_PASS,
        .force = DLI_SCRIPT_FORCE,
        .renew = DLI_SCRIPT_RENEW,
        .change = DLI_NO_SCRIPT,
        .suffix = "",
    },
    {
        .id = DLOCK_KIND_FAIR,
        .family = DLOCK_KIND_FAIR,
        .name = "fair",
        .key = {"=", FENCE, "redisson_lock_queue:@", "redisson_lock_timeout:@", "dlock_fair%@", GATE},
        .channel = "redisson_lock__channel:@",
        .acquire = DLI_SCRIPT_FAIR_ACQUIRE,
        .release = DLI_SCRIPT_FAIR_RELEASE,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_SCRIPT_FAIR_FORCE,
        .renew = DLI_SCRIPT_RENEW,
        .change = DLI_NO_SCRIPT,
        .suffix = "",
        .per_owner = 1,
        .own_channel = 1,
    },
    {
        .id = DLOCK_KIND_READ,
        .family = DLOCK_KIND_WRITE,
        .name = "read",
        .key = {"=", FENCE, GATE, "@:"},
        .channel = "redisson_rwlock:@",
        .acquire = DLI_SCRIPT_READ_ACQUIRE,
        .release = DLI_SCRIPT_READ_RELEASE,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_SCRIPT_RW_FORCE,
        .renew = DLI_SCRIPT_READ_RENEW,
        .change = DLI_NO_SCRIPT,
        .renew_key = 3,
        .suffix = "",
        .holds = 3,
        .per_owner = 1,
    },
    {
        .id = DLOCK_KIND_WRITE,
        .family = DLOCK_KIND_WRITE,
        .name = "write",
        .key = {"=", FENCE, GATE, "@:"}, /* as the other side of the lock has them */
        .channel = "redisson_rwlock:@",
        .acquire = DLI_SCRIPT_WRITE_ACQUIRE,
        .release = DLI_SCRIPT_WRITE_RELEASE,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_SCRIPT_RW_FORCE,
        .renew = DLI_SCRIPT_RENEW,
        .change = DLI_NO_SCRIPT,
        .suffix = ":write",
        .holds = 3,
        .per_owner = 1,
    },
    {
        .id = DLOCK_KIND_SEMAPHORE,
        .family = DLOCK_KIND_SEMAPHORE,
        .name = "semaphore",
        .key = {"=", FENCE, GATE, "dlock_taken%@", ONCE},
        .channel = "redisson_sc:@",
        .acquire = DLI_SCRIPT_SEMAPHORE_ACQUIRE,
        .release = DLI_SCRIPT_SEMAPHORE_RELEASE,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_NO_SCRIPT,
        .renew = DLI_NO_SCRIPT,
        .change = DLI_SCRIPT_SEMAPHORE_CHANGE,
        .suffix = "",
        .per_owner = 1,
        .slots = 1,
        .lasting = 1,
    },
    {
        .id = DLOCK_KIND_PERMIT_SEMAPHORE,
        .family = DLOCK_KIND_PERMIT_SEMAPHORE,
        .name = "permit semaphore",
        .key = {"=", FENCE, GATE, "@:timeout", ONCE},
        .channel = "redisson_sc:@",
        .acquire = DLI_SCRIPT_PERMIT_ACQUIRE,
        .release = DLI_SCRIPT_PERMIT_RELEASE,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_NO_SCRIPT,
        .renew = DLI_SCRIPT_PERMIT_RENEW,
        .change = DLI_SCRIPT_PERMIT_CHANGE,
        .renew_key = 3,
        .suffix = "",
        .per_owner = 1,
        .slots = 1,
    },
    {
        .id = DLOCK_KIND_LATCH,
        .family = DLOCK_KIND_LATCH,
        .name = "latch",
        .key = {"=", FENCE, GATE, ONCE},
        .channel = "redisson_countdownlatch__channel__{=}",
        .acquire = DLI_SCRIPT_LATCH_AWAIT,
        .release = DLI_NO_SCRIPT,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_NO_SCRIPT,
        .renew = DLI_NO_SCRIPT,
        .change = DLI_SCRIPT_LATCH_CHANGE,
        .suffix = "",
        .momentary = 1,
    },
};

const struct dli_kind *dli_kind_at(size_t index)
{
    return index < sizeof kinds / sizeof kinds[0] ? &kinds[index] : NULL;
}

const struct dli_kind *dli_kind_find(int32_t kind)
{
    const struct dli_kind *row;

    for (size_t i = 0; (row = dli_kind_at(i)); i++)
        if (row->id == kind)
            return row;
    return NULL;
}
