/*
 * owner.c: a caller of the library: it thinks, asks for a lock, holds it, releases it. See worlds.h.
 */
#include "worlds.h"

static void step(void *what, int64_t number);

void w_owner_later(struct w_owner *owner, int64_t time)
{
    w_at(w.now + w_between(1, time), step, owner, ++owner->version);
}

void w_owner_begin(struct w_owner *owner)
{
    owner->state = W_IDLE;
    w_owner_later(owner, w.plan.think);
}

void w_owner_rest(struct w_owner *owner)
{
    owner->state = W_IDLE;
    owner->token = owner->doubted_at = owner->forced_at = 0;
    owner->told = 0;
    w_owner_later(owner, w.plan.think);
}

static dlock_lock *lock_of(const struct w_owner *owner)
{
    return owner->process->lock[owner->lock][owner->side];
}

static void ask(struct w_owner *owner)
{
    if (w.now > w.plan.work_end)
        return;
    if (w.latches) {
        w_latch_ask(owner);
        return;
    }
    owner->lock = (int)w_below(w.plan.locks);
    owner->side = w_sides() > 1 && w_percent(40);
    owner->wait = w_percent(25) ? 0 : w_percent(40) ? w_between(10 * W_MS, 8 * W_SECOND) : -1;
    owner->asked_at = w.now - owner->process->paused_for;
    owner->state = W_ASKING;
    w_trace("owner %d.%lld asks for %d, side %d, waits %lld", owner->process->index, (long long)owner->number,
            owner->lock, owner->side, (long long)owner->wait);
    if (dlock_lock_submit_acquire(lock_of(owner), owner->number, owner->wait < 0 ? -1 : owner->wait / W_MS,
                                  owner->number, NULL) != DLOCK_OK)
        w_owner_rest(owner);
    else if (w_percent(8))
        w_owner_later(owner, 3 * W_SECOND);
}

static void release(struct w_owner *owner)
{
    owner->state = W_LEAVING;
    w_trace("owner %d.%lld releases %d", owner->process->index, (long long)owner->number, owner->lock);
    if (dlock_lock_submit_release(lock_of(owner), owner->number, owner->number, NULL) != DLOCK_OK)
        w_owner_rest(owner);
}

static void act(struct w_owner *owner)
{
    if (owner->state == W_IDLE)
        ask(owner);
    else if (owner->state == W_HOLDING)
        release(owner);
    else if (owner->state == W_ASKING)
        dlock_lock_cancel(lock_of(owner), owner->number, NULL);
}

static void step(void *what, int64_t number)
{
    struct w_owner *owner = what;
    struct w_process *process = owner->process, *before = w.current;

    if (number != owner->version || !w_process_acts(process, step, owner, number))
        return;
    w.current = process;
    act(owner);
    w_process_turn(process);
    w.current = before;
}

/* ---- what it is told */

static void acquired(struct w_owner *owner, const int64_t *field)
{
    owner->state = W_HOLDING;
    owner->token = field[DLOCK_FIELD_TOKEN];
    owner->told = 0;
    w_trace("owner %d.%lld has %d, side %d, token %lld", owner->process->index, (long long)owner->number, owner->lock,
            owner->side, (long long)owner->token);
    w_judge_granted(owner);
    w_owner_later(owner, w_percent(15) ? 3 * w.plan.lease : w.plan.hold);
}

static void lost(struct w_process *process, const int64_t *field)
{
    for (int i = 0; i < w.plan.owners; i++) {
        struct w_owner *owner = &process->owner[i];

        if (owner->number != field[DLOCK_FIELD_OWNER] || owner->token != field[DLOCK_FIELD_TOKEN])
            continue;
        w_trace("owner %d.%lld is told LOST", process->index, (long long)owner->number);
        w.stats.losses++;
        if (w.plan.calm)
            w_violated("calm: a lock was lost");
        if (w_believes(owner))
            w_violated("state: told LOST, and believes");
        owner->told++;
        if (owner->told > 1)
            w_violated("LOST came twice");
        if (owner->state == W_HOLDING)
            w_owner_later(owner, w.plan.think);
    }
}

void w_owner_told(struct w_process *process, const int64_t *field)
{
    struct w_owner *owner;

    if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_DONE) {
        (w.latches ? w_latch_told : w_process_told)(process, field);
        return;
    }
    if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_LOG) {
        w_trace("process %d logs: %s", process->index, dlock_event_text(process->event));
        return;
    }
    if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_LOST)
        lost(process, field);
    if (process->closing)
        return;
    owner = &process->owner[(field[DLOCK_FIELD_TAG] - 1) % W_OWNERS];
    if (w.latches) {
        w_latch_waited(owner, (dlock_status)field[DLOCK_FIELD_STATUS]);
        return;
    }
    if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_ACQUIRED)
        acquired(owner, field);
    if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_ACQUIRE_FAILED) {
        w_trace("owner %d.%lld got nothing: %lld", process->index, (long long)owner->number,
                (long long)field[DLOCK_FIELD_STATUS]);
        w.stats.failures++;
        if (w.plan.calm && field[DLOCK_FIELD_STATUS] != DLOCK_BUSY && field[DLOCK_FIELD_STATUS] != DLOCK_TIMED_OUT &&
            field[DLOCK_FIELD_STATUS] != DLOCK_CANCELLED)
            w_violated("calm: an acquisition failed with %lld", (long long)field[DLOCK_FIELD_STATUS]);
        w_owner_rest(owner);
    }
    if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_RELEASED || field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_RELEASE_FAILED)
        w_owner_rest(owner);
}

void w_owner_gone(struct w_owner *owner)
{
    owner->version++;
    owner->state = W_IDLE;
    owner->token = owner->doubted_at = 0;
}
