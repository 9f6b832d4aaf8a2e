/*
 * pass.c: hand-over in memory for the kinds in which every hold has a machine of its own. A release moves the grant to the
 * hold of the next waiter of the group. The server does not hear of it: the grant keeps its number. See waitlist.c.
 *
 * A fair lock has a line on the server. A grant names those that come next in it, as far as they are of this process. They
 * are served in that order and no other. The release names those that were served, and they leave the line.
 *
 * Two entry mutexes are held at a time: that of the releasing hold, and that of its heir. The heir's is only ever tried,
 * so nobody waits for a mutex in the wrong order. A waiter whose mutex is taken is passed over.
 */
#include "waitlist.h"

#include <stdlib.h>

enum { TRIED = 4 };

/* The next link of the lists active and parked of the group in order of arrival; parked's end behind the last. */
static struct dli_link *earlier(const struct dli_group *group, struct dli_link *active, struct dli_link *parked)
{
    if (active == &group->active)
        return parked;
    if (parked == &group->parked)
        return active;
    return dli_waiting_of(active)->arrival < dli_waiting_of(parked)->arrival ? active : parked;
}

/* waitlist.mutex held: the entry of the first of the group that can take from's grant, with its mutex. NULL: none can. */
static struct dli_entry *heir_in(const struct dli_group *group, const struct dli_entry *from, int64_t now)
{
    struct dli_link *active = group->active.next, *parked = group->parked.next;

    for (int tried = 0; tried < TRIED; tried++) {
        struct dli_link *link = earlier(group, active, parked);
        struct dli_entry *entry;

        if (link == &group->parked)
            return NULL;
        *(link == active ? &active : &parked) = link->next;
        entry = dli_waiting_of(link)->entry;
        if (!dli_short_trylock(&entry->mutex))
            continue;
        if (dli_mutex_may_receive(&entry->m, &from->m, now))
            return entry;
        dli_short_unlock(&entry->mutex);
    }
    return NULL;
}

/* The same for a fair lock: the one that the server has named, or NULL. */
static struct dli_entry *named_heir(const struct dli_waitlist *list, const struct dli_entry *from, int64_t now)
{
    const struct dli_turns *turns = from->turns;
    int64_t number = turns && turns->served < turns->next.count ? turns->next.number[turns->served] : 0;
    struct dli_entry *entry = number ? dli_waitlist_numbered(list, number) : NULL;

    if (!entry || !dli_short_trylock(&entry->mutex))
        return NULL;
    if (entry->m.want.number == number && dli_mutex_may_receive(&entry->m, &from->m, now))
        return entry;
    dli_short_unlock(&entry->mutex);
    return NULL;
}

/* The heir of entry's grant, with a ref and its mutex, and its token. NULL: there is none. */
static struct dli_entry *find_heir(struct dli_entry *entry, int64_t now, int64_t *token)
{
    struct dli_waitlist *list = entry->parent->waitlist;
    struct dli_entry *heir = NULL;
    struct dli_group *group;

    pthread_mutex_lock(&list->mutex);
    if ((group = dli_group_of(list, entry)) &&
        dli_spare_left(&list->spare, __atomic_load_n(entry->m.rules->highest, __ATOMIC_RELAXED)))
        heir = entry->kind->own_channel ? named_heir(list, entry, now) : heir_in(group, entry, now);
    if (heir) {
        *token = dli_spare_take(&list->spare);
        dli_entry_ref(heir);
    }
    pthread_mutex_unlock(&list->mutex);
    return heir;
}

static void move_turns(struct dli_entry *entry, struct dli_entry *heir)
{
    if (!entry->turns)
        return;
    free(heir->turns);
    heir->turns = entry->turns;
    heir->turns->served++;
    entry->turns = NULL;
}

/* 1: the grant has moved. */
static int pass(struct dli_entry *entry, int64_t now)
{
    int64_t token = 0;
    struct dli_entry *heir = find_heir(entry, now, &token);

    if (!heir)
        return 0;
    heir->surplus++;
    __atomic_store_n(&heir->wanted, entry->m.want.number, __ATOMIC_RELAXED);
    __atomic_store_n(&entry->wanted, 0, __ATOMIC_RELAXED);
    dli_mutex_pass(&entry->m, &heir->m, token, now);
    move_turns(entry, heir);
    dli_entry_pump(heir, now);
    entry->heir = heir;
    return 1;
}

/*
 * The turn of this process ends although somebody waits here. Where waiters do not stand in line, they hold back then, so
 * that other processes can have permits: if there are any, which the answer to the release tells, for as long as this turn
 * took.
 */
static void yield(struct dli_entry *entry, int64_t now)
{
    struct dli_waitlist *list = entry->parent->waitlist;
    struct dli_group *group;

    if (entry->m.rules->called)
        return;
    pthread_mutex_lock(&list->mutex);
    if ((group = dli_group_of(list, entry)) && !group->free &&
        !(dli_list_empty(&group->active) && dli_list_empty(&group->parked))) {
        group->turn = dli_earlier(now - entry->m.handover.since, entry->m.rules->handover_time);
        group->yield_until = now + entry->m.rules->handover_time;
    }
    pthread_mutex_unlock(&list->mutex);
}

