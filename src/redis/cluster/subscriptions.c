/*
 * subscriptions.c: the subscriptions of a client in a cluster.
 *
 * The client subscribes to its own channel on every primary: a script counts only the subscribers of its own server,
 * while a message reaches all servers. It subscribes to a lock's channel where the slot is. These channels are sharded
 * where the servers support it, as with Redisson, unless the option cluster_pubsub says otherwise. With both forms, it
 * subscribes to the sharded channel last, and only the server's confirmation for that one counts.
 *
 * mutex guards channels, with one row for each subscribed channel. A row is removed with its last listener, with its
 * connection, and when its slot moves. The remaining listeners are notified, and subscribe again.
 */
#include "inner.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

/* ---- the rows; mutex held */

static struct dli_channel **row_of(struct dli_cluster *cluster, const char *name, size_t size)
{
    uint32_t hash = 2166136261u;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return &cluster->channels[hash % DLI_CHANNEL_ROWS];
}

static struct dli_channel **find(struct dli_cluster *cluster, const char *name, size_t size)
{
    struct dli_channel **link = row_of(cluster, name, size);

    while (*link && ((*link)->size != size || memcmp((*link)->name, name, size) != 0))
        link = &(*link)->next;
    return link;
}

static void send_change(struct dli_cluster *cluster, const struct dli_channel *channel, int on)
{
    struct dli_node *node = channel->node == DLI_NOBODY ? NULL : cluster->node[channel->node];
    int form = dli_cluster_form(cluster, channel->plain);

    if (!node || node->subscription != DLI_SUBSCRIPTION_UP)
        return;
    if (form != DLI_FORM_SHARDED)
        dli_subscriber_send(&node->subscriber, 0, channel->name, channel->size, on);
    if (form != DLI_FORM_PLAIN)
        dli_subscriber_send(&node->subscriber, 1, channel->name, channel->size, on);
}

/* The server ended or refused the sharded subscription of both: end the plain one. */
static void unsubscribe_rest(struct dli_node *node, const struct dli_channel *channel)
{
    if (dli_cluster_form(node->cluster, channel->plain) == DLI_FORM_BOTH)
        dli_subscriber_send(&node->subscriber, 0, channel->name, channel->size, 0);
}

static void begin(struct dli_cluster *cluster, const struct dli_place *place, const char *name, size_t size)
{
    struct dli_channel **link = find(cluster, name, size), *channel = *link;

    if (!channel) {
        if (!(channel = calloc(1, sizeof *channel + size + 1)))
            return;
        memcpy(channel->name, name, size);
        channel->size = size;
        channel->slot = place->slot;
        channel->plain = place->plain;
        *link = channel;
    }
    channel->fresh = 1;
    channel->node = dli_cluster_owner(cluster, place->slot);
    send_change(cluster, channel, 1);
}

static void finish(struct dli_cluster *cluster, const char *name, size_t size)
{
    struct dli_channel **link = find(cluster, name, size), *channel = *link;

    if (!channel)
        return;
    send_change(cluster, channel, 0);
    *link = channel->next;
    free(channel);
}

/* ---- any thread */

void dli_subscriptions_want(struct dli_store *store, const struct dli_place *place)
{
    struct dli_cluster *cluster = dli_cluster_of(store);
    int news = dli_ears_add(&cluster->ears, dli_place_name(place), place->space);

    if (__atomic_exchange_n(&cluster->wanted, 1, __ATOMIC_ACQ_REL) && !news)
        return;
    if (!__atomic_load_n(&cluster->known, __ATOMIC_ACQUIRE))
        dli_refresh_want(cluster);
    pthread_mutex_lock(&cluster->mutex);
    if (cluster->lane[0])
        dli_wake_set(cluster->lane[0]->wake_fd);
    pthread_mutex_unlock(&cluster->mutex);
}

void dli_subscriptions_subscribe(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                                 const char *owner, int on, int64_t *listeners)
{
    struct dli_cluster *cluster = dli_cluster_of(store);
    char name[DLI_CHANNEL_MAX];
    size_t size = dli_channel_of(name, kind, place, owner);

    pthread_mutex_lock(&cluster->mutex);
    if (on && ++*listeners == 1)
        begin(cluster, place, name, size);
    else if (!on && --*listeners == 0)
        finish(cluster, name, size);
    pthread_mutex_unlock(&cluster->mutex);
}

void dli_subscriptions_forget(struct dli_store *store, int64_t *listeners)
{
    struct dli_cluster *cluster = dli_cluster_of(store);

    pthread_mutex_lock(&cluster->mutex);
    --*listeners;
    pthread_mutex_unlock(&cluster->mutex);
}

/* ---- lane 0: rows that are removed */

enum gone { GONE_WITH_NODE, GONE_ELSEWHERE, GONE_STALE };

