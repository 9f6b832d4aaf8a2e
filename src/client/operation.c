/*
 * operation.c: the life of an operation, and checks of the servers. See operation.h.
 */
#include "operation.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sys/sys.h"

/* ---- what happened to which lock */

const char *dli_reason_text(dlock_status status, const dlock_error *reason)
{
    return reason && reason->code == status && reason->message[0] ? reason->message : dli_status_find(status)->text;
}

dlock_status dli_lock_report(const struct dli_entry *entry, dlock_status status, const dlock_error *reason,
                             dlock_error *reterr)
{
    char name[120];

    if (status == DLOCK_OK)
        return DLOCK_OK;
    dli_escape(name, sizeof name, entry->name.text, entry->name.size);
    return dli_fail(reterr, status, "lock '%s' at %s: %s", name, entry->client->store->text,
                    dli_reason_text(status, reason));
}

dlock_status dli_operation_report(const struct dli_operation *operation, dlock_error *reterr)
{
    dlock_status status = operation->status;

    if (operation->entry)
        return dli_lock_report(operation->entry, status, &operation->reason, reterr);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    return dli_fail(reterr, status, "%s: %s", operation->client->store->text,
                    dli_reason_text(status, &operation->reason));
}

static void fill_inspection(const struct dli_inspection *inspection, int64_t *field)
{
    int held = inspection->holder[0] != '\0',
        foreign =
            held && (strlen(inspection->holder) < 15 || inspection->holder[8] != '-' || inspection->holder[14] != '8');

    field[DLOCK_FIELD_TOKEN] = inspection->token > 0 ? inspection->token : -1;
    field[DLOCK_FIELD_REMAINING_MS] = held ? inspection->left_ms : -1;
    field[DLOCK_FIELD_WAITERS] = inspection->waiters;
    field[DLOCK_FIELD_FOREIGN] = foreign;
    if (held && !foreign && inspection->token > 0 && inspection->now_us > 0)
        field[DLOCK_FIELD_HELD_FOR_MS] =
            inspection->now_us > inspection->token ? (inspection->now_us - inspection->token) / DLI_MS : 0;
}

static void fill_text(const struct dli_operation *operation, char text[DLI_EVENT_TEXT])
{
    dlock_error box = {.code = DLOCK_OK};

    text[0] = '\0';
    if (dli_operation_report(operation, &box) != DLOCK_OK) {
        dli_escape(text, DLI_EVENT_TEXT, box.message, strlen(box.message));
    } else if (operation->request->verb == DLI_VERB_INSPECT) {
        memcpy(text, operation->request->inspection.holder, DLI_EVENT_TEXT - 1);
        text[DLI_EVENT_TEXT - 1] = '\0';
    }
}

static void fill_fields(const struct dli_operation *operation, int64_t field[DLOCK_FIELD_COUNT])
{
    for (int i = 0; i < DLOCK_FIELD_COUNT; i++)
        field[i] = -1;
    field[DLOCK_FIELD_TYPE] = DLOCK_EVENT_DONE;
    field[DLOCK_FIELD_STATUS] = operation->status;
    field[DLOCK_FIELD_TAG] = operation->tag;
    field[DLOCK_FIELD_OWNER] = operation->owner;
    if (operation->entry)
        field[DLOCK_FIELD_LOCK_ID] = operation->multi ? operation->multi->id : operation->entry->id;
    if (operation->status != DLOCK_OK)
        return;
    if (operation->request->verb == DLI_VERB_INSPECT)
        fill_inspection(&operation->request->inspection, field);
    else if (operation->request->verb == DLI_VERB_CHANGE || operation->request->verb == DLI_VERB_CHECK ||
             operation->request->verb == DLI_VERB_LIST)
        field[DLOCK_FIELD_VALUE] = operation->value;
    else if (operation->value > 0 && !operation->grant)
        field[DLOCK_FIELD_TOKEN] = operation->value;
}

void dli_operation_event(const struct dli_operation *operation, int64_t field[DLOCK_FIELD_COUNT],
                         char text[DLI_EVENT_TEXT])
{
    fill_fields(operation, field);
    fill_text(operation, text);
}

/* ---- life */

static void read_node(struct dli_node *node, struct dlock_event *event)
{
    struct dli_operation *operation = DLI_OBJECT(node, struct dli_operation, shot.node);

    if (operation->request->verb == DLI_VERB_LIST && operation->status == DLOCK_OK) {
        operation->shot.data = operation->request->list.names; /* the event's from here on */
        operation->shot.size = operation->request->list.size;
        operation->request->list.names = NULL;
    }
    if (operation->grant && operation->status == DLOCK_OK) {
        operation->shot.data = operation->grant; /* the same */
        operation->shot.size = (size_t)operation->value;
        operation->grant = NULL;
    }
    dli_snapshot_read(&operation->shot, event);
    fill_text(operation, event->text);
    dli_operation_free(operation);
}

