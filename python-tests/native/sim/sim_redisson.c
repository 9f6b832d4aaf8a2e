/*
 * sim_redisson.c: a foreign client: one thread that takes its locks by Redisson's steps (protocol notes 2, 3, 5, 6):
 * try, subscribe, try again, wait for a message or the TTL, try again; renew every third of the lease; DEL and PUBLISH
 * 0. Its scripts are written by us for those steps; sim_main.c adds them.
 */
#include "sim.h"

#include <inttypes.h>

const char *const sim_red_acquire = /* ARGV: owner, lease, channel, fenced */
    "if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[1]) == 1 then\n"
    "  redis.call('HINCRBY', KEYS[1], ARGV[1], 1)\n"
    "  redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
    "  return { 1, ARGV[4] == '1' and redis.call('INCR', KEYS[2]) or 0 }\n"
    "end\n"
    "return { 0, redis.call('PTTL', KEYS[1]) }\n";

const char *const sim_red_renew = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return 0 end\n"
                                  "redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
                                  "return 1\n";

const char *const sim_red_release = "if redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then return -1 end\n"
                                    "if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) > 0 then\n"
                                    "  redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
                                    "  return 0\n"
                                    "end\n"
                                    "redis.call('DEL', KEYS[1])\n"
                                    "redis.call('PUBLISH', ARGV[3], '0')\n"
                                    "return 1\n";

static void step_after(struct sim *s, struct sim_peer *peer, int64_t after)
{
    peer->red.version++;
    sim_at(s, s->now + (after > 0 ? after : 0), SIM_FOREIGN_STEP, peer->index, peer->red.version, NULL);
}

void sim_redisson_start(struct sim *s, struct sim_peer *peer)
{
    peer->red.thread = 100;
    sim_subscriber_open(s, peer);
    step_after(s, peer, sim_below(s, s->plan.think));
}

static void send(struct sim *s, struct sim_peer *peer, enum sim_request_kind kind)
{
    struct sim_request *request = sim_alloc(s, sizeof *request);

    request->kind = kind;
    request->peer = peer->index;
    request->lock = peer->red.lock;
    request->number = peer->red.thread;
    request->lease = peer->red.lease;
    request->full = 1;
    request->stamp = sim_clock(s, peer);
    request->attempt = SIM_SECOND;
    sim_send(s, request);
}

static void go_idle(struct sim *s, struct sim_peer *peer)
{
    struct sim_redisson *red = &peer->red;

    if (red->subscribed)
        sim_subscribe(s, peer, SIM_UNSUBSCRIBE + red->lock);
    red->subscribed = 0;
    red->believed = 0;
    red->state = SIM_RED_IDLE;
    step_after(s, peer, sim_below(s, s->plan.think));
}

static void try(struct sim *s, struct sim_peer *peer)
{
    peer->red.state = SIM_RED_TRYING;
    send(s, peer, SIM_RED_ACQUIRE);
}

static void begin(struct sim *s, struct sim_peer *peer)
{
    struct sim_redisson *red = &peer->red;

    if (!s->working)
        return;
    red->lock = (int)sim_below(s, s->plan.locks);
    red->thread++;
    red->lease = s->plan.lease[sim_below(s, SIM_LEASES)];
    red->renews = sim_percent(s, 70);
    red->woken = 0;
    red->asked_at = s->now;
    red->wait_until = sim_percent(s, 40) ? s->now + sim_below(s, 3 * SIM_SECOND) : DLI_NEVER;
    try(s, peer);
}

static void held(struct sim *s, struct sim_peer *peer)
{
    struct sim_redisson *red = &peer->red;

    if (s->now >= red->hold_until) {
        red->state = SIM_RED_LEAVING;
        red->believed = 0;
        send(s, peer, SIM_RED_RELEASE);
        return;
    }
    if (red->renews && s->now >= red->renew_at) {
        red->renew_at = s->now + red->lease / 3;
        send(s, peer, SIM_RED_RENEW);
    }
    step_after(s, peer, (red->renews && red->renew_at < red->hold_until ? red->renew_at : red->hold_until) - s->now);
}

