/*
 * run_guard.c: the guard, a small process beside dlock run. See run.h.
 *
 * The kernel ends the command itself when dlock is killed (PR_SET_PDEATHSIG), but not what the command has started. And
 * a stopped dlock cannot stop the command before its lock is over. The guard does both. It has a session of its own, so
 * that no signal of a terminal reaches it, ignores those that ask to end, and has no open files but its pipe.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 50, NAP_MS = 60000, FILES_MOST = 65536 };

#define END  'e'
#define WAKE 'w'

/* ---- in the guard */

/* Whether the process is stopped by a signal or a debugger. */
static int stopped(pid_t pid)
{
    char path[40], text[512];
    const char *behind;
    ssize_t size;
    int fd;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0)
        return 0;
    size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    behind = strrchr(text, ')'); /* the name of the program stands before it, in whatever letters */
    return behind && (behind[2] == 'T' || behind[2] == 't');
}

static void end_group(struct run_page *page)
{
    int32_t group = page->group;

    if (group > 0)
        kill(-group, SIGKILL);
}

static void look(struct run_page *page, pid_t dlock)
{
    if (tool_now() < page->deadline || page->asleep || page->killed || !page->group || !stopped(dlock))
        return;
    page->killed = 1;
    end_group(page);
}

static int nap(const struct run_page *page)
{
    int64_t left = page->deadline - tool_now();

    return left <= 0 ? LOOK_MS : left < NAP_MS ? (int)left : NAP_MS;
}

static _Noreturn void keep_watch(struct run_page *page, int pipe, pid_t dlock)
{
    struct pollfd fd = {.fd = pipe, .events = POLLIN};
    char byte;

    for (;;) {
        ssize_t size;

        if (poll(&fd, 1, nap(page)) > 0) {
            size = read(pipe, &byte, 1);
            if (size == 0) {
                end_group(page);
                _exit(0);
            }
        }
        look(page, dlock);
    }
}

static void close_from(int first)
{
    struct rlimit limit = {FILES_MOST, FILES_MOST};

#ifdef SYS_close_range
    if (syscall(SYS_close_range, (unsigned)first, ~0U, 0U) == 0)
        return;
#endif
    getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = first; fd < FILES_MOST && (rlim_t)fd < limit.rlim_cur; fd++)
        close(fd);
}

static _Noreturn void be_guard(struct run_page *page, int pipe, pid_t dlock)
{
    static const int ignored[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGPIPE, SIGUSR1, SIGUSR2};

    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        signal(ignored[i], SIG_IGN);
    setsid();
    prctl(PR_SET_NAME, "dlock-guard");
    if (pipe != 0)
        dup2(pipe, 0);
    close_from(1);
    if (chdir("/") != 0) /* keeps no file system in use */
        page->killed = 0;
    keep_watch(page, 0, dlock);
}

/* ---- in dlock */

int run_guard_start(struct run_guard *guard)
{
    void *page = mmap(NULL, sizeof *guard->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t dlock = getpid();
    int ends[2];

    if (page == MAP_FAILED)
        return -1;
    if (pipe2(ends, O_CLOEXEC) != 0)
        goto no_pipe;
    guard->page = page;
    guard->page->deadline = INT64_MAX;
    if ((guard->pid = fork()) < 0)
        goto no_process;
    if (guard->pid == 0)
        be_guard(guard->page, ends[0], dlock);
    close(ends[0]);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    guard->pipe = ends[1];
    return 0;
no_process:
    close(ends[0]);
    close(ends[1]);
no_pipe:
    munmap(page, sizeof *guard->page);
    guard->page = NULL;
    return -1;
}

void run_guard_deadline(struct run_guard *guard, int64_t deadline)
{
    int64_t before = atomic_exchange(&guard->page->deadline, deadline);

    if (deadline < before && write(guard->pipe, "w", 1) != 1) /* SIGPIPE is blocked */
        guard->page->deadline = deadline;                     /* it is dead, or has not read earlier ones */
}

void run_guard_end(struct run_guard *guard)
{
    if (!guard->page)
        return;
    kill(guard->pid, SIGKILL); /* it may be stopped */
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    close(guard->pipe);
    munmap(guard->page, sizeof *guard->page);
    guard->page = NULL;
}