void dli_turn_ended(struct dli_entry *entry, const struct dli_answer *answer, int64_t now)
{
    struct dli_waitlist *list = entry->parent ? entry->parent->waitlist : NULL;
    struct dli_group *group;

    if (!list || !entry->m.active->request->exchange.wish.drop)
        return;
    if (entry->m.rules->called) { /* the next one joins the line, or is the first there */
        entry->due |= DLI_DUE_PROBE;
        return;
    }
    pthread_mutex_lock(&list->mutex);
    if ((group = dli_group_of(list, entry)) && group->yield_until) {
        group->yield_until = answer->others > 0 ? now + group->turn : 0;
        entry->due |= DLI_DUE_PROBE;
    }
    pthread_mutex_unlock(&list->mutex);
}

static dlock_status release(struct dli_entry *entry, int64_t owner, int64_t now, int64_t until, int may_send,
                            struct dli_claim **settled)
{
    struct dli_claim *holder;

    if (!entry->parent || !entry->kind->handed)
        return dli_mutex_release(&entry->m, owner, now, until, may_send, settled);
    dli_mutex_tick(&entry->m, now);
    holder = entry->m.holder;
    if (dli_mutex_may_pass(&entry->m, owner, now) && entry->shared != entry->m.want.number && pass(entry, now)) {
        *settled = holder;
        return DLOCK_OK;
    }
    if (may_send && holder && holder->owner == owner && holder->count == 1)
        yield(entry, now);
    return dli_mutex_release(&entry->m, owner, now, until, may_send, settled);
}

dlock_status dli_hold_release(struct dli_entry *entry, int64_t owner, int64_t now, int64_t until, int may_send,
                              struct dli_claim **settled)
{
    dlock_status status = release(entry, owner, now, until, may_send, settled);

    if (*settled && status != DLOCK_LOST) /* a lost hold was measured when it was lost */
        dli_metrics_hold(&entry->client->metrics, now - (*settled)->held_since,
                         (*settled)->state == DLI_CLAIM_LEAVING ? entry->m.turns : -1);
    return status;
}

/* ---- turns of a fair lock */

static struct dli_waiting *of_slot(const struct dli_slot *slot)
{
    return DLI_OBJECT(slot, struct dli_waiting, numbered);
}

/* Numbers follow one another, so they spread by themselves. */
static uint64_t hash(const struct dli_slot *slot)
{
    return (uint64_t)of_slot(slot)->number;
}

static int same(const struct dli_slot *a, const struct dli_slot *b)
{
    return of_slot(a)->number == of_slot(b)->number;
}

void dli_waitlist_numbers(struct dli_table *table)
{
    dli_table_init(table, hash, same);
}

void dli_waitlist_number(struct dli_waitlist *list, struct dli_waiting *member, int64_t want)
{
    if (member->number == want)
        return;
    if (member->number)
        dli_table_remove(&list->numbers, &member->numbered);
    member->number = want;
    if (want && dli_table_add(&list->numbers, &member->numbered))
        member->number = 0;
}

struct dli_entry *dli_waitlist_numbered(const struct dli_waitlist *list, int64_t number)
{
    const struct dli_waiting key = {.number = number};
    struct dli_slot *found = dli_table_find(&list->numbers, &key.numbered);

    return found ? of_slot(found)->entry : NULL;
}

void dli_turns_begin(struct dli_entry *entry, const struct dli_next *next)
{
    if (next->count && !entry->turns && (entry->turns = malloc(sizeof *entry->turns)))
        *entry->turns = (struct dli_turns){.number = entry->m.want.number, .next = *next};
}

static int others_in(const struct dli_link *list, const struct dli_link *own)
{
    return list->next != list && !(own && list->next == own && own->next == list);
}

/* Whether others of this process go on waiting for the same. If so, and entry asks for nothing itself, number is noted. */
static int others_wait(const struct dli_entry *entry, int64_t number, int asks)
{
    struct dli_waitlist *list = entry->parent->waitlist;
    const struct dli_link *own = entry->member ? &entry->member->link : NULL;
    struct dli_group *group;
    int wait = 0;

    pthread_mutex_lock(&list->mutex);
    if ((group = dli_group_of(list, entry)))
        wait = others_in(&group->active, own) || others_in(&group->parked, own);
    if (wait && !asks)
        group->stays = number;
    pthread_mutex_unlock(&list->mutex);
    return wait;
}

void dli_turns_tell(const struct dli_entry *entry, struct dli_exchange *exchange)
{
    const struct dli_turns *turns = entry->turns;

    exchange->stays = entry->m.rules->called && exchange->wish.drop && !entry->m.closed &&
                      others_wait(entry, exchange->wish.drop, exchange->wish.want != 0);
    if (!turns || exchange->wish.drop != turns->number)
        return;
    exchange->served = turns->next;
    exchange->served.count = turns->served;
}

void dli_turns_settle(struct dli_entry *entry)
{
    const struct dli_turns *turns = entry->parent ? entry->turns : NULL;

    if (!turns || turns->number == entry->m.want.number || turns->number == entry->m.active->drop.number)
        return;
    free(entry->turns);
    entry->turns = NULL;
}
