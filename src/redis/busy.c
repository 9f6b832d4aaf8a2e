/*
 * busy.c: whether a caller that waits for an answer asks for it again and again, see busy.h.
 */
#include "redis/busy.h"

enum { PAUSE_LEAST = 250, PAUSE_MOST = 4096 * PAUSE_LEAST };

int dli_busy_may(const struct dli_busy *busy, int64_t now)
{
    return now >= busy->until;
}

/* Halved or four times as long, so that it grows where fewer than two answers come in time for one that does not. */
static int64_t next_pause(int64_t pause, int came)
{
    if (came)
        return pause > PAUSE_LEAST ? pause / 2 : 0;
    if (pause < PAUSE_LEAST)
        pause = PAUSE_LEAST;
    return pause * 4 < PAUSE_MOST ? pause * 4 : PAUSE_MOST;
}

void dli_busy_result(struct dli_busy *busy, int came, int64_t now)
{
    busy->pause = next_pause(busy->pause, came);
    busy->until = now + busy->pause;
}
