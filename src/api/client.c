/*
 * client.c: opening and closing a client; its event queue, ping and provisioning.
 */
#include <stdlib.h>

#include "base/name.h"
#include "base/url.h"
#include "handles.h"
#include "sys/sys.h"
#include "client/client.h"

int64_t dli_wait(int64_t wait_ms)
{
    return wait_ms < 0 || wait_ms > DLI_NEVER / DLI_MS ? DLI_NEVER : wait_ms * DLI_MS;
}

dlock_status dli_client_check(const dlock_client *client, int64_t timeout_ms, dlock_error *reterr)
{
    if (!client)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no client was given");
    if (timeout_ms < -1)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a timeout is -1, 0 or a number of milliseconds");
    return DLOCK_OK;
}

dlock_status dli_client_mine(const dlock_client *client, int64_t timeout_ms, dlock_error *reterr)
{
    dlock_status status = dli_client_check(client, timeout_ms, reterr);

    if (status == DLOCK_OK && dli_client_usable(client->core, NULL) == DLOCK_FORKED)
        status = dli_client_usable(client->core, reterr);
    if (status == DLOCK_OK && dli_client_part(client->core))
        status = dli_fail(reterr, DLOCK_SYSTEM_ERROR, "no descriptor for the event queue in a forked process");
    return status;
}

/* The options override the URL. The result is checked as a whole. */
static dlock_status combine(const char *url, const dlock_options *options, struct dli_site *site,
                            struct dlock_options *set, dlock_error *reterr)
{
    dlock_status status = dli_url_parse(url, site, set, reterr);

    if (status == DLOCK_OK)
        status = dli_options_overlay(set, options, reterr);
    if (status == DLOCK_OK)
        status = dli_options_check(set, reterr);
    return status == DLOCK_OK ? dli_site_check(site, set, reterr) : status;
}

dlock_status dlock_client_open(const char *url, const dlock_options *options, dlock_client **ret_client,
                               dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dlock_options set;
    struct dli_site site;
    dlock_error box = {.code = DLOCK_OK};
    dlock_client *client;
    dlock_status status;

    if (!url || !ret_client)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "opening a client needs a URL and a place for the result");
    if (!(client = calloc(1, sizeof *client)))
        return dli_fail(reterr, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    dli_options_init(&set);
    status = combine(url, options, &site, &set, &box);
    if (status == DLOCK_OK)
        status = dli_client_new(&set, &site, &client->core, &box);
    if (status == DLOCK_OK && (status = dli_check_open(client->core, &box)) != DLOCK_OK) {
        dli_client_shut(client->core, 0, 0);
        dli_events_shut(&client->core->events);
        dli_client_unref(client->core);
    }
    dli_options_fini(&set);
    if (status == DLOCK_OK) {
        *ret_client = client;
        return DLOCK_OK;
    }
    free(client);
    return dli_fail(reterr, status, "%s", box.message);
}

dlock_status dlock_client_close(dlock_client *client, int64_t timeout_ms, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_client_mine(client, timeout_ms, reterr);

    if (status != DLOCK_OK)
        return status;
    status = dli_client_shut(client->core, 1, dli_later(dli_now(), dli_wait(timeout_ms)));
    if (status != DLOCK_OK)
        return dli_fail(reterr, status, DLI_LEFT, client->core->store->text);
    return DLOCK_OK;
}

dlock_status dlock_client_submit_close(dlock_client *client, int64_t timeout_ms, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_client_mine(client, timeout_ms, reterr);

    if (status == DLOCK_OK)
        dli_client_leave(client->core, dli_later(dli_now(), dli_wait(timeout_ms)));
    return status;
}

void dlock_client_free(dlock_client *client)
{
    DLI_UNCANCELLED;
    if (!client)
        return;
    if (dli_client_usable(client->core, NULL) != DLOCK_FORKED && dli_client_part(client->core) == 0) {
        dli_client_shut(client->core, 0, 0);
        dli_events_shut(&client->core->events);
        dli_client_unref(client->core);
    }
    free(client);
}

dlock_status dlock_client_fd(dlock_client *client, int32_t *ret_fd, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_client_mine(client, 0, reterr);

    if (status == DLOCK_OK && ret_fd)
        *ret_fd = client->core->events.fd;
    return status;
}

dlock_status dlock_client_next(dlock_client *client, int64_t timeout_ms, dlock_event *event, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_client_mine(client, timeout_ms, reterr);

    if (status != DLOCK_OK)
        return status;
    if (!event)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no event box was given");
    status = dli_events_next(&client->core->events, dli_later(dli_now(), dli_wait(timeout_ms)), event);
    return status == DLOCK_OK ? status : dli_fail(reterr, status, "%s", dlock_status_text(status));
}

