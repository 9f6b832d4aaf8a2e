/*
 * check.c: looks at the servers, on demand and when a client is opened. client.mutex guards the findings of the last look.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

static int ask_check(struct dli_order *order)
{
    dli_order_word(order, DLI_VERB_CHECK);
    order->request->kind = dli_kind_find(DLOCK_KIND_MUTEX);
    order->request->place = order->place;
    order->request->repeatable = 1;
    return 1;
}

static int heard_check(struct dli_order *order)
{
    struct dli_client *client = order->client;
    struct dli_findings before;

    if (order->status != DLOCK_OK)
        return 0;
    order->value = order->found.count;
    pthread_mutex_lock(&client->mutex);
    before = client->found;
    client->found = order->found;
    pthread_mutex_unlock(&client->mutex);
    order->found = before;
    return 0;
}

struct dli_order *dli_order_check(struct dli_client *client, int64_t deadline)
{
    static const struct dli_task task = {ask_check, heard_check};
    struct dli_order *order = dli_order_new(client, &task);
    const char *in = dli_options_text(&client->options, DLI_OPT_NAMESPACE);
    char name[DLI_NAME_MAX + 1];
    int size;

    if (!order)
        return NULL;
    size = snprintf(name, sizeof name, "%s%sdlock_check", in, *in ? ":" : "");
    order->place = client->store->ops->place_new(client->store, dli_kind_find(DLOCK_KIND_MUTEX), name, (size_t)size);
    if (!order->place) {
        dli_order_free(order);
        return NULL;
    }
    order->request->check.found = &order->found;
    order->request->check.replicated = dli_options_replicas(&client->options) != 0;
    order->request->deadline = deadline;
    return order;
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

/* Every finding goes on record; of what is dangerous the first one into the box. */
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
    struct dli_order *order;
    dlock_status status;

    if (how == DLI_CHECKS_OFF)
        return DLOCK_OK;
    if ((status = dli_client_start(client, box)) != DLOCK_OK)
        return status;
    if (!(order = dli_order_check(client, dli_now() + wait)))
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    dli_order_carry(order);
    status = dli_order_said(order, box);
    dli_order_free(order);
    if (status == DLOCK_OK)
        return judge(client, how == DLI_CHECKS_REFUSE, box);
    if (how == DLI_CHECKS_REFUSE)
        return status;
    dli_events_log(&client->events, status, box->message);
    return DLOCK_OK;
}
