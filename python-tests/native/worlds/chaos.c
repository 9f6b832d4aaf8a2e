/*
 * chaos.c: faults that strike at random times. See worlds.h.
 */
#include "worlds.h"

static void pause_one(void)
{
    struct w_process *process = &w.process[w_below(w.plan.processes)];

    if (process->crashed || w.now < process->paused_until || process->busy || w.current)
        return;
    w_process_pause(process, w_percent(50) ? w_below(300 * W_MS) : w_below(2 * w.plan.lease));
    w_fired(W_PAUSE);
}

static int alive(void)
{
    int count = 0;

    for (int i = 0; i < w.plan.processes; i++)
        count += !w.process[i].crashed && !w.process[i].closing;
    return count;
}

static void end_one(int crash)
{
    struct w_process *process = &w.process[w_below(w.plan.processes)];

    if (process->crashed || process->closing || process->busy || alive() < 2)
        return;
    if (crash)
        w_process_crash(process);
    else
        w_process_close(process);
    w_fired(crash ? W_CRASH : W_CLOSE);
}

/* A member stands still for a while, or fails: then its connections end, too. */
static void member_down(int member, int64_t time, int fails)
{
    w_trace("member %d %s for %lld ms", member, fails ? "fails" : "stands still", (long long)time / W_MS);
    w.member_down_until[member] = w.now + time;
    if (fails)
        w_wires_of(member, w_cut);
}

static void elected(void *what, int64_t number)
{
    (void)what;
    if (number == INT64_MIN)
        return;
    w.leader = (int)(w.leader + 1 + w_below(W_MEMBERS - 1)) % W_MEMBERS;
    if (w.member_down_until[w.leader] > w.now)
        w.member_down_until[w.leader] = w.now;
    w.no_leader_until = 0;
    w_trace("member %d leads", w.leader);
    w.model->elected();
}

static void change_leader(void)
{
    if (w.now < w.no_leader_until || w.no_leader_until)
        return;
    w.no_leader_until = w.now + w_between(100 * W_MS, 1500 * W_MS);
    w_trace("there is no leader until %lld", (long long)w.no_leader_until / W_MS);
    member_down(w.leader, w_between(50 * W_MS, 3 * W_SECOND), w_percent(70));
    w_at(w.no_leader_until, elected, NULL, 0);
    w_fired(W_LEADER);
}

static void strike(enum w_fault fault)
{
    if (w_below(W_SECOND) >= w.plan.chance[fault])
        return;
    if (fault == W_PAUSE)
        pause_one();
    else if (fault == W_CRASH || fault == W_CLOSE)
        end_one(fault == W_CRASH);
    else if (w.model->strike)
        w.stats.fired[fault] += w.model->strike(fault);
    else if (fault == W_LEADER)
        change_leader();
    else if (fault == W_EXPIRE && w.model->expire())
        w_fired(fault);
    else if (fault == W_DELETE && w.model->remove())
        w_fired(fault);
    else if (fault == W_FORGET && w.model->forget())
        w_fired(fault);
    if (fault == W_MEMBER) {
        member_down((int)w_below(W_MEMBERS), w_between(20 * W_MS, 3 * W_SECOND), w_percent(50));
        w_fired(fault);
    }
}

/* Each second of the world, at random moments, each fault has its chance. */
static void tick(void *what, int64_t number)
{
    static const enum w_fault faults[] = {W_PAUSE, W_CRASH, W_CLOSE, W_MEMBER, W_LEADER, W_EXPIRE, W_DELETE, W_FORGET};
    static const enum w_fault in_memory[] = {W_PAUSE, W_CRASH, W_CLOSE, W_DELETE, W_CUT, W_DELAY, W_DENY, W_RENEWALS};

    if (number == INT64_MIN || !w.faults_on)
        return;
    if (w.model->together && w_percent(25))
        strike(w_percent(50) ? W_JUMP : W_STOP);
    else
        strike((w.model->together ? in_memory : faults)[w_below((int64_t)(sizeof faults / sizeof faults[0]))]);
    w_at(w.now + w_below(200 * W_MS), tick, what, 0);
}

void w_chaos_begin(void)
{
    if (!w.plan.calm)
        w_at(w.now + w_below(W_SECOND), tick, NULL, 0);
}

void w_chaos_end(void)
{
    w.faults_on = 0;
    if (w.model->heal)
        w.model->heal();
    for (int i = 0; i < W_MEMBERS; i++)
        if (w.member_down_until[i] > w.now)
            w.member_down_until[i] = w.now;
}
