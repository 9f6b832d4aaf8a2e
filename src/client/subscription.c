/*
 * subscription.c: the subscriptions of machines to the channels of their locks. The holds of a name share one: the first
 * that follows it begins it, the last one ends it. Each waiter of a fair lock has one of its own.
 *
 * A message about a shared subscription concerns only its followers: the holds that follow it, or still hear it. The
 * waitlist of the name has them in a list, so nobody looks through all holds. waitlist.mutex guards the list. A hold
 * joins or leaves it with its own mutex held, or when it has no ref any more.
 */
#include "waitlist.h"

#include "sys/sys.h"

enum { ROUND = 64 };

/* entry.mutex held: the subscription that the entry uses, alone or with the other holds of the name. NULL: it has none yet. */
static struct dli_subscription *subscription_of(struct dli_entry *entry)
{
    if (!entry->kind->per_owner)
        return entry->aside ? &entry->aside->subscription : NULL;
    return entry->parent && !entry->kind->own_channel ? &entry->parent->subscription : &entry->subscription;
}

/* entry.mutex held: the entry has a subscription to use from now on. 0; -1 without memory. */
static int make_subscription(struct dli_entry *entry)
{
    return subscription_of(entry) || dli_entry_aside(entry) ? 0 : -1;
}

/* ---- followers */

/* The waitlist that lists the entry when it is a follower. NULL: it is not listed. */
static struct dli_waitlist *list_of(const struct dli_entry *entry)
{
    return entry->kind->per_owner && entry->parent && !entry->kind->own_channel ? entry->parent->waitlist : NULL;
}

static void set_follower(struct dli_entry *entry, int on)
{
    struct dli_waitlist *list = list_of(entry);

    if (!list || entry->follower == on)
        return;
    pthread_mutex_lock(&list->mutex);
    if (on)
        dli_list_append(&list->followers, &entry->following);
    else
        dli_list_remove(&entry->following);
    list->follower_count += on ? 1 : -1;
    entry->follower = (int8_t)on;
    pthread_mutex_unlock(&list->mutex);
}

/* entry.mutex held: the flags have changed. */
static void note_flags(struct dli_entry *entry)
{
    set_follower(entry, entry->m.line.follows || entry->m.line.listening);
}

void dli_subscription_leave(struct dli_entry *entry)
{
    if (entry->kind->per_owner)
        set_follower(entry, 0);
}

/* Up to count of the followers, each with a ref. They go to the end of the list, so those come first that were not here yet. */
static int next_followers(struct dli_entry *parent, int64_t count, struct dli_entry *out[ROUND])
{
    struct dli_waitlist *list = parent->waitlist;
    int found = 0;

    pthread_mutex_lock(&parent->client->mutex); /* no ref is the last one meanwhile */
    pthread_mutex_lock(&list->mutex);
    while (found < count && found < ROUND && !dli_list_empty(&list->followers)) {
        struct dli_link *link = dli_list_pop(&list->followers);

        dli_list_append(&list->followers, link);
        dli_entry_ref(out[found++] = DLI_OBJECT(link, struct dli_entry, following));
    }
    pthread_mutex_unlock(&list->mutex);
    pthread_mutex_unlock(&parent->client->mutex);
    return found;
}

static int64_t count_followers(struct dli_waitlist *list)
{
    int64_t count;

    pthread_mutex_lock(&list->mutex);
    count = list->follower_count;
    pthread_mutex_unlock(&list->mutex);
    return count;
}

/* One that joins meanwhile need not be visited: it sees what the parent knows by now. */
static void each_follower(struct dli_entry *parent, dli_visit_fn *visit)
{
    int64_t left = count_followers(parent->waitlist);
    struct dli_entry *some[ROUND];
    int found;

    do {
        found = next_followers(parent, left, some);
        for (int i = 0; i < found; i++)
            dli_entry_visit(some[i], visit);
        left -= found;
    } while (found > 0);
}

void dli_subscription_visit(struct dli_entry *entry, dli_visit_fn *visit)
{
    dli_entry_ref(entry);
    dli_entry_visit(entry, visit);
    if (entry->kind->per_owner && entry->waitlist && !entry->kind->own_channel)
        each_follower(entry, visit);
    else if (entry->kind->per_owner)
        dli_hold_each(entry, visit);
    dli_entry_unref(entry);
}

/* ---- entry.mutex held */

/* Begin or end the subscription. */
static void subscribe(struct dli_entry *entry, int on)
{
    struct dli_store *store = entry->client->store;
    char owner[DLI_OWNER_MAX] = "";

    if (entry->kind->own_channel) {
        entry->followed = on ? entry->m.want.number : entry->followed;
        dli_entry_owner(entry, entry->followed, owner);
    }
    store->ops->subscribe(store, entry->kind, entry->place, owner, on, &subscription_of(entry)->listeners);
}

/*
 * The subscription may exist already, for other holds. When it began after the last exchange was sent, a message in
 * between was missed: probe again. The entry is a follower before it looks.
 */
static void join(struct dli_entry *entry)
{
    int64_t since = __atomic_load_n(&subscription_of(entry)->since, __ATOMIC_ACQUIRE);

    if (!since)
        return;
    entry->m.line.listening = 1;
    if (since >= entry->m.active->sent.stamp)
        dli_mutex_probe(&entry->m, dli_now());
}

void dli_subscription_follow(struct dli_entry *entry)
{
    struct dli_mutex *m = &entry->m;

    if (m->line.listen == m->line.follows ||
        __atomic_load_n(&entry->client->line, __ATOMIC_ACQUIRE) != DLI_LINE_READY || make_subscription(entry))
        return;
    m->line.follows = m->line.listen;
    note_flags(entry);
    subscribe(entry, m->line.listen);
    if (m->line.listen)
        join(entry);
}

void dli_subscription_begun(struct dli_entry *entry, int64_t now)
{
    if (make_subscription(entry))
        return;
    __atomic_store_n(&subscription_of(entry)->since, now, __ATOMIC_RELEASE);
    if (entry->m.line.listen) {
        entry->m.line.listening = 1;
        note_flags(entry);
        dli_mutex_probe(&entry->m, now);
    }
}

void dli_subscription_ended(struct dli_entry *entry, int64_t now)
{
    struct dli_store *store = entry->client->store;
    struct dli_subscription *subscription = subscription_of(entry);

    (void)now;
    if (entry->m.line.follows)
        store->ops->forget(store, &subscription->listeners);
    if (subscription)
        __atomic_store_n(&subscription->since, 0, __ATOMIC_RELEASE);
    entry->m.line.follows = entry->m.line.listening = 0;
    note_flags(entry);
}
