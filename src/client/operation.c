/*
 * operation.c: the life of an order. See operation.h.
 */
#include "operation.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

/* ---- what happened to which lock */

dlock_status dli_lock_said(const struct dli_entry *entry, dlock_status status, const dlock_error *why,
                           dlock_error *reterr)
{
    char name[120];

    if (status == DLOCK_OK)
        return DLOCK_OK;
    dli_quote(name, sizeof name, entry->name.text, entry->name.size);
    return dli_fail(reterr, status, "lock '%s' at %s: %s", name, entry->client->store->text,
                    why && why->code == status && why->message[0] ? why->message : dli_status_find(status)->text);
}

dlock_status dli_order_said(const struct dli_order *order, dlock_error *reterr)
{
    dlock_status status = order->status;
    int own = order->why.code == status && order->why.message[0];

    if (order->entry)
        return dli_lock_said(order->entry, status, &order->why, reterr);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    return dli_fail(reterr, status, "%s: %s", order->client->store->text,
                    own ? order->why.message : dli_status_find(status)->text);
}

static void tell_sight(const struct dli_sight *sight, int64_t *field)
{
    int held = sight->holder[0] != '\0', foreign = held && (strlen(sight->holder) < 15 || sight->holder[14] != '8');

    field[DLOCK_FIELD_TOKEN] = sight->token > 0 ? sight->token : -1;
    field[DLOCK_FIELD_REMAINING_MS] = held ? sight->left_ms : -1;
    field[DLOCK_FIELD_WAITERS] = sight->waiters;
    field[DLOCK_FIELD_FOREIGN] = foreign;
    if (held && !foreign && sight->token > 0)
        field[DLOCK_FIELD_HELD_FOR_MS] = sight->now_us > sight->token ? (sight->now_us - sight->token) / DLI_MS : 0;
}

static void tell_text(const struct dli_order *order, char text[DLI_EVENT_TEXT])
{
    dlock_error box = {.code = DLOCK_OK};

    text[0] = '\0';
    if (dli_order_said(order, &box) != DLOCK_OK) {
        dli_quote(text, DLI_EVENT_TEXT, box.message, strlen(box.message));
    } else if (order->request->verb == DLI_VERB_INSPECT) {
        memcpy(text, order->request->sight.holder, DLI_EVENT_TEXT - 1);
        text[DLI_EVENT_TEXT - 1] = '\0';
    }
}

static void tell_numbers(const struct dli_order *order, int64_t field[DLOCK_FIELD_COUNT])
{
    for (int i = 0; i < DLOCK_FIELD_COUNT; i++)
        field[i] = -1;
    field[DLOCK_FIELD_TYPE] = DLOCK_EVENT_DONE;
    field[DLOCK_FIELD_STATUS] = order->status;
    field[DLOCK_FIELD_TAG] = order->tag;
    field[DLOCK_FIELD_OWNER] = order->owner;
    if (order->entry)
        field[DLOCK_FIELD_LOCK_ID] = order->multi ? order->multi->id : order->entry->id;
    if (order->status != DLOCK_OK)
        return;
    if (order->request->verb == DLI_VERB_INSPECT)
        tell_sight(&order->request->sight, field);
    else if (order->request->verb == DLI_VERB_CHANGE || order->request->verb == DLI_VERB_CHECK)
        field[DLOCK_FIELD_VALUE] = order->value;
    else if (order->value > 0)
        field[DLOCK_FIELD_TOKEN] = order->value;
}

void dli_order_tell(const struct dli_order *order, int64_t field[DLOCK_FIELD_COUNT], char text[DLI_EVENT_TEXT])
{
    tell_numbers(order, field);
    tell_text(order, text);
}

/* ---- life */

static void read_node(struct dli_node *node, char text[DLI_EVENT_TEXT])
{
    struct dli_order *order = DLI_OBJECT(node, struct dli_order, node);

    tell_text(order, text);
    dli_order_free(order);
}

struct dli_order *dli_order_new(struct dli_client *client, const struct dli_task *task)
{
    struct dli_order *order = calloc(1, sizeof *order);

