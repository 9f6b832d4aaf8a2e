/*
 * sim_subscriptions.c: subscriber connections: who is subscribed to what, and messages in flight. See sim.h.
 */
#include "sim.h"

#include <string.h>

static int64_t in_order(int64_t *last, int64_t at)
{
    *last = at > *last ? at : *last;
    return *last;
}

/* ---- the server's side */

/* Which channel: a lock's of Redisson (its index), or the channel of *peer (SIM_OWN_CHANNEL); -2: neither. */
static int channel_of(const struct sim *s, struct sim_word channel, int *peer)
{
    for (int i = 0; i < s->plan.locks; i++)
        if (strlen(s->lock[i].channel) == channel.size && memcmp(s->lock[i].channel, channel.at, channel.size) == 0)
            return i;
    for (int i = 0; channel.size == 49 && i < s->plan.procs; i++) {
        *peer = i;
        if (memcmp(channel.at, "dlock_client:", 13) == 0 && memcmp(channel.at + 13, s->peer[i].uuid, 36) == 0)
            return SIM_OWN_CHANNEL;
    }
    return -2;
}

static int is_subscribed(const struct sim_subscriber *subscriber, int channel, int peer)
{
    if (!subscriber->connected)
        return 0;
    return channel == SIM_OWN_CHANNEL ? subscriber->own && subscriber->peer == peer
                                      : (subscriber->redisson >> channel) & 1;
}

static void deliver(struct sim *s, struct sim_subscriber *subscriber, int channel, struct sim_word message)
{
    struct sim_push *push = sim_alloc(s, sizeof *push);
    int64_t delay = sim_delay(s);

    if (subscriber->silent)
        return;
    if (sim_fault(s, SIM_PUSH_LOST)) {
        sim_disturb(s, &s->peer[subscriber->peer], s->now + s->plan.rules.safety + s->plan.delay);
        return;
    }
    if (sim_fault(s, SIM_PUSH_DELAY)) {
        delay = sim_below(s, 2 * s->plan.lease_max);
        sim_disturb(s, &s->peer[subscriber->peer], s->now + delay);
    }
    push->subscriber = subscriber;
    push->lock = channel;
    snprintf(push->text, sizeof push->text, "%.*s", (int)message.size, message.at);
    sim_at(s, in_order(&subscriber->down_at, s->now + delay), SIM_PUSH, subscriber->peer, 0, push);
}

int64_t sim_publish(void *world, struct sim_word channel, struct sim_word message)
{
    struct sim *s = world;
    int peer = -1, which = channel_of(s, channel, &peer);
    int64_t count = 0;

    if (which == -2) {
        sim_violated(s, "wire: message on a channel of nobody: %.*s", (int)channel.size, channel.at);
        return 0;
    }
    sim_trace(s, "  publish %.*s: %.*s", (int)channel.size, channel.at, (int)message.size, message.at);
    for (int i = 0; i < s->subscribers; i++) {
        if (!is_subscribed(&s->subscriber[i], which, peer))
            continue;
        count++;
        deliver(s, &s->subscriber[i], which, message);
    }
    return count;
}

int64_t sim_subscribers(void *world, struct sim_word channel)
{
    const struct sim *s = world;
    int peer = -1, which = channel_of(s, channel, &peer);
    int64_t count = 0;

    for (int i = 0; i < s->subscribers; i++)
        count += which > -2 && is_subscribed(&s->subscriber[i], which, peer);
    return count;
}

void sim_subscriber_arrive(struct sim *s, struct sim_subscriber *subscriber, int what)
{
    if (subscriber->silent)
        return;
    subscriber->connected = 1;
    if (what == SIM_OWN_CHANNEL)
        subscriber->own = 1;
    else if (what >= SIM_UNSUBSCRIBE)
        subscriber->redisson &= ~(1 << (what - SIM_UNSUBSCRIBE));
    else
        subscriber->redisson |= 1 << what;
    sim_at(s, in_order(&subscriber->down_at, s->now + sim_delay(s)), SIM_SUB_CONFIRM, subscriber->peer, what,
           subscriber);
}

/* ---- the client's side */

void sim_subscriber_open(struct sim *s, struct sim_peer *peer)
{
    struct sim_subscriber *subscriber = &s->subscriber[s->subscribers];

    if (s->subscribers == SIM_SUBSCRIBERS) {
        sim_violated(s, "simulator: more than %d subscriber connections", SIM_SUBSCRIBERS);
        return;
    }
    s->subscribers++;
    memset(subscriber, 0, sizeof *subscriber);
    subscriber->peer = peer->index;
    subscriber->up_at = s->now + sim_delay(s);
    peer->subscriber = subscriber;
}

void sim_subscribe(struct sim *s, struct sim_peer *peer, int what)
{
    struct sim_subscriber *subscriber = peer->subscriber;

    sim_at(s, in_order(&subscriber->up_at, s->now + sim_delay(s)), SIM_SUB_ARRIVE, peer->index, what, subscriber);
}

/* The connection is gone; the server may still count it for a while. */
void sim_subscriber_close(struct sim *s, struct sim_subscriber *subscriber, int late)
{
    subscriber->silent = 1;
    if (late)
        sim_at(s, s->now + sim_below(s, 2 * s->plan.lease_max), SIM_SUB_GONE, subscriber->peer, 0, subscriber);
    else
        subscriber->connected = 0;
}