static int is_gone(const struct dli_cluster *cluster, const struct dli_channel *channel, enum gone reason, int which)
{
    switch (reason) {
    case GONE_WITH_NODE:
        return channel->node == which;
    case GONE_ELSEWHERE:
        return channel->node != dli_cluster_owner(cluster, channel->slot);
    default:
        return !channel->fresh;
    }
}

/* Remove these rows, and unsubscribe where their node is up. */
static struct dli_channel *take_gone(struct dli_cluster *cluster, enum gone reason, int which)
{
    struct dli_channel *taken = NULL;

    pthread_mutex_lock(&cluster->mutex);
    for (int i = 0; i < DLI_CHANNEL_ROWS; i++) {
        struct dli_channel **link = &cluster->channels[i], *channel;

        while ((channel = *link)) {
            if (!is_gone(cluster, channel, reason, which)) {
                link = &channel->next;
                continue;
            }
            send_change(cluster, channel, 0);
            *link = channel->next;
            channel->next = taken;
            taken = channel;
        }
    }
    pthread_mutex_unlock(&cluster->mutex);
    return taken;
}

static void notify_gone(struct dli_cluster *cluster, enum gone reason, int which)
{
    struct dli_store *store = &cluster->store;
    struct dli_channel *channel, *gone = take_gone(cluster, reason, which);

    while ((channel = gone)) {
        gone = channel->next;
        if (reason != GONE_STALE)
            dli_message_channel(store, channel->name, channel->size, store->hooks->unsubscribed);
        free(channel);
    }
}

/* ---- lane 0: up and down */

/* All listeners probe and subscribe again. Rows without a listener are then removed. */
static void notify_up(struct dli_cluster *cluster)
{
    struct dli_store *store = &cluster->store;

    pthread_mutex_lock(&cluster->mutex);
    for (int i = 0; i < DLI_CHANNEL_ROWS; i++)
        for (struct dli_channel *channel = cluster->channels[i]; channel; channel = channel->next)
            channel->fresh = 0;
    pthread_mutex_unlock(&cluster->mutex);
    cluster->line = LINE_UP;
    store->hooks->up(store->owner);
    notify_gone(cluster, GONE_STALE, 0);
}

/* Up: a node is subscribed and none is still connecting. A server without our subscription has no waiters of ours. */
static void settle(struct dli_cluster *cluster, int risen)
{
    struct dli_store *store = &cluster->store;
    int count[DLI_SUBSCRIPTION_DOWN + 1] = {0};

    for (int i = 0; i < cluster->nodes; i++)
        count[cluster->node[i]->subscription]++;
    if (count[DLI_SUBSCRIPTION_COMING] > 0 && cluster->line != LINE_UP)
        return;
    if (count[DLI_SUBSCRIPTION_UP] > 0 && (risen || cluster->line != LINE_UP)) {
        notify_up(cluster);
    } else if (count[DLI_SUBSCRIPTION_UP] + count[DLI_SUBSCRIPTION_COMING] == 0 && count[DLI_SUBSCRIPTION_DOWN] > 0 &&
               cluster->line != LINE_DOWN) {
        cluster->line = LINE_DOWN;
        store->hooks->down(store->owner);
    }
}

static void set(struct dli_node *node, int subscription)
{
    pthread_mutex_lock(&node->cluster->mutex);
    node->subscription = subscription;
    pthread_mutex_unlock(&node->cluster->mutex);
}

static void up(void *owner)
{
    struct dli_node *node = owner;

    set(node, DLI_SUBSCRIPTION_UP);
    settle(node->cluster, 1);
}

static void down(void *owner)
{
    struct dli_node *node = owner;

    set(node, DLI_SUBSCRIPTION_DOWN);
    dli_refresh_want(node->cluster);
    notify_gone(node->cluster, GONE_WITH_NODE, node->index);
    settle(node->cluster, 0);
}

static void heard(void *owner, const struct dli_ear *ear)
{
    const struct dli_store *store = &((struct dli_node *)owner)->cluster->store;

    store->hooks->heard(store->owner, dli_ear_space(ear), ear->space);
}

/* ---- lane 0: messages */

/*
 * Whether the node's confirmation counts: not that of the plain channel where both are used, nor that of a node which has no
 * say in another one's channel. mutex is held.
 */
static int counts(const struct dli_node *node, int sharded, const struct dli_channel *row)
{
    if (row && row->node != node->index && row->node != DLI_NOBODY)
        return 0;
    return sharded || dli_cluster_form(node->cluster, row && row->plain) != DLI_FORM_BOTH;
}

static void subscribed(void *owner, int sharded, const char *channel, size_t size)
{
    const struct dli_node *node = owner;
    struct dli_cluster *cluster = node->cluster;
    int counted;

    pthread_mutex_lock(&cluster->mutex);
    counted = counts(node, sharded, *find(cluster, channel, size));
    pthread_mutex_unlock(&cluster->mutex);
    if (counted)
        dli_message_channel(&cluster->store, channel, size, cluster->store.hooks->subscribed);
}

