/*
 * hold.c: the holds of one name. A mutex has one hold per process. The other kinds have one per owner, a semaphore one
 * per acquisition, and each of these has a machine of its own. Also: what an owner has, what is left of a name without
 * handles, and what few entries have. Mutexes: see core.h.
 */
#include "acquire.h"
#include "waitlist.h"

#include <stdlib.h>

#include "sys/sys.h"

enum { TRIES = 16 }; /* of a count while others acquire */

/* ---- which hold a call is about */

/* Reserve the slot when a new acquisition may begin in it. 0: none may. */
static int take_slot(struct dli_entry *entry)
{
    int free;

    dli_entry_lock(entry);
    free = !entry->reserved && dli_mutex_idle(&entry->m);
    entry->reserved = (int8_t)(entry->reserved | free);
    dli_entry_unlock(entry);
    return free;
}

/* The same, when an acquisition of owner of so many permits was interrupted there. */
static int take_again(struct dli_entry *entry, int64_t owner, int64_t permits)
{
    struct dli_claim *claim;
    int takes;

    dli_entry_lock(entry);
    claim = dli_mutex_find(&entry->m, owner);
    takes = claim && DLI_OBJECT(claim, struct dli_waiter, claim)->interrupted && !entry->reserved &&
            entry->m.rules->permits == permits;
    entry->reserved = (int8_t)(entry->reserved | takes);
    dli_entry_unlock(entry);
    return takes;
}

/* The slot in which an acquisition of owner was interrupted, reserved and with a ref. NULL: there is none. */
static struct dli_entry *interrupted_slot(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner,
                                          int64_t permits)
{
    struct dli_entry *entry;

    for (int64_t slot = 0; (entry = dli_entry_find_child(parent, kind, owner, slot)); slot++) {
        if (take_again(entry, owner, permits))
            return entry;
        dli_entry_unref(entry);
    }
    return NULL;
}

/*
 * The slot for an acquisition of owner, reserved and with a ref: the one in which it was interrupted, wherever that is, else the
 * first free one. NULL without memory.
 */
static struct dli_entry *free_slot(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner,
                                   int64_t permits)
{
    struct dli_entry *before = NULL, *entry;

    if (__atomic_load_n(&parent->interrupted, __ATOMIC_ACQUIRE) > 0 &&
        (entry = interrupted_slot(parent, kind, owner, permits)))
        return entry;
    for (int64_t slot = 0;; slot++) {
        entry = dli_entry_child(parent, kind, owner, slot, before);
        if (before)
            dli_entry_unref(before);
        if (!entry || take_slot(entry))
            return entry;
        before = entry;
    }
}

/* The grant number of owner's read or write hold, as kind says; 0: there is none. reads: owner will read under it. */
static int64_t number_of(struct dli_entry *parent, int32_t kind, int64_t owner, int reads)
{
    struct dli_entry *entry = dli_entry_find_child(parent, dli_kind_find(kind), owner, 0);
    int64_t number;

    if (!entry)
        return 0;
    dli_entry_lock(entry);
    dli_mutex_tick(&entry->m, dli_now());
    number = entry->m.holder ? entry->m.want.number : 0;
    if (reads)
        entry->shared = number;
    entry->surplus++;
    dli_entry_unlock(entry);
    return number;
}

void dli_hold_rules(struct dli_mutex_rules *own, struct dli_entry *parent, const struct dli_kind *kind)
{
    *own = *parent->m.rules;
    own->highest = &parent->highest;
    own->handover_turns = kind->handed ? own->handover_turns : 0;
    own->no_line = own->no_line || (own->called && !kind->called);
    own->called = own->called && kind->called;
}

/* entry.mutex held: only waiters for one permit stand in line. */
static void set_permits(struct dli_entry *entry, int64_t permits)
{
    const struct dli_mutex_rules *all = entry->parent->m.rules;
    struct dli_mutex_rules *own = dli_entry_own_rules(entry);

    own->permits = permits;
    own->called = all->called && permits == 1;
    own->no_line = all->no_line || (all->called && permits != 1);
}

dlock_status dli_hold_to_acquire(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner, int64_t permits,
                                 struct dli_entry **ret)
{
    int64_t under = 0;

