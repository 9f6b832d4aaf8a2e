/*
 * run_guard.c: the guard, a small process beside dlock run. See run.h.
 *
 * The kernel ends the command itself when dlock is killed (PR_SET_PDEATHSIG), but not what the command has started, nor
 * a command that has become another user. And a dlock that is stopped, or hangs, cannot stop the command before its
 * lock is over. The guard does both. It has a session of its own, so that no signal of a terminal reaches it, ignores
 * those that ask to end, and has no open files but its pipe. dlock makes a new one when it is killed.
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
#include <time.h>
#include <unistd.h>

enum { LOOK_MS = 10, IDLE_MS = 50, NAP_MS = 60000, LATE_MS = 200 };
enum { CHANCES = 100, ROUNDS = 100, FILES_MOST = 65536 };

/* ---- in the guard */

struct watch {
    struct run_page *page;
    pid_t dlock;
    int64_t planned; /* when the nap was to end */
    int chances;     /* looks that dlock still has, because the guard slept as well */
    int unfinished;  /* processes of a command that it has killed have not ended */
};

static void rest(void)
{
    const struct timespec moment = {.tv_nsec = 5000000};

    nanosleep(&moment, NULL);
}

/* dlock does not run: its children are still its own. Returns whether some of them have not ended. */
static int end_tree(struct run_page *page, pid_t dlock, int rounds)
{
    static struct run_tree tree;
    pid_t except[RUN_EXCEPT];
    int32_t group = page->group;

    memcpy(except, page->except, sizeof except);
    except[0] = getpid();
    page->killed = 1;
    for (int i = 0; i < rounds; i++) {
        if (group > 0)
            kill(-group, SIGKILL);
        if (run_tree_read(dlock, except, &tree) <= 0)
            return 0;
        run_tree_send(&tree, SIGKILL, dlock);
        rest();
    }
    return 1;
}

/* dlock is dead, and what it has started has other parents. */
static _Noreturn void end_all(const struct run_page *page)
{
    int32_t group = page->group;

    if (group <= 0)
        _exit(0);
    for (int i = 0; i < ROUNDS; i++) {
        kill(-group, SIGKILL);
        if (!run_tree_kill_marked(page->mark))
            break;
        rest();
    }
    _exit(0);
}

static int is_stopped(char state)
{
    return state == 'T' || state == 't';
}

/* The deadline has passed. A dlock that runs would have moved it, unless all of them have slept until now. */
static int must_end(struct watch *watch)
{
    char state = run_tree_state(watch->dlock, NULL);

    if (is_stopped(state))
        return 1;
    if (state == '\0' && watch->chances == 1) /* without /proc nobody knows: it must not go on */
        return 1;
    return watch->chances-- <= 0;
}

static void look(struct watch *watch)
{
    const struct run_page *page = watch->page;
    int64_t now = tool_now();

    if (now > watch->planned + LATE_MS)
        watch->chances = CHANCES;
    if (watch->unfinished)
        watch->unfinished = is_stopped(run_tree_state(watch->dlock, NULL)) && end_tree(watch->page, watch->dlock, 1);
    if (now < page->deadline || page->asleep || page->killed || !page->group)
        return;
    if (must_end(watch))
        watch->unfinished = end_tree(watch->page, watch->dlock, ROUNDS);
}

/* One look more for a dlock that is not known to be stopped: it may be ending the command itself. */
static int nap(struct watch *watch)
{
    const struct run_page *page = watch->page;
    int64_t now = tool_now(), left = page->deadline - now;
    int idle = page->asleep || page->killed || !page->group;
    int ms = left <= 0 || watch->unfinished ? (idle ? IDLE_MS : LOOK_MS) : left < NAP_MS ? (int)left : NAP_MS;

    if (left > 0)
        watch->chances = 1;
    watch->planned = now + ms;
    return ms;
}

static _Noreturn void keep_watch(struct run_page *page, int pipe, pid_t dlock)
{
    struct watch watch = {.page = page, .dlock = dlock};
    struct pollfd fd = {.fd = pipe, .events = POLLIN};
    char byte;

    for (;;) {
        if (poll(&fd, 1, nap(&watch)) > 0 && read(pipe, &byte, 1) == 0)
            end_all(page);
        look(&watch);
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
        errno = 0;
    keep_watch(page, 0, dlock);
}

/* ---- in dlock */

/* Other threads may hold locks of the C library: the guard makes system calls only. */
static int begin(struct run_guard *guard)
{
    pid_t dlock = getpid();
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    if ((guard->pid = fork()) < 0) {
        close(ends[0]);
        close(ends[1]);
        guard->pid = 0;
        return -1;
    }
    if (guard->pid == 0)
        be_guard(guard->page, ends[0], dlock);
    close(ends[0]);
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    guard->pipe = ends[1];
    return 0;
}

int run_guard_start(struct run_guard *guard)
{
    struct timespec now;
    void *page = mmap(NULL, sizeof *guard->page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (page == MAP_FAILED)
        return -1;
    guard->page = page;
    guard->page->deadline = INT64_MAX;
    clock_gettime(CLOCK_BOOTTIME, &now);
    snprintf(guard->page->mark, sizeof guard->page->mark, "/%d-%lld.%09ld/", (int)getpid(), (long long)now.tv_sec,
             now.tv_nsec);
    run_tree_children(getpid(), guard->page->except + 1, RUN_EXCEPT - 1);
    if (begin(guard) == 0)
        return 0;
    munmap(page, sizeof *guard->page);
    guard->page = NULL;
    return -1;
}

int run_guard_keep(struct run_guard *guard)
{
    int status;

    if (guard->pid > 0) {
        if (waitpid(guard->pid, &status, WNOHANG | WUNTRACED) != guard->pid)
            return 0;
        if (WIFSTOPPED(status)) {
            kill(guard->pid, SIGCONT);
            return 0;
        }
        close(guard->pipe);
        guard->pipe = -1;
        guard->pid = 0;
    }
    return begin(guard);
}

void run_guard_deadline(struct run_guard *guard, int64_t deadline)
{
    int64_t before = atomic_exchange(&guard->page->deadline, deadline);

    if (deadline < before && guard->pipe >= 0 && write(guard->pipe, "w", 1) != 1) /* SIGPIPE is blocked */
        guard->page->deadline = deadline; /* it is dead, or has not read earlier ones */
}

void run_guard_end(struct run_guard *guard)
{
    if (!guard->page)
        return;
    guard->page->group = 0;
    if (guard->pid > 0) {
        kill(guard->pid, SIGKILL); /* it may be stopped */
        while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        close(guard->pipe);
    }
    munmap(guard->page, sizeof *guard->page);
    guard->page = NULL;
}
