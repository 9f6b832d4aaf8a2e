/*
 * run_signals.c: the signals of dlock run, read from a descriptor. See run.h.
 */
#include "run.h"

#include <sys/signalfd.h>
#include <unistd.h>

/* SIGTTIN, SIGTTOU and SIGPIPE are only blocked: dlock must not stop or end when it writes a sentence. */
static const int taken[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGTSTP, SIGCONT,
                            SIGUSR1, SIGUSR2, SIGCHLD, SIGTTIN, SIGTTOU, SIGPIPE};

int run_signals_open(struct run *run)
{
    struct sigaction usual = {.sa_handler = SIG_DFL};
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaddset(&set, taken[i]);
    if (sigaction(SIGCHLD, &usual, &run->child_before) != 0) /* ignored, it would hide how the command ends */
        return -1;
    if (sigprocmask(SIG_BLOCK, &set, &run->before) != 0)
        return -1;
    sigdelset(&set, SIGTTIN);
    sigdelset(&set, SIGTTOU);
    sigdelset(&set, SIGPIPE);
    run->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return run->signals < 0 ? -1 : 0;
}

int run_signals_next(const struct run *run)
{
    struct signalfd_siginfo info;

    return read(run->signals, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

void run_signals_restore(const struct run *run)
{
    sigaction(SIGCHLD, &run->child_before, NULL);
    sigprocmask(SIG_SETMASK, &run->before, NULL);
}

int run_signals_die(int number)
{
    sigset_t set;

    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return TOOL_SIGNAL + number;
}
