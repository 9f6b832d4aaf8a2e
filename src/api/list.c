/*
 * list.c: the names of locks that the servers know.
 */
#include <string.h>

#include "handles.h"
#include "sys/sys.h"
#include "client/client.h"

static dlock_status check(const dlock_client *client, int64_t cursor, int64_t timeout_ms, dlock_error *box)
{
    dlock_status status = dli_client_check(client, timeout_ms, box);

    if (status != DLOCK_OK)
        return status;
    if (!client->core->store->ops->next_server)
        return dli_fail(box, DLOCK_UNSUPPORTED, "%s: names cannot be listed here", client->core->store->text);
    if (!dli_list_cursor(client->core, cursor))
        return dli_fail(box, DLOCK_INVALID_ARGUMENT, "a cursor is 0, or what the last call returned");
    return dli_client_start(client->core, box);
}

/* NULL on failure: box has the reason. */
static struct dli_operation *begin(dlock_client *client, int64_t cursor, int64_t timeout_ms, dlock_error *box)
{
    int64_t wait = dli_wait(timeout_ms);
    struct dli_operation *operation;

    if (check(client, cursor, timeout_ms, box) != DLOCK_OK)
        return NULL;
    if (timeout_ms < 0)
        wait = client->core->store->connect_time + client->core->options.number[DLI_OPT_COMMAND_TIMEOUT_MS] * DLI_MS;
    if (!(operation = dli_operation_list(client->core, cursor, dli_later(dli_now(), wait))))
        dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    return operation;
}

dlock_status dlock_client_list(dlock_client *client, int64_t cursor, int64_t timeout_ms, uint8_t *buffer, size_t size,
                               size_t *ret_size, int64_t *ret_cursor, dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_error box = {.code = DLOCK_OK};
    struct dli_operation *operation;
    dlock_status status;
    size_t all;

    if (!buffer && size > 0)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "no buffer for the names was given");
    if (!(operation = begin(client, cursor, timeout_ms, &box)))
        return dli_fail(reterr, box.code, "%s", box.message);
    dli_operation_execute(operation);
    status = dli_operation_report(operation, reterr);
    all = status == DLOCK_OK ? operation->request->list.size : 0;
    if (status == DLOCK_OK && ret_size)
        *ret_size = all;
    if (all > size)
        status = dli_fail(reterr, DLOCK_BUFFER_TOO_SMALL, "the names have %zu bytes, the buffer %zu", all, size);
    if (status == DLOCK_OK && buffer && all > 0)
        memcpy(buffer, operation->request->list.names, all);
    if (status == DLOCK_OK && ret_cursor)
        *ret_cursor = operation->value;
    dli_operation_free(operation);
    return status;
}

dlock_status dlock_client_submit_list(dlock_client *client, int64_t cursor, int64_t timeout_ms, int64_t tag,
                                      dlock_error *reterr)
{
    DLI_UNCANCELLED;
    dlock_error box = {.code = DLOCK_OK};
    struct dli_operation *operation = begin(client, cursor, timeout_ms, &box);

    return operation ? dli_operation_submit(operation, tag, reterr) : dli_fail(reterr, box.code, "%s", box.message);
}
