/*
 * judge_latch.c: the rules of latches.
 *
 *   await       who passes a latch: it was open at some moment since then
 *   once        a change on the server is that of one call, and as that call asked for it: a set of an open latch, a count down
 *               of one that is closed. No call acts twice, also when it was sent twice
 *   told        a call that says that it acted has acted by then. One that says that it changed nothing has not, and never
 *               will. One with an unclear outcome may act once, at any time
 *   count       what a call says is left was left at some moment since it was asked
 *   time        a call and a wait with a limit end when their time is over
 *   soon        when faults are over, who waits for a latch that is open passes it soon
 *   left        when nobody waits, the server keeps nothing for those who did
 *   stuck, left   as in judge.c. All latches are opened at the end
 *
 * What an operator does counts as a change of nobody. A latch that opens does not say by which call: then one of its process
 * must fit.
 */
#include <stdlib.h>
#include <string.h>

#include "worlds.h"

enum { SLACK = 2 * W_SECOND, SOON = 4 * W_SECOND };

/* What a latch was, one after the other. */
struct latch {
    int64_t *count;
    int changes, room;
    int64_t since; /* it is what it is */
};

static struct latch latches[W_LOCKS];

static struct {
    struct w_call *call;
    int count, room;
} calls;

static void *grown(void *array, int count, int *room, size_t size)
{
    if (count < *room)
        return array;
    *room = *room ? 2 * *room : 64;
    array = realloc(array, (size_t)*room * size);
    if (!array)
        abort();
    return array;
}

static void add(struct latch *latch, int64_t count)
{
    latch->count = grown(latch->count, latch->changes, &latch->room, sizeof *latch->count);
    latch->count[latch->changes++] = count;
    latch->since = w.now;
}

void w_judge_latches_begin(void)
{
    for (int i = 0; i < W_LOCKS; i++)
        add(&latches[i], 0);
}

void w_judge_latches_end(void)
{
    for (int i = 0; i < W_LOCKS; i++)
        free(latches[i].count);
    free(calls.call);
    memset(latches, 0, sizeof latches);
    memset(&calls, 0, sizeof calls);
}

int w_judge_history(int lock)
{
    return latches[lock].changes - 1;
}

int64_t w_judge_count(int lock)
{
    return latches[lock].count[latches[lock].changes - 1];
}

/* Whether it was that, at some moment since it was the one at from. */
static int was(int lock, int from, int64_t count)
{
    for (int i = from; i < latches[lock].changes; i++)
        if (latches[lock].count[i] == count)
            return 1;
    return 0;
}

static int was_closed(int lock, int from)
{
    for (int i = from; i < latches[lock].changes; i++)
        if (latches[lock].count[i] > 0)
            return 1;
    return 0;
}

/* ---- keys */

int w_latch_of(const char *key, size_t size)
{
    if (!w.latches || size != 11 || memcmp(key, "lock", 4) != 0 || memcmp(key + 5, "/count", 6) != 0)
        return -1;
    return key[4] - '0';
}

/* The number stands behind the colon of the first id: "3 <client>:17 ...", or the id alone. */
int64_t w_latch_number(const char *value, size_t size)
{
    const char *space = memchr(value, ' ', size), *id = space ? space : value;
    const char *colon = memchr(id, ':', size - (size_t)(id - value));

    return colon ? strtoll(colon + 1, NULL, 10) : 0;
}

/* ---- calls */

int w_judge_asked(struct w_call call)
{
    call.from = w_judge_history(call.lock);
    call.asked_at = w.now - call.process->paused_for;
    calls.call = grown(calls.call, calls.count, &calls.room, sizeof *calls.call);
    calls.call[calls.count] = call;
    return calls.count++;
}

struct w_call *w_judge_call(int at)
{
    return &calls.call[at];
}

/* What the call makes of a latch. */
static int64_t made_of(const struct w_call *call, int64_t before)
{
    if (call->what == W_SET)
        return before ? before : call->amount;
    return call->what == W_DOWN && before > call->amount ? before - call->amount : call->what == W_DOWN ? 0 : before;
}

static int is_it(const struct w_call *call, const struct w_process *by, int lock, int64_t number, int64_t before)
{
    if (call->process != by || call->lock != lock)
        return 0;
    return number ? call->number == number : !call->acted && !call->sure && made_of(call, before) == 0;
}

/* The one whose change this is. several: more than one can be. */
static struct w_call *whose(const struct w_process *by, int lock, int64_t number, int64_t before, int *several)
{
    struct w_call *found = NULL;

    for (int i = calls.count - 1; i >= 0; i--) {
        if (!is_it(&calls.call[i], by, lock, number, before))
            continue;
        *several = found != NULL;
        if (found)
            return found;
        found = &calls.call[i];
    }
    return found;
}