void sim_redisson_step(struct sim *s, struct sim_peer *peer)
{
    struct sim_redisson *red = &peer->red;

    if (red->state == SIM_RED_IDLE)
        begin(s, peer);
    else if (red->state == SIM_RED_WAITING && s->now >= red->wait_until)
        go_idle(s, peer);
    else if (red->state == SIM_RED_WAITING)
        try(s, peer);
    else if (red->state == SIM_RED_HOLDING)
        held(s, peer);
}

static void trust(struct sim *s, struct sim_peer *peer, const struct sim_request *request)
{
    int64_t until = request->stamp + request->lease - request->lease / 1000000 * s->plan.rules.drift_ppm - 2 * SIM_MS;

    if (until > peer->red.valid_until)
        peer->red.valid_until = until;
}

static void acquired(struct sim *s, struct sim_peer *peer, const struct sim_request *request)
{
    struct sim_redisson *red = &peer->red;

    sim_trace(s, "peer %d holds %s, Redisson's way", peer->index, s->lock[red->lock].name);
    if (red->subscribed)
        sim_subscribe(s, peer, SIM_UNSUBSCRIBE + red->lock);
    red->subscribed = 0;
    red->state = SIM_RED_HOLDING;
    red->believed = 1;
    red->valid_until = 0;
    trust(s, peer, request);
    red->hold_until = s->now + sim_below(s, s->plan.hold);
    red->renew_at = s->now + red->lease / 3;
    s->stats.foreign_grants++;
    step_after(s, peer, 0);
}

static void not_acquired(struct sim *s, struct sim_peer *peer, int64_t left)
{
    struct sim_redisson *red = &peer->red;
    int64_t wake = left < 0 ? DLI_NEVER : s->now + left * SIM_MS;

    if (!red->subscribed) {
        red->state = SIM_RED_SUBSCRIBING;
        red->subscribed = 1;
        sim_subscribe(s, peer, red->lock);
        return;
    }
    if (red->woken) {
        red->woken = 0;
        try(s, peer);
        return;
    }
    red->state = SIM_RED_WAITING;
    if (red->wait_until < wake)
        wake = red->wait_until;
    if (wake != DLI_NEVER)
        step_after(s, peer, wake - s->now);
}

void sim_redisson_done(struct sim *s, struct sim_request *request)
{
    struct sim_peer *peer = &s->peer[request->peer];
    struct sim_redisson *red = &peer->red;
    int good = request->status == DLOCK_OK && !request->result.error;

    if (request->number != red->thread)
        return;
    if (!good)
        sim_disturb(s, peer, s->now);
    if (request->kind == SIM_RED_RENEW) {
        if (good && request->result.value[0] == 1 && red->state == SIM_RED_HOLDING)
            trust(s, peer, request);
        else if (good)
            red->believed = 0;
    } else if (request->kind == SIM_RED_RELEASE || !good) {
        go_idle(s, peer);
    } else if (request->result.value[0] == 1) {
        acquired(s, peer, request);
    } else {
        not_acquired(s, peer, request->result.value[1]);
    }
}

void sim_redisson_received(struct sim *s, struct sim_peer *peer, int message)
{
    struct sim_redisson *red = &peer->red;

    if (message && red->state == SIM_RED_WAITING)
        try(s, peer);
    else if (message && red->subscribed)
        red->woken = 1;
    else if (!message && red->state == SIM_RED_SUBSCRIBING)
        try(s, peer);
}

void sim_redisson_broken(struct sim *s, struct sim_peer *peer)
{
    sim_subscriber_open(s, peer);
    if (peer->red.subscribed)
        sim_subscribe(s, peer, peer->red.lock);
}
