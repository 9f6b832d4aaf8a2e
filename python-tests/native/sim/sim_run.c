/*
 * sim_run.c: one run: its participants, the event loop, clocks, and the end. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { MILLION = 1000000 };

/* ---- clocks */

static int64_t rated(int64_t time, int64_t ppm)
{
    return time + time * ppm / MILLION;
}

int64_t sim_clock(const struct sim *s, const struct sim_peer *peer)
{
    return peer->clock_base + rated(s->now, peer->ppm);
}

int64_t sim_server_clock(const struct sim *s)
{
    int64_t clock = s->server_base + rated(s->now, s->server_ppm);

    return clock > s->ran_at ? clock : s->ran_at;
}

/* The first true time at which a clock that is off by ppm has run for span. */
static int64_t unrated(int64_t span, int64_t ppm)
{
    int64_t time = span * MILLION / (MILLION + ppm) - 1;

    while (rated(time, ppm) < span)
        time++;
    return time;
}

int64_t sim_when(const struct sim *s, const struct sim_peer *peer, int64_t clock)
{
    (void)s;
    return clock == DLI_NEVER ? DLI_NEVER : unrated(clock - peer->clock_base, peer->ppm);
}

int64_t sim_expiry(const struct sim *s, int64_t expires_ms)
{
    return expires_ms < 0 ? DLI_NEVER : unrated((expires_ms + 1) * SIM_MS - s->server_base, s->server_ppm);
}

/* ---- pauses and effects of faults */

int sim_paused(const struct sim *s, const struct sim_peer *peer)
{
    return s->now < peer->paused_until + 5 * SIM_MS;
}

void sim_disturb(struct sim *s, struct sim_peer *peer, int64_t until)
{
    (void)s;
    if (until > peer->disturbed_until)
        peer->disturbed_until = until;
}

void sim_pause(struct sim *s, struct sim_peer *peer, int64_t until)
{
    sim_trace(s, "peer %d is paused for %" PRId64 " us", peer->index, until - s->now);
    if (until > peer->paused_until)
        peer->paused_until = until;
    peer->wake_reply = sim_below(s, 3 * SIM_MS);
    peer->wake_timer = sim_below(s, 3 * SIM_MS);
    sim_disturb(s, peer, until + s->plan.rules.safety + 5 * SIM_MS); /* a message may be lost: until it probes */
}

/* When a part of a paused process works again; 0: it does. */
static int64_t asleep_until(const struct sim *s, const struct sim_event *event)
{
    const struct sim_peer *peer = &s->peer[event->who];
    int timer = event->kind == SIM_ALARM || event->kind == SIM_OWNER || event->kind == SIM_TIMEOUT ||
                event->kind == SIM_FOREIGN_STEP;
    int64_t until = peer->paused_until + (timer ? peer->wake_timer : peer->wake_reply);

    return peer->paused_until > 0 && s->now < until ? until : 0;
}

/* ---- output */

void sim_trace(struct sim *s, const char *format, ...)
{
    va_list rest;

    if (!s->verbose)
        return;
    printf("%10" PRId64 " ", s->now);
    va_start(rest, format);
    vprintf(format, rest);
    va_end(rest);
    putchar('\n');
}

void sim_violated(struct sim *s, const char *format, ...)
{
    va_list rest;

    if (s->failed[0])
        return;
    va_start(rest, format);
    vsnprintf(s->failed, sizeof s->failed, format, rest);
    va_end(rest);
    sim_trace(s, "VIOLATED: %s", s->failed);
}

/* ---- setting up */

static void name_lock(struct sim *s, int index)
{
    static const char *const names[SIM_LOCKS] = {"stock", "order:{7}:lock", "k"};
    struct sim_lock *lock = &s->lock[index];
    char tagged[40];

    memset(lock, 0, sizeof *lock);
    lock->seen.peer = -1;
    if (s->world) {
        sim_kinds_name(s, index);
        return;
    }
    snprintf(lock->name, sizeof lock->name, "%s", names[index]);
    snprintf(tagged, sizeof tagged, strchr(names[index], '{') ? "%s" : "{%s}", names[index]);
    snprintf(lock->fence, sizeof lock->fence, "redisson_lock_token:%s", tagged);
    snprintf(lock->line, sizeof lock->line, "dlock_queue:%s", tagged);
    snprintf(lock->about, sizeof lock->about, "dlock_waiters:%s", tagged);
    snprintf(lock->gate, sizeof lock->gate, "dlock_gate:%s", tagged);
    snprintf(lock->channel, sizeof lock->channel, "redisson_lock__channel:%s", tagged);
}