    if (!order)
        return NULL;
    if (!(order->request = client->store->ops->request_new(client->store))) {
        free(order);
        return NULL;
    }
    dli_client_ref(client);
    order->client = client;
    order->task = task;
    order->owner = order->tag = -1;
    order->loop = client->loops[0];
    order->node.read = read_node;
    dli_list_init(&order->node.link);
    return order;
}

struct dli_order *dli_order_about(struct dli_entry *entry, const struct dli_kind *kind, struct dli_multi *multi,
                                  const struct dli_task *task)
{
    struct dli_order *order = dli_order_new(entry->client, task);

    if (!order)
        return NULL;
    order->entry = entry;
    order->kind = kind;
    order->multi = multi;
    if (multi)
        dli_multi_ref(multi);
    else
        dli_entry_ref(entry);
    return order;
}

void dli_order_free(struct dli_order *order)
{
    struct dli_client *client = order->client;

    for (int i = 0; order->waiter && i < 2; i++)
        dli_waiter_unref(order->waiter);
    if (order->hold)
        dli_entry_unref(order->hold);
    if (order->multi)
        dli_multi_unref(order->multi);
    else if (order->entry)
        dli_entry_unref(order->entry);
    client->store->ops->request_free(order->request);
    if (order->place)
        client->store->ops->place_free(order->place);
    dli_findings_free(&order->found);
    free(order);
    dli_client_unref(client);
}

/* ---- requests */

void dli_order_word(struct dli_order *order, enum dli_verb verb)
{
    struct dli_entry *entry = order->entry;

    order->request->verb = verb;
    order->request->repeatable = 1;
    if (!entry)
        return;
    order->loop = entry->loop;
    order->request->kind = entry->kind;
    order->request->place = entry->place;
    order->request->deadline = dli_now() + entry->rules.attempt;
}

void dli_order_renewal(struct dli_order *order, struct dli_entry *entry, int64_t lease)
{
    struct dli_request *request = order->request;

    dli_order_word(order, DLI_VERB_RENEW);
    order->loop = entry->loop;
    order->lease = lease;
    order->row.kind = entry->kind;
    order->row.place = entry->place;
    order->row.lease = lease + entry->rules.delay;
    order->row.permits = entry->rules.permits;
    order->stamp = dli_now();
    request->kind = entry->kind;
    request->place = entry->place;
    request->renew.row = &order->row;
    request->renew.count = 1;
    request->deadline = order->stamp + dli_lease_attempt(lease, entry->rules.attempt);
}

/* Ask for the next request. 1: it is to be sent. */
static int asked(struct dli_order *order)
{
    order->request->why = &order->why;
    order->why.code = DLOCK_OK;
    order->why.message[0] = '\0';
    return order->task->ask(order);
}

dlock_status dli_order_carry(struct dli_order *order)
{
    while (asked(order)) {
        order->client->store->ops->carry(order->loop->lane, order->request);
        order->status = order->request->status;
        if (!order->task->heard(order))
            break;
    }
    return order->status;
}

/* 1: a request is under way, and the order is no longer the caller's. 0: it is over. */
static int go_on(struct dli_order *order)
{
    while (asked(order)) {
        dlock_status status = order->client->store->ops->push(order->loop->lane, order->request);

        if (status == DLOCK_OK)
            return 1;
        order->status = order->request->status = status;
        order->request->sent = 0;
        if (!order->task->heard(order))
            break;
    }
    return 0;
}

static void answered(struct dli_request *request)
{
    struct dli_order *order = request->asker;

    order->status = request->status;
    if (order->task->heard(order) && go_on(order))
        return;
    tell_numbers(order, order->node.field);
    if (!dli_events_keep(&order->client->events, &order->node))
        dli_order_free(order);
}

dlock_status dli_order_submit(struct dli_order *order, int64_t tag, dlock_error *reterr)
{
    struct dli_events *events = &order->client->events;
    dlock_status status;

    order->tag = tag;
    order->request->done = answered;
    order->request->asker = order;
    order->request->direct = dli_events_one_by_one(events, dli_now());
    order->status = dli_events_promise(events);
    if (order->status == DLOCK_OK) {
        if (go_on(order))
            return DLOCK_OK;
        dli_events_keep(events, NULL);
    }
    status = dli_order_said(order, reterr);
    dli_order_free(order);
    return status;
}
