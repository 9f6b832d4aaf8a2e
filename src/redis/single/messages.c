/*
 * messages.c: the messages of the store on one server: the subscriber of lane 0, and callers that listen in place of its
 * thread. Mutexes: see redis/pubsub/subscriber.h and listener.h.
 */
#include "inner.h"

static void up(void *owner)
{
    const struct dli_store *store = owner;

    store->hooks->up(store->owner);
}

static void down(void *owner)
{
    const struct dli_store *store = owner;

    store->hooks->down(store->owner);
}

static void heard(void *owner, const struct dli_ear *ear)
{
    const struct dli_store *store = owner;

    store->hooks->heard(store->owner, dli_ear_space(ear), ear->space);
}

static void subscribed(void *owner, int sharded, const char *channel, size_t size)
{
    const struct dli_store *store = owner;

    (void)sharded;
    dli_message_channel(store, channel, size, store->hooks->subscribed);
}

static void unsubscribed(void *owner, int sharded, const char *channel, size_t size)
{
    const struct dli_store *store = owner;

    (void)sharded;
    dli_message_channel(store, channel, size, store->hooks->unsubscribed);
}

static void message(void *owner, const char *channel, size_t channel_size, const char *text, size_t size)
{
    struct dli_store *store = owner;
    const struct dli_ear *own = dli_ears_find(&dli_single_of(store)->ears, channel, channel_size);

    dli_message_dispatch(store, own, channel, channel_size, text, size);
}

const struct dli_subscriber_hooks dli_single_subscriber_hooks = {up,           down,    heard, subscribed,
                                                                 unsubscribed, message, NULL};

void dli_single_want(struct dli_store *store, const struct dli_place *place)
{
    struct single *single = dli_single_of(store);

    dli_subscriber_want(&single->first->subscriber, dli_ears_add(&single->ears, dli_place_name(place), place->space));
}

void dli_single_subscribe(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                          const char *owner, int on, int64_t *listeners)
{
    char channel[DLI_CHANNEL_MAX];
    size_t size = dli_channel_of(channel, kind, place, owner);

    dli_subscriber_subscribe(&dli_single_of(store)->first->subscriber, channel, size, on, listeners);
}

void dli_single_forget(struct dli_store *store, int64_t *listeners)
{
    dli_subscriber_forget(&dli_single_of(store)->first->subscriber, listeners);
}

int dli_single_may_listen(struct dli_store *store)
{
    return dli_listener_take(&dli_single_of(store)->first->listener);
}

int dli_single_listen(struct dli_store *store, int64_t deadline)
{
    return dli_listener_wait(&dli_single_of(store)->first->listener, deadline);
}

void dli_single_ring(struct dli_store *store)
{
    dli_listener_ring(&dli_single_of(store)->first->listener);
}
