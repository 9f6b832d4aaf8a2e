/*
 * memory.c: locks in memory, without a model: the engine is in the library. Its faults on demand strike at random times. A process
 * of the world is a client here, and all have one clock. See worlds.h.
 */
#include <string.h>

#include "memory/inner.h"

#include "worlds.h"

static int ahead; /* the store's clock has jumped */

/* What all clients share. NULL: none of them has begun. */
static struct dli_world *world(void)
{
    for (int i = 0; i < w.plan.processes; i++)
        if (w.process[i].store)
            return dli_memory_of(w.process[i].store)->world;
    return NULL;
}

static void begin(void)
{
    ahead = 0;
}

static void end(void)
{
}

/* ---- what there is */

/* Each hold of the world, without a change to it. */
static int each_hold(int (*visit)(const struct dli_memory_cell *cell, const struct dli_memory_hold *hold,
                                  const void *of),
                     const void *of)
{
    struct dli_world *all = world();
    int count = 0;

    for (size_t i = 0; all && i < (size_t)1 << all->bits; i++)
        for (struct dli_memory_cell *cell = all->bucket[i]; cell; cell = cell->next)
            for (struct dli_link *link = cell->holds.next; link != &cell->holds; link = link->next)
                count += visit(cell, dli_memory_hold_at(link), of);
    return count;
}

static int lock_of(const struct dli_memory_cell *cell)
{
    return cell->name[4] - '0';
}

static int is_of(const struct dli_memory_cell *cell, const struct dli_memory_hold *hold, const void *of)
{
    const struct w_owner *owner = of;

    return lock_of(cell) == owner->lock && !hold->resting && hold->ends > dli_memory_now(world()) &&
           memcmp(hold->owner, owner->process->store->uuid, DLI_UUID_SIZE) == 0;
}

static int has(const struct w_owner *owner)
{
    struct w_process *before = w.current;
    int found;

    w.current = owner->process;
    found = each_hold(is_of, owner) > 0;
    w.current = before;
    return found;
}

/* Permits of a plain semaphore outlive the client that has them. */
static int left(char out[W_KEY])
{
    struct dli_world *all = world();
    int count = 0;

    w.current = &w.process[0];
    if (all)
        dli_memory_settle_all(all);
    for (size_t i = 0; all && i < (size_t)1 << all->bits; i++)
        for (struct dli_memory_cell *cell = all->bucket[i]; cell; cell = cell->next) {
            if ((w.plan.plain || dli_list_empty(&cell->holds)) && dli_list_empty(&cell->line))
                continue;
            snprintf(out, W_KEY, "%.*s", (int)cell->size, cell->name);
            count++;
        }
    w.current = NULL;
    return count;
}

/* Tokens are those of a name: two names may have the same. */
static int64_t claim_with(int64_t token, int lock)
{
    return token * W_LOCKS + lock;
}

struct range {
    int64_t from, to;
    int lock;
};

static int is_between(const struct dli_memory_cell *cell, const struct dli_memory_hold *hold, const void *of)
{
    const struct range *range = of;

    return lock_of(cell) == range->lock && hold->token >= range->from && hold->token < range->to;
}

/* A hold is known by its last token; a turn in memory has one of those before it. */
static int64_t claim_of(const struct w_owner *owner)
{
    int64_t token = owner->token, last = token;

    for (int i = 0; i < W_FORCED; i++) {
        int64_t other = w.forced[i] / W_LOCKS;

        if (w.forced[i] % W_LOCKS == owner->lock && other >= token && other <= token + 64 &&
            (last == token || other < last))
            last = other;
    }
    if (w.plan.permits && each_hold(is_between, &(struct range){token, last, owner->lock}) > 0)
        last = token;
    return claim_with(last, owner->lock);
}

/* ---- faults */

static int do_fault(struct w_process *process, const char *what, const char *name, int64_t value)
{
    dlock_status status;

    w_trace("process %d: fault %s %s %lld", process->index, what, name, (long long)value);
    w.current = process;
    status = dlock_client_fault(process->client, what, name, strlen(name), value, NULL);
    if (w.latches) /* others look again after a second anyway */
        w_process_turn(process);
    w.current = NULL;
    return status == DLOCK_OK;
}

static int force(const struct dli_memory_cell *cell, const struct dli_memory_hold *hold, const void *of)
{
    const char *name = of;

    if (name && (cell->size != strlen(name) || memcmp(cell->name, name, cell->size) != 0))
        return 0;
    w_judge_forced(claim_with(hold->token, lock_of(cell)));
    return 1;
}

