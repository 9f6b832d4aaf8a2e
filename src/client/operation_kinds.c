/*
 * operation_kinds.c: the orders about names, semaphores, latches and holds. See operation.h.
 */
#include "operation.h"

#include <string.h>

#include "sys/sys.h"

static int no_more(struct dli_order *order)
{
    (void)order;
    return 0;
}

/* The next member of a multi-lock is the one under way. 0: there is none. */
static int next_member(struct dli_order *order)
{
    const struct dli_member *member;

    if (!order->multi || order->at + 1 >= order->multi->count)
        return 0;
    member = &order->multi->member[++order->at];
    order->entry = member->entry;
    order->kind = member->kind;
    return 1;
}

/* An order about each member begins with the first. */
static struct dli_order *about_all(struct dli_entry *entry, const struct dli_kind *kind, struct dli_multi *multi,
                                   const struct dli_task *task)
{
    return dli_order_about(entry, multi ? multi->member[0].kind : kind, multi, task);
}

/* ---- about the client */

static int ask_plain(struct dli_order *order)
{
    dli_order_word(order, order->request->verb);
    return 1;
}

struct dli_order *dli_order_plain(struct dli_client *client, enum dli_verb verb, int64_t deadline)
{
    static const struct dli_task task = {ask_plain, no_more};
    struct dli_order *order = dli_order_new(client, &task);

    if (!order)
        return NULL;
    order->request->verb = verb;
    order->request->deadline = deadline;
    return order;
}

/* ---- release by force */

static int ask_force(struct dli_order *order)
{
    int64_t now = dli_now();

    dli_entry_lock(order->entry);
    dli_mutex_stop_linger(&order->entry->m, now);
    dli_entry_pump(order->entry, now);
    dli_entry_unlock(order->entry);
    dli_order_word(order, DLI_VERB_FORCE);
    order->request->kind = order->kind;
    order->request->repeatable = 0;
    return 1;
}

static int heard_force(struct dli_order *order)
{
    order->any |= order->status == DLOCK_OK;
    if (order->status != DLOCK_OK && order->status != DLOCK_NOT_HELD)
        return 0;
    if (next_member(order))
        return 1;
    order->status = order->any ? DLOCK_OK : DLOCK_NOT_HELD;
    if (order->multi)
        order->entry = order->multi->member[0].entry;
    return 0;
}

struct dli_order *dli_order_force(struct dli_entry *entry, const struct dli_kind *kind, struct dli_multi *multi)
{
    static const struct dli_task task = {ask_force, heard_force};

    return about_all(entry, kind, multi, &task);
}

/* ---- inspect */

static int ask_inspect(struct dli_order *order)
{
    dli_order_word(order, DLI_VERB_INSPECT);
    return 1;
}

struct dli_order *dli_order_inspect(struct dli_entry *entry)
{
    static const struct dli_task task = {ask_inspect, no_more};

    return dli_order_about(entry, entry->kind, NULL, &task);
}

/* ---- the gate */

static int ask_gate(struct dli_order *order)
{
    dli_order_word(order, DLI_VERB_GATE);
    return 1;
}

