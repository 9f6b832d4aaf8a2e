/*
 * order.c: single commands to the server, carried by their callers.
 */
#include "ask.h"

#include <string.h>

#include "sys/sys.h"

/* A request to be carried, or NULL without memory (*status says so). */
static struct dli_request *order_new(struct dli_client *client, enum dli_verb verb, dlock_error *why,
                                     dlock_status *status)
{
    struct dli_request *request = client->store->ops->request_new(client->store);

    if (!request) {
        *status = dli_fail(why, DLOCK_OUT_OF_MEMORY, "no memory for the command");
        return NULL;
    }
    request->verb = verb;
    request->repeatable = 1;
    request->why = why;
    return request;
}

/* The same about a lock, with the usual deadline. */
static struct dli_request *order_about(const struct dli_entry *entry, enum dli_verb verb, dlock_error *why,
                                       dlock_status *status)
{
    struct dli_request *request = order_new(entry->client, verb, why, status);

    if (!request)
        return NULL;
    request->kind = entry->kind;
    request->place = entry->place;
    request->deadline = dli_now() + entry->rules.attempt;
    return request;
}

static void order_free(struct dli_client *client, struct dli_request *request)
{
    client->store->ops->request_free(request);
}

/* Carry the order; what came of it. */
static dlock_status give(struct dli_client *client, struct dli_loop *loop, struct dli_request *request)
{
    client->store->ops->carry(loop->lane, request);
    return request->status;
}

dlock_status dli_order_ping(struct dli_client *client, int64_t deadline, dlock_error *why)
{
    dlock_status status;
    struct dli_request *request = order_new(client, DLI_VERB_PING, why, &status);

    if (!request)
        return status;
    request->deadline = deadline;
    status = give(client, client->loops[0], request);
    order_free(client, request);
    return status;
}

dlock_status dli_order_force(struct dli_entry *entry, const struct dli_kind *kind, dlock_error *why)
{
    dlock_status status;
    struct dli_request *request = order_about(entry, DLI_VERB_FORCE, why, &status);

    if (!request)
        return status;
    request->kind = kind;
    request->repeatable = 0;
    status = give(entry->client, entry->loop, request);
    order_free(entry->client, request);
    return status;
}

/* ---- the gate */

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
    dlock_status status;
    struct dli_request *request = order_about(entry, DLI_VERB_GATE, why, &status);

    if (!request)
        return status;
    request->gate_ms = ttl_ms;
    status = give(entry->client, entry->loop, request);
    if (status == DLOCK_OK)
        heard(entry, ttl_ms);
    order_free(entry->client, request);
    return status;
}

/* ---- changes of semaphores and latches: sent again with the same id when no answer came */

enum { CHANGE_TRIES = 3 };

dlock_status dli_order_change(struct dli_entry *entry, const char *what, int64_t number, int64_t *value,
                              dlock_error *why)
{
    int64_t id = __atomic_add_fetch(&entry->client->numbers, 1, __ATOMIC_RELAXED);
    dlock_status status;
    struct dli_request *request = order_about(entry, DLI_VERB_CHANGE, why, &status);
    int sent = 0;

    if (!request)
        return status;
    request->change.what = what;
    request->change.number = number;
    dli_entry_owner(entry, id, request->change.id);
    for (int tries = 0; tries < CHANGE_TRIES; tries++) {
        request->deadline = dli_now() + entry->rules.attempt / CHANGE_TRIES;
        status = give(entry->client, entry->loop, request);
        sent |= request->sent;
        if (status != DLOCK_UNREACHABLE || !sent)
            break;
    }
    *value = request->change.value;
    order_free(entry->client, request);
    return status == DLOCK_UNREACHABLE && sent ? DLOCK_UNKNOWN_OUTCOME : status;
}

/* ---- inspect */

dlock_status dli_order_inspect(struct dli_entry *entry, struct dli_sight *sight, dlock_error *why)
{
    dlock_status status;
    struct dli_request *request = order_about(entry, DLI_VERB_INSPECT, why, &status);

    if (!request)
        return status;
    status = give(entry->client, entry->loop, request);
    if (status == DLOCK_OK)
        *sight = request->sight;
    order_free(entry->client, request);
    return status;
}

/* ---- one renewal */

int dli_order_renew(struct dli_entry *entry, const char *owner, int64_t lease, int64_t *stamp, dlock_status *status,
                    dlock_error *why)
{
    struct dli_renewal row = {.kind = entry->kind, .place = entry->place, .lease = lease + entry->rules.delay};
    struct dli_request *request = order_about(entry, DLI_VERB_RENEW, why, status);

    if (!request)
        return -1;
    row.permits = entry->rules.permits;
    memcpy(row.owner, owner, DLI_OWNER_MAX);
    request->renew.row = &row;
    request->renew.count = 1;
    *stamp = dli_now();
    request->deadline = *stamp + dli_lease_attempt(lease, entry->rules.attempt);
    *status = give(entry->client, entry->loop, request);
    order_free(entry->client, request);
    return *status == DLOCK_OK ? row.kept : -1;
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
