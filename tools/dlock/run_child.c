/*
 * run_child.c: starting the command. See run.h.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { OWN = 4 }; /* variables */

/* ---- the environment */

static int is(const char *variable, const char *name)
{
    size_t size = strlen(name);

    return strncmp(variable, name, size) == 0 && variable[size] == '=';
}

/* Variables that the command does not inherit. The URL may have a password in it. */
static int is_own(const char *variable)
{
    return is(variable, "DLOCK_NAME") || is(variable, "DLOCK_TOKEN") || is(variable, "DLOCK_FD") ||
           is(variable, RUN_MARKS) || is(variable, "DLOCK_URL");
}

/* The URL for a command that may have it, else NULL. -1 without memory. */
static int add_url(const struct run *run, char **ret_variable)
{
    *ret_variable = NULL;
    return run->keep_url && run->tool.url_env ? asprintf(ret_variable, "DLOCK_URL=%s", run->tool.url_env) : 0;
}

/* Ours after those of dlock. The memory is kept until dlock ends. NULL without memory. */
static char **make_environment(const struct run *run)
{
    static char **all;
    const char *around = getenv(RUN_MARKS); /* their guards must find the command, too, if ours is killed first */
    size_t count = 0, kept = 0;

    while (environ[count])
        count++;
    if (!(all = calloc(count + OWN + 2, sizeof *all)))
        return NULL;
    for (size_t i = 0; i < count; i++)
        if (!is_own(environ[i]))
            all[kept++] = environ[i];
    if (asprintf(&all[kept], "DLOCK_NAME=%s", run->name) < 0 ||
        asprintf(&all[kept + 1], "DLOCK_TOKEN=%" PRId64, run->token) < 0 ||
        asprintf(&all[kept + 2], "DLOCK_FD=%d", run->loss[0]) < 0 ||
        asprintf(&all[kept + 3], RUN_MARKS "=%s%s", around ? around : "", run->guard.page->mark) < 0 ||
        add_url(run, &all[kept + OWN]) < 0)
        return NULL;
    return all;
}

/* ---- in the command's process: only calls that are safe after a fork of many threads */

static _Noreturn void become(const struct run *run, pid_t dlock, int report)
{
    int reason;

    setpgid(0, 0);
    run->guard.page->group = getpid(); /* dlock may be stopped before it says so */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != dlock) /* it was killed before that */
        _exit(TOOL_SIGNAL + SIGKILL);
    if (run->tty.wanted && run_tty_mine(&run->tty))
        tcsetpgrp(run->tty.fd, getpid());
    fcntl(run->loss[0], F_SETFD, 0);
    environ = run->environment;
    run_signals_restore(run);
    execvp(run->command[0], run->command);
    reason = errno;
    if (write(report, &reason, sizeof reason) != (ssize_t)sizeof reason)
        _exit(TOOL_CANNOT_RUN);
    _exit(TOOL_NOT_FOUND);
}

/* ---- in dlock */

/* Why the command could not be executed: an error number, 0 when it is running. */
static int hear_report(int report)
{
    int reason = 0;
    ssize_t size;

    do
        size = read(report, &reason, sizeof reason);
    while (size < 0 && errno == EINTR);
    return size == (ssize_t)sizeof reason ? reason : 0;
}

static int cannot_run(struct run *run, int reason)
{
    while (waitpid(run->child, NULL, 0) < 0 && errno == EINTR)
        continue;
    run_tty_take(&run->tty, run->child);
    run->guard.page->group = 0;
    run->child = 0;
    return tool_say(&run->tool, reason == ENOENT || reason == ENOTDIR ? TOOL_NOT_FOUND : TOOL_CANNOT_RUN,
                    "cannot run %s: %s", run->command[0], strerror(reason));
}

static int start(struct run *run, int report[2])
{
    pid_t dlock = getpid();
    int reason;

    if ((run->child = fork()) < 0) {
        run->child = 0;
        return tool_say(&run->tool, TOOL_SYSTEM, "cannot make a process: %s", strerror(errno));
    }
    if (run->child == 0)
        become(run, dlock, report[1]);
    setpgid(run->child, run->child); /* whoever comes first */
    run->guard.page->group = run->child;
    run_tty_give(&run->tty, run->child);
    close(report[1]);
    report[1] = -1;
    reason = hear_report(report[0]);
    return reason ? cannot_run(run, reason) : 0;
}

int run_child_start(struct run *run)
{
    int report[2], failed;

    if (pipe2(run->loss, O_CLOEXEC) != 0)
        return tool_say(&run->tool, TOOL_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    if (!(run->environment = make_environment(run)))
        return tool_say(&run->tool, TOOL_SYSTEM, "no memory for the environment");
    if (pipe2(report, O_CLOEXEC) != 0)
        return tool_say(&run->tool, TOOL_SYSTEM, "cannot make a pipe: %s", strerror(errno));
    failed = start(run, report);
    close(report[0]);
    if (report[1] >= 0)
        close(report[1]);
    close(run->loss[0]);
    run->loss[0] = -1;
    return failed;
}
