/*
 * busy.h: whether a caller that waits for an answer asks for it again and again before it sleeps. To be woken on another core
 * costs more than most answers take; where none comes in time, because the server is far away or others want the core, asking
 * is in vain, and pauses.
 *
 * A dli_busy belongs to a connection and whoever has that. Times are those of dli_now.
 */
#ifndef DLI_REDIS_BUSY_H
#define DLI_REDIS_BUSY_H

#include <stdint.h>

/* All zero at first. */
struct dli_busy {
    int64_t pause; /* microseconds, since it was in vain of late; 0: it was not */
    int64_t until; /* the end of the pause */
};

/* Whether to ask now. */
int dli_busy_may(const struct dli_busy *busy, int64_t now);

/* Whether the answer came in time. One that did not weighs as much as two that did. */
void dli_busy_result(struct dli_busy *busy, int came, int64_t now);

#endif
