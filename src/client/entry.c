/*
 * entry.c: one lock name in this process: its life, and doing what its machine wants. Mutexes: see core.h.
 */
#include "multi.h"
#include "waitlist.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

/* FNV-1a. The last step spreads what differs over the low bits. Of a kind without holds, owner and slot do not count. */
static uint64_t hash(const struct dli_slot *slot)
{
    const struct dli_entry *entry = DLI_OBJECT(slot, struct dli_entry, in_table);
    uint64_t x = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)entry->kind->id;

    for (size_t i = 0; i < entry->name.size; i++)
        x = (x ^ (unsigned char)entry->name.text[i]) * UINT64_C(0x100000001b3);
    if (entry->kind->per_owner)
        x = (x ^ (uint64_t)entry->owner) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)entry->slot;
    x = (x ^ x >> 32) * UINT64_C(0xff51afd7ed558ccd);
    return x ^ x >> 29;
}

static int same(const struct dli_slot *a, const struct dli_slot *b)
{
    const struct dli_entry *x = DLI_OBJECT(a, struct dli_entry, in_table);
    const struct dli_entry *y = DLI_OBJECT(b, struct dli_entry, in_table);

    return x->kind == y->kind && dli_name_compare(&x->name, &y->name) == 0 &&
           (!x->kind->per_owner || (x->owner == y->owner && x->slot == y->slot));
}

void dli_entry_table(struct dli_table *table)
{
    dli_table_init(table, hash, same);
}

void dli_entry_lock(struct dli_entry *entry)
{
    dli_short_lock(&entry->mutex);
}

/* What is left to do when entry.mutex has been released. */
struct left {
    struct dli_run *cut_off;
    uint32_t *woken;
    struct dli_entry *heir;
    struct dli_group *group;
    int promoted, due, surplus;
};

/* Release entry.mutex. A ref is left in surplus, or the caller has one. */
static void release(struct dli_entry *entry, struct left *left)
{
    *left = (struct left){.cut_off = entry->cut_off, .woken = entry->woken, .surplus = entry->surplus};
    if (entry->kind->per_owner) {
        left->heir = entry->heir;
        left->group = entry->promoting;
        left->promoted = entry->promoted;
        left->due = entry->due;
        entry->heir = NULL;
        entry->promoted = entry->due = 0;
    }
    entry->surplus = 0;
    entry->woken = NULL;
    entry->cut_off = NULL;
    dli_short_unlock(&entry->mutex);
}

/* Wake and tell. 1: waiters of the name are to be visited. */
static int tell(struct dli_entry *entry, const struct left *left)
{
    if (left->woken) /* the waiter may be freed: then nobody sleeps here, or a sleeper that checks again */
        dli_futex_wake(left->woken, -1);
    if (left->cut_off)
        dli_run_end(left->cut_off);
    if (!left->promoted && !left->due)
        return 0;
    dli_waitlist_due(entry->parent->waitlist, left->group, left->promoted, left->due);
    return 1;
}

static void drop(struct dli_entry *entry, int refs)
{
    while (refs-- > 0)
        dli_entry_unref(entry);
}

/* The heir has no heir: it has just got the grant. */
static int release_both(struct dli_entry *entry, struct left *left)
{
    struct left of_heir;
    int due;

    release(entry, left);
    if (!left->heir)
        return tell(entry, left);
    release(left->heir, &of_heir);
    due = tell(left->heir, &of_heir);
    due |= tell(entry, left);
    drop(left->heir, of_heir.surplus);
    return due;
}

int dli_entry_unlock_only(struct dli_entry *entry)
{
    struct left left;
    int due = release_both(entry, &left);

    drop(entry, left.surplus);
    return due;
}

void dli_entry_unlock(struct dli_entry *entry)
{
    struct left left;

    if (release_both(entry, &left))
        dli_waitlist_visit(entry->parent);
    drop(entry, left.surplus);
}

void dli_entry_ref(struct dli_entry *entry)
{
    __atomic_add_fetch(&entry->refs, 1, __ATOMIC_RELAXED);
}

