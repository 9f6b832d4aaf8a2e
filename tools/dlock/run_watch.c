/*
 * run_watch.c: while the command runs: signals, the lock, job control. See run.h.
 */
#include "run.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the lock */

static void hear_events(struct run *run)
{
    int64_t field[DLOCK_FIELD_COUNT] = {0};

    while (dlock_client_next(run->tool.client, 0, run->tool.event, NULL) == DLOCK_OK) {
        dlock_event_unpack(run->tool.event, field, DLOCK_FIELD_COUNT, NULL, NULL);
        if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_LOST)
            run->cause = field[DLOCK_FIELD_CAUSE];
    }
}

static void look_at_lock(struct run *run, struct run_view *view)
{
    int32_t state = DLOCK_STATE_LOST;

    *view = (struct run_view){.now = tool_now()};
    dlock_lock_state(run->lock, TOOL_OWNER, &state, NULL);
    if (dlock_lock_remaining_ms(run->lock, TOOL_OWNER, &view->left, NULL) != DLOCK_OK)
        view->left = 0;
    view->at_risk = state == DLOCK_STATE_AT_RISK;
    view->lost = (state != DLOCK_STATE_HELD && state != DLOCK_STATE_AT_RISK) || run->guard.page->killed;
}

static const char *why(const struct run *run)
{
    switch (run->cause) {
    case DLOCK_CAUSE_TAKEN:
        return "the server has given it up or away";
    case DLOCK_CAUSE_EXPIRED:
        return "it was not renewed in time";
    case DLOCK_CAUSE_MAX_HOLD:
        return "it was held for max_hold_ms";
    default:
        return "it is over";
    }
}

/* Once, to the command and to people. */
static void tell_loss(struct run *run)
{
    static const char *const doing[] = {"the command gets SIGTERM", "the command gets SIGKILL", "the command goes on"};

    if (run->loss[1] < 0)
        return;
    if (run->stop.lost)
        run_say(run, "lost lock '%s': %s; %s", run->name, why(run),
                run->guard.page->killed ? "dlock did not run, and the command got SIGKILL" : doing[run->stop.mode]);
    else
        run_say(run, "lock '%s' is renewed no more and will be lost; the command gets SIGTERM", run->name);
    if (write(run->loss[1], "lost\n", 5) != 5)
        errno = 0; /* the command has closed its end */
    close(run->loss[1]);
    run->loss[1] = -1;
}

int run_watch_begin(struct run *run)
{
    struct run_view view;

    hear_events(run);
    look_at_lock(run, &view);
    if (view.lost)
        return tool_say(&run->tool, TOOL_LOST, "lost lock '%s' before the command began: %s", run->name, why(run));
    run->stop.longest = view.left;
    run_guard_deadline(&run->guard, run_stop_deadline(&run->stop, &view));
    return 0;
}

static void stop_command(struct run *run, enum run_act act)
{
    if (act == RUN_GO_ON)
        return;
    run_signal_all(run, act == RUN_SEND_TERM ? SIGTERM : SIGKILL);
    run_signal_all(run, SIGCONT);
}

/* Look at the lock, and do what that asks for: words come last, stderr may be slow. Returns how long to sleep. */
static int watch_lock(struct run *run)
{
    enum { KILLED_MS = 10 };
    struct run_view view;

    hear_events(run);
    look_at_lock(run, &view);
    if (run->guard.page->killed)
        run->stop.killed = run->stop.lost = 1;
    stop_command(run, run_stop_decide(&run->stop, &view));
    if (run->stop.killed && !run->kill_at)
        run->kill_at = view.now;
    run_guard_deadline(&run->guard, run_stop_deadline(&run->stop, &view));
    if (run_stop_over(&run->stop))
        tell_loss(run);
    return run->stop.killed ? KILLED_MS : (int)run_stop_wait(&run->stop, &view);
}

static void keep_guard(struct run *run)
{
    if (run_guard_keep(&run->guard) == 0 || run->unguarded)
        return;
    run->unguarded = 1;
    run_say(run, "cannot replace dlock-guard: %s; while dlock is stopped the command runs on", strerror(errno));
}

/* ---- job control */

/* Nobody could continue this process when it has stopped: its parent is in another session. */
static int orphaned(void)
{
    return getppid() == 0 || getsid(getppid()) != getsid(0);
}

/* The command was continued, or is now, because dlock was. */
static void go_on(struct run *run)
{
    watch_lock(run);
    run_tty_give(&run->tty, run->child);
    run_signal_group(run, SIGCONT);
}

/* The command was stopped by that signal. So is dlock, with all of its process group, as a shell expects of a job. */
static void stop_too(struct run *run, int number)
{
    if (run->tty.fd < 0)
        return;
    if ((number == SIGTTIN || number == SIGTTOU) && run_tty_mine(&run->tty)) { /* it asks for the terminal */
        run->tty.wanted = 1;
        go_on(run);
        return;
    }
    run_tty_take(&run->tty, run->child);
    if (orphaned()) {
        go_on(run);
        return;
    }
    run->guard.page->asleep = 1;
    kill(0, number == SIGSTOP ? SIGTSTP : number); /* blocked here */
    raise(SIGSTOP);
    run->guard.page->asleep = 0;
}

/* dlock is the parent of all that have lost theirs. */
static void bury_orphans(const struct run *run)
{
    siginfo_t info = {.si_pid = 0};

    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid > 0 && info.si_pid != run->child &&
           info.si_pid != run->guard.pid) {
        waitpid(info.si_pid, NULL, WNOHANG);
        info.si_pid = 0;
    }
}

/* The command stays a zombie until run_watch ends: so its number is nobody else's, and a signal reaches no stranger. */
static void hear_command(struct run *run)
{
    siginfo_t info = {.si_pid = 0};

    if (run->ended)
        return;
    while (waitid(P_PID, (id_t)run->child, &info, WSTOPPED | WNOHANG) == 0 && info.si_pid) {
        stop_too(run, info.si_status);
        info.si_pid = 0;
    }
    if (waitid(P_PID, (id_t)run->child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
        run->ended = 1;
}

static void hear_signals(struct run *run)
{
    int number;

    while ((number = run_signals_next(run)) != 0) {
        if (number == SIGCONT)
            go_on(run);
        else if (number != SIGCHLD)
            run_signal_group(run, number);
    }
    hear_command(run);
    keep_guard(run);
    bury_orphans(run);
}

/* ---- until the end */

/* The group is nobody's from now on: the guard must not signal it. */
static void bury_command(struct run *run)
{
    run->guard.page->group = 0;
    while (run->ended && waitpid(run->child, &run->status, 0) < 0 && errno == EINTR)
        continue;
}

void run_watch(struct run *run)
{
    enum { POLL_MS = 20 };
    struct pollfd fds[] = {{.fd = run->signals, .events = POLLIN}, {.fd = run->client_fd, .events = POLLIN}};

    while (run_stopping(run)) {
        int wait = watch_lock(run);

        poll(fds, 2, run->ended && wait > POLL_MS ? POLL_MS : wait);
        hear_signals(run);
    }
    if (run->guard.page->killed) {
        run->stop.lost = 1;
        tell_loss(run);
    }
    run->tty.kept = run->tty.given;
    run_tty_take(&run->tty, run->child);
    bury_command(run);
}
