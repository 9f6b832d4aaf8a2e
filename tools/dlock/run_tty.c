/*
 * run_tty.c: the controlling terminal, whose foreground process group the command becomes. See run.h.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

void run_tty_open(struct run_tty *tty)
{
    tty->own = getpgrp();
    tty->fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
    /* In a pipeline other programs of this process group may need the terminal: then the command gets it when it asks. */
    tty->wanted = tty->fd >= 0 && isatty(0) && isatty(1);
}

int run_tty_mine(const struct run_tty *tty)
{
    return tty->fd >= 0 && tcgetpgrp(tty->fd) == tty->own;
}

void run_tty_give(struct run_tty *tty, pid_t group)
{
    if (!tty->wanted)
        return;
    if (tcgetpgrp(tty->fd) == group) /* it was quicker */
        tty->given = 1;
    else if (run_tty_mine(tty))
        tty->given = tcsetpgrp(tty->fd, group) == 0;
}

/* SIGTTOU is blocked: a process of the background may call tcsetpgrp then. */
void run_tty_take(struct run_tty *tty, pid_t group)
{
    pid_t foreground;

    if (!tty->given)
        return;
    tty->given = 0;
    foreground = tcgetpgrp(tty->fd);
    if (foreground == group || (foreground > 0 && kill(-foreground, 0) != 0 && errno == ESRCH))
        tcsetpgrp(tty->fd, tty->own);
}
