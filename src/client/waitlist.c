/*
 * waitlist.c: which waiters of a name ask the server, for the kinds in which every hold has a machine of its own. On the
 * server their process has one place in line, or none. Waiters that ask for the same (kind and permits) form a group. If the first of them cannot be
 * served, no other can. So the first asks, and the others are parked: they send nothing. Behind a grant as many go on as
 * permits are left; all readers do. When nothing is left, the next one waits for a message before it asks. So the cost
 * of a grant does not grow with the waiters. The waiters of a fair lock all ask: each has a place in a line on the server.
 *
 * waitlist.mutex guards the groups, their lists and their members. It is taken under entry.mutex of a hold, and nothing
 * is taken under it. A hold follows its member's state when its own mutex is held: dli_waitlist_settle.
 */
#include "waitlist.h"

#include <limits.h>
#include <stdlib.h>

#include "sys/sys.h"

enum { ROUND = 64 };

struct dli_waitlist *dli_waitlist_new(void)
{
    struct dli_waitlist *list = calloc(1, sizeof *list);

    if (list && pthread_mutex_init(&list->mutex, NULL)) {
        free(list);
        return NULL;
    }
    if (list) {
        dli_waitlist_numbers(&list->numbers);
        dli_list_init(&list->followers);
    }
    return list;
}

void dli_waitlist_free(struct dli_waitlist *list)
{
    if (!list)
        return;
    while (list->groups) {
        struct dli_group *group = list->groups;

        list->groups = group->next;
        free(group);
    }
    pthread_mutex_destroy(&list->mutex);
    free(list);
}

/* ---- under waitlist.mutex */

/* A reader under its own write hold waits for nobody. A waiter of a fair lock has a place of its own on the server. */
static int free_for_all(const struct dli_entry *entry)
{
    return entry->under != 0 || entry->kind->own_channel;
}

struct dli_group *dli_group_of(const struct dli_waitlist *list, const struct dli_entry *entry)
{
    struct dli_group *group = list->groups;

    while (group && (group->kind != entry->kind->id || group->permits != entry->m.rules->permits ||
                     group->free != free_for_all(entry)))
        group = group->next;
    return group;
}

/* The same; a new one, when there is none. NULL without memory. */
static struct dli_group *group_for(struct dli_waitlist *list, const struct dli_entry *entry)
{
    struct dli_group *group = dli_group_of(list, entry);

    if (group || !(group = calloc(1, sizeof *group)))
        return group;
    group->kind = entry->kind->id;
    group->permits = entry->m.rules->permits;
    group->free = free_for_all(entry);
    group->nothing = -1;
    dli_list_init(&group->active);
    dli_list_init(&group->parked);
    group->next = list->groups;
    list->groups = group;
    return group;
}

static int nothing_left(const struct dli_group *group)
{
    return group->nothing == group->messages;
}

/* Put the member into its list. Most come last. */
static void insert(struct dli_link *list, struct dli_waiting *member)
{
    struct dli_link *at = list;

    if (list->next != list && dli_waiting_of(list->next)->arrival > member->arrival)
        at = list->next;
    else
        while (at->prev != list && dli_waiting_of(at->prev)->arrival > member->arrival)
            at = at->prev;
    dli_list_append(at, &member->link);
}

static void set_parked(struct dli_waiting *member, int parked)
{
    struct dli_group *group = member->group;

    dli_list_remove(&member->link);
    member->parked = parked;
    insert(parked ? &group->parked : &group->active, member);
}

static int is_first(const struct dli_waiting *member)
{
    const struct dli_group *group = member->group;

    return group->active.next == &member->link &&
           (dli_list_empty(&group->parked) || member->arrival < dli_waiting_of(group->parked.next)->arrival);
}

/* ---- entry.mutex of the hold held */

/* So many of the group may ask from now on. They are told when the mutex of the hold is released. */
static void promote(struct dli_entry *entry, struct dli_group *group, int count)
{
    if (count <= entry->promoted)
        return;
    entry->promoting = group;
    entry->promoted = count;
}

/* Somebody asks for the group, and nothing is left, or others came before. */
static int must_park(const struct dli_group *group)
{
    return !group->free &&
           (!dli_list_empty(&group->parked) || (!dli_list_empty(&group->active) && nothing_left(group)));
}

