/*
 * busy.c: whether a caller that waits for an answer asks for it again and again, see busy.h.
 *
 * Calls are judged by the ROUND, since the first ones after a pause often come too late: until then caller and server slept and
 * were woken where the other one was. Who was kept away from the core for a time slice has lost more than many rounds gain, and
 * pauses at once.
 *
 * On one core who gives way lets the server run, at once. Where that does not work, as with a server of another session or
 * control group, it runs when the caller is put aside, which is sooner if the caller sleeps.
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

    busy->asked++;
    busy->came += came && away < DLI_BUSY_SHARED && !put_aside;
    if (away >= SLICE)
        rest(busy, PAUSE_LOST, now);
    else if (busy->asked < ROUND)
        return;
    else if (busy->came * 2 < ROUND)
        rest(busy, PAUSE_FIRST, now);
    else
        busy->pause /= 2;
    busy->asked = busy->came = 0;
}
