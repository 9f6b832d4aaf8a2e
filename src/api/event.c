/*
 * event.c: event boxes.
 */
#include <stdlib.h>

#include "base/error.h"
#include "watchdog/events.h"

dlock_event *dlock_event_new(void)
{
    return calloc(1, sizeof(dlock_event));
}

void dlock_event_free(dlock_event *event)
{
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
