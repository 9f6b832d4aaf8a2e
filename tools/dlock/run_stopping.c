/*
 * run_stopping.c: stopping all that the command has started, and saying what could not be stopped. See run.h.
 *
 * A signal to the process group reaches its members at once, but tells nothing about those it did not reach, and others
 * have left the group. So each process is signalled by itself, too, and afterwards /proc shows whether it has ended.
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GIVE_UP_MS = 1000, NAMED = 8 };

void run_say(const struct run *run, const char *format, ...)
{
    struct pollfd fd = {.fd = 2, .events = POLLOUT};
    char text[1024];
    va_list rest;

    if (poll(&fd, 1, 0) <= 0 || !(fd.revents & (POLLOUT | POLLERR)))
        return;
    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    tool_say(&run->tool, 0, "%s", text);
}

/* ---- signals */

static void tell_denied(struct run *run, pid_t pid)
{
    if (run->denied)
        return;
    run->denied = 1;
    run_say(run, "cannot signal process %d: it belongs to another user", (int)pid);
}

void run_signal_group(struct run *run, int number)
{
    if (run->child > 0 && kill(-run->child, number) != 0 && errno == EPERM)
        tell_denied(run, run->child);
}

/* Whether it has ended, and was only waited for by us: dlock is the parent of all that have lost theirs. */
static int buried(const struct run *run, pid_t pid)
{
    return pid == run->child ? run->ended : waitpid(pid, NULL, WNOHANG) == pid;
}

/* The living processes of the command, or -1. Where /proc hides their state, a zombie of ours looks alive. */
static int read_tree(const struct run *run, struct run_tree *tree)
{
    pid_t except[RUN_EXCEPT];
    int kept = 0;

    memcpy(except, run->guard.page->except, sizeof except);
    except[0] = run->guard.pid;
    if (run_tree_read(getpid(), except, tree) < 0)
        return -1;
    for (int i = 0; i < tree->count; i++)
        if (!buried(run, tree->pid[i]))
            tree->pid[kept++] = tree->pid[i];
    tree->count = kept;
    return kept;
}

void run_signal_all(struct run *run, int number)
{
    struct run_tree tree;
    pid_t denied, group = run->child;
    int kept = 0;

    run_signal_group(run, number);
    if (read_tree(run, &tree) < 0)
        return;
    for (int i = 0; i < tree.count; i++) /* those of the group have it */
        if (getpgid(tree.pid[i]) != group || kill(tree.pid[i], 0) != 0)
            tree.pid[kept++] = tree.pid[i];
    tree.count = kept;
    if ((denied = run_tree_send(&tree, number, getpid())) != 0)
        tell_denied(run, denied);
}

/* ---- what is left */

static void append_name(char *text, size_t room, pid_t pid)
{
    char path[48], name[64] = "";
    int fd;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    if ((fd = open(path, O_RDONLY | O_CLOEXEC)) >= 0) {
        ssize_t length = read(fd, name, sizeof name - 1);

        name[length > 0 ? length : 0] = '\0';
        name[strcspn(name, "\n")] = '\0';
        close(fd);
    }
    tool_append(text, room, name[0] ? "%d (%s)" : "%d", (int)pid, name);
}

static void tell_left(struct run *run, const struct run_tree *tree)
{
    char text[768] = "";

    for (int i = 0; i < tree->count && i < NAMED; i++) {
        tool_append(text, sizeof text, "%s", i > 0 ? ", " : "");
        append_name(text, sizeof text, tree->pid[i]);
    }
    run->left_over = 1;
    run_say(run, "could not stop process %s%s: it runs on without lock '%s'", text,
            tree->count > NAMED ? " and more" : "", run->name);
}

/* SIGKILL was sent: again to all that live. 0 when nothing does, or nothing can be done. */
static int finish(struct run *run)
{
    struct run_tree tree = {.count = 0};
    int count = read_tree(run, &tree);

    if (count == 0 || (count < 0 && run->ended))
        return 0;
    if (count < 0)
        tree.pid[tree.count++] = run->child;
    if (tool_now() < run->kill_at + GIVE_UP_MS) {
        run_signal_all(run, SIGKILL);
        return 1;
    }
    tell_left(run, &tree);
    return 0;
}

int run_stopping(struct run *run)
{
    struct run_tree tree;
    int count;

    if (run->stop.killed)
        return finish(run);
    if (!run->ended)
        return 1;
    if (!run->stop.term_at)
        return 0;
    if ((count = read_tree(run, &tree)) < 0) { /* without /proc nobody knows whom it left behind */
        run_signal_group(run, SIGKILL);
        return 0;
    }
    return count > 0;
}
