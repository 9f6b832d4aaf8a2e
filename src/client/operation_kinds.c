/*
 * operation_kinds.c: the operations on the client, names, semaphores, latches and holds. See operation.h.
 */
#include "operation.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "sys/sys.h"

static int answered_last(struct dli_operation *operation)
{
    (void)operation;
    return 0;
}

/* Go on to the next member of a multi-lock. 0: there is none. */
static int next_member(struct dli_operation *operation)
{
    const struct dli_member *member;

    if (!operation->multi || operation->at + 1 >= operation->multi->count)
        return 0;
    member = &operation->multi->member[++operation->at];
    operation->entry = member->entry;
    operation->kind = member->kind;
    return 1;
}

/* With multi, the operation begins with the first member. */
static struct dli_operation *new_operation(struct dli_entry *entry, const struct dli_kind *kind,
                                           struct dli_multi *multi, const struct dli_task *task)
{
    return dli_operation_about(entry, multi ? multi->member[0].kind : kind, multi, task);
}

/* ---- on the client */

static int prepare_plain(struct dli_operation *operation)
{
    dli_operation_begin(operation, operation->request->verb);
    return 1;
}

struct dli_operation *dli_operation_plain(struct dli_client *client, enum dli_verb verb, int64_t deadline)
{
    static const struct dli_task task = {prepare_plain, answered_last};
    struct dli_operation *operation = dli_operation_new(client, &task);

    if (!operation)
        return NULL;
    operation->request->verb = verb;
    operation->request->deadline = deadline;
    return operation;
}

/* ---- names: a cursor is a server and a place in its keys */

enum { PLACE_BITS = 48, SERVERS_MOST = 16384 };

#define PLACE_LIMIT (INT64_C(1) << PLACE_BITS)

int dli_list_cursor(const struct dli_client *client, int64_t cursor)
{
    struct dli_store *store = client->store;
    int64_t server = cursor / PLACE_LIMIT;

    if (cursor < 0 || server >= SERVERS_MOST)
        return 0;
    return server == 0 || store->ops->next_server(store, (int)server - 1) == (int)server;
}

static int prepare_list(struct dli_operation *operation)
{
    dli_operation_begin(operation, DLI_VERB_LIST);
    return 1;
}

/* Keep the names in the client's namespace, and take that off. */
static void keep_own(struct dli_operation *operation)
{
    struct dli_request *request = operation->request;
    const char *in = dli_options_text(&operation->client->options, DLI_OPT_NAMESPACE);
    size_t prefix = strlen(in), kept = 0;

    if (prefix == 0)
        return;
    for (size_t at = 0, size; at < request->list.size; at += size) {
        const char *name = request->list.names + at;

        size = strlen(name) + 1;
        if (size <= prefix + 2 || memcmp(name, in, prefix) != 0 || name[prefix] != ':')
            continue;
        memmove(request->list.names + kept, name + prefix + 1, size - prefix - 1);
        kept += size - prefix - 1;
    }
    request->list.size = kept;
}

static int answered_list(struct dli_operation *operation)
{
    struct dli_store *store = operation->client->store;
    struct dli_request *request = operation->request;
    int next;

    if (operation->status != DLOCK_OK)
        return 0;
    keep_own(operation);
    if (request->list.at >= (uint64_t)PLACE_LIMIT) {
        operation->status =
            dli_fail(request->reason, DLOCK_PROTOCOL_ERROR, "the server's cursor is larger than any that is known");
    } else if (request->list.at > 0) {
        operation->value = request->list.server * PLACE_LIMIT + (int64_t)request->list.at;
    } else {
        next = store->ops->next_server(store, request->list.server);
        operation->value = next < 0 ? 0 : next * PLACE_LIMIT;
    }
    return 0;
}

struct dli_operation *dli_operation_list(struct dli_client *client, int64_t cursor, int64_t deadline)
{
    static const struct dli_task task = {prepare_list, answered_list};
    struct dli_operation *operation = dli_operation_new(client, &task);

    if (!operation)
        return NULL;
    operation->request->verb = DLI_VERB_LIST;
    operation->request->deadline = deadline;
    operation->request->list.server = (int)(cursor / PLACE_LIMIT);
    operation->request->list.at = (uint64_t)(cursor % PLACE_LIMIT);
    return operation;
}

/* ---- release by force */

static int prepare_force(struct dli_operation *operation)
{
    int64_t now = dli_now();

    dli_entry_lock(operation->entry);
    dli_mutex_stop_linger(&operation->entry->m, now);
    dli_entry_pump(operation->entry, now);
    dli_entry_unlock(operation->entry);
    dli_operation_begin(operation, DLI_VERB_FORCE);
    operation->request->kind = operation->kind;
    operation->request->repeatable = 0;
    return 1;
}