void w_judge_counted(const struct w_process *by, int lock, int64_t count, int64_t number)
{
    int64_t before = w_judge_count(lock);
    int several = 0;
    struct w_call *call;

    w_trace("latch %d: %lld is now %lld, by process %d, number %lld", lock, (long long)before, (long long)count,
            by ? by->index : -1, (long long)number);
    add(&latches[lock], count);
    if (!by || w.over)
        return;
    if (!(call = whose(by, lock, number, before, &several))) {
        w_violated("once: process %d makes %lld of latch %d, which was %lld, and asked for no such thing", by->index,
                   (long long)count, lock, (long long)before);
        return;
    }
    if (made_of(call, before) != count)
        w_violated("once: call %d makes %lld of latch %d, which was %lld", (int)(call - calls.call), (long long)count,
                   lock, (long long)before);
    if (call->acted)
        w_violated("once: call %d acts on latch %d again", (int)(call - calls.call), lock);
    if (call->sure)
        w_violated("told: call %d acts on latch %d after its end", (int)(call - calls.call), lock);
    call->acted = !several;
}

/* ---- what they are told */

static void check_done(const struct w_call *call, int at, int64_t value)
{
    if (call->what == W_SET && !call->acted)
        w_violated("told: call %d has set latch %d, it says, and has not", at, call->lock);
    if (call->what == W_DOWN && value > 0 && !call->acted)
        w_violated("told: call %d has counted latch %d down, it says, and has not", at, call->lock);
    if (call->what != W_SET && !was(call->lock, call->from, value))
        w_violated("count: call %d says that latch %d is %lld", at, call->lock, (long long)value);
}

static void check_not_done(const struct w_call *call, int at, dlock_status status)
{
    if (call->acted)
        w_violated("told: call %d has changed latch %d, and says %d", at, call->lock, (int)status);
    if (status == DLOCK_UNCHANGED && !was_closed(call->lock, call->from))
        w_violated("told: call %d says that latch %d is closed", at, call->lock);
}

void w_judge_answered(struct w_call *call, dlock_status status, int64_t value)
{
    int64_t took = w.now - call->process->paused_for - call->asked_at;
    int at = (int)(call - calls.call);

    w.stats.failures += status != DLOCK_OK && status != DLOCK_UNCHANGED;
    if (call->what != W_COUNT && (status == DLOCK_UNKNOWN_OUTCOME || status == DLOCK_CLOSED))
        status = DLOCK_UNKNOWN_OUTCOME;
    else if (status == DLOCK_OK)
        check_done(call, at, value);
    else
        check_not_done(call, at, status);
    call->sure = status != DLOCK_UNKNOWN_OUTCOME;
    if (w.plan.calm && status != DLOCK_OK && status != DLOCK_UNCHANGED && !call->process->closing)
        w_violated("calm: call %d of latch %d failed with %d", at, call->lock, (int)status);
    if (took > W_SECOND + SLACK)
        w_violated("time: call %d of latch %d took %lld ms", at, call->lock, (long long)took / W_MS);
}

/* ---- waits */

void w_judge_waited(const struct w_owner *owner, dlock_status status)
{
    int64_t took = w.now - owner->process->paused_for - owner->asked_at;

    w.stats.grants += status == DLOCK_OK;
    w.stats.failures += status != DLOCK_OK;
    if (status == DLOCK_OK && !was(owner->lock, owner->from, 0))
        w_violated("await: %d.%lld has passed latch %d, which was closed all the time", owner->process->index,
                   (long long)owner->number, owner->lock);
    if (status == DLOCK_BUSY && !was_closed(owner->lock, owner->from))
        w_violated("await: %d.%lld was told that latch %d is closed, which was open", owner->process->index,
                   (long long)owner->number, owner->lock);
    if (w.plan.calm && status != DLOCK_OK && status != DLOCK_BUSY && status != DLOCK_TIMED_OUT &&
        status != DLOCK_CANCELLED)
        w_violated("calm: a wait for latch %d failed with %d", owner->lock, (int)status);
    if (owner->wait >= 0 && took > owner->wait + SLACK)
        w_violated("time: a wait of %lld ms took %lld", (long long)owner->wait / W_MS, (long long)took / W_MS);
}

void w_judge_rest(void)
{
    int count = w.model->waiting ? w.model->waiting() : 0;

    if (count > 0)
        w_violated("left: %d for those who waited for latches", count);
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void w_judge_waits(const struct w_owner *owner)
{
    const struct w_process *process = owner->process;
    int64_t since = later(later(latches[owner->lock].since, w.plan.faults_end), process->paused_until);

    if (owner->state != W_ASKING || process->crashed || process->closing || w_judge_count(owner->lock) > 0)
        return;
    since = later(since, owner->asked_at + process->paused_for);
    if (w.now > since + SOON)
        w_violated("soon: %d.%lld waits for latch %d, which has been open for %lld ms", process->index,
                   (long long)owner->number, owner->lock, (long long)(w.now - since) / W_MS);
}