dlock_status dlock_client_wake(dlock_client *client, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_client_mine(client, 0, reterr);

    if (status != DLOCK_OK)
        return status;
    dli_events_wake(&client->core->events);
    return DLOCK_OK;
}

/*
 * timeout_ms -1: the timeouts of connecting and of a command, and for PROVISION the time that the store needs for it.
 * NULL on failure: box has the reason.
 */
static struct dli_operation *begin(dlock_client *client, int64_t timeout_ms, enum dli_verb verb, dlock_error *box)
{
    int64_t wait = dli_wait(timeout_ms);
    struct dli_operation *operation;

    if (dli_client_check(client, timeout_ms, box) != DLOCK_OK || dli_client_start(client->core, box) != DLOCK_OK)
        return NULL;
    if (timeout_ms < 0)
        wait = client->core->store->connect_time + client->core->options.number[DLI_OPT_COMMAND_TIMEOUT_MS] * DLI_MS +
               (verb == DLI_VERB_PROVISION ? client->core->store->provision_time : 0);
    if (!(operation = dli_operation_plain(client->core, verb, dli_later(dli_now(), wait))))
        dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    return operation;
}

static dlock_status execute(dlock_client *client, int64_t timeout_ms, enum dli_verb verb, dlock_error *reterr)
{
    dlock_error box = {.code = DLOCK_OK};
    struct dli_operation *operation = begin(client, timeout_ms, verb, &box);
    dlock_status status;

    if (!operation)
        return dli_fail(reterr, box.code, "%s", box.message);
    dli_operation_execute(operation);
    status = dli_operation_report(operation, reterr);
    dli_operation_free(operation);
    return status;
}

dlock_status dlock_client_ping(dlock_client *client, int64_t timeout_ms, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    return execute(client, timeout_ms, DLI_VERB_PING, reterr);
}

static dlock_status submit(dlock_client *client, int64_t timeout_ms, enum dli_verb verb, int64_t tag,
                           dlock_error *reterr)
{
    dlock_error box = {.code = DLOCK_OK};
    struct dli_operation *operation = begin(client, timeout_ms, verb, &box);

    return operation ? dli_operation_submit(operation, tag, reterr) : dli_fail(reterr, box.code, "%s", box.message);
}

dlock_status dlock_client_submit_ping(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    return submit(client, timeout_ms, DLI_VERB_PING, tag, reterr);
}

/* Without a quarantine there is nothing to provision. */
static dlock_status check_provision(const dlock_client *client, dlock_error *reterr)
{
    if (client && client->core->options.number[DLI_OPT_QUARANTINE_MS] == 0)
        return dli_fail(reterr, DLOCK_UNSUPPORTED, "provisioning needs the option quarantine_ms");
    return DLOCK_OK;
}

dlock_status dlock_client_provision(dlock_client *client, int64_t timeout_ms, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = check_provision(client, reterr);

    return status == DLOCK_OK ? execute(client, timeout_ms, DLI_VERB_PROVISION, reterr) : status;
}

dlock_status dlock_client_submit_provision(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = check_provision(client, reterr);

    return status == DLOCK_OK ? submit(client, timeout_ms, DLI_VERB_PROVISION, tag, reterr) : status;
}

/* ---- faults on demand */

/* The name of a lock, with the namespace as prefix. */
static dlock_status name_in(const dlock_client *client, const char *name, size_t size, char full[DLI_NAME_MAX + 1],
                            struct dli_fault *fault, dlock_error *reterr)
{
    dlock_status status = dli_name_check(name, size, reterr);

    fault->name = full;
    fault->size = size;
    if (status != DLOCK_OK)
        return status;
    return dli_name_in(full, &fault->size, dli_options_text(&client->core->options, DLI_OPT_NAMESPACE), name, reterr);
}

dlock_status dlock_client_fault(dlock_client *client, const char *what, const char *name, size_t name_size,
                                int64_t value, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    struct dli_fault fault = {.what = what, .value = value};
    dlock_status status = dli_client_check(client, 0, reterr);
    char full[DLI_NAME_MAX + 1];
    struct dli_store *store;

    if (status != DLOCK_OK)
        return status;
    store = client->core->store;
    if (!what || !name)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "a fault needs a word, and the name of a lock or an empty one");
    if (!store->ops->fault)
        return dli_fail(reterr, DLOCK_UNSUPPORTED,
                        "%s: this is a real server: faults on demand need memory:", store->text);
    if (name_size > 0)
        status = name_in(client, name, name_size, full, &fault, reterr);
    if (status == DLOCK_OK)
        status = dli_client_start(client->core, reterr);
    return status == DLOCK_OK ? store->ops->fault(store, &fault, reterr) : status;
}
