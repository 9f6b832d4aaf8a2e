/*
 * latch.c: callers of latches: they set one, count it down, read it, wait for it. Now and then, and at the end, some process
 * opens them. See worlds.h.
 */
#include "client/core.h"

#include "api/handles.h"
#include "worlds.h"

enum { MOST = 8, ALL = 1 << 20, TAGS = 100, RARELY = 4 };

static dlock_status submit(const struct w_call *call, int64_t tag)
{
    dlock_lock *lock = call->process->lock[call->lock][0];

    if (call->what == W_SET)
        return dlock_latch_submit_set(lock, call->amount, tag, NULL);
    if (call->what == W_DOWN)
        return dlock_latch_submit_count_down(lock, call->amount, tag, NULL);
    return dlock_latch_submit_count(lock, tag, NULL);
}

/* The id of a change is the client's next number. Returns whether an answer will come. */
static int begin(struct w_call call)
{
    static const char *const words[] = {"sets", "counts down", "reads"};
    dlock_status status;
    int at;

    call.number = call.process->client->core->numbers + 1;
    at = w_judge_asked(call);
    w_trace("process %d %s latch %d, by %lld, as call %d, number %lld", call.process->index, words[call.what],
            call.lock, (long long)call.amount, at, (long long)call.number);
    status = submit(&call, at + TAGS);
    if (status != DLOCK_OK)
        w_judge_answered(w_judge_call(at), status, -1);
    return status == DLOCK_OK;
}

static void wait_for(struct w_owner *owner, int64_t time)
{
    owner->asked_at = w.now - owner->process->paused_for;
    owner->from = w_judge_history(owner->lock);
    owner->wait = time;
    owner->state = W_ASKING;
    w_trace("owner %d.%lld waits for latch %d, %lld", owner->process->index, (long long)owner->number, owner->lock,
            (long long)owner->wait);
    if (dlock_lock_submit_acquire(owner->process->lock[owner->lock][0], owner->number,
                                  owner->wait < 0 ? -1 : owner->wait / W_MS, owner->number, NULL) != DLOCK_OK)
        w_owner_rest(owner);
    else if (w_percent(15))
        w_owner_later(owner, 3 * W_SECOND);
}

void w_latch_ask(struct w_owner *owner)
{
    struct w_call call = {.process = owner->process, .owner = owner};
    int64_t which = w_below(100);

    owner->lock = call.lock = (int)w_below(w.plan.locks);
    if (which < 40) {
        wait_for(owner, w_percent(25)                         ? 0
                        : w_percent(w.plan.watched ? 30 : 60) ? w_between(10 * W_MS, 8 * W_SECOND)
                                                              : -1);
        return;
    }
    call.what = which < 60 ? W_SET : which < 90 ? W_DOWN : W_COUNT;
    call.amount = call.what == W_SET ? w_between(1, MOST) : w_percent(70) ? 1 : w_between(1, MOST);
    owner->state = W_CHANGING;
    if (!begin(call))
        w_owner_rest(owner);
}

void w_latch_waited(struct w_owner *owner, dlock_status status)
{
    if (owner->state != W_ASKING)
        return;
    w_trace("owner %d.%lld has waited for latch %d: %d", owner->process->index, (long long)owner->number, owner->lock,
            (int)status);
    w_judge_waited(owner, status);
    w_owner_rest(owner);
}

void w_latch_told(struct w_process *process, const int64_t *field)
{
    struct w_call *call = w_judge_call((int)field[DLOCK_FIELD_TAG] - TAGS);
    struct w_owner *owner = call->owner;

    w_trace("process %d is told of call %lld: %lld, %lld", process->index, (long long)field[DLOCK_FIELD_TAG] - TAGS,
            (long long)field[DLOCK_FIELD_STATUS], (long long)field[DLOCK_FIELD_VALUE]);
    w_mix(field[DLOCK_FIELD_STATUS]);
    w_mix(field[DLOCK_FIELD_VALUE]);
    w_judge_answered(call, (dlock_status)field[DLOCK_FIELD_STATUS], field[DLOCK_FIELD_VALUE]);
    if (owner && owner->state == W_CHANGING && !process->closing)
        w_owner_rest(owner);
}

/* ---- somebody opens them, and looks who still waits */

static int stay; /* as they are */

static void somebody(int lock, enum w_what what, int64_t amount)
{
    struct w_process *process = w_process_any();

    if (!process || w.now < process->paused_until)
        return;
    w.current = process;
    begin((struct w_call){.process = process, .lock = lock, .what = what, .amount = amount});
    w_process_turn(process);
    w.current = NULL;
}

static void all_wait(struct w_process *process)
{
    w.current = process;
    for (int i = 0; i < w.plan.owners; i++) {
        process->owner[i].lock = i % w.plan.locks;
        wait_for(&process->owner[i], w_between(W_MS, 500 * W_MS));
    }
    w_process_turn(process);
    w.current = NULL;
}

void w_latch_in_vain(int step)
{
    stay = step < 2;
    for (int i = 0; i < w.plan.locks && step == 0; i++)
        somebody(i, W_SET, MOST);
    for (int i = 0; i < w.plan.processes && step == 1; i++)
        if (!w.process[i].crashed && !w.process[i].closing && w.now >= w.process[i].paused_until)
            all_wait(&w.process[i]);
}

static void look(void *what, int64_t number)
{
    (void)what;
    if (number == INT64_MIN)
        return;
    for (int i = 0; i < w.plan.locks; i++)
        if (w_judge_count(i) > 0 && !stay && (w.now > w.plan.work_end || w_percent(RARELY)))
            somebody(i, W_DOWN, ALL);
    for (int i = 0; i < w.plan.processes; i++)
        for (int k = 0; k < w.plan.owners; k++)
            w_judge_waits(&w.process[i].owner[k]);
    w_at(w.now + w_between(100 * W_MS, W_SECOND), look, NULL, 0);
}

void w_latch_begin(void)
{
    stay = 0;
    w_judge_latches_begin();
    w_trace("latches: %d, watched: %d", w.plan.locks, w.plan.watched);
    w_at(w.now + W_SECOND, look, NULL, 0);
}
