/*
 * line.c: delivers the messages of the store to the machines. The hooks run on loop 0 with no mutex held; log runs on
 * any lane's thread.
 */
#include "waitlist.h"

#include <string.h>

#include "sys/sys.h"

void dli_line_follow(struct dli_entry *entry)
{
    struct dli_client *client = entry->client;
    struct dli_mutex *m = &entry->m;

    if (m->line.needed && m->waiters > 0)
        client->store->ops->want(client->store, entry->place);
    m->line.needed = 0;
    if (dli_entry_loop(entry))
        dli_gate_follow(entry);
    dli_subscription_follow(entry);
}

static void resubscribe(struct dli_entry *entry, int64_t now)
{
    dli_subscription_ended(entry, now);
    dli_mutex_probe(&entry->m, now);
}

static void up(void *owner)
{
    struct dli_client *client = owner;

    __atomic_add_fetch(&client->line_ups, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&client->line, DLI_LINE_READY, __ATOMIC_RELEASE);
    dli_client_each(client, resubscribe);
}

static void down(void *owner)
{
    struct dli_client *client = owner;

    __atomic_store_n(&client->line, DLI_LINE_BROKEN, __ATOMIC_RELEASE);
    dli_client_each(client, resubscribe);
}

/* Of its namespace nothing was heard before: also not of its gate. */
static void hear(struct dli_entry *entry, int64_t now)
{
    const struct dli_client *client = entry->client;

    if (entry->name.space != client->heard_size || memcmp(entry->name.text, client->heard, client->heard_size) != 0)
        return;
    entry->gate_query_ups = 0;
    dli_mutex_probe(&entry->m, now);
}

static void heard(void *owner, const char *space, size_t size)
{
    struct dli_client *client = owner;

    client->heard = space;
    client->heard_size = size;
    dli_client_each(client, hear);
}

/* The entry has its mutex held, and a ref to drop, afterwards. */
static void visit_locked(struct dli_entry *entry, dli_visit_fn *visit)
{
    int64_t now = dli_now();

    dli_entry_lock(entry);
    entry->surplus++;
    if (visit)
        visit(entry, now);
    dli_entry_pump(entry, now);
}

void dli_entry_visit(struct dli_entry *entry, dli_visit_fn *visit)
{
    visit_locked(entry, visit);
    dli_entry_unlock(entry);
}

int dli_entry_visit_only(struct dli_entry *entry, dli_visit_fn *visit)
{
    visit_locked(entry, visit);
    return dli_entry_unlock_only(entry);
}

/* Visit the holds of a name and its entry. Drops the entry's ref. */
static void visit_holds(struct dli_entry *entry, dli_visit_fn *visit)
{
    if (entry->kind->per_owner)
        dli_hold_each(entry, visit);
    dli_entry_visit(entry, visit);
}

/* The entry that a message with a grant number is for, with a ref. NULL: it is not in this process. */
static struct dli_entry *find_target(struct dli_client *client, const struct dli_message_target *target)
{
    struct dli_entry *entry = dli_entry_find(client, target->family, target->name, target->size), *hold;

    if (!entry || !entry->kind->per_owner)
        return entry;
    hold = dli_hold_of_number(entry, target->number);
    dli_entry_unref(entry);
    return hold;
}

/* Visit every entry that a message is for. */
static void visit_target(struct dli_client *client, const struct dli_message_target *target, dli_visit_fn *visit)
{
    struct dli_entry *entry;

    if (target->number)
        entry = find_target(client, target);
    else
        entry = dli_entry_find(client, target->family, target->name, target->size);
    if (!entry)
        return;
    if (target->number)
        dli_entry_visit(entry, visit);
    else
        visit_holds(entry, visit);
}

/* Visit every entry that a message about a subscription is for. */
static void visit_subscription(struct dli_client *client, const struct dli_message_target *target, dli_visit_fn *visit)
{
    struct dli_entry *entry;

    if (target->number)
        visit_target(client, target, visit);
    else if ((entry = dli_entry_find(client, target->family, target->name, target->size)))
        dli_subscription_visit(entry, visit);
}

static void subscribed(void *owner, const struct dli_message_target *target)
{
    visit_subscription(owner, target, dli_subscription_begun);
}

/* Two locks may share a channel. An entry that still wants the subscription subscribes again when it is pumped. */
static void unsubscribed(void *owner, const struct dli_message_target *target)
{
    visit_subscription(owner, target, dli_subscription_ended);
}