/* This process knows before the order is over, not when the message comes: no hand-over after it in between. */
static int heard_gate(struct dli_order *order)
{
    int64_t now = dli_now(), ttl_ms = order->request->gate_ms, until = 0;
    struct dli_entry *entry = order->entry;

    if (order->status != DLOCK_OK)
        return 0;
    if (ttl_ms > 0)
        until = dli_after_ms(now, ttl_ms);
    dli_entry_lock(entry);
    dli_mutex_gate(&entry->m, until, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return 0;
}

struct dli_order *dli_order_gate(struct dli_entry *entry, int64_t ttl_ms)
{
    static const struct dli_task task = {ask_gate, heard_gate};
    struct dli_order *order = dli_order_about(entry, entry->kind, NULL, &task);

    if (order)
        order->request->gate_ms = ttl_ms;
    return order;
}

/* ---- changes of semaphores and latches: sent again with the same id when no answer came */

enum { CHANGE_TRIES = 3 };

static int ask_change(struct dli_order *order)
{
    dli_order_word(order, DLI_VERB_CHANGE);
    order->request->deadline = dli_now() + order->entry->rules.attempt / CHANGE_TRIES;
    return 1;
}

static int heard_change(struct dli_order *order)
{
    order->sent |= order->request->sent;
    order->value = strcmp(order->request->change.what, "set") == 0 ? -1 : order->request->change.value;
    if (order->status == DLOCK_UNREACHABLE && order->sent && ++order->tries < CHANGE_TRIES)
        return 1;
    if (order->status == DLOCK_UNREACHABLE && order->sent)
        order->status = DLOCK_UNKNOWN_OUTCOME;
    return 0;
}

struct dli_order *dli_order_change(struct dli_entry *entry, const char *what, int64_t number)
{
    static const struct dli_task task = {ask_change, heard_change};
    struct dli_order *order = dli_order_about(entry, entry->kind, NULL, &task);

    if (!order)
        return NULL;
    order->request->change.what = what;
    order->request->change.number = number;
    dli_entry_owner(entry, __atomic_add_fetch(&entry->client->numbers, 1, __ATOMIC_RELAXED), order->request->change.id);
    return order;
}

/* ---- extend */

/* entry.mutex held: the grant number of what owner holds, its id and the token; 0 when it holds nothing. */
static int64_t held_number(struct dli_entry *entry, int64_t owner, char id[DLI_OWNER_MAX], int64_t *token)
{
    if (!entry->m.holder || entry->m.holder->owner != owner || !entry->m.owned)
        return 0;
    dli_entry_owner(entry, entry->m.want, id);
    *token = entry->m.holder->token;
    return entry->m.want;
}

static int ask_extend(struct dli_order *order)
{
    struct dli_entry *hold = order->hold = dli_hold_find(order->entry, order->kind, order->owner);
    int32_t state;

    order->status = DLOCK_NOT_HELD;
    if (!hold)
        return 0;
    dli_entry_lock(hold);
    state = dli_mutex_state(&hold->m, order->owner, dli_now());
    order->number = held_number(hold, order->owner, order->row.owner, &order->token);
    if (order->number)
        dli_mutex_extending(&hold->m, order->lease);
    order->row.last = hold->m.token_end - 1;
    dli_entry_unlock(hold);
    if (order->number)
        dli_order_renewal(order, hold, order->lease);
    else if (state == DLOCK_STATE_LOST)
        order->status = DLOCK_LOST;
    return order->number != 0;
}

static int heard_extend(struct dli_order *order)
{
    struct dli_entry *hold = order->hold;
    int64_t now = dli_now();
    int kept = order->status == DLOCK_OK ? order->row.kept : -1, has = 0;

    dli_entry_lock(hold);
    if (kept >= 0)
        has = dli_mutex_extended(&hold->m, order->number, order->token, kept, order->lease, order->stamp, now);
    if (kept >= 0 && dli_mutex_state(&hold->m, order->owner, now) == DLOCK_STATE_LOST)
        order->status = DLOCK_LOST;
    else if (kept >= 0 && !has) /* released meanwhile */
        order->status = DLOCK_NOT_HELD;
    dli_entry_pump(hold, now);
    dli_entry_unlock(hold);
    dli_entry_unref(hold);
    order->hold = NULL;
    return order->status == DLOCK_OK && next_member(order);
}

struct dli_order *dli_order_extend(struct dli_entry *entry, const struct dli_kind *kind, struct dli_multi *multi,
                                   int64_t owner, int64_t lease)
{
    static const struct dli_task task = {ask_extend, heard_extend};
    struct dli_order *order = about_all(entry, kind, multi, &task);

    if (!order)
        return NULL;
    order->owner = owner;
    order->lease = lease;
    return order;
}