static int answered_force(struct dli_operation *operation)
{
    operation->any |= operation->status == DLOCK_OK;
    if (operation->status != DLOCK_OK && operation->status != DLOCK_NOT_HELD)
        return 0;
    if (next_member(operation))
        return 1;
    operation->status = operation->any ? DLOCK_OK : DLOCK_NOT_HELD;
    if (operation->multi)
        operation->entry = operation->multi->member[0].entry;
    return 0;
}

struct dli_operation *dli_operation_force(struct dli_entry *entry, const struct dli_kind *kind, struct dli_multi *multi)
{
    static const struct dli_task task = {prepare_force, answered_force};

    return new_operation(entry, kind, multi, &task);
}

/* ---- inspect */

static int prepare_inspect(struct dli_operation *operation)
{
    dli_operation_begin(operation, DLI_VERB_INSPECT);
    return 1;
}

struct dli_operation *dli_operation_inspect(struct dli_entry *entry)
{
    static const struct dli_task task = {prepare_inspect, answered_last};

    return dli_operation_about(entry, entry->kind, NULL, &task);
}

/* ---- the gate */

static int prepare_gate(struct dli_operation *operation)
{
    dli_operation_begin(operation, DLI_VERB_GATE);
    return 1;
}

/*
 * Tell the machine before the operation is over. The message comes later: no hand-over may come in between. A server sends
 * some waiters away with each request.
 */
static int answered_gate(struct dli_operation *operation)
{
    int64_t now = dli_now(), ttl_ms = operation->request->gate_ms, until = 0;
    struct dli_entry *entry = operation->entry;

    if (operation->status != DLOCK_OK)
        return 0;
    if (operation->tries++ > 0)
        return operation->request->gate_rest[0] != '\0';
    if (ttl_ms > 0)
        until = dli_after_ms(now, ttl_ms);
    dli_entry_lock(entry);
    dli_entry_gate(entry, until, now);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return operation->request->gate_rest[0] != '\0';
}

struct dli_operation *dli_operation_gate(struct dli_entry *entry, int64_t ttl_ms)
{
    static const struct dli_task task = {prepare_gate, answered_gate};
    struct dli_operation *operation = dli_operation_about(entry, entry->kind, NULL, &task);

    if (operation) {
        operation->request->gate_ms = ttl_ms;
        operation->request->gate_rest[0] = '\0';
    }
    return operation;
}

/* ---- changes of semaphores and latches: sent again with the same id when no answer came */

enum { CHANGE_TRIES = 3 };

static int prepare_change(struct dli_operation *operation)
{
    int64_t now = dli_now(), attempt = operation->entry->m.rules->attempt;

    dli_operation_begin(operation, DLI_VERB_CHANGE);
    operation->request->repeatable = 0; /* this operation counts the tries */
    operation->request->deadline = now + attempt / CHANGE_TRIES;
    operation->request->change.value = 0;
    if (operation->end == 0)
        operation->end = now + attempt;
    return 1;
}

static void new_id(struct dli_operation *operation)
{
    int64_t number = __atomic_add_fetch(&operation->client->numbers, 1, __ATOMIC_RELAXED);

    dli_entry_owner(operation->entry, number, operation->request->change.id);
}

/* Whether this answer is the same, or means the same, whatever an earlier try has done: the server has looked for its id. */
static int is_certain(dlock_status status)
{
    return status == DLOCK_OK || status == DLOCK_UNCHANGED || status == DLOCK_INVALID_ARGUMENT ||
           status == DLOCK_WRONG_KIND || status == DLOCK_UNKNOWN_OUTCOME || status == DLOCK_CLOSED;
}

/* An earlier try may have acted, and this one was refused before the server has looked. */
static void doubt_change(struct dli_operation *operation)
{
    dlock_error *reason = &operation->reason;
    char why[sizeof reason->message];

    snprintf(why, sizeof why, "%s", dli_reason_text(operation->status, reason));
    operation->status = DLOCK_UNKNOWN_OUTCOME;
    dli_fail(reason, DLOCK_UNKNOWN_OUTCOME, "a try had no answer, and the next one was refused: %s", why);
}

/* A request reclaims the permits of some holders: another one goes on. */
static int go_on(struct dli_operation *operation)
{
    operation->sum = operation->value;
    operation->tries = operation->sent = 0;
    new_id(operation);
    return 1;
}

