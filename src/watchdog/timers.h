/*
 * timers.h: timers as lists, one list per length of time.
 *
 * Delays are rounded down to a class (16 classes per power of two), and each class is a list in order of time: adding
 * and removing touch two neighbours, the next timer is the head of some list. A timer may therefore fire up to a
 * sixteenth of its delay early; its owner sets it again for the rest. Not thread safe: the loop's mutex guards it.
 */
#ifndef DLI_WATCHDOG_TIMERS_H
#define DLI_WATCHDOG_TIMERS_H

#include <stdint.h>

#include "base/list.h"

enum { DLI_TIMER_CLASSES = 640 };

struct dli_timer {
    struct dli_link link;
    int64_t at; /* when it fires; set while linked */
    int linked;
    void (*fire)(struct dli_timer *timer, int64_t now); /* for the owner's use */
};

struct dli_timers {
    struct dli_link classes[DLI_TIMER_CLASSES];
    uint64_t used[DLI_TIMER_CLASSES / 64]; /* bit: the class has timers */
};

void dli_timers_init(struct dli_timers *timers);

/* Fire between at - (at - now) / 16 and at. The timer is not linked. */
void dli_timers_add(struct dli_timers *timers, struct dli_timer *timer, int64_t at, int64_t now);

/* Fine when it is not linked. */
void dli_timers_remove(struct dli_timers *timers, struct dli_timer *timer);

/* Take out one timer that is due, or NULL. */
struct dli_timer *dli_timers_due(struct dli_timers *timers, int64_t now);

/* When the next one fires; INT64_MAX for none. */
int64_t dli_timers_next(const struct dli_timers *timers);

#endif
