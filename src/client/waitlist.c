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

enum { ROUND = 64, REST = DLI_MS };

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
    group->near = &group->parked;
    group->next = list->groups;
    list->groups = group;
    return group;
}

static int nothing_left(const struct dli_group *group)
{
    return group->nothing == group->messages;
}

static int comes_before(const struct dli_link *link, const struct dli_waiting *member)
{
    return dli_waiting_of((struct dli_link *)link)->arrival < member->arrival;
}

/* Put the member into the list. Most come last, or first; else the search begins behind near. */
static void insert(struct dli_link *list, const struct dli_link *near, struct dli_waiting *member)
{
    struct dli_link *at = list;

    if (list->prev != list && !comes_before(list->prev, member))
        at = comes_before(list->next, member) ? near->next : list->next;
    while (at != list && comes_before(at, member))
        at = at->next;
    while (at->prev != list && !comes_before(at->prev, member))
        at = at->prev;
    dli_list_append(at, &member->link);
}

/* Take the member out of its list. */
static void take_out(struct dli_waiting *member)
{
    struct dli_group *group = member->group;

    if (group->near == &member->link)
        group->near = member->link.prev;
    dli_list_remove(&member->link);
}

/* Those that were sent come back in their order, so each has its place behind the one that was parked before. */
static void set_parked(struct dli_waiting *member, int parked)
{
    struct dli_group *group = member->group;

    take_out(member);
    member->parked = parked;
    insert(parked ? &group->parked : &group->active, parked ? group->near : group->active.prev, member);
    if (parked)
        group->near = &member->link;
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

/* An active member has left: so many go on, and one at least stands for the others. A close ends every wait by itself. */
static void pass_on(struct dli_entry *entry, struct dli_group *group, int64_t count)
{
    if (entry->m.closed)
        return;
    if (count == 0 && dli_list_empty(&group->active))
        count = 1;
    if (!dli_list_empty(&group->parked))
        promote(entry, group, count < INT_MAX ? (int)count : INT_MAX);
}

/* The last waiter has gone, and the server has heard that the process stays in line: that drop, to be repeated; or 0. */
static int64_t last_words(struct dli_group *group, const struct dli_entry *entry)
{
    int64_t number = group->stays;

    if (!dli_list_empty(&group->active) || !dli_list_empty(&group->parked))
        return 0;
    group->stays = 0;
    return dli_mutex_known(&entry->m) || entry->m.active->drop.number ? 0 : number; /* else its own tells */
}

/*
 * A wait has ended. Where many are cancelled, or time out, each new first one would ask, and leave. So it asks a moment later,
 * unless a message comes before.
 */
static void leave(struct dli_waitlist *list, struct dli_entry *entry, int64_t count, int64_t now)
{
    struct dli_waiting *member = entry->member;
    int64_t stays;

    pthread_mutex_lock(&list->mutex);
    take_out(member);
    dli_waitlist_number(list, member, 0);
    if (!member->parked && entry->m.rules->called && !dli_mutex_owned(&entry->m))
        member->group->nothing = -1; /* the next one takes its place in line, and hears what it has heard */
    if (!member->parked && count == 0 && !dli_mutex_owned(&entry->m) && entry->m.active->failure == DLOCK_OK)
        member->group->rest_until = now + REST;
    if (!member->parked)
        pass_on(entry, member->group, count);
    stays = last_words(member->group, entry);
    entry->member = NULL;
    pthread_mutex_unlock(&list->mutex);
    free(member);
    if (stays && dli_active_make(&entry->m) == 0)
        dli_mutex_drop(&entry->m, stays, dli_mutex_place(&entry->m), now);
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
        leave(list, entry, entry->behind, now);
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
    if (want)
        member->group->stays = 0;
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
            if (answer->got == DLI_TRY_GATE)
                entry->due |= DLI_DUE_GATE;
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

static int64_t may_ask_at(const struct dli_group *group)
{
    return group->yield_until > group->rest_until ? group->yield_until : group->rest_until;
}

/* waitlist.mutex held: up to ROUND parked members become active, as it is due; their holds come out with a ref each. */
static int activate(const struct dli_waitlist *list, struct dli_entry *out[ROUND])
{
    int found = 0;

    for (struct dli_group *group = list->groups; group; group = group->next) {
        struct dli_link *link;

        for (; group->due > 0 && found < ROUND && (link = group->parked.next) != &group->parked; group->due--) {
            set_parked(dli_waiting_of(link), 0);
            dli_waiting_of(link)->ask_at = nothing_left(group) ? group->again_at : may_ask_at(group);
            dli_entry_ref(out[found++] = dli_waiting_of(link)->entry);
        }
        if (dli_list_empty(&group->parked))
            group->due = 0;
    }
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

static void hint(struct dli_entry *entry, int64_t now)
{
    dli_mutex_hint(&entry->m, turn_begins(entry, now));
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

/* One waiter has met the closed gate: the others need not ask. */
static void meet_gate(struct dli_entry *entry, int64_t now)
{
    (void)now;
    dli_mutex_end_waiting(&entry->m, DLOCK_GATE_CLOSED, 0);
}

/* 1: visits have become due. */
static int recheck(struct dli_entry *parent, dli_visit_fn *visit)
{
    struct dli_waitlist *list = parent->waitlist;
    struct dli_entry *some[ROUND];
    int found, due = 0;

    pthread_mutex_lock(&list->mutex);
    for (struct dli_group *group = list->groups; group; group = group->next)
        group->messages++;
    found = firsts(list, some);
    for (int i = 0; i < found; i++)
        dli_entry_ref(some[i]);
    pthread_mutex_unlock(&list->mutex);
    if (found < 0)
        due = dli_hold_each_only(parent, visit);
    for (int i = 0; i < found; i++)
        due |= dli_entry_visit_only(some[i], visit);
    return due;
}

void dli_waitlist_due(struct dli_waitlist *list, struct dli_group *group, int count, int all)
{
    pthread_mutex_lock(&list->mutex);
    if (count > 0)
        group->due = group->due > INT_MAX ? group->due : group->due + count;
    list->due |= all;
    pthread_mutex_unlock(&list->mutex);
}

void dli_waitlist_visit(struct dli_entry *parent)
{
    struct dli_waitlist *list = parent->waitlist;
    struct dli_entry *some[ROUND];
    int found, all, due;

    do { /* what another thread makes due meanwhile, that thread does */
        pthread_mutex_lock(&list->mutex);
        all = list->due;
        list->due = 0;
        found = all & DLI_DUE_GATE ? 0 : activate(list, some);
        pthread_mutex_unlock(&list->mutex);
        due = found == ROUND || all & DLI_DUE_GATE;
        for (int i = 0; i < found; i++)
            due |= dli_entry_visit_only(some[i], NULL);
        if (all & DLI_DUE_GATE)
            dli_hold_each_only(parent, meet_gate);
        if (all & (DLI_DUE_PROBE | DLI_DUE_HINT))
            due |= recheck(parent, all & DLI_DUE_PROBE ? probe : hint);
    } while (due);
}

void dli_waitlist_recheck(struct dli_entry *parent)
{
    dli_waitlist_due(parent->waitlist, NULL, 0, DLI_DUE_HINT);
    dli_waitlist_visit(parent);
}
