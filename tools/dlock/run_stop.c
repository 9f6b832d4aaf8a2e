/*
 * run_stop.c: when a command is stopped whose lock is in danger. See run.h.
 *
 * left is the time for which the lock may be trusted. When it is over, the lock is lost, and a moment later somebody
 * else may have it. A command that gets SIGTERM at the end of left would run beside the next holder while it ends. So
 * SIGTERM comes one grace before that, and SIGKILL at that moment. When the lock is lost without a warning (somebody
 * took it away, or this machine slept), SIGTERM comes at once and SIGKILL one grace later.
 */
#include "run.h"

enum { TICKS = 20, TICK_LEAST = 20, TICK_MOST = 1000 };

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Whether renewal has failed for so long that it is time to say goodbye. A renewed lock has two thirds of its lease. */
static int doomed(const struct run_stop *stop, const struct run_view *view)
{
    return view->left <= stop->grace && (view->at_risk || view->left <= stop->longest / 3);
}

static enum run_act kill_now(struct run_stop *stop)
{
    stop->killed = 1;
    return RUN_SEND_KILL;
}

enum run_act run_stop_decide(struct run_stop *stop, const struct run_view *view)
{
    if (view->left > stop->longest)
        stop->longest = view->left;
    stop->lost |= view->lost;
    if (stop->mode == RUN_WARN || stop->killed)
        return RUN_GO_ON;
    if (stop->mode == RUN_KILL)
        return stop->lost ? kill_now(stop) : RUN_GO_ON;
    if (stop->term_at) {
        int over = view->now >= stop->term_at + stop->grace || (stop->early && stop->lost);

        return over ? kill_now(stop) : RUN_GO_ON;
    }
    if (!stop->lost && !doomed(stop, view))
        return RUN_GO_ON;
    stop->term_at = view->now;
    stop->early = !stop->lost;
    return RUN_SEND_TERM;
}

int64_t run_stop_wait(const struct run_stop *stop, const struct run_view *view)
{
    int64_t tick = stop->longest / TICKS, wait;

    tick = tick < TICK_LEAST ? TICK_LEAST : smaller(tick, TICK_MOST);
    wait = stop->lost ? TICK_MOST : smaller(tick, view->left);
    if (!stop->lost && view->left > stop->grace)
        wait = smaller(wait, view->left - stop->grace);
    if (stop->term_at && !stop->killed)
        wait = smaller(wait, stop->term_at + stop->grace - view->now);
    return wait > 1 ? wait : 1;
}

int64_t run_stop_deadline(const struct run_stop *stop, const struct run_view *view)
{
    if (stop->mode == RUN_WARN || stop->killed)
        return INT64_MAX;
    if (stop->lost)
        return stop->term_at + stop->grace;
    return view->now + view->left;
}

int run_stop_over(const struct run_stop *stop)
{
    return stop->lost || stop->term_at;
}
