/*
 * timers.h: timers in lists, one list per class of delay.
 *
 * A delay is rounded down to a class (16 classes per power of two). Each class is a list in order of time. Adding and
 * removing touch two neighbours, and the next timer is the head of some list. A timer may therefore fire up to a
 * sixteenth of its delay early; its owner sets it again for the rest, or takes it as due. Not thread safe: the loop's
 * mutex guards it.
 */
#ifndef DLI_WATCHDOG_TIMERS_H
#define DLI_WATCHDOG_TIMERS_H

#include <stdint.h>

#include "base/list.h"

enum { DLI_TIMER_CLASSES = 640 };

struct dli_timer {
    struct dli_link link;
    int64_t at; /* when it fires; set while linked */
    int16_t linked;
    int16_t sort; /* the owner's, set by it: what to do when it fires */
};

struct dli_timers {
    struct dli_link classes[DLI_TIMER_CLASSES];
    int64_t heads[DLI_TIMER_CLASSES];      /* when the first timer of a used class fires */
    uint64_t used[DLI_TIMER_CLASSES / 64]; /* one bit per class that has timers */
};

void dli_timers_init(struct dli_timers *timers);

/* Set a timer that is not linked. It fires between at - (at - now) / 16 and at. */
void dli_timers_add(struct dli_timers *timers, struct dli_timer *timer, int64_t at, int64_t now);

/* Does nothing when the timer is not linked. */
void dli_timers_remove(struct dli_timers *timers, struct dli_timer *timer);

/* Take out one timer that is due. NULL: there is none. */
struct dli_timer *dli_timers_due(struct dli_timers *timers, int64_t now);

/* When the next timer fires; INT64_MAX: there is none. */
int64_t dli_timers_next(const struct dli_timers *timers);

#endif