struct dli_operation *dli_operation_new(struct dli_client *client, const struct dli_task *task)
{
    struct dli_operation *operation = calloc(1, sizeof *operation);

    if (!operation)
        return NULL;
    if (!(operation->request = client->store->ops->request_new(client->store))) {
        free(operation);
        return NULL;
    }
    dli_client_ref(client);
    operation->client = client;
    operation->task = task;
    operation->owner = operation->tag = -1;
    operation->loop = client->loops[0];
    operation->shot.node.read = read_node;
    dli_list_init(&operation->shot.node.link);
    return operation;
}

struct dli_operation *dli_operation_about(struct dli_entry *entry, const struct dli_kind *kind, struct dli_multi *multi,
                                          const struct dli_task *task)
{
    struct dli_operation *operation = dli_operation_new(entry->client, task);

    if (!operation)
        return NULL;
    operation->entry = entry;
    operation->kind = kind;
    operation->multi = multi;
    if (multi)
        dli_multi_ref(multi);
    else
        dli_entry_ref(entry);
    return operation;
}

void dli_operation_free(struct dli_operation *operation)
{
    struct dli_client *client = operation->client;

    for (int i = 0; operation->waiter && i < 2; i++)
        dli_waiter_unref(operation->waiter);
    if (operation->hold)
        dli_entry_unref(operation->hold);
    if (operation->multi)
        dli_multi_unref(operation->multi);
    else if (operation->entry)
        dli_entry_unref(operation->entry);
    if (operation->request->verb == DLI_VERB_LIST)
        free(operation->request->list.names);
    client->store->ops->request_free(operation->request);
    if (operation->place)
        client->store->ops->place_free(operation->place);
    dli_findings_free(&operation->found);
    if (operation->grant)
        explicit_bzero(operation->grant, (size_t)operation->value);
    free(operation->grant);
    if (operation->transfer)
        explicit_bzero(operation->transfer, sizeof *operation->transfer);
    free(operation->transfer);
    free(operation);
    dli_client_unref(client);
}

/* ---- requests */

void dli_operation_begin(struct dli_operation *operation, enum dli_verb verb)
{
    struct dli_entry *entry = operation->entry;

    operation->request->verb = verb;
    operation->request->repeatable = 1;
    if (!entry)
        return;
    operation->loop = dli_entry_loop(entry);
    operation->request->kind = entry->kind;
    operation->request->place = entry->place;
    operation->request->deadline = dli_now() + entry->m.rules->attempt;
}

void dli_operation_renewal(struct dli_operation *operation, struct dli_entry *entry, int64_t lease)
{
    struct dli_request *request = operation->request;

    dli_operation_begin(operation, DLI_VERB_RENEW);
    operation->loop = dli_entry_loop(entry);
    operation->lease = lease;
    operation->row.kind = entry->kind;
    operation->row.place = entry->place;
    operation->row.lease = lease + entry->m.rules->delay;
    operation->row.delay = entry->m.rules->delay;
    operation->row.changed = 1;
    operation->row.since = 0;
    operation->row.permits = entry->m.rules->permits;
    operation->stamp = dli_now();
    request->kind = entry->kind;
    request->place = entry->place;
    request->renew.row = &operation->row;
    request->renew.count = 1;
    request->deadline = operation->stamp + dli_lease_attempt(lease, entry->m.rules->attempt);
}

/* Prepare the next request. 1: send it. 0: the operation is over. */
static int prepare_next(struct dli_operation *operation)
{
    operation->request->reason = &operation->reason;
    operation->reason.code = DLOCK_OK;
    operation->reason.message[0] = '\0';
    return operation->task->prepare(operation);
}

dlock_status dli_operation_execute(struct dli_operation *operation)
{
    while (prepare_next(operation)) {
        operation->client->store->ops->execute(operation->loop->lane, operation->request);
        operation->status = operation->request->status;
        if (!operation->task->answered(operation))
            break;
    }
    return operation->status;
}

/* 1: a request is under way, and the operation is not the caller's any more. 0: it is over. */
static int go_on(struct dli_operation *operation)
{
    while (prepare_next(operation)) {
        dlock_status status = operation->client->store->ops->push(operation->loop->lane, operation->request);

        if (status == DLOCK_OK)
            return 1;
        operation->status = operation->request->status = status;
        operation->request->sent = 0;
        if (!operation->task->answered(operation))
            break;
    }
    return 0;
}