    if (!kind->per_owner) {
        dli_entry_ref(parent);
        *ret = parent;
        return DLOCK_OK;
    }
    if (kind->id == DLOCK_KIND_READ)
        under = number_of(parent, DLOCK_KIND_WRITE, owner, 1);
    if (kind->id == DLOCK_KIND_WRITE && number_of(parent, DLOCK_KIND_READ, owner, 0) &&
        !number_of(parent, DLOCK_KIND_WRITE, owner, 0))
        return DLOCK_UPGRADE_REFUSED;
    *ret = kind->slots ? free_slot(parent, kind, owner, permits) : dli_entry_child(parent, kind, owner, 0, NULL);
    if (!*ret)
        return DLOCK_OUT_OF_MEMORY;
    dli_entry_lock(*ret);
    (*ret)->under = under;
    if (kind->slots && dli_mutex_idle(&(*ret)->m))
        set_permits(*ret, permits);
    dli_entry_unlock(*ret);
    return DLOCK_OK;
}

void dli_hold_refused(struct dli_entry *entry)
{
    dli_entry_lock(entry);
    entry->reserved = 0;
    dli_entry_unlock(entry);
}

/* Rank of an entry for what owner has: 0 nothing, 1 lost, higher when held, highest when granted last. waits: of a wait. */
static int64_t rank(struct dli_entry *entry, int64_t owner, int64_t waits)
{
    struct dli_claim *claim;
    int64_t has;

    dli_entry_lock(entry);
    dli_mutex_tick(&entry->m, dli_now());
    claim = dli_mutex_find(&entry->m, owner);
    has = !claim                              ? 0
          : claim->state == DLI_CLAIM_HELD    ? 1 + claim->held_since
          : claim->state == DLI_CLAIM_WAITING ? waits
                                              : 1;
    dli_entry_unlock(entry);
    return has;
}

static int64_t rank_of_any(struct dli_entry *entry, int64_t owner)
{
    return rank(entry, owner, 1);
}

static int64_t rank_of_hold(struct dli_entry *entry, int64_t owner)
{
    return rank(entry, owner, 0);
}

/* The slot that fits best as they are looked at one by one, with a ref, and how well. Among equals the last one. NULL: none fits. */
static struct dli_entry *best_now(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner,
                                  int64_t (*fit)(struct dli_entry *entry, int64_t owner), int64_t *best_fit)
{
    struct dli_entry *best = NULL, *entry;

    *best_fit = 1;
    for (int64_t slot = 0; (entry = dli_entry_find_child(parent, kind, owner, slot)); slot++) {
        int64_t fits = fit(entry, owner);

        if (fits < *best_fit) {
            dli_entry_unref(entry);
            continue;
        }
        if (best)
            dli_entry_unref(best);
        best = entry;
        *best_fit = fits;
    }
    return best;
}

/* Changes when an acquisition begins in a slot of parent. */
static int64_t begun(const struct dli_entry *parent)
{
    return __atomic_load_n(&parent->begun, __ATOMIC_SEQ_CST);
}

/*
 * The slot that fits best, with a ref, and how well. NULL: none fits. While the slots are looked at, a hold may pass to one that was looked at
 * before: another thread of owner acquires there, and releases here. Then all are looked at again, until a hold is found.
 */
static struct dli_entry *best_fitting(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner,
                                      int64_t (*fit)(struct dli_entry *entry, int64_t owner), int64_t *best_fit)
{
    struct dli_entry *best = NULL;
    int64_t before;

    do {
        if (best)
            dli_entry_unref(best);
        before = begun(parent);
        best = best_now(parent, kind, owner, fit, best_fit);
    } while (*best_fit <= 1 && before != begun(parent));
    return best;
}

static struct dli_entry *best_slot(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner,
                                   int64_t (*fit)(struct dli_entry *entry, int64_t owner))
{
    int64_t best_fit;

    return best_fitting(parent, kind, owner, fit, &best_fit);
}

static struct dli_entry *ref_parent(struct dli_entry *parent)
{
    dli_entry_ref(parent);
    return parent;
}

struct dli_entry *dli_hold_find(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner)
{
    return kind->per_owner ? best_slot(parent, kind, owner, rank_of_any) : ref_parent(parent);
}

int64_t dli_hold_slots(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner)
{
    struct dli_entry *entry;
    int64_t held, before;
    int tries = 0;

    do {
        before = begun(parent);
        held = 0;
        for (int64_t slot = 0; (entry = dli_entry_find_child(parent, kind, owner, slot)); slot++) {
            held += rank_of_hold(entry, owner) > 1;
            dli_entry_unref(entry);
        }
    } while (before != begun(parent) && ++tries < TRIES);
    return held;
}