static void note_bytes(struct sim_peer *peer)
{
    const char *digit = peer->uuid;
    char two[3] = "";

    for (size_t i = 0; i < sizeof peer->bytes; i++, digit += 2) {
        digit += *digit == '-';
        memcpy(two, digit, 2);
        peer->bytes[i] = (char)strtol(two, NULL, 16);
    }
}

static void make_peer(struct sim *s, int index, int foreign)
{
    struct sim_peer *peer = &s->peer[index];
    struct sim_number *number = peer->number;
    int64_t room = peer->number_room, half = s->plan.rules.drift_ppm / 2;
    uint64_t random = sim_random(s);

    sim_driver_end(s, peer); /* of the peer that was here before */
    memset(peer, 0, sizeof *peer);
    peer->number = number;
    peer->number_room = room;
    if (number)
        memset(number, 0, (size_t)room * sizeof *number);
    peer->index = index;
    peer->foreign = foreign;
    peer->alive = 1;
    snprintf(peer->uuid, sizeof peer->uuid, "%08x-%04x-%d%03x-a%03x-%012" PRIx64, (unsigned)(random >> 32),
             (unsigned)(random >> 16) & 0xffff, foreign ? 4 : 8, foreign ? (unsigned)(random >> 4) & 0xfff : 0,
             (unsigned)random & 0xfff, random >> 16);
    note_bytes(peer);
    peer->ppm = sim_between(s, -half, half) * s->drift_factor;
    peer->clock_base = sim_below(s, 1000 * (int64_t)SIM_SECOND);
    peer->line = DLI_LINE_ABSENT;
    if (s->plan.chance[SIM_CLOCK] && sim_percent(s, 50)) {
        peer->ppm = (sim_percent(s, 50) ? half : -half) * s->drift_factor;
        sim_fired(s, SIM_CLOCK);
    }
    if (foreign)
        sim_redisson_start(s, peer);
    else
        sim_driver_start(s, peer);
}

static void set_up(struct sim *s, uint64_t seed)
{
    int64_t half;

    s->seed = seed;
    s->random = seed * 0x9e3779b97f4a7c15u + 0x1234567;
    s->now = 0;
    s->heap.count = 0;
    s->heap.order = 0;
    s->arena.current = 0;
    s->arena.used = 0;
    s->claims = NULL;
    s->subscribers = s->pendings = 0;
    s->forgot_at = s->reclaim_at = s->reclaims = s->cut_at = 0;
    s->ran_at = s->stalled_until = s->error_until = s->oom_until = s->server_disturbed = 0;
    s->failed[0] = '\0';
    s->hash = 0xcbf29ce484222325u;
    sim_plan(s);
    s->faults_on = !s->plan.calm;
    s->working = 1;
    s->calm_from = s->plan.calm ? 0 : DLI_NEVER;
    half = s->plan.rules.drift_ppm / 2;
    s->server_ppm = sim_between(s, -half, half) * s->drift_factor;
    s->server_base = 1700000000 * (int64_t)SIM_SECOND + sim_below(s, 1000 * (int64_t)SIM_SECOND);
    sim_store_reset(&s->store);
    for (int i = 0; i < SIM_SCRIPTS_MAX; i++)
        s->loaded[i] = 1;
    for (int i = 0; i < s->plan.locks; i++)
        name_lock(s, i);
    s->places = s->round = 0;
    sim_kinds_open(s);
    for (int i = 0; i < s->plan.procs; i++)
        make_peer(s, i, 0);
    for (int i = 0; i < s->plan.foreign; i++)
        make_peer(s, s->plan.procs + i, 1);
    if (s->faults_on) {
        sim_at(s, 100 * SIM_MS, SIM_CHAOS, -1, 0, NULL);
        sim_at(s, s->plan.faults_end, SIM_CALM, -1, 0, NULL);
    }
    sim_at(s, s->plan.work_end, SIM_STOP_WORK, -1, 0, NULL);
}

/* ---- running */