static void answered(struct dli_request *request)
{
    struct dli_operation *operation = request->context;

    operation->status = request->status;
    if (operation->task->answered(operation) && go_on(operation))
        return;
    fill_fields(operation, operation->shot.field);
    if (!dli_events_keep(&operation->client->events, &operation->shot.node))
        dli_operation_free(operation);
}

dlock_status dli_operation_submit(struct dli_operation *operation, int64_t tag, dlock_error *reterr)
{
    struct dli_events *events = &operation->client->events;
    dlock_status status;

    operation->tag = tag;
    operation->request->done = answered;
    operation->request->context = operation;
    operation->request->direct = dli_events_one_by_one(events, dli_now());
    operation->status = dli_events_promise(events);
    if (operation->status == DLOCK_OK) {
        if (go_on(operation))
            return DLOCK_OK;
        dli_events_keep(events, NULL);
    }
    status = dli_operation_report(operation, reterr);
    dli_operation_free(operation);
    return status;
}

/* ---- checks of the servers, on demand and when a client is opened. client.mutex guards the last findings. */

static int prepare_check(struct dli_operation *operation)
{
    dli_operation_begin(operation, DLI_VERB_CHECK);
    operation->request->kind = dli_kind_find(DLOCK_KIND_MUTEX);
    operation->request->place = operation->place;
    operation->request->repeatable = 1;
    return 1;
}

static int answered_check(struct dli_operation *operation)
{
    struct dli_client *client = operation->client;
    struct dli_findings before;

    if (operation->status != DLOCK_OK)
        return 0;
    operation->value = operation->found.count;
    pthread_mutex_lock(&client->mutex);
    before = client->found;
    client->found = operation->found;
    pthread_mutex_unlock(&client->mutex);
    operation->found = before;
    return 0;
}

struct dli_operation *dli_operation_check(struct dli_client *client, int64_t deadline)
{
    static const struct dli_task task = {prepare_check, answered_check};
    struct dli_operation *operation = dli_operation_new(client, &task);
    const char *in = dli_options_text(&client->options, DLI_OPT_NAMESPACE);
    char name[DLI_NAME_MAX + 1];
    size_t size;

    if (!operation)
        return NULL;
    size = dli_print(name, sizeof name, "%s%sdlock_check", in, *in ? ":" : "");
    operation->place = client->store->ops->place_new(client->store, dli_kind_find(DLOCK_KIND_MUTEX), name, size);
    if (!operation->place) {
        dli_operation_free(operation);
        return NULL;
    }
    operation->request->check.found = &operation->found;
    operation->request->check.replicated = dli_options_replicas(&client->options) != 0;
    operation->request->deadline = deadline;
    return operation;
}

int dli_check_finding(struct dli_client *client, size_t index, struct dli_finding *finding)
{
    int there;

    pthread_mutex_lock(&client->mutex);
    there = index < (size_t)client->found.count;
    if (there)
        *finding = client->found.row[index];
    pthread_mutex_unlock(&client->mutex);
    return there ? 0 : -1;
}

/* Log every finding. With refuse, the first dangerous one is the failure: it goes into box. */
static dlock_status judge(struct dli_client *client, int refuse, dlock_error *box)
{
    dlock_status status = DLOCK_OK;
    struct dli_finding finding;
    char text[DLI_EVENT_TEXT];

    for (size_t i = 0; dli_check_finding(client, i, &finding) == 0; i++) {
        dli_finding_say(&finding, text, sizeof text);
        dli_events_log(&client->events, DLOCK_UNFIT, text);
        if (refuse && status == DLOCK_OK && finding.row->severity == DLOCK_SEVERITY_DANGER)
            status = dli_fail(box, DLOCK_UNFIT, "%s: %s", client->store->text, text);
    }
    return status;
}

dlock_status dli_check_open(struct dli_client *client, dlock_error *box)
{
    int how = dli_options_checks(&client->options);
    int64_t wait = client->store->connect_time + client->options.number[DLI_OPT_COMMAND_TIMEOUT_MS] * DLI_MS;
    struct dli_operation *operation;
    dlock_status status;

    if (how == DLI_CHECKS_OFF)
        return DLOCK_OK;
    if ((status = dli_client_start(client, box)) != DLOCK_OK)
        return status;
    if (!(operation = dli_operation_check(client, dli_now() + wait)))
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    dli_operation_execute(operation);
    status = dli_operation_report(operation, box);
    dli_operation_free(operation);
    if (status == DLOCK_OK)
        return judge(client, how == DLI_CHECKS_REFUSE, box);
    if (how == DLI_CHECKS_REFUSE)
        return status;
    dli_events_log(&client->events, status, box->message);
    return DLOCK_OK;
}