int dli_hold_again(struct dli_entry **hold, int64_t owner, dlock_status status)
{
    const struct dli_kind *kind = (*hold)->kind;
    struct dli_entry *found;

    if (status != DLOCK_NOT_HELD || !kind->slots || !(found = best_slot((*hold)->parent, kind, owner, rank_of_hold)))
        return 0;
    dli_entry_unref(*hold);
    *hold = found;
    return 1;
}

dlock_status dli_hold_swapped(struct dli_entry *hold, int64_t owner)
{
    struct dli_entry *other = best_slot(hold->parent, hold->kind, owner, rank_of_hold);

    if (other)
        dli_entry_unref(other);
    return other ? DLOCK_OK : DLOCK_LOST;
}

/* The state of owner's best slot. 0: its hold was released meanwhile, so another slot may be the best one. */
static int state_of_slots(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner, int32_t *state)
{
    int64_t fit;
    struct dli_entry *entry = best_fitting(parent, kind, owner, rank_of_any, &fit);

    *state = entry ? dli_query_state(entry, owner) : DLOCK_STATE_NONE;
    if (entry)
        dli_entry_unref(entry);
    return !kind->slots || fit <= 1 || *state == DLOCK_STATE_HELD || *state == DLOCK_STATE_AT_RISK;
}

int32_t dli_hold_state(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner)
{
    int32_t state;

    if (!kind->per_owner)
        return dli_query_state(parent, owner);
    while (!state_of_slots(parent, kind, owner, &state))
        ;
    return state;
}

/* 2: the caller waits or was interrupted, as dli_submit_cancel has it. 0: neither. */
static int64_t has_wait(struct dli_entry *entry, int64_t owner)
{
    struct dli_claim *claim;
    int has;

    dli_entry_lock(entry);
    claim = dli_mutex_find(&entry->m, owner);
    has = claim && (claim->state == DLI_CLAIM_WAITING ||
                    (claim->state == DLI_CLAIM_HELD && DLI_OBJECT(claim, struct dli_waiter, claim)->interrupted));
    dli_entry_unlock(entry);
    return 2 * has;
}

struct dli_entry *dli_hold_waiting(struct dli_entry *parent, const struct dli_kind *kind, int64_t owner)
{
    return kind->per_owner ? best_slot(parent, kind, owner, has_wait) : ref_parent(parent);
}

/* ---- all holds of a name */

enum { ROUND = 64 };

/* Up to ROUND holds after last (NULL: from the start), each with a ref. */
static int next_holds(struct dli_entry *parent, struct dli_entry *last, struct dli_entry *out[ROUND])
{
    struct dli_link *link;
    int count = 0;

    pthread_mutex_lock(&parent->client->mutex);
    link = last ? last->sibling.next : parent->children.next;
    for (; link != &parent->children && count < ROUND; link = link->next) {
        out[count] = DLI_OBJECT(link, struct dli_entry, sibling);
        dli_entry_ref(out[count++]);
    }
    pthread_mutex_unlock(&parent->client->mutex);
    return count;
}

int dli_hold_each_only(struct dli_entry *parent, dli_visit_fn *visit)
{
    struct dli_entry *holds[ROUND], *last = NULL;
    int count, due = 0;

    do {
        count = next_holds(parent, last, holds);
        if (last)
            dli_entry_unref(last);
        for (int i = 0; i < count; i++) {
            int64_t now = dli_now();

            dli_entry_lock(holds[i]);
            visit(holds[i], now);
            dli_entry_pump(holds[i], now);
            due |= dli_entry_unlock_only(holds[i]);
            if (i + 1 < count)
                dli_entry_unref(holds[i]);
        }
        last = count > 0 ? holds[count - 1] : NULL;
    } while (last);
    return due;
}

void dli_hold_each(struct dli_entry *parent, dli_visit_fn *visit)
{
    if (dli_hold_each_only(parent, visit))
        dli_waitlist_visit(parent);
}

struct dli_entry *dli_hold_in_line(struct dli_entry *parent, int64_t number)
{
    struct dli_waitlist *list = parent->waitlist;
    struct dli_entry *found;

    if (!list)
        return NULL;
    pthread_mutex_lock(&list->mutex);
    if ((found = dli_waitlist_numbered(list, number)))
        dli_entry_ref(found);
    pthread_mutex_unlock(&list->mutex);
    return found;
}

struct dli_entry *dli_hold_of_number(struct dli_entry *parent, int64_t number)
{
    struct dli_entry *found = dli_hold_in_line(parent, number);

