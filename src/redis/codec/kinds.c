/*
 * kinds.c: the table of kinds on the wire, see kinds.h.
 */
#include "kinds.h"

#include "redis/scripts/scripts.h"

#define FENCE "redisson_lock_token:@"
#define GATE  DLI_GATE_PATTERN
#define ONCE  "dlock_once%@"
#define TURNS DLI_TURNS_PATTERN
#define HOLDS "dlock_holds%@"

static const struct dli_wire wires[] = {
    {
        .id = DLOCK_KIND_MUTEX,
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
        .key = {"=", FENCE, "redisson_lock_queue:@", "redisson_lock_timeout:@", "dlock_fair%@", GATE},
        .channel = "redisson_lock__channel:@",
        .acquire = DLI_SCRIPT_FAIR_ACQUIRE,
        .release = DLI_SCRIPT_FAIR_RELEASE,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_SCRIPT_FAIR_FORCE,
        .renew = DLI_SCRIPT_RENEW,
        .change = DLI_NO_SCRIPT,
        .suffix = "",
    },
    {
        .id = DLOCK_KIND_READ,
        .key = {"=", FENCE, GATE, "@:", "dlock_writer%@", TURNS, HOLDS},
        .channel = "redisson_rwlock:@",
        .acquire = DLI_SCRIPT_READ_ACQUIRE,
        .release = DLI_SCRIPT_READ_RELEASE,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_SCRIPT_RW_FORCE,
        .renew = DLI_SCRIPT_READ_RENEW,
        .change = DLI_NO_SCRIPT,
        .renew_key = 3,
        .renew_also = 6,
        .suffix = "",
        .holds = 3,
    },
    {
        .id = DLOCK_KIND_WRITE,
        .key = {"=", FENCE, GATE, "@:", "dlock_writer%@", TURNS, HOLDS}, /* as READ: both are sides of one lock */
        .channel = "redisson_rwlock:@",
        .acquire = DLI_SCRIPT_WRITE_ACQUIRE,
        .release = DLI_SCRIPT_WRITE_RELEASE,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_SCRIPT_RW_FORCE,
        .renew = DLI_SCRIPT_READ_RENEW,
        .change = DLI_NO_SCRIPT,
        .renew_key = 3,
        .renew_also = 6,
        .suffix = ":write",
        .holds = 3,
    },
    {
        .id = DLOCK_KIND_SEMAPHORE,
        .key = {"=", FENCE, GATE, "dlock_taken%@", "dlock_holders%@", TURNS, ONCE},
        .channel = "redisson_sc:@",
        .acquire = DLI_SCRIPT_SEMAPHORE_ACQUIRE,
        .release = DLI_SCRIPT_SEMAPHORE_RELEASE,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_NO_SCRIPT,
        .renew = DLI_SCRIPT_SEMAPHORE_RENEW,
        .change = DLI_SCRIPT_SEMAPHORE_CHANGE,
        .renew_key = 4,
        .suffix = "",
    },
    {
        .id = DLOCK_KIND_PERMIT_SEMAPHORE,
        .key = {"=", FENCE, GATE, "@:timeout", TURNS, ONCE},
        .channel = "redisson_sc:@",
        .acquire = DLI_SCRIPT_PERMIT_ACQUIRE,
        .release = DLI_SCRIPT_PERMIT_RELEASE,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_NO_SCRIPT,
        .renew = DLI_SCRIPT_PERMIT_RENEW,
        .change = DLI_SCRIPT_PERMIT_CHANGE,
        .renew_key = 3,
        .suffix = "",
    },
    {
        .id = DLOCK_KIND_LATCH,
        .key = {"=", FENCE, GATE, ONCE},
        .channel = "redisson_countdownlatch__channel__{=}",
        .acquire = DLI_SCRIPT_LATCH_AWAIT,
        .release = DLI_NO_SCRIPT,
        .pass = DLI_NO_SCRIPT,
        .force = DLI_NO_SCRIPT,
        .renew = DLI_NO_SCRIPT,
        .change = DLI_SCRIPT_LATCH_CHANGE,
        .suffix = "",
    },
};

const struct dli_wire *dli_wire_at(size_t index)
{
    return index < sizeof wires / sizeof wires[0] ? &wires[index] : NULL;
}

const struct dli_wire *dli_wire_of(const struct dli_kind *kind)
{
    const struct dli_wire *wire;
    size_t i = 0;

    while ((wire = dli_wire_at(i)) && wire->id != kind->id)
        i++;
    return wire;
}