/* The subscription has ended: we ended it, or the slot moved. */
static void unsubscribed(void *owner, int sharded, const char *channel, size_t size)
{
    struct dli_node *node = owner;
    struct dli_cluster *cluster = node->cluster;
    struct dli_channel **link, *found;
    int counted;

    pthread_mutex_lock(&cluster->mutex);
    link = find(cluster, channel, size);
    found = *link;
    counted = counts(node, sharded, found);
    if (counted && found && found->node == node->index) {
        unsubscribe_rest(node, found);
        *link = found->next;
    } else {
        found = NULL;
    }
    pthread_mutex_unlock(&cluster->mutex);
    if (!counted)
        return;
    free(found);
    dli_message_channel(&cluster->store, channel, size, cluster->store.hooks->unsubscribed);
}

/*
 * A message on our own channel comes from every primary. That of the lock's owner counts, if we are subscribed there.
 */
static int is_copy(const struct dli_node *node, const char *text, size_t size)
{
    const struct dli_node *owner;
    struct dli_message message;

    if (dli_message_read(text, size, &message))
        return 0;
    owner = dli_node_owner(node->cluster, dli_slot_of(message.name, message.size));
    return owner && owner != node && owner->subscription == DLI_SUBSCRIPTION_UP;
}

static void message(void *owner, const char *channel, size_t channel_size, const char *text, size_t size)
{
    struct dli_node *node = owner;
    struct dli_cluster *cluster = node->cluster;
    const struct dli_ear *own = dli_ears_find(&cluster->ears, channel, channel_size);

    if (!own || !is_copy(node, text, size))
        dli_message_dispatch(&cluster->store, own, channel, channel_size, text, size);
}

/* The node does not have this slot: its channels are nowhere until the next refresh. */
static void detach_slot(struct dli_cluster *cluster, struct dli_node *node, int slot)
{
    pthread_mutex_lock(&cluster->mutex);
    for (int i = 0; i < DLI_CHANNEL_ROWS; i++) {
        for (struct dli_channel *channel = cluster->channels[i]; channel; channel = channel->next) {
            if (channel->slot != slot || channel->node != node->index)
                continue;
            unsubscribe_rest(node, channel);
            channel->node = DLI_NOBODY;
        }
    }
    pthread_mutex_unlock(&cluster->mutex);
}

/* SSUBSCRIBE was redirected: 1 keeps the connection. Servers that redirect to each other do so once per refresh. */
static int refused(void *owner, const struct dli_reply *error)
{
    struct dli_redirect redirect = dli_redirect_of(error);
    struct dli_node *node = owner;

    if (redirect.kind != DLI_REDIRECT_MOVED)
        return 0;
    detach_slot(node->cluster, node, redirect.slot);
    dli_refresh_moved(node->cluster, node, &redirect);
    return 1;
}

static const struct dli_subscriber_hooks hooks = {up, down, heard, subscribed, unsubscribed, message, refused};

int dli_subscriptions_init(struct dli_node *node, int wake_fd)
{
    struct dli_cluster *cluster = node->cluster;
    int failed = dli_subscriber_init(&node->subscriber, &node->config, &node->budget, &cluster->ears, wake_fd,
                                     cluster->patience);

    node->subscriber.hooks = &hooks;
    node->subscriber.owner = node;
    return failed;
}

/* Subscribe on the nodes of the map, and on no others. */
static void subscribe_on_nodes(struct dli_cluster *cluster)
{
    for (int i = 0; i < cluster->nodes; i++) {
        struct dli_node *node = cluster->node[i];

        if (node->listed && node->subscription == DLI_SUBSCRIPTION_OFF) {
            set(node, DLI_SUBSCRIPTION_COMING);
            dli_subscriber_want(&node->subscriber, 0);
        } else if (!node->listed && node->subscription != DLI_SUBSCRIPTION_OFF) {
            dli_subscriber_disconnect(&node->subscriber);
            set(node, DLI_SUBSCRIPTION_OFF);
            notify_gone(cluster, GONE_WITH_NODE, i);
            settle(cluster, 0);
        }
    }
}

void dli_subscriptions_step(struct dli_cluster *cluster, int64_t now)
{
    if (!__atomic_load_n(&cluster->wanted, __ATOMIC_ACQUIRE))
        return;
    subscribe_on_nodes(cluster);
    for (int i = 0; i < cluster->nodes; i++)
        if (cluster->node[i]->subscription != DLI_SUBSCRIPTION_OFF)
            dli_subscriber_step(&cluster->node[i]->subscriber, now);
}

void dli_subscriptions_remap(struct dli_cluster *cluster)
{
    notify_gone(cluster, GONE_ELSEWHERE, 0);
}

void dli_subscriptions_end(struct dli_cluster *cluster)
{
    for (int i = 0; i < DLI_CHANNEL_ROWS; i++) {
        struct dli_channel *channel;

        while ((channel = cluster->channels[i])) {
            cluster->channels[i] = channel->next;
            free(channel);
        }
    }
}
