/*
 * busy.h: busy polling: whether a caller polls for its answer, giving way in between, before it sleeps. A wake-up on
 * another core costs more than most answers take. Polling is in vain if the server is far away or others want the core;
 * then it pauses.
 *
 * A dli_busy belongs to a connection and its current owner. Times are microseconds of dli_now.
 */
#ifndef DLI_NET_BUSY_H
#define DLI_NET_BUSY_H

#include <stdint.h>

/*
 * If giving way took this long, the core is shared with busy work, and sleeping is better. The server itself needs less
 * for a script.
 */
enum { DLI_BUSY_SHARED = 100 };

/* All zero at first. */
struct dli_busy {
    int64_t pause;   /* the last pause; it shrinks with every round that was not in vain */
    int64_t until;   /* end of the pause */
    int calls, came; /* calls of this round, and how many of them got their answer in time */
};

/* Whether to poll now. */
int dli_busy_may(const struct dli_busy *busy, int64_t now);

/*
 * How polling ended: whether the answer came in time, how long giving way took the last time (away), and the time
 * polled before that.
 */
void dli_busy_result(struct dli_busy *busy, int came, int64_t before, int64_t away, int64_t now);

/*
 * Poll, with both calls above: call poll_once(whose, now) from began on until it returns 1, for at most limit microseconds.
 * Returns whether it did. poll_once is not called while polling pauses or if limit is 0.
 */
int dli_busy_poll(struct dli_busy *busy, int64_t began, int64_t limit, int (*poll_once)(void *whose, int64_t now),
                  void *whose);

#endif