static void join(struct dli_waitlist *list, struct dli_entry *entry)
{
    struct dli_waiting *member = calloc(1, sizeof *member);
    struct dli_group *group;

    pthread_mutex_lock(&list->mutex);
    if (!member || !(group = group_for(list, entry))) {
        entry->stranger = 1;
        list->strangers++;
        pthread_mutex_unlock(&list->mutex);
        free(member);
        return;
    }
    member->group = group;
    member->entry = entry;
    member->arrival = ++list->arrivals;
    dli_list_init(&member->link);
    set_parked(member, must_park(group));
    entry->member = member;
    pthread_mutex_unlock(&list->mutex);
}

/* As of the member's last request nothing is left. It may be worth to ask again in left us; -1: not without a message. */
static int64_t note_nothing(struct dli_waiting *member, int64_t left, int64_t now)
{
    member->group->nothing = member->heard;
    member->group->again_at = left < 0 ? DLI_NEVER : now + left;
    return 0;
}

/* What the answer to the member's request says about those behind it: how many may go on at once. */
static int64_t learn(struct dli_waiting *member, const struct dli_exchange *exchange, int64_t now)
{
    const struct dli_answer *answer = &exchange->answer;
    const struct dli_group *group = member->group;
    int64_t each = group->permits > 0 ? group->permits : 1;

    if (answer->got == DLI_TRY_HELD)
        return note_nothing(member, answer->left, now);
    if (answer->got != DLI_TRY_GRANTED)
        return 1;
    if (group->kind == DLOCK_KIND_READ)
        return INT64_MAX;
    if (group->kind == DLOCK_KIND_WRITE)
        return note_nothing(member, exchange->wish.lease, now);
    if (answer->more >= 0 && answer->more < each)
        return note_nothing(member, answer->left, now);
    return answer->more < 0 ? 1 : answer->more / each;
}

/* An active member has left: so many go on, and one at least stands for the others. */
static void pass_on(struct dli_entry *entry, struct dli_group *group, int64_t count)
{
    if (count == 0 && dli_list_empty(&group->active))
        count = 1;
    if (!dli_list_empty(&group->parked))
        promote(entry, group, count < INT_MAX ? (int)count : INT_MAX);
}

static void leave(struct dli_waitlist *list, struct dli_entry *entry, int64_t count)
{
    struct dli_waiting *member = entry->member;

    pthread_mutex_lock(&list->mutex);
    dli_list_remove(&member->link);
    dli_waitlist_number(list, member, 0);
    if (!member->parked && entry->m.rules->called && !dli_mutex_owned(&entry->m))
        member->group->nothing = -1; /* the next one takes its place in line, and hears what it has heard */
    if (!member->parked)
        pass_on(entry, member->group, count);
    entry->member = NULL;
    pthread_mutex_unlock(&list->mutex);
    free(member);
}

static void stranger_leaves(struct dli_waitlist *list, struct dli_entry *entry)
{
    pthread_mutex_lock(&list->mutex);
    list->strangers--;
    pthread_mutex_unlock(&list->mutex);
    entry->stranger = 0;
}

void dli_waitlist_settle(struct dli_entry *entry, int64_t now)
{
    struct dli_waitlist *list = entry->parent ? entry->parent->waitlist : NULL;
    int64_t ask_at;
    int waits, parked;

    if (!list)
        return;
    waits = dli_mutex_waits(&entry->m);
    if (!waits && entry->stranger)
        stranger_leaves(list, entry);
    if (!waits && entry->member)
        leave(list, entry, entry->behind);
    entry->behind = 0;
    if (waits && !entry->member && !entry->stranger)
        join(list, entry);
    if (!entry->member) {
        dli_mutex_park(&entry->m, 0, now, now);
        return;
    }
    pthread_mutex_lock(&list->mutex);
    parked = entry->member->parked;
    ask_at = entry->member->ask_at;
    pthread_mutex_unlock(&list->mutex);
    dli_mutex_park(&entry->m, parked, ask_at, now);
}

/* The member was not served. Unless it is the first, somebody else asks for it from now on. */
static void hold_back(struct dli_entry *entry)
{
    struct dli_waiting *member = entry->member;
    struct dli_group *group = member->group;

    if (group->free || member->parked || is_first(member))
        return;
    set_parked(member, 1);
    pass_on(entry, group, 0);
}

void dli_waitlist_keep_tokens(const struct dli_entry *entry)
{
    struct dli_waitlist *list = entry->parent->waitlist;

    pthread_mutex_lock(&list->mutex);
    dli_spare_keep(&list->spare, &entry->m.tokens);
    pthread_mutex_unlock(&list->mutex);
}