static int lose(struct w_process *process)
{
    char name[] = "lock0";

    name[4] = (char)('0' + w_below(w.plan.locks));
    return each_hold(force, name) > 0 && do_fault(process, "lose", name, 0);
}

/* It was renewed before the clock was set back, and has more than a lease. */
static int is_long(const struct dli_memory_cell *cell, const struct dli_memory_hold *hold, const void *of)
{
    (void)cell, (void)of;
    return hold->ends > dli_memory_now(world()) + w.plan.lease;
}

/* All leases are over; or the clock is right again. It does not jump while a lease would end sooner, and not at once. */
static int jump(struct w_process *process)
{
    int64_t by = w.plan.lease + 3 * W_SECOND;

    w.current = process;
    if (!ahead && each_hold(is_long, NULL) > 0)
        by = 0;
    if (!ahead && by)
        each_hold(force, NULL);
    w.current = NULL;
    if (!by)
        return 0;
    ahead = !ahead;
    return do_fault(process, "clock", "", (ahead ? by : -by) / W_MS);
}

static int strike(enum w_fault fault)
{
    int64_t long_ms = w_below(2 * w.plan.lease / W_MS);
    struct w_process *process = w_process_any();

    if (!process)
        return 0;
    if (fault == W_CUT)
        return do_fault(process, "cut", "", long_ms);
    if (fault == W_DELAY)
        return do_fault(process, "delay", "", w_percent(50) ? 0 : w_below(600));
    if (fault == W_DENY)
        return do_fault(process, "deny", w_percent(50) ? "lock0" : "", long_ms);
    if (fault == W_RENEWALS)
        return do_fault(process, "renewals", w_percent(50) ? "lock0" : "", long_ms);
    if (fault == W_STOP)
        return do_fault(process, "pause", "", w_below(w.plan.lease / W_MS));
    if (fault == W_DELETE)
        return lose(process);
    return fault == W_JUMP && jump(process);
}

static void heal(void)
{
    struct w_process *process = w_process_any();

    if (process)
        do_fault(process, "heal", "", 0);
}

/* ---- latches */

static int64_t count_of(struct dli_world *all, const struct dli_place *place)
{
    const struct dli_memory_cell *cell = dli_memory_cell(all, place->name, place->size, 0);

    return cell && cell->there ? cell->count : 0;
}

void __real_dli_memory_change(struct dli_memory *memory, struct dli_request *request);
void __wrap_dli_memory_change(struct dli_memory *memory, struct dli_request *request);
void __wrap_dli_memory_change(struct dli_memory *memory, struct dli_request *request)
{
    const char *id = request->change.id;
    int64_t before = count_of(memory->world, request->place), after;

    __real_dli_memory_change(memory, request);
    after = count_of(memory->world, request->place);
    if (w.latches && after != before)
        w_judge_counted(w.current, request->place->name[4] - '0', after, w_latch_number(id, strlen(id)));
}

/* Places in line of those who live. */
static int waiting(void)
{
    struct dli_world *all = world();
    int count = 0;

    for (size_t i = 0; all && i < (size_t)1 << all->bits; i++)
        for (struct dli_memory_cell *cell = all->bucket[i]; cell; cell = cell->next)
            for (struct dli_link *link = cell->line.next; link != &cell->line; link = link->next)
                for (int k = 0; k < w.plan.processes; k++)
                    count += !w.process[k].crashed && w.process[k].store &&
                             memcmp(dli_memory_waiter_at(link)->owner, w.process[k].store->uuid, DLI_UUID_SIZE) == 0;
    return count;
}

const struct w_model w_memory = {
    .scheme = "memory",
    .without = 1U << W_REQUEST_LOST | 1U << W_REPLY_LOST | 1U << W_LATE | 1U << W_SILENT | 1U << W_MEMBER |
               1U << W_LEADER | 1U << W_UNSURE | 1U << W_EXPIRE | 1U << W_FORGET | 1U << W_CLOCK | 1U << W_LAG |
               W_OF_LATCHES,
    .without_latches = 1U << W_DELETE,
    .together = 1,
    .begin = begin,
    .end = end,
    .left = left,
    .claim_of = claim_of,
    .strike = strike,
    .heal = heal,
    .has = has,
    .waiting = waiting,
};
