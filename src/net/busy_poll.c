/*
 * busy_poll.c: the polling loop, see busy.h. No state of its own.
 */
#include <sched.h>

#include "busy.h"
#include "sys/sys.h"

int dli_busy_poll(struct dli_busy *busy, int64_t began, int64_t limit, int (*poll_once)(void *whose, int64_t now),
                  void *whose)
{
    int64_t now = began, away = 0;
    int came;

    if (limit <= 0 || !dli_busy_may(busy, began))
        return 0;
    while (!(came = poll_once(whose, now)) && now - began < limit && away < DLI_BUSY_SHARED) {
        sched_yield();
        away = dli_now() - now;
        now += away;
    }
    dli_busy_result(busy, came && now - began < limit, now - began - away, away, now);
    return came;
}