/* The lock may be free; or a hold is lost, which its next renewal tells. */
static void probe(struct dli_entry *entry, int64_t now)
{
    dli_mutex_hint(&entry->m, now);
}

/* The lock may be free, or a permit. Waiters that are parked need not know. */
static void hint(void *owner, const struct dli_message_target *target)
{
    struct dli_entry *entry = dli_entry_find(owner, target->family, target->name, target->size);

    if (!entry || !entry->kind->queued || target->number) {
        if (entry)
            dli_entry_unref(entry);
        visit_target(owner, target, probe);
        return;
    }
    dli_waitlist_recheck(entry);
    dli_entry_unref(entry);
}

/* Nobody looks through all holds of a name for a number that anybody may have sent. */
static void rumour(void *owner, const struct dli_message_target *target)
{
    struct dli_entry *entry = dli_entry_find(owner, target->family, target->name, target->size), *hold;

    if (!entry)
        return;
    hold = entry->kind->per_owner ? dli_hold_in_line(entry, target->number) : NULL;
    if (hold)
        dli_entry_visit(hold, probe);
    else if (!entry->kind->per_owner)
        dli_entry_visit(entry, probe);
    if (entry->kind->per_owner)
        dli_entry_unref(entry);
}

/* entry.mutex held. */
static void take_grant(struct dli_entry *entry, int64_t number, const struct dli_pushed *grant, int64_t now)
{
    dli_mutex_pushed(&entry->m, number, grant->seq, grant->token, grant->tokens, now);
    if (!dli_mutex_owned(&entry->m))
        return;
    dli_client_count(entry->client, DLOCK_STAT_PUSHED_GRANTS, 1);
    if (!entry->parent || !entry->parent->waitlist)
        return;
    dli_waitlist_keep_tokens(entry);
    dli_turns_begin(entry, &grant->next);
}

/*
 * A grant whose number nobody here waits for any more: it had the lock in memory, and the server did not hear of that
 * before the lock was free there. The entry of the name gives it back. Entries of mutexes see to that themselves.
 */
static void give_back(struct dli_client *client, const struct dli_message_target *target, int64_t now)
{
    struct dli_entry *entry = dli_entry_find(client, target->family, target->name, target->size);

    if (!entry)
        return;
    dli_entry_lock(entry);
    entry->surplus++;
    dli_mutex_give_back(&entry->m, target->number, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

static void granted(void *owner, const struct dli_message_target *target, const struct dli_pushed *grant)
{
    struct dli_client *client = owner;
    struct dli_entry *entry = find_target(client, target);
    int64_t now = dli_now();

    if (!entry) {
        give_back(client, target, now);
        return;
    }
    dli_entry_lock(entry);
    entry->surplus++;
    if (!dli_mutex_owned(&entry->m))
        take_grant(entry, target->number, grant, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

static void note_gate(struct dli_entry *entry, int64_t now)
{
    dli_gate_note(entry, entry->client->gate_until, now);
}

static void gate(void *owner, const struct dli_message_target *target, int64_t ms)
{
    struct dli_client *client = owner;
    struct dli_entry *entry;

    if (ms < 0 && (entry = dli_entry_find(client, target->family, target->name, target->size))) {
        dli_entry_visit(entry, dli_gate_doubt);
    } else if (ms >= 0) {
        client->gate_until = ms > 0 ? dli_after_ms(dli_now(), ms) : 0;
        visit_target(client, target, note_gate);
    }
}

static void renew_now(struct dli_entry *entry, int64_t now)
{
    const struct dli_client *client = entry->client;
    struct dli_mutex *m = &entry->m;
    int64_t lasts = dli_later(m->grant.lease, m->rules->delay);

    if (dli_mutex_owned(m) && lasts > client->lapsed[0] && lasts <= client->lapsed[1])
        m->renewing.at = now;
}

static void lapsed(void *owner, int64_t least, int64_t most)
{
    struct dli_client *client = owner;

    client->lapsed[0] = least;
    client->lapsed[1] = most;
    dli_client_each(client, renew_now);
}

static void note(void *owner, dlock_status status, const char *text)
{
    struct dli_client *client = owner;

    dli_events_log(&client->events, status, text);
}

const struct dli_store_hooks dli_line_hooks = {up,     down,    heard, subscribed, unsubscribed, hint,
                                               rumour, granted, gate,  lapsed,     note};