static int answered_change(struct dli_operation *operation)
{
    operation->sent |= operation->request->sent;
    operation->value = strcmp(operation->request->change.what, "set") == 0
                           ? -1
                           : dli_plus(operation->sum, operation->request->change.value);
    if (operation->status == DLOCK_OK && operation->request->change.more && dli_now() < operation->end)
        return go_on(operation);
    if (operation->status == DLOCK_UNREACHABLE && operation->sent && ++operation->tries < CHANGE_TRIES)
        return 1;
    if (operation->status == DLOCK_UNREACHABLE && operation->sent)
        operation->status = DLOCK_UNKNOWN_OUTCOME;
    else if (operation->tries > 0 && !is_certain(operation->status))
        doubt_change(operation);
    if (operation->sum > 0 && operation->status != DLOCK_UNKNOWN_OUTCOME)
        operation->status = DLOCK_OK; /* the requests before have reclaimed some, and another call goes on */
    return 0;
}

struct dli_operation *dli_operation_change(struct dli_entry *entry, const char *what, int64_t number)
{
    static const struct dli_task task = {prepare_change, answered_change};
    struct dli_operation *operation = dli_operation_about(entry, entry->kind, NULL, &task);

    if (!operation)
        return NULL;
    operation->request->change.what = what;
    operation->request->change.number = number;
    new_id(operation);
    return operation;
}

/* ---- extend */

/* entry.mutex held: the grant number, the id and the token of what owner holds; 0 when it holds nothing. */
static int64_t held_number(struct dli_entry *entry, int64_t owner, char id[DLI_OWNER_MAX], int64_t *token)
{
    if (!entry->m.holder || entry->m.holder->owner != owner || !dli_mutex_owned(&entry->m))
        return 0;
    dli_entry_owner(entry, entry->m.want.number, id);
    *token = entry->m.holder->token;
    return entry->m.want.number;
}

/* The hold to extend, if owner has one: 1. */
static int choose_hold(struct dli_operation *operation)
{
    struct dli_entry *hold = operation->hold;
    int32_t state;

    dli_entry_lock(hold);
    state = dli_mutex_state(&hold->m, operation->owner, dli_now());
    operation->number = held_number(hold, operation->owner, operation->row.owner, &operation->token);
    if (operation->number)
        dli_mutex_extending(&hold->m, operation->lease);
    operation->row.last = hold->m.tokens.end - 1;
    dli_operation_renewal(operation, hold, operation->lease);
    dli_entry_unlock(hold);
    operation->status = state == DLOCK_STATE_LOST ? DLOCK_LOST : DLOCK_NOT_HELD;
    return operation->number != 0;
}

static int prepare_extend(struct dli_operation *operation)
{
    operation->status = DLOCK_NOT_HELD;
    if (!(operation->hold = dli_hold_find(operation->entry, operation->kind, operation->owner)))
        return 0;
    while (!choose_hold(operation))
        if (!dli_hold_again(&operation->hold, operation->owner, operation->status))
            return 0;
    return 1;
}

/* The answer is known: drop the hold. 1: it was released meanwhile, and owner has another one, which is to be extended instead. */
static int leave_hold(struct dli_operation *operation)
{
    int again = dli_hold_again(&operation->hold, operation->owner, operation->status);

    dli_entry_unref(operation->hold);
    operation->hold = NULL;
    return again;
}

static int answered_extend(struct dli_operation *operation)
{
    struct dli_entry *hold = operation->hold;
    int64_t now = dli_now(), since = operation->row.since;
    int kept = operation->status == DLOCK_OK ? operation->row.kept : -1, has = 0;

    dli_entry_lock(hold);
    if (kept >= 0)
        has = dli_mutex_extended(&hold->m, operation->number, operation->token, kept, operation->lease,
                                 since && since < operation->stamp ? since : operation->stamp, now);
    if (kept >= 0 && dli_mutex_state(&hold->m, operation->owner, now) == DLOCK_STATE_LOST)
        operation->status = DLOCK_LOST;
    else if (kept >= 0 && !has) /* released meanwhile */
        operation->status = DLOCK_NOT_HELD;
    dli_entry_pump(hold, now);
    dli_entry_unlock(hold);
    return leave_hold(operation) || (operation->status == DLOCK_OK && next_member(operation));
}

struct dli_operation *dli_operation_extend(struct dli_entry *entry, const struct dli_kind *kind,
                                           struct dli_multi *multi, int64_t owner, int64_t lease)
{
    static const struct dli_task task = {prepare_extend, answered_extend};
    struct dli_operation *operation = new_operation(entry, kind, multi, &task);

    if (!operation)
        return NULL;
    operation->owner = owner;
    operation->lease = lease;
    return operation;
}
