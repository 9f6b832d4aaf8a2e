/*
 * run_tree.c: the processes that a command has started, found in /proc, and signals to them. See run.h.
 *
 * A process may leave the group of the command (timeout, setsid, a shell with job control), but not its parents: dlock
 * run is a subreaper, so whoever loses its parent becomes its child. The guard calls this after a fork: no memory is
 * allocated, and the state is in the caller's struct.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH = 96, WHAT = 48, ENTRIES = 4096 };

/* ---- reading /proc */

static int open_of(pid_t pid, const char *what)
{
    char path[PATH];

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, what);
    return open(path, O_RDONLY | O_CLOEXEC);
}

char run_tree_state(pid_t pid, pid_t *ret_parent)
{
    char text[512], *behind;
    int fd = open_of(pid, "stat");
    ssize_t size;

    if (fd < 0)
        return '\0';
    size = read(fd, text, sizeof text - 1);
    close(fd);
    if (size <= 0)
        return '\0';
    text[size] = '\0';
    behind = strrchr(text, ')'); /* the name of the program stands before it, in whatever letters */
    if (!behind || strlen(behind) < 5)
        return '\0';
    if (ret_parent)
        *ret_parent = (pid_t)strtol(behind + 4, NULL, 10);
    return behind[2];
}

static int known(const struct run_tree *tree, pid_t pid)
{
    for (int i = 0; i < tree->count; i++)
        if (tree->pid[i] == pid)
            return 1;
    return 0;
}

static void add(struct run_tree *tree, pid_t pid, const pid_t except[RUN_EXCEPT])
{
    for (int i = 0; i < RUN_EXCEPT; i++)
        if (except && except[i] == pid)
            return;
    if (pid <= 0 || known(tree, pid))
        return;
    if (tree->count < RUN_TREE_MOST)
        tree->pid[tree->count++] = pid;
    else
        tree->more = 1;
}

/* Add the children of one thread. 0, or -1 when /proc does not say. */
static int add_children(struct run_tree *tree, pid_t pid, const char *task, const pid_t *except)
{
    char what[WHAT], byte[512];
    pid_t child = 0;
    ssize_t size;
    int fd;

    snprintf(what, sizeof what, "task/%.20s/children", task);
    if ((fd = open_of(pid, what)) < 0)
        return -1;
    while ((size = read(fd, byte, sizeof byte)) > 0)
        for (ssize_t i = 0; i < size; i++) {
            if (byte[i] >= '0' && byte[i] <= '9') {
                child = 10 * child + (byte[i] - '0');
                continue;
            }
            add(tree, child, except);
            child = 0;
        }
    close(fd);
    return 0;
}

/* One entry of getdents64: its length at 16, its name at 19. */
static int read_entries(int fd, char *at, void *context, int (*each)(void *context, const char *name))
{
    long size = syscall(SYS_getdents64, fd, at, ENTRIES);
    int good = 0;

    for (long i = 0; i < size;) {
        unsigned short length;

        memcpy(&length, at + i + 16, sizeof length);
        if (at[i + 19] >= '0' && at[i + 19] <= '9')
            good |= each(context, at + i + 19) == 0;
        i += length;
    }
    return size <= 0 ? -1 : good;
}

int run_tree_entries(const char *path, void *context, int (*each)(void *context, const char *name))
{
    _Alignas(8) char entries[ENTRIES];
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), good = 0, some;

    if (fd < 0)
        return -1;
    while ((some = read_entries(fd, entries, context, each)) >= 0)
        good |= some;
    close(fd);
    return good ? 0 : -1;
}

struct walk {
    struct run_tree *tree;
    pid_t pid;
    const pid_t *except;
};

static int add_of_task(void *context, const char *task)
{
    const struct walk *walk = context;

    return add_children(walk->tree, walk->pid, task, walk->except);
}

static int add_of(struct run_tree *tree, pid_t pid, const pid_t *except)
{
    struct walk walk = {tree, pid, except};
    char path[PATH];

    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    return run_tree_entries(path, &walk, add_of_task);
}

void run_tree_children(pid_t pid, pid_t *ret_child, int most)
{
    struct run_tree tree = {.count = 0};

    add_of(&tree, pid, NULL);
    for (int i = 0; i < tree.count && i < most; i++)
        ret_child[i] = tree.pid[i];
}

