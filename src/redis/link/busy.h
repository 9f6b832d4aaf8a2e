/*
 * busy.h: whether a caller that waits for an answer asks for it again and again, giving way in between, before it sleeps. To be
 * woken on another core costs more than most answers take. Where none comes in time since the server is far away, or others want
 * the core, asking is in vain, and pauses.
 *
 * A dli_busy belongs to a connection and whoever has that. Times are microseconds, and those of dli_now.
 */
#ifndef DLI_REDIS_LINK_BUSY_H
#define DLI_REDIS_LINK_BUSY_H

#include <stdint.h>

/* Who gave way for as long shares the core with somebody at work: to sleep is better. The server itself takes less for a script. */
enum { DLI_BUSY_SHARED = 100 };

/* All zero at first. */
struct dli_busy {
    int64_t pause;   /* the last one; less with every round that was not in vain */
    int64_t until;   /* its end */
    int asked, came; /* calls of this round, and how many of them had their answer in time */
};

/* Whether to ask now. */
int dli_busy_may(const struct dli_busy *busy, int64_t now);

/* How that ended: whether the answer came in time, for how long giving way took the last time, and all that was before. */
void dli_busy_result(struct dli_busy *busy, int came, int64_t before, int64_t away, int64_t now);

/*
 * Both around it: call look(whose, now) from began on until it returns 1, for at most limit microseconds. Whether it did. When this is
 * no time to ask, or limit is 0, it is not called.
 */
int dli_busy_poll(struct dli_busy *busy, int64_t began, int64_t limit, int (*look)(void *whose, int64_t now),
                  void *whose);

#endif