static void client_event(struct sim *s, struct sim_event event)
{
    struct sim_peer *peer = &s->peer[event.who];

    switch (event.kind) {
    case SIM_REPLY:
        sim_reply(s, event);
        break;
    case SIM_TIMEOUT:
        sim_timeout(s, event.what);
        break;
    case SIM_FAIL:
        sim_failed(s, event.what);
        break;
    case SIM_ALARM:
        sim_alarm(s, event);
        break;
    case SIM_PUSH:
        if (((struct sim_push *)event.what)->subscriber == peer->subscriber)
            peer->foreign ? sim_redisson_received(s, peer, 1) : sim_pushed(s, peer, event.what);
        break;
    case SIM_SUB_CONFIRM:
        if (event.what == peer->subscriber && event.number < SIM_UNSUBSCRIBE)
            peer->foreign ? sim_redisson_received(s, peer, 0) : sim_subscribed(s, peer, (int)event.number);
        break;
    case SIM_SUB_NOTICED:
        if (event.what == peer->subscriber)
            peer->foreign ? sim_redisson_broken(s, peer) : sim_line_broken(s, peer);
        break;
    case SIM_SUB_RETRY:
        sim_line_retry(s, peer);
        break;
    case SIM_OWNER:
        if (event.number == ((struct sim_owner *)event.what)->version)
            sim_owner_step(s, event.what);
        break;
    case SIM_GRANT_ARRIVES:
        sim_grant_arrives(s, peer, event.what);
        break;
    default:
        if (event.number == peer->red.version)
            sim_redisson_step(s, peer);
    }
}

static void server_event(struct sim *s, struct sim_event event)
{
    switch (event.kind) {
    case SIM_ARRIVE:
    case SIM_SUB_ARRIVE:
        if (s->now < s->stalled_until)
            sim_defer(s, event, s->stalled_until);
        else if (event.kind == SIM_ARRIVE)
            sim_arrive(s, event.what);
        else
            sim_subscriber_arrive(s, event.what, (int)event.number);
        break;
    case SIM_SUB_GONE:
        ((struct sim_subscriber *)event.what)->connected = 0;
        break;
    case SIM_CHAOS:
        sim_chaos(s);
        break;
    case SIM_CALM:
        sim_calm(s);
        break;
    default:
        s->working = 0;
    }
}

static void handle(struct sim *s, struct sim_event event)
{
    if (event.kind < SIM_CLIENT_SIDE) {
        server_event(s, event);
        return;
    }
    if (!s->peer[event.who].alive)
        return;
    if (asleep_until(s, &event))
        sim_defer(s, event, asleep_until(s, &event));
    else
        client_event(s, event);
}

/* Work has ended; nobody holds, waits or sends anything. */
static int quiet(const struct sim *s)
{
    if (s->working || s->faults_on || s->pendings > 0)
        return 0;
    for (int i = 0; i < s->plan.procs + s->plan.foreign; i++) {
        const struct sim_peer *peer = &s->peer[i];

        if (!peer->alive)
            continue;
        if (peer->foreign && peer->red.state != SIM_RED_IDLE)
            return 0;
        for (int k = 0; !peer->foreign && k < s->plan.owners; k++)
            if (peer->owner[k].state != SIM_IDLE)
                return 0;
        for (int k = 0; !peer->foreign && k < s->plan.locks; k++)
            if (!dli_mutex_idle(&peer->side[k].m))
                return 0;
    }
    return 1;
}

int sim_run(struct sim *s, uint64_t seed)
{
    struct sim_event event;

    set_up(s, seed);
    while (!s->failed[0] && sim_next(s, &event)) {
        s->now = event.at;
        s->stats.events++;
        if (s->now > s->plan.end) {
            sim_violated(s, "liveness: not quiet 120 s after the work ended");
            break;
        }
        sim_mix(s, (uint64_t)event.at);
        sim_mix(s, (uint64_t)event.kind << 8 | (uint64_t)(event.who + 1));
        handle(s, event);
        sim_check_step(s);
        if (quiet(s))
            break;
    }
    if (!s->failed[0])
        sim_check_end(s);
    for (int i = 0; i < s->plan.procs; i++)
        sim_driver_end(s, &s->peer[i]);
    s->stats.seeds++;
    s->stats.hash += s->hash * (seed | 1);
    return s->failed[0] ? -1 : 0;
}
