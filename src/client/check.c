/*
 * check.c: checks of the servers, on demand and when a client is opened. client.mutex guards the last findings.
 */
#include "operation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

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
    int size;

    if (!operation)
        return NULL;
    size = snprintf(name, sizeof name, "%s%sdlock_check", in, *in ? ":" : "");
    operation->place =
        client->store->ops->place_new(client->store, dli_kind_find(DLOCK_KIND_MUTEX), name, (size_t)size);
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
