/*
 * timers.c: timers in lists, one list per class of delay. See timers.h.
 */
#include "timers.h"

enum { UNIT = 512 /* microseconds */, SPLIT = 16 };

void dli_timers_init(struct dli_timers *timers)
{
    for (int i = 0; i < DLI_TIMER_CLASSES; i++)
        dli_list_init(&timers->classes[i]);
    for (int i = 0; i < DLI_TIMER_CLASSES / 64; i++)
        timers->used[i] = 0;
}

/* The class of a delay. *length is the delay of that class, which is not longer. */
static int class_of(int64_t delay, int64_t *length)
{
    uint64_t units = delay > 0 ? (uint64_t)delay / UNIT : 0;
    int shift = 0, class;

    while ((units >> shift) >= 2 * SPLIT)
        shift++;
    class = shift * SPLIT + (int)(units >> shift);
    if (class >= DLI_TIMER_CLASSES) {
        class = DLI_TIMER_CLASSES - 1;
        shift = class / SPLIT - 1;
        units = (uint64_t)(class - shift * SPLIT) << shift;
    }
    *length = (int64_t)((units >> shift) << shift) * UNIT;
    return class;
}

void dli_timers_add(struct dli_timers *timers, struct dli_timer *timer, int64_t at, int64_t now)
{
    int64_t length;
    int class = class_of(at - now, &length);

    timer->at = now + length < at ? now + length : at;
    if (length == 0)
        timer->at = at;
    timer->linked = (int16_t)(1 + class);
    dli_list_append(&timers->classes[class], &timer->link);
    timers->used[class / 64] |= UINT64_C(1) << (class % 64);
}

void dli_timers_remove(struct dli_timers *timers, struct dli_timer *timer)
{
    int class = timer->linked - 1;

    if (!timer->linked)
        return;
    dli_list_remove(&timer->link);
    timer->linked = 0;
    if (dli_list_empty(&timers->classes[class]))
        timers->used[class / 64] &= ~(UINT64_C(1) << (class % 64));
}

/* The earliest head of all lists. */
static struct dli_timer *first(const struct dli_timers *timers)
{
    struct dli_timer *best = 0;

    for (int word = 0; word < DLI_TIMER_CLASSES / 64; word++) {
        for (uint64_t bits = timers->used[word]; bits; bits &= bits - 1) {
            struct dli_link *head = timers->classes[word * 64 + __builtin_ctzll(bits)].next;
            struct dli_timer *timer = DLI_OBJECT(head, struct dli_timer, link);

            if (!best || timer->at < best->at)
                best = timer;
        }
    }
    return best;
}

struct dli_timer *dli_timers_due(struct dli_timers *timers, int64_t now)
{
    struct dli_timer *timer = first(timers);

    if (!timer || timer->at > now)
        return 0;
    dli_timers_remove(timers, timer);
    return timer;
}

int64_t dli_timers_next(const struct dli_timers *timers)
{
    const struct dli_timer *timer = first(timers);

    return timer ? timer->at : INT64_MAX;
}
