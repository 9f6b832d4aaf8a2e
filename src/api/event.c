/*
 * event.c: event boxes.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "client/client.h"

dlock_event *dlock_event_new(void)
{
    return calloc(1, sizeof(dlock_event));
}

void dlock_event_free(dlock_event *event)
{
    if (event)
        free(event->data);
    free(event);
}

int32_t dlock_event_type(const dlock_event *event)
{
    return event ? (int32_t)event->field[DLOCK_FIELD_TYPE] : DLOCK_EVENT_NONE;
}

dlock_status dlock_event_unpack(const dlock_event *event, int64_t *values, size_t count, size_t *ret_count,
                                dlock_error *reterr)
{
    if (!event || (!values && count > 0))
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "unpacking needs an event box and a place for the numbers");
    for (size_t i = 0; i < count && i < DLOCK_FIELD_COUNT; i++)
        values[i] = event->field[i];
    if (ret_count)
        *ret_count = DLOCK_FIELD_COUNT;
    return DLOCK_OK;
}

const char *dlock_event_text(const dlock_event *event)
{
    return event ? event->text : "";
}

dlock_status dlock_event_data(const dlock_event *event, uint8_t *buffer, size_t size, size_t *ret_size,
                              dlock_error *reterr)
{
    size_t all = event && event->data ? event->size : 0;

    if (!event || (!buffer && size > 0))
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "reading data needs an event box and a place for the bytes");
    if (ret_size)
        *ret_size = all;
    if (all > size)
        return dli_fail(reterr, DLOCK_BUFFER_TOO_SMALL, "the event has %zu bytes, the buffer %zu", all, size);
    if (all > 0)
        memcpy(buffer, event->data, all);
    return DLOCK_OK;
}
