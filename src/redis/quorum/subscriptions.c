/*
 * subscriptions.c: passes on what the nodes' stores receive. Hooks run on lane 0's thread, except log. quorum.mutex
 * guards the counts of listeners.
 *
 * A message from any server is a hint to probe. Grants are ignored: servers push them only to waiters in line, and ours
 * are not in line. When a server is subscribed again, it needs all channels anew: so up is reported each time.
 */
#include "inner.h"

static void up(void *owner)
{
    const struct dli_server *node = owner;
    struct dli_quorum *quorum = node->quorum;

    quorum->subscribed |= 1U << node->index;
    quorum->store.hooks->up(quorum->store.owner);
}

static void down(void *owner)
{
    const struct dli_server *node = owner;
    struct dli_quorum *quorum = node->quorum;

    quorum->subscribed &= ~(1U << node->index);
    if (quorum->subscribed == 0)
        quorum->store.hooks->down(quorum->store.owner);
}

static void heard(void *owner, const char *space, size_t size)
{
    const struct dli_server *node = owner;

    node->quorum->store.hooks->heard(node->quorum->store.owner, space, size);
}

static void subscribed(void *owner, const struct dli_message_target *target)
{
    const struct dli_server *node = owner;

    node->quorum->store.hooks->subscribed(node->quorum->store.owner, target);
}

static void unsubscribed(void *owner, const struct dli_message_target *target)
{
    const struct dli_server *node = owner;

    node->quorum->store.hooks->unsubscribed(node->quorum->store.owner, target);
}

static void hint(void *owner, const struct dli_message_target *target)
{
    const struct dli_server *node = owner;

    node->quorum->store.hooks->hint(node->quorum->store.owner, target);
}

static void rumour(void *owner, const struct dli_message_target *target)
{
    const struct dli_server *node = owner;

    node->quorum->store.hooks->rumour(node->quorum->store.owner, target);
}

static void granted(void *owner, const struct dli_message_target *target, const struct dli_pushed *grant)
{
    (void)owner;
    (void)target;
    (void)grant;
}

static void gate(void *owner, const struct dli_message_target *target, int64_t ms)
{
    const struct dli_server *node = owner;

    node->quorum->store.hooks->gate(node->quorum->store.owner, target, ms);
}

static void note(void *owner, dlock_status status, const char *text)
{
    struct dli_server *node = owner;

    if (status != DLOCK_OK)
        __atomic_add_fetch(&node->failures, 1, __ATOMIC_RELAXED);
    node->quorum->store.hooks->log(node->quorum->store.owner, status, text);
}

const struct dli_store_hooks dli_server_hooks = {.up = up,
                                                 .down = down,
                                                 .heard = heard,
                                                 .subscribed = subscribed,
                                                 .unsubscribed = unsubscribed,
                                                 .hint = hint,
                                                 .rumour = rumour,
                                                 .granted = granted,
                                                 .gate = gate,
                                                 .log = note};

/* ---- the channels that the caller wants */

void dli_quorum_want(struct dli_store *store, const struct dli_place *place)
{
    struct dli_quorum *quorum = dli_quorum_of(store);

    for (int i = 0; i < quorum->count; i++)
        quorum->node[i].store->ops->want(quorum->node[i].store, place->shared->place);
}

/* Each node knows only the first listener and the last one, with a count of its own. */
void dli_quorum_subscribe(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                          const char *owner, int on, int64_t *listeners)
{
    struct dli_quorum *quorum = dli_quorum_of(store);

    pthread_mutex_lock(&quorum->mutex);
    if (on ? ++*listeners == 1 : --*listeners == 0) {
        for (int i = 0; i < quorum->count; i++) {
            struct dli_store *node = quorum->node[i].store;
            int64_t count = !on;

            node->ops->subscribe(node, kind, place->shared->place, owner, on, &count);
        }
    }
    pthread_mutex_unlock(&quorum->mutex);
}

void dli_quorum_forget(struct dli_store *store, int64_t *listeners)
{
    struct dli_quorum *quorum = dli_quorum_of(store);

    pthread_mutex_lock(&quorum->mutex);
    --*listeners;
    pthread_mutex_unlock(&quorum->mutex);
}
