/*
 * order.c: single commands to the server, carried by their callers.
 */
#include "ask.h"

#include <string.h>

#include "sys/sys.h"

/* A command under way, and what came of it. */
struct order {
    struct dli_call call;
    int (*encode)(struct order *order, int full);
    dlock_status (*decode)(struct order *order, const struct dli_reply *reply);
    const struct dli_entry *entry;
    const struct dli_kind *kind;
    dlock_error *why;
    dlock_status status;
    struct dli_sight *sight;
    struct dli_renewal renewal;
    int kept;
    struct dli_change change;
    int64_t value;
    int sent;
};

static int encode(struct dli_call *call, int full)
{
    struct order *order = DLI_OBJECT(call, struct order, call);

    return order->encode(order, full);
}

static int complete(struct dli_call *call, dlock_status status, int sent, const struct dli_reply *reply)
{
    struct order *order = DLI_OBJECT(call, struct order, call);

    order->sent |= sent;
    order->status = status == DLOCK_OK ? order->decode(order, reply) : status;
    return status == DLOCK_OK && order->status == DLOCK_PROTOCOL_ERROR ? -1 : 0;
}

/* Carry the order; its status is in order.status. */
static void give(struct dli_client *client, struct dli_loop *loop, struct order *order, int64_t deadline)
{
    order->call.encode = encode;
    order->call.complete = complete;
    order->call.why = order->why;
    order->call.deadline = deadline;
    if (encode(&order->call, 0))
        order->status = dli_fail(order->why, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    else
        dli_carry(client, loop, &order->call);
    dli_buffer_free(&order->call.command);
}

static int64_t usual_deadline(const struct dli_entry *entry)
{
    return dli_now() + entry->rules.attempt;
}

/* ---- ping */

static int encode_ping(struct order *order, int full)
{
    static const char *const word = "PING";

    (void)full;
    return dli_encode_words(&order->call.command, 1, &word);
}

static dlock_status decode_ping(struct order *order, const struct dli_reply *reply)
{
    return dli_decode_word(reply, order->why);
}

dlock_status dli_order_ping(struct dli_client *client, int64_t deadline, dlock_error *why)
{
    struct order order = {.encode = encode_ping, .decode = decode_ping, .why = why};

    order.call.repeatable = 1;
    give(client, client->loops[0], &order, deadline);
    return order.status;
}

/* ---- force release */

static int encode_force(struct order *order, int full)
{
    return dli_encode_force(&order->call.command, full, order->kind, &order->entry->names);
}

static dlock_status decode_force(struct order *order, const struct dli_reply *reply)
{
    return dli_decode_done(reply, DLOCK_NOT_HELD, order->why);
}

dlock_status dli_order_force(struct dli_entry *entry, const struct dli_kind *kind, dlock_error *why)
{
    struct order order = {.encode = encode_force, .decode = decode_force, .entry = entry, .kind = kind, .why = why};

    give(entry->client, entry->loop, &order, usual_deadline(entry));
    return order.status;
}

/* ---- the gate */

static int encode_gate(struct order *order, int full)
{
    return dli_encode_gate(&order->call.command, full, order->entry->kind, &order->entry->names, order->value);
}

static dlock_status decode_gate(struct order *order, const struct dli_reply *reply)
{
    return dli_decode_done(reply, DLOCK_UNCHANGED, order->why);
}

/* This process knows before the call returns, not when the message comes: no hand-over after it in between. */
static void heard(struct dli_entry *entry, int64_t ttl_ms)
{
    int64_t now = dli_now();
    int64_t until = ttl_ms > 0 ? dli_later(now, ttl_ms < DLI_NEVER / DLI_MS ? ttl_ms * DLI_MS : DLI_NEVER) : 0;

    dli_entry_lock(entry);
    dli_mutex_gate(&entry->m, until, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}

dlock_status dli_order_gate(struct dli_entry *entry, int64_t ttl_ms, dlock_error *why)
{
    struct order order = {.encode = encode_gate, .decode = decode_gate, .entry = entry, .why = why, .value = ttl_ms};

    order.call.repeatable = 1;
    give(entry->client, entry->loop, &order, usual_deadline(entry));
    if (order.status == DLOCK_OK)
        heard(entry, ttl_ms);
    return order.status;
}

/* ---- changes of semaphores and latches: sent again with the same id when no answer came */

enum { CHANGE_TRIES = 3 };

static int encode_change(struct order *order, int full)
{
    return dli_encode_change(&order->call.command, full, order->entry->kind, &order->entry->names, &order->change);
}

static dlock_status decode_change(struct order *order, const struct dli_reply *reply)
{
    return dli_decode_change(reply, &order->value, order->why);
}

dlock_status dli_order_change(struct dli_entry *entry, const char *what, int64_t number, int64_t *value,
                              dlock_error *why)
{
    struct order order = {.encode = encode_change, .decode = decode_change, .entry = entry, .why = why};
    int64_t id = __atomic_add_fetch(&entry->client->numbers, 1, __ATOMIC_RELAXED);

    order.change.what = what;
    order.change.number = number;
    dli_entry_owner(entry, id, order.change.id);
    order.call.repeatable = 1;
    for (int tries = 0; tries < CHANGE_TRIES; tries++) {
        give(entry->client, entry->loop, &order, dli_now() + entry->rules.attempt / CHANGE_TRIES);
        if (order.status != DLOCK_UNREACHABLE || !order.sent)
            break;
    }
    *value = order.value;
    return order.status == DLOCK_UNREACHABLE && order.sent ? DLOCK_UNKNOWN_OUTCOME : order.status;
}

/* ---- inspect */

static int encode_inspect(struct order *order, int full)
{
    return dli_encode_inspect(&order->call.command, full, &order->entry->names);
}

static dlock_status decode_inspect(struct order *order, const struct dli_reply *reply)
{
    return dli_decode_inspect(reply, order->sight, order->why);
}

dlock_status dli_order_inspect(struct dli_entry *entry, struct dli_sight *sight, dlock_error *why)
{
    struct order order = {
        .encode = encode_inspect, .decode = decode_inspect, .entry = entry, .why = why, .sight = sight};

    order.call.repeatable = 1;
    give(entry->client, entry->loop, &order, usual_deadline(entry));
    return order.status;
}

/* ---- one renewal */

static int encode_renew(struct order *order, int full)
{
    return dli_encode_renew(&order->call.command, full, order->entry->kind, &order->renewal, 1);
}

static dlock_status decode_renew(struct order *order, const struct dli_reply *reply)
{
    return dli_decode_renew(reply, &order->kept, 1, order->why);
}

int dli_order_renew(struct dli_entry *entry, const char *owner, int64_t lease, int64_t *stamp, dlock_status *status,
                    dlock_error *why)
{
    struct order order = {.encode = encode_renew, .decode = decode_renew, .entry = entry, .why = why};

    order.renewal.names = &entry->names;
    order.renewal.lease = lease + entry->rules.delay;
    order.renewal.permits = entry->rules.permits;
    memcpy(order.renewal.owner, owner, DLI_OWNER_MAX);
    *stamp = dli_now();
    order.call.repeatable = 1;
    give(entry->client, entry->loop, &order, *stamp + dli_lease_attempt(lease, entry->rules.attempt));
    *status = order.status;
    return order.status == DLOCK_OK ? order.kept : -1;
}

/* entry.mutex held: the grant number of owner, 0 when it holds nothing, and its id. */
static int64_t held_number(struct dli_entry *entry, int64_t owner, char id[DLI_OWNER_MAX])
{
    if (!entry->m.holder || entry->m.holder->owner != owner || !entry->m.owned)
        return 0;
    dli_entry_owner(entry, entry->m.want, id);
    return entry->m.want;
}

dlock_status dli_order_extend(struct dli_entry *entry, int64_t owner, int64_t lease, dlock_error *why)
{
    char id[DLI_OWNER_MAX];
    int64_t number, stamp, now;
    dlock_status status;
    int32_t state;
    int kept;

    dli_entry_lock(entry);
    state = dli_mutex_state(&entry->m, owner, dli_now());
    number = held_number(entry, owner, id);
    if (number)
        dli_mutex_extending(&entry->m, lease);
    dli_entry_unlock(entry);
    if (!number)
        return state == DLOCK_STATE_LOST ? DLOCK_LOST : DLOCK_NOT_HELD;
    kept = dli_order_renew(entry, id, lease, &stamp, &status, why);
    dli_entry_lock(entry);
    now = dli_now();
    if (kept >= 0)
        dli_mutex_extended(&entry->m, number, kept, lease, stamp, now);
    if (status == DLOCK_OK && dli_mutex_state(&entry->m, owner, now) == DLOCK_STATE_LOST)
        status = DLOCK_LOST;
    else if (kept == 0) /* released meanwhile */
        status = DLOCK_NOT_HELD;
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return status;
}