    if (found)
        return found;
    pthread_mutex_lock(&parent->client->mutex);
    for (struct dli_link *link = parent->children.next; link != &parent->children && !found; link = link->next) {
        struct dli_entry *entry = DLI_OBJECT(link, struct dli_entry, sibling);

        if (__atomic_load_n(&entry->wanted, __ATOMIC_RELAXED) == number) {
            dli_entry_ref(entry);
            found = entry;
        }
    }
    pthread_mutex_unlock(&parent->client->mutex);
    return found;
}

/* ---- nobody has a handle of the name any more */

int dli_entry_handled(const struct dli_entry *entry)
{
    return __atomic_load_n(entry->parent ? &entry->parent->handles : &entry->handles, __ATOMIC_ACQUIRE) > 0;
}

void dli_entry_retire(struct dli_entry *entry)
{
    dli_entry_stop_timer(entry);
    dli_mutex_forget_lost(&entry->m);
    dli_waiter_deliver(entry, dli_now());
}

static void retire_idle(struct dli_entry *entry, int64_t now)
{
    (void)now;
    if (!dli_entry_handled(entry) && dli_mutex_idle(&entry->m))
        dli_entry_retire(entry);
}

void dli_entry_handle(struct dli_entry *entry, int by)
{
    if (__atomic_add_fetch(&entry->handles, by, __ATOMIC_ACQ_REL) > 0)
        return;
    dli_entry_lock(entry);
    retire_idle(entry, 0);
    dli_entry_unlock(entry);
    if (entry->kind->per_owner)
        dli_hold_each(entry, retire_idle);
}

/* ---- what few entries have */

struct dli_aside *dli_entry_aside(struct dli_entry *entry)
{
    if (!entry->aside)
        entry->aside = calloc(1, sizeof *entry->aside);
    return entry->aside;
}

void dli_entry_forget_reason(struct dli_entry *entry)
{
    if (!entry->aside)
        return;
    free(entry->aside->reason);
    entry->aside->reason = NULL;
}

void dli_entry_gate(struct dli_entry *entry, int64_t until, int64_t now)
{
    if (dli_mutex_gate(&entry->m, until, now))
        entry->gate_query_ups = 0;
}

void dli_entry_trim_aside(struct dli_entry *entry, int all)
{
    struct dli_aside *aside = entry->aside;

    if (!aside)
        return;
    if (all)
        dli_entry_forget_reason(entry);
    if (all || !(entry->m.adopting || entry->m.active->drop.first)) {
        free(aside->adoption);
        aside->adoption = NULL;
    }
    if (!all && (aside->reason || aside->gate_query || aside->adoption || entry->m.line.follows ||
                 aside->subscription.since || dli_gate_rests(aside, dli_now())))
        return;
    free(aside);
    entry->aside = NULL;
}

/* ---- what an owner has, by the clock at this instant */

int32_t dli_query_state(struct dli_entry *entry, int64_t owner)
{
    int64_t now;
    int32_t state;

    dli_entry_lock(entry);
    now = dli_now();
    state = dli_mutex_state(&entry->m, owner, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return state;
}

dlock_status dli_query_held(struct dli_entry *entry, int64_t owner, int64_t *token, int64_t *count, int64_t *remaining)
{
    dlock_status status = DLOCK_OK;
    int64_t now;
    int32_t state;

    dli_entry_lock(entry);
    now = dli_now();
    state = dli_mutex_state(&entry->m, owner, now);
    if (state == DLOCK_STATE_HELD || state == DLOCK_STATE_AT_RISK) {
        *token = entry->m.holder->token;
        *count = entry->m.holder->count;
        *remaining = dli_mutex_sure_until(&entry->m);
        *remaining -= *remaining == DLI_NEVER ? 0 : now;
    } else {
        status = state == DLOCK_STATE_LOST ? DLOCK_LOST : DLOCK_NOT_HELD;
    }
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return status;
}

dlock_status dli_query_permit(struct dli_entry *entry, int64_t owner, int64_t index, int64_t *number)
{
    dlock_status status = DLOCK_OK;
    int32_t state;

    dli_entry_lock(entry);
    state = dli_mutex_state(&entry->m, owner, dli_now());
    if (state != DLOCK_STATE_HELD && state != DLOCK_STATE_AT_RISK)
        status = state == DLOCK_STATE_LOST ? DLOCK_LOST : DLOCK_NOT_HELD;
    else if (index < 0 || index >= entry->m.rules->permits)
        status = DLOCK_INVALID_ARGUMENT;
    else
        *number = entry->m.want.number - index;
    dli_entry_unlock(entry);
    return status;
}