static void entry_free(struct dli_entry *entry)
{
    const struct dli_store_ops *ops = entry->client->store->ops;

    ops->request_free(entry->m.active->request);
    if (!entry->parent && entry->place)
        ops->place_free(entry->place);
    if (entry->kind->per_owner) {
        dli_waitlist_free(entry->waitlist);
        free(entry->turns);
    }
    dli_active_fini(&entry->m);
    dli_short_fini(&entry->mutex);
    dli_entry_trim_aside(entry, 1);
    free(entry);
}

/*
 * Drop a ref; 1 when it was the last. The last one is dropped under client.mutex, so that nobody finds an entry that
 * is about to be freed.
 */
static int unref(struct dli_entry *entry)
{
    struct dli_client *client = entry->client;
    int32_t refs = __atomic_load_n(&entry->refs, __ATOMIC_RELAXED);

    while (refs > 1)
        if (__atomic_compare_exchange_n(&entry->refs, &refs, refs - 1, 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return 0;
    pthread_mutex_lock(&client->mutex);
    refs = __atomic_sub_fetch(&entry->refs, 1, __ATOMIC_ACQ_REL);
    if (refs == 0) {
        dli_table_remove(&client->table, &entry->in_table);
        dli_list_remove(&entry->link);
        if (entry->parent) {
            dli_list_remove(&entry->sibling);
            dli_subscription_leave(entry);
        }
        __atomic_sub_fetch(&client->entry_count, !entry->parent, __ATOMIC_RELAXED);
        if (!entry->parent)
            dli_share_put(entry->m.rules);
    }
    pthread_mutex_unlock(&client->mutex);
    return refs == 0;
}

/* Each slot has a ref on the one before it, so a chain of slots may end with its last one. */
void dli_entry_unref(struct dli_entry *entry)
{
    while (entry && unref(entry)) {
        struct dli_entry *parent = entry->parent, *before = parent ? entry->before : NULL;
        struct dli_client *client = entry->client;

        entry_free(entry);
        if (parent)
            dli_entry_unref(parent);
        dli_client_unref(client);
        entry = before;
    }
}

/* An entry of a kind without holds ends early: see core.h. */
static size_t size_of(const struct dli_kind *kind)
{
    return kind->per_owner ? sizeof(struct dli_entry) : DLI_ENTRY_SHORT;
}

/* An entry with one ref and no name, in no list yet, followed by extra bytes. NULL without memory. */
static struct dli_entry *entry_new(struct dli_client *client, const struct dli_kind *kind, size_t extra)
{
    struct dli_entry *entry = calloc(1, size_of(kind) + extra);

    if (!entry)
        return NULL;
    dli_short_init(&entry->mutex);
    dli_active_init(&entry->m);
    entry->loop = -1;
    entry->refs = 1;
    entry->client = client;
    entry->kind = kind;
    entry->timer_at = DLI_NEVER;
    entry->timer.sort = DLI_TIMER_ENTRY;
    dli_list_init(&entry->timer.link);
    dli_list_init(&entry->link);
    if (kind->per_owner) {
        dli_list_init(&entry->children);
        dli_list_init(&entry->sibling);
        dli_list_init(&entry->following);
    }
    return entry;
}

/* client.mutex held. */
static struct dli_entry *find(struct dli_client *client, const struct dli_entry *key)
{
    struct dli_slot *slot = dli_table_find(&client->table, &key->in_table);

    if (!slot)
        return NULL;
    dli_entry_ref(DLI_OBJECT(slot, struct dli_entry, in_table));
    return DLI_OBJECT(slot, struct dli_entry, in_table);
}

static struct dli_entry *find_locking(struct dli_client *client, const struct dli_entry *key)
{
    struct dli_entry *entry;

    pthread_mutex_lock(&client->mutex);
    entry = find(client, key);
    pthread_mutex_unlock(&client->mutex);
    return entry;
}

struct dli_entry *dli_entry_find(struct dli_client *client, int32_t family, const char *name, size_t size)
{
    struct dli_entry key = {.name = {name, (uint32_t)size, 0}, .kind = dli_kind_find(family)};

    return find_locking(client, &key);
}

struct dli_entry *dli_entry_find_child(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner,
                                       int64_t slot)
{
    struct dli_entry key = {.name = parent->name, .kind = kind, .owner = owner, .slot = slot};

    return find_locking(parent->client, &key);
}

/* client.mutex held: put the entry into the table and the lists, with a loop and a machine. 0, or -1 without memory. */
static int enlist(struct dli_client *client, struct dli_entry *entry)
{
    uint64_t which = entry->parent ? (uint64_t)(entry->owner + entry->slot) : 0, seed;

    if (dli_table_add(&client->table, &entry->in_table))
        return -1;
    entry->id = entry->parent ? entry->parent->id : __atomic_add_fetch(&client->ids, 1, __ATOMIC_RELAXED);
    seed = ((uint64_t)entry->id ^ which << 20) * UINT64_C(0x9e3779b97f4a7c15);
    if (client->loop_count)
        entry->loop = (int8_t)((entry->id + (entry->parent ? entry->slot : 0)) % client->loop_count);
    dli_mutex_init(&entry->m, entry->m.rules, seed ^ (uint64_t)dli_now());
    entry->m.closed = client->closed != 0;
    dli_list_append(&client->entries, &entry->link);
    if (entry->parent)
        dli_list_append(&entry->parent->children, &entry->sibling);
    __atomic_add_fetch(&client->entry_count, !entry->parent, __ATOMIC_RELAXED);
    if (client->table.count > client->most_entries)
        client->most_entries = client->table.count;
    dli_client_ref(client);
    return 0;
}

/* Give the entry a place in the store, which has a copy of the name. 0, or -1 without memory. */
static int place(struct dli_entry *entry, const struct dli_name *name)
{
    struct dli_store *store = entry->client->store;

    if (!(entry->place = store->ops->place_new(store, entry->kind, name->text, name->size)))
        return -1;
    if (store->ops->place_in)
        store->ops->place_in(entry->place, name->space);
    entry->name = (struct dli_name){store->ops->place_name(entry->place), name->size, name->space};
    return 0;
}

/* client.mutex held: a new entry of a name. NULL without memory. */
static struct dli_entry *make(struct dli_client *client, const struct dli_kind *kind, const struct dli_name *name,
                              const struct dli_mutex_rules *like)
{
    const struct dli_mutex_rules *rules = dli_share_get(&client->rules, like, sizeof *like);
    struct dli_entry *entry = rules ? entry_new(client, kind, 0) : NULL;

    if (!rules)
        return NULL;
    if (!entry)
        goto fail;
    entry->m.rules = rules;
    if ((kind->queued && !(entry->waitlist = dli_waitlist_new())) || place(entry, name) || enlist(client, entry))
        goto fail_entry;
    return entry;

fail_entry:
    entry_free(entry);
fail:
    dli_share_put(rules);
    return NULL;
}

struct dli_entry *dli_entry_get(struct dli_client *client, const struct dli_kind *kind, const struct dli_name *name,
                                const struct dli_mutex_rules *rules)
{
    const struct dli_kind *family = dli_kind_find(kind->family);
    struct dli_entry key = {.name = *name, .kind = family};
    struct dli_entry *entry;

    pthread_mutex_lock(&client->mutex);
    entry = find(client, &key);
    if (!entry)
        entry = make(client, family, name, rules);
    pthread_mutex_unlock(&client->mutex);
    if (entry)
        dli_entry_handle(entry, 1);
    return entry;
}

/* client.mutex held: a new hold of parent. NULL without memory. */
static struct dli_entry *make_child(struct dli_entry *parent, const struct dli_entry *key, struct dli_entry *before)
{
    struct dli_entry *entry = entry_new(parent->client, key->kind, sizeof *parent->m.rules);

    if (!entry)
        return NULL;
    entry->parent = parent;
    entry->m.rules = dli_entry_own_rules(entry);
    dli_hold_rules(dli_entry_own_rules(entry), parent, key->kind);
    entry->name = parent->name;
    entry->place = parent->place;
    entry->owner = key->owner;
    entry->slot = key->slot;
    if (enlist(parent->client, entry)) {
        entry_free(entry);
        return NULL;
    }
    dli_entry_ref(parent);
    if ((entry->before = before))
        dli_entry_ref(before);
    return entry;
}

struct dli_entry *dli_entry_child(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner, int64_t slot,
                                  struct dli_entry *before)
{
    struct dli_entry key = {.name = parent->name, .kind = kind, .owner = owner, .slot = slot};
    struct dli_client *client = parent->client;
    struct dli_entry *entry;

    pthread_mutex_lock(&client->mutex);
    entry = find(client, &key);
    if (!entry)
        entry = make_child(parent, &key, before);
    pthread_mutex_unlock(&client->mutex);
    return entry;
}

void dli_entry_owner(const struct dli_entry *entry, int64_t number, char out[DLI_OWNER_MAX])
{
    char uuid[DLI_UUID_SIZE];

    dli_uuid_in(uuid, entry->client->uuid, entry->name.space);
    dli_id(out, uuid, number);
}

void dli_entry_stop_timer(struct dli_entry *entry)
{
    if (entry->timer_at != DLI_NEVER && dli_entry_loop(entry) &&
        dli_loop_stop_timer(dli_entry_loop(entry), &entry->timer))
        entry->surplus++;
    entry->timer_at = DLI_NEVER;
}

static void set_timer(struct dli_entry *entry, int64_t now)
{
    int64_t at = dli_earlier(dli_mutex_alarm(&entry->m), dli_gate_alarm(entry));

    if (at >= entry->timer_at || !dli_entry_loop(entry))
        return;
    entry->timer_at = at;
    dli_entry_ref(entry);
    if (!dli_loop_set_timer(dli_entry_loop(entry), &entry->timer, at, now))
        entry->surplus++;
}

/*
 * Once the threads are told to stop, nobody comes back for anything that takes more time. A request on its way has an
 * answer, if only from the lane that is shut. Whoever gets the answer pumps the entry.
 */
static void leave_nothing(struct dli_entry *entry, int64_t now)
{
    if (!__atomic_load_n(&entry->client->closed, __ATOMIC_ACQUIRE) || !dli_entry_loop(entry) ||
        !__atomic_load_n(&dli_entry_loop(entry)->stop, __ATOMIC_ACQUIRE))
        return;
    dli_mutex_close(&entry->m, now);
    dli_waiter_deliver(entry, now);
}

void dli_entry_pump(struct dli_entry *entry, int64_t now)
{
    struct dli_client *client = entry->client;
    struct dli_wish wish;

    dli_waiter_deliver(entry, now);
    leave_nothing(entry, now);
    dli_waitlist_settle(entry, now);
    dli_line_follow(entry);
    if (dli_entry_loop(entry) &&
        dli_mutex_wish(&entry->m, __atomic_load_n(&client->line, __ATOMIC_ACQUIRE), now, &wish))
        dli_exchange_submit(entry, &wish, now);
    dli_waiter_deliver(entry, now);
    if (!entry->m.line.listen) /* the wish may have ended that: the last chance of an entry that is idle now */
        dli_line_follow(entry);
    set_timer(entry, now);
    dli_entry_trim_aside(entry, 0);
    dli_turns_settle(entry);
    dli_active_trim(&entry->m);
    if (!dli_mutex_idle(&entry->m))
        return;
    if (!dli_entry_handled(entry))
        dli_entry_retire(entry);
    else if (entry->parent) /* its owner may never come back, and a timer must not keep it */
        dli_entry_stop_timer(entry);
    if (__atomic_load_n(&client->closed, __ATOMIC_ACQUIRE))
        dli_client_progress(entry);
}
