/*
 * plan.c: what a seed chooses, and its run. See worlds.h.
 */
#include <string.h>

#include "worlds.h"

enum { BEFORE = 20 * W_SECOND, AFTER = 10 * W_SECOND, LAST = 120 * W_SECOND };

static const int64_t most[W_FAULT_COUNT] = {
    [W_DELAY] = 20000,   [W_REQUEST_LOST] = 8000, [W_REPLY_LOST] = 8000, [W_LATE] = 6000,     [W_CUT] = 6000,
    [W_SILENT] = 3000,   [W_PAUSE] = 400000,      [W_CRASH] = 30000,     [W_CLOSE] = 30000,   [W_MEMBER] = 200000,
    [W_LEADER] = 200000, [W_UNSURE] = 6000,       [W_EXPIRE] = 100000,   [W_DELETE] = 100000, [W_FORGET] = 200000,
    [W_LAG] = 60000,     [W_DENY] = 200000,       [W_RENEWALS] = 300000, [W_JUMP] = 100000,   [W_STOP] = 200000,
    [W_FULL] = 20000,
};

/* In memory it is a chance of each second, elsewhere of each message. */
static int64_t most_of(int fault)
{
    return w.model->together && (fault == W_CUT || fault == W_DELAY) ? 300000 : most[fault];
}

int w_without(enum w_fault fault)
{
    return ((w.model->without | (w.latches ? w.model->without_latches : W_OF_LATCHES)) & 1U << fault) != 0;
}

static void choose(void)
{
    struct w_plan *plan = &w.plan;
    static const int64_t leases[] = {1000, 2000, 3000, 3000, 5000};
    int64_t trips = w.latches ? 1000 : w.semaphores ? 200 : 100;

    plan->calm = w_percent(10);
    plan->processes = (int)w_between(2, W_PROCESSES);
    plan->owners = (int)w_between(1, W_OWNERS);
    plan->locks = (int)w_between(1, W_LOCKS);
    plan->permits = w.semaphores ? (int)w_between(1, W_PERMITS) : 0;
    plan->plain = w.semaphores && w.model->together && w_percent(40);
    plan->watched = w.latches && w_percent(50);
    if (plan->watched && w_percent(50)) /* nobody else of its process hears of it */
        plan->owners = 1;
    plan->shared = !plan->permits && !w.latches && w_percent(35);
    plan->fair = w.model->together && !plan->permits && !w.latches && !plan->shared && w_percent(40);
    plan->lease = leases[w_below(5)] * W_MS + (w_percent(20) ? w_below(900) * W_MS : 0);
    plan->delay = w_percent(80) ? w_between(200, 3 * W_MS) : w_between(3 * W_MS, 30 * W_MS);
    if (plan->calm && plan->delay > plan->lease / trips) /* a first acquisition has many round trips */
        plan->delay = plan->lease / trips;
    plan->hold = w_percent(70) ? w_between(W_MS, 200 * W_MS) : w_between(200 * W_MS, 2 * W_SECOND);
    plan->think = w_percent(50) ? w_between(W_MS, 50 * W_MS) : w_between(50 * W_MS, 2 * W_SECOND);
    for (int i = 0; i < W_FAULT_COUNT && !plan->calm; i++)
        if (!w_without((enum w_fault)i) && !(plan->plain && 1U << i & W_OF_LEASES) &&
            !(plan->watched && 1U << i & w.model->looked_for))
            plan->chance[i] = w_percent(45) ? 0 : w_below(most_of(i));
    plan->faults_end = w.now + BEFORE;
    plan->work_end = plan->faults_end + (w_percent(50) ? 0 : AFTER);
    plan->end = plan->work_end + LAST;
}

int w_sides(void)
{
    return w.plan.shared || w.plan.permits ? 2 : 1;
}

int w_permits_of(int side)
{
    return side && w.plan.permits > 1 ? 2 : 1;
}

