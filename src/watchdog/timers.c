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
    if (dli_list_empty(&timers->classes[class]))
        timers->heads[class] = timer->at;
    dli_list_append(&timers->classes[class], &timer->link);
    timers->used[class / 64] |= UINT64_C(1) << (class % 64);
}

static struct dli_timer *head_of(const struct dli_timers *timers, int class)
{
    struct dli_link *head = timers->classes[class].next;

    return DLI_OBJECT(head, struct dli_timer, link);
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
    else
        timers->heads[class] = head_of(timers, class)->at;
}

/* The class whose head is the earliest; -1: there is no timer. The heads themselves are far apart in memory. */
static int first(const struct dli_timers *timers)
{
    int best = -1;

    for (int word = 0; word < DLI_TIMER_CLASSES / 64; word++) {
        for (uint64_t bits = timers->used[word]; bits; bits &= bits - 1) {
            int class = word * 64 + __builtin_ctzll(bits);

            if (best < 0 || timers->heads[class] < timers->heads[best])
                best = class;
        }
    }
    return best;
}

struct dli_timer *dli_timers_due(struct dli_timers *timers, int64_t now)
{
    struct dli_timer *timer;
    int class = first(timers);

    if (class < 0 || timers->heads[class] > now)
        return 0;
    timer = head_of(timers, class);
    dli_timers_remove(timers, timer);
    return timer;
}

int64_t dli_timers_next(const struct dli_timers *timers)
{
    int class = first(timers);

    return class < 0 ? INT64_MAX : timers->heads[class];
}