void dli_waitlist_sent(struct dli_entry *entry, int64_t want)
{
    struct dli_waiting *member = entry->member;

    if (!member)
        return;
    pthread_mutex_lock(&entry->parent->waitlist->mutex);
    if (entry->kind->own_channel && want)
        dli_waitlist_number(entry->parent->waitlist, member, want);
    member->heard = member->group->messages;
    pthread_mutex_unlock(&entry->parent->waitlist->mutex);
}

void dli_waitlist_answered(struct dli_entry *entry, const struct dli_answer *answer, int64_t now)
{
    const struct dli_request *request = entry->m.active->request; /* NULL: there was no memory for it */
    struct dli_waiting *member = entry->member;

    if (member) {
        pthread_mutex_lock(&entry->parent->waitlist->mutex);
        if (answer->status != DLOCK_OK) {
            member->group->nothing = -1;
            pass_on(entry, member->group, INT64_MAX); /* everybody shall learn of it */
        } else if (request->exchange.wish.want) {
            entry->behind = learn(member, &request->exchange, now);
            if (dli_mutex_waits(&entry->m))
                hold_back(entry);
        }
        pthread_mutex_unlock(&entry->parent->waitlist->mutex);
    }
    if (entry->m.rules->passes && dli_mutex_owned(&entry->m) && answer->got == DLI_TRY_GRANTED &&
        request->exchange.wish.want == entry->m.want.number)
        dli_waitlist_keep_tokens(entry);
    dli_waitlist_settle(entry, now);
}

/* ---- without a mutex */

/* Up to ROUND parked members become active; their holds come out with a ref each. */
static int activate(struct dli_waitlist *list, struct dli_group *group, int count, struct dli_entry *out[ROUND])
{
    struct dli_link *link;
    int found = 0;

    pthread_mutex_lock(&list->mutex);
    while (found < count && found < ROUND && (link = group->parked.next) != &group->parked) {
        set_parked(dli_waiting_of(link), 0);
        dli_waiting_of(link)->ask_at = nothing_left(group) ? group->again_at : group->yield_until;
        dli_entry_ref(out[found++] = dli_waiting_of(link)->entry);
    }
    pthread_mutex_unlock(&list->mutex);
    return found;
}

/* entry.mutex held: not before this time the hold shall ask. */
static int64_t turn_begins(const struct dli_entry *entry, int64_t now)
{
    struct dli_waitlist *list = entry->parent->waitlist;

    pthread_mutex_lock(&list->mutex);
    if (entry->member && entry->member->group->yield_until > now)
        now = entry->member->group->yield_until;
    pthread_mutex_unlock(&list->mutex);
    return now;
}

static void probe(struct dli_entry *entry, int64_t now)
{
    dli_mutex_probe(&entry->m, turn_begins(entry, now));
}

void dli_waitlist_promote(struct dli_waitlist *list, struct dli_group *group, int count)
{
    struct dli_entry *some[ROUND];
    int found;

    do {
        found = activate(list, group, count, some);
        for (int i = 0; i < found; i++)
            dli_entry_visit(some[i], NULL);
        count -= found;
    } while (found > 0 && count > 0);
}

/* The holds that stand for all waiters: the first of each group, and whole free groups. -1: they are more than ROUND. */
static int firsts(const struct dli_waitlist *list, struct dli_entry *out[ROUND])
{
    int found = 0;

    for (const struct dli_group *group = list->groups; group; group = group->next)
        for (struct dli_link *link = group->active.next; link != &group->active; link = link->next) {
            if (found == ROUND)
                return -1;
            out[found++] = dli_waiting_of(link)->entry;
            if (!group->free)
                break;
        }
    return list->strangers ? -1 : found;
}

void dli_waitlist_recheck(struct dli_entry *parent)
{
    struct dli_waitlist *list = parent->waitlist;
    struct dli_entry *some[ROUND];
    int found;

    pthread_mutex_lock(&list->mutex);
    for (struct dli_group *group = list->groups; group; group = group->next)
        group->messages++;
    found = firsts(list, some);
    for (int i = 0; i < found; i++)
        dli_entry_ref(some[i]);
    pthread_mutex_unlock(&list->mutex);
    if (found < 0)
        dli_hold_each(parent, probe);
    for (int i = 0; i < found; i++)
        dli_entry_visit(some[i], probe);
}