static int alive(pid_t pid)
{
    char state = run_tree_state(pid, NULL);

    if (state)
        return state != 'Z' && state != 'X';
    return kill(pid, 0) == 0 || errno == EPERM; /* hidden, or just gone */
}

/* Of those from first on, the living. Leaves the list as it is when there are none. */
static int keep_living(struct run_tree *tree, int first)
{
    int kept = 0;

    for (int i = first; i < tree->count; i++)
        if (alive(tree->pid[i]))
            tree->pid[kept++] = tree->pid[i];
    return kept;
}

/*
 * One that dies while we read hands its children to root, behind our back. So nothing is left only when root's children
 * are all known, and were dead before we asked for them.
 */
int run_tree_read(pid_t root, const pid_t except[RUN_EXCEPT], struct run_tree *tree)
{
    int kept = 0, dead;

    tree->count = tree->more = 0;
    do {
        dead = tree->count;
        if (add_of(tree, root, except) != 0)
            return -1;
        for (int i = dead; i < tree->count; i++)
            add_of(tree, tree->pid[i], except);
        kept = keep_living(tree, dead);
    } while (kept == 0 && tree->count > dead);
    tree->count = kept;
    return kept;
}

/* ---- signals */

/* Whether the process is still a descendant of root; a hidden one is taken for one, its parent has named it. */
static int descends(pid_t pid, pid_t root)
{
    pid_t parent = pid;

    for (int steps = 0; steps < RUN_TREE_MOST && parent > 1; steps++) {
        if (!run_tree_state(parent, &parent))
            return 1;
        if (parent == root)
            return 1;
    }
    return parent == root;
}

/* A descriptor, so that no other process gets the signal that has the number meanwhile; -1 where there is none. */
static int open_process(pid_t pid)
{
#if defined SYS_pidfd_open && defined SYS_pidfd_send_signal
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    return -1;
#endif
}

/* Send it, and close the descriptor. 0, or an error number. */
static int send_to(int fd, pid_t pid, int number)
{
    int failed = -1;

    errno = ENOSYS;
#ifdef SYS_pidfd_send_signal
    if (fd >= 0)
        failed = (int)syscall(SYS_pidfd_send_signal, fd, number, NULL, 0);
#endif
    if (failed && errno == ENOSYS)
        failed = kill(pid, number);
    failed = failed ? errno : 0;
    if (fd >= 0)
        close(fd);
    return failed;
}

pid_t run_tree_send(const struct run_tree *tree, int number, pid_t root)
{
    pid_t denied = 0;

    for (int i = 0; i < tree->count; i++) {
        pid_t pid = tree->pid[i];
        int fd = open_process(pid);

        if (send_to(fd, pid, descends(pid, root) ? number : 0) == EPERM && !denied)
            denied = pid;
    }
    return denied;
}

/* ---- by their environment, when their parents are gone */

struct search {
    const char *mark;
    int found;
};

/* Whether the file has the mark. Blocks overlap by a mark's length. */
static int has_mark(int fd, const char *mark)
{
    size_t length = strlen(mark), kept = 0;
    char bytes[ENTRIES];
    ssize_t size;

    while ((size = read(fd, bytes + kept, sizeof bytes - kept)) > 0) {
        size_t all = kept + (size_t)size;

        if (memmem(bytes, all, mark, length))
            return 1;
        kept = all < length ? all : length;
        memmove(bytes, bytes + all - kept, kept);
    }
    return 0;
}

static int kill_marked(void *context, const char *name)
{
    struct search *search = context;
    pid_t pid = (pid_t)strtol(name, NULL, 10);
    int process = open_process(pid), fd = open_of(pid, "environ"), its;

    its = fd >= 0 && pid != getpid() && has_mark(fd, search->mark) && alive(pid);
    if (fd >= 0)
        close(fd);
    if (send_to(process, pid, its ? SIGKILL : 0) == 0)
        search->found += its;
    return 0;
}

int run_tree_kill_marked(const char *mark)
{
    struct search search = {mark, 0};

    run_tree_entries("/proc", &search, kill_marked);
    return search.found;
}
