/*
 * busy.c: whether a caller polls busily for its answer, see busy.h. No mutex: a dli_busy belongs to the owner of its
 * connection.
 *
 * Calls are judged in rounds of ROUND, because the first answers after a pause often come too late: until then caller
 * and server slept and were woken on each other's core. A caller that lost the core for a time slice has lost more than
 * many rounds gain, so it pauses at once.
 *
 * On a single core, giving way lets the server run at once. That fails with a server in another session or control
 * group: it runs only when the caller is preempted, and a caller that sleeps lets it run sooner.
 */
#include "busy.h"

enum {
    ROUND = 16,
    MOMENT = 5,
    SLICE = 1000,
    PAUSE_FIRST = 10 * 1000,
    PAUSE_LOST = 160 * 1000,
    PAUSE_MOST = 1000 * 1000
};

int dli_busy_may(const struct dli_busy *busy, int64_t now)
{
    return now >= busy->until;
}

static void rest(struct dli_busy *busy, int64_t least, int64_t now)
{
    int64_t pause = busy->pause * 4;

    if (pause < least)
        pause = least;
    busy->pause = pause < PAUSE_MOST ? pause : PAUSE_MOST;
    busy->until = now + busy->pause;
}

void dli_busy_result(struct dli_busy *busy, int came, int64_t before, int64_t away, int64_t now)
{
    int put_aside = before > 0 && away > before && away >= MOMENT;

    busy->calls++;
    busy->came += came && away < DLI_BUSY_SHARED && !put_aside;
    if (away >= SLICE)
        rest(busy, PAUSE_LOST, now);
    else if (busy->calls < ROUND)
        return;
    else if (busy->came * 2 < ROUND)
        rest(busy, PAUSE_FIRST, now);
    else
        busy->pause /= 2;
    busy->calls = busy->came = 0;
}
