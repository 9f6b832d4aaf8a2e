/*
 * turns.c: the turns of a client's thread, and its events. See worlds.h.
 */
#include <poll.h>

#include "watchdog/watchdog.h"
#include "worlds.h"

enum { TURNS = 2000 };

static void take_events(struct w_process *process)
{
    int64_t field[DLOCK_FIELD_COUNT];
    dlock_status status;

    while (!process->crashed && (status = dlock_client_next(process->client, 0, process->event, NULL)) == DLOCK_OK) {
        dlock_event_unpack(process->event, field, DLOCK_FIELD_COUNT, NULL, NULL);
        w_mix(w.now);
        w_mix(field[DLOCK_FIELD_TYPE]);
        w_mix(field[DLOCK_FIELD_TOKEN]);
        w_owner_told(process, field);
        process->dirty = 1;
    }
    if (!process->crashed && process->closing && status == DLOCK_CLOSED)
        process->closed = 1;
}

static void wakes(void *what, int64_t number)
{
    struct w_process *process = what;

    if (number == process->alarm)
        w_process_turn(process);
}

void w_process_alarm(struct w_process *process)
{
    int64_t at = process->loop ? w_when(process, process->next) : INT64_MAX;

    process->alarm++;
    if (at < process->paused_until || (process->dirty && w.now < process->paused_until))
        at = process->paused_until;
    if (at == INT64_MAX)
        return;
    w_at(at + w_below(2 * W_MS), wakes, process, process->alarm); /* timers are late */
}

/* Whether the thread would not sleep now, because it has work. */
static int must_not_sleep(struct w_process *process)
{
    static struct pollfd fds[DLI_LANE_FDS];
    const struct dli_loop *loop = process->loop;
    const struct dli_store_ops *ops = loop->watchdog->store->ops;
    int count = ops->sleep(loop->lane, fds);

    process->asleep = count >= 0 && w.model->together;
    if (!process->asleep)
        ops->awake(loop->lane);
    return count < 0;
}

/* Whether there is more to do at once. */
static int turn(struct w_process *process)
{
    process->dirty = 0;
    if (process->loop && process->asleep)
        process->loop->watchdog->store->ops->awake(process->loop->lane);
    process->asleep = 0;
    if (process->loop && !dli_loop_turn(process->loop, &process->next))
        process->loop = NULL;
    w.current = process;
    take_events(process);
    return process->dirty || (process->loop && (process->next <= w_clock(process) || must_not_sleep(process)));
}

void w_process_turn(struct w_process *process)
{
    struct w_process *before = w.current;
    int turns = 0;

    process->dirty = 1;
    if (process->busy)
        return;
    if (w.now < process->paused_until) {
        w_process_alarm(process);
        return;
    }
    w.current = process;
    process->busy = 1;
    while (turn(process) && ++turns < TURNS)
        continue;
    if (turns >= TURNS)
        w_violated("alarm: process %d is woken again and again with nothing to do", process->index);
    process->busy = 0;
    w_judge_turn(process);
    w_process_alarm(process);
    w.current = before;
}

static void woken(void *what, int64_t number)
{
    if (number != INT64_MIN)
        w_process_turn(what);
}

void w_process_wake(struct w_process *process)
{
    w_at(w.now + w_between(1, w.plan.delay), woken, process, 0);
}

void w_process_pause(struct w_process *process, int64_t time)
{
    w_trace("process %d pauses for %lld ms", process->index, (long long)time / W_MS);
    process->paused_until = w.now + time;
    process->paused_for += time;
    w_process_alarm(process);
}