static void make_processes(void)
{
    for (int i = 0; i < w.plan.processes; i++) {
        struct w_process *process = &w.process[i];

        process->index = i;
        process->offset = 100 * (int64_t)W_SECOND + w_below(1000 * (int64_t)W_SECOND);
        if (w.model->together)
            process->offset = w.process[0].offset;
        process->rate = w.plan.calm || w.model->together
                            ? 0
                            : w_between(-4000, 4000); /* of the 10,000 millionths that are allowed */
        w.stats.fired[W_CLOCK] += process->rate != 0;
        for (int k = 0; k < W_OWNERS; k++)
            process->owner[k] = (struct w_owner){.process = process, .number = k + 1};
    }
}

static void run_until(int64_t until)
{
    while (!w.failed && w_step(until))
        w.current = NULL;
}

static int all_closed(void)
{
    for (int i = 0; i < w.plan.processes; i++)
        if (!w.process[i].crashed && !w.process[i].closed)
            return 0;
    return 1;
}

static int at_rest(void)
{
    for (int i = 0; i < w.plan.processes; i++)
        for (int k = 0; k < w.plan.owners; k++)
            if (w.process[i].owner[k].state != W_IDLE)
                return 0;
    return 1;
}

/* A process that closes while it is paused still has its watches until it goes on. */
static void go_on(void)
{
    for (int i = 0; i < w.plan.processes; i++)
        if (!w.process[i].crashed && w.process[i].paused_until > w.now)
            run_until(w.process[i].paused_until);
}

/* Those who wait for latches give up, and nothing is left of them. */
static void wait_in_vain(void)
{
    go_on();
    for (int step = 0; step < 3; step++) {
        w_latch_in_vain(step);
        run_until(w.now + 5 * (int64_t)W_SECOND);
        w_judge_rest();
    }
}

/* Work goes on until its end; then all that was asked for must be answered, all ends, and leases run out. */
static void run(void)
{
    run_until(w.plan.faults_end);
    w_chaos_end();
    run_until(w.plan.work_end);
    while (!w.failed && w.now < w.plan.end && !at_rest())
        run_until(w.now + 200 * W_MS);
    if (!at_rest())
        w_judge_end();
    if (w.latches)
        wait_in_vain();
    for (int i = 0; i < w.plan.processes && !w.failed; i++)
        w_process_close(&w.process[i]);
    for (int64_t until = w.now + 20 * W_SECOND; !w.failed && w.now < until && !all_closed();)
        run_until(w.now + 100 * W_MS);
    if (!w.failed)
        run_until(w.now + 5 * w.plan.lease + (w.plan.watched ? 200 : 10) * (int64_t)W_SECOND);
    if (!w.failed)
        w_judge_end();
}

int w_run_seed(uint64_t seed)
{
    struct w_stats stats = w.stats;
    const struct w_model *model = w.model;
    int verbose = w.verbose, semaphores = w.semaphores, latches = w.latches;

    memset(&w, 0, sizeof w);
    w.stats = stats;
    w.verbose = verbose;
    w.semaphores = semaphores;
    w.latches = latches;
    w.model = model;
    w.random = seed * 0x9e3779b97f4a7c15u;
    w.hash = seed;
    w.now = 1000 * (int64_t)W_SECOND;
    choose();
    w.faults_on = !w.plan.calm;
    make_processes();
    w.model->begin();
    if (w.latches)
        w_latch_begin();
    for (int i = 0; i < w.plan.processes; i++)
        w_process_begin(&w.process[i]);
    w.current = NULL;
    w_chaos_begin();
    run();
    w.faults_on = 0;
    w.stats.seeds++;
    w_mix(w.stats.events);
    w.stats.hash += w.hash;
    w.over = 1;
    for (int i = 0; i < w.plan.processes; i++)
        w_process_end(&w.process[i]);
    w_events_end();
    w_judge_latches_end();
    w_wires_end();
    w.model->end();
    return w.failed ? -1 : 0;
}
