/*
 * sim_plan.c: the choices of a seed for its run: the processes, their options, and which faults happen how often. A run
 * has only some kinds of faults, so that rare combinations get room (swarm testing).
 */
#include "sim.h"

#include <string.h>

static int64_t one_of(struct sim *s, const int64_t *values, int count)
{
    return values[sim_below(s, count)];
}

#define ONE_OF(s, ...)                                                                                                 \
    one_of(s, (const int64_t[]){__VA_ARGS__}, (int)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)))

/* Faults that hit a message or a reply: this often of a million. The others are drawn every 100 ms. */
static int per_message(enum sim_fault fault)
{
    return fault <= SIM_PUSH_LOST || fault == SIM_PAUSE_REPLY || fault == SIM_PAUSE_HOLD;
}

static void choose_faults(struct sim *s)
{
    struct sim_plan *plan = &s->plan;

    plan->calm = sim_percent(s, 15);
    plan->liveness = sim_percent(s, 30);
    for (int i = 0; i < SIM_FORGET; i++) {
        int64_t chance = per_message(i) ? sim_between(s, 1000, 40000) : sim_between(s, 3000, 40000);
        int on = sim_percent(s, 35);

        if (!plan->calm && on)
            plan->chance[i] = chance;
    }
    plan->chance[SIM_SUB_LATE] = plan->chance[SIM_SUB_LATE] ? 500000 : 0;
    plan->chance[SIM_LATE] = plan->chance[SIM_LATE] ? 500000 : 0;
    plan->chance[SIM_TIMER_LATE] = plan->chance[SIM_TIMER_LATE] ? 300000 : 0;
    for (int i = SIM_STALL; i <= SIM_BUSY; i++)
        plan->chance[i] *= 3;
    plan->chance[SIM_CRASH] /= 4;
    plan->chance[SIM_CLOSE] /= 4;
}

static void choose_leases(struct sim *s)
{
    struct sim_plan *plan = &s->plan;
    int mixed = sim_percent(s, 60);
    int64_t guard, least = INT64_MAX;

    for (int i = 0; i < SIM_LEASES; i++) {
        plan->lease[i] = SIM_MS * ONE_OF(s, 1000, 1500, 3000);
        if (s->drift_factor > 1)
            plan->lease[i] = SIM_MS * ONE_OF(s, 5000, 10000);
        if (!mixed && i > 0)
            plan->lease[i] = plan->lease[0];
        if (plan->lease[i] > plan->lease_max)
            plan->lease_max = plan->lease[i];
        if (plan->lease[i] < least)
            least = plan->lease[i];
    }
    guard = least / 50 > 100 * SIM_MS ? least / 50 : 100 * SIM_MS;
    plan->late = guard * 7 / 10;
    plan->renew = (int)ONE_OF(s, 100, 100, 100, 70, 0);
    if (s->drift_factor > 1)
        plan->renew = 0;
}

static void choose_rules(struct sim *s)
{
    struct dli_mutex_rules *rules = &s->plan.rules;

    rules->drift_ppm = 10000;
    rules->safety = SIM_MS * ONE_OF(s, 100, 200, 300, 500, 1000);
    rules->handover_turns = ONE_OF(s, 0, 1, 4, 64);
    rules->handover_time = SIM_MS * ONE_OF(s, 2, 2, 50, 300);
    s->plan.linger = s->seed % 3 ? 0 : rules->handover_time;
    rules->attempt = SIM_SECOND;
    rules->keep_ms = ONE_OF(s, 60000, 86400000);
}

/* One lock, two foreign clients, short waits: turns of foreign clients and queues whose head leaves. */
static void choose_mixed_fleet(struct sim *s)
{
    struct sim_plan *plan = &s->plan;

    plan->foreign = 2;
    plan->locks = 1;
    plan->delay = 10 * SIM_MS;
    plan->owners = (int)sim_between(s, 1, 2);
    plan->cancel = 60;
    plan->liveness = 1;
    plan->hold = SIM_MS * ONE_OF(s, 100, 300);
    plan->think = SIM_MS * ONE_OF(s, 5, 50);
    plan->rules.safety = SIM_SECOND;
}

/* The server is away again and again, for about a lease; leases differ. */
static void choose_outages(struct sim *s)
{
    struct sim_plan *plan = &s->plan;

    plan->lease[0] = SIM_SECOND;
    plan->lease[1] = plan->lease[2] = 3 * SIM_SECOND;
    plan->lease_max = 3 * SIM_SECOND;
    plan->late = 70 * SIM_MS;
    plan->hold = SIM_MS * ONE_OF(s, 5, 30);
    for (int i = SIM_STALL; i <= SIM_BUSY; i++)
        plan->chance[i] = 60000;
}

/* The server loses all of its memory again and again. */
static void choose_forgetting(struct sim *s)
{
    struct sim_plan *plan = &s->plan;

    plan->chance[SIM_FLUSH] = ONE_OF(s, 500, 3000, 20000);
    plan->chance[SIM_RESTART] = ONE_OF(s, 0, 10000, 50000);
    plan->fenced = 0;
}

/* The server loses its counters again and again, while grants follow each other at once and request many tokens. */
static void choose_amnesia(struct sim *s)
{
    struct sim_plan *plan = &s->plan;

    plan->chance[SIM_FORGET] = 200000;
    plan->fenced = 0; /* Redisson's own counter starts at 1 then */
    if (s->world || s->seed % 2)
        return;
    plan->rules.handover_turns = 1024;
    plan->delay = 20;
    plan->hold = SIM_MS / 2;
    plan->think = SIM_MS;
}

void sim_plan(struct sim *s)
{
    struct sim_plan *plan = &s->plan;

    memset(plan, 0, sizeof *plan);
    choose_faults(s);
    choose_leases(s);
    choose_rules(s);
    plan->procs = (int)sim_between(s, 2, SIM_PROCS);
    plan->foreign = sim_percent(s, 50) ? 0 : (int)sim_between(s, 1, SIM_FOREIGN);
    plan->locks = (int)ONE_OF(s, 1, 1, 1, 2, 3);
    plan->owners = (int)sim_between(s, 1, SIM_OWNERS);
    plan->cancel = (int)ONE_OF(s, 2, 10, 50);
    plan->operations = (int)ONE_OF(s, 0, 0, 5);
    plan->delay = SIM_MS * ONE_OF(s, 1, 3, 10);
    plan->hold = SIM_MS * ONE_OF(s, 5, 30, 100, 300, 1500);
    plan->think = SIM_MS * ONE_OF(s, 5, 50, 300, 1500);
    if (sim_percent(s, 10))
        choose_mixed_fleet(s);
    else if (!plan->calm && sim_percent(s, 10))
        choose_outages(s);
    if (s->drift_factor > 1)
        plan->hold = 12 * SIM_SECOND;
    plan->grace = 25 * SIM_MS;
    plan->fenced = plan->foreign && sim_percent(s, 30);
    plan->faults_end = sim_between(s, 3 * SIM_SECOND, 7 * SIM_SECOND);
    plan->work_end = plan->faults_end + (plan->liveness ? sim_between(s, 6 * SIM_SECOND, 12 * SIM_SECOND) : 0);
    if (s->world)
        sim_kinds_plan(s);
    if (!plan->calm && s->seed % 5 == 2)
        choose_amnesia(s);
    if (!plan->calm && s->forgets)
        choose_forgetting(s);
    plan->end = plan->work_end + 120 * SIM_SECOND; /* a run ends when everything is done; this is too late */
}
