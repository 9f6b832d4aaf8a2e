/*
 * check.c: checks of the servers, and their findings.
 */
#include <string.h>

#include "handles.h"
#include "sys/sys.h"
#include "client/client.h"

/* NULL on failure: box has the reason. */
static struct dli_operation *begin(dlock_client *client, int64_t timeout_ms, dlock_error *box)
{
    int64_t wait = dli_wait(timeout_ms);
    struct dli_operation *operation;

    if (dli_client_check(client, timeout_ms, box) != DLOCK_OK || dli_client_start(client->core, box) != DLOCK_OK)
        return NULL;
    if (timeout_ms < 0)
        wait = client->core->store->connect_time + client->core->options.number[DLI_OPT_COMMAND_TIMEOUT_MS] * DLI_MS;
    if (!(operation = dli_operation_check(client->core, dli_later(dli_now(), wait))))
        dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    return operation;
}

dlock_status dlock_client_check(dlock_client *client, int64_t timeout_ms, size_t *ret_count, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_error box = {.code = DLOCK_OK};
    struct dli_operation *operation = begin(client, timeout_ms, &box);
    dlock_status status;

    if (!operation)
        return dli_fail(reterr, box.code, "%s", box.message);
    dli_operation_execute(operation);
    if ((status = dli_operation_report(operation, reterr)) == DLOCK_OK && ret_count)
        *ret_count = (size_t)operation->value;
    dli_operation_free(operation);
    return status;
}

dlock_status dlock_client_submit_check(dlock_client *client, int64_t timeout_ms, int64_t tag, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_error box = {.code = DLOCK_OK};
    struct dli_operation *operation = begin(client, timeout_ms, &box);

    return operation ? dli_operation_submit(operation, tag, reterr) : dli_fail(reterr, box.code, "%s", box.message);
}

dlock_status dlock_client_finding(dlock_client *client, size_t index, dlock_event *event, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_status status = dli_client_mine(client, 0, reterr);
    struct dli_finding finding;

    if (status != DLOCK_OK)
        return status;
    if (!event)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no event box was given");
    if (dli_check_finding(client->core, index, &finding))
        return dli_fail(reterr, DLOCK_NO_EVENT, "the last check has no more findings");
    for (int i = 0; i < DLOCK_FIELD_COUNT; i++)
        event->field[i] = -1;
    event->field[DLOCK_FIELD_TYPE] = DLOCK_EVENT_FINDING;
    event->field[DLOCK_FIELD_STATUS] = DLOCK_OK;
    event->field[DLOCK_FIELD_VALUE] = finding.row->code;
    event->field[DLOCK_FIELD_CAUSE] = finding.row->severity;
    dli_finding_say(&finding, event->text, sizeof event->text);
    event->size = 0;
    return DLOCK_OK;
}

const char *dlock_finding_name(int32_t finding)
{
    DLI_UNCANCELLED;
    const struct dli_finding_row *row = dli_finding_find(finding);

    return row ? row->name : "UNKNOWN";
}
