/*
 * run_promise.c: what dlock run must have to stop a command whatever it does. See run.h.
 *
 * A program with a set-user-ID bit, or with the capability to change its user, can become somebody whom dlock may not
 * signal: sudo does so. Processes that leave the command's group are found in /proc only.
 */
#include "run.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { PATH_ROOM = 4096 };

/* ---- the program */

/* Whether execvp runs it: it passes over a folder of that name. */
static int is_program(const char *path)
{
    struct stat file;

    return access(path, X_OK) == 0 && stat(path, &file) == 0 && S_ISREG(file.st_mode);
}

/* The file that execvp runs. 0 when there is none. */
static int find_program(const char *name, char path[PATH_ROOM])
{
    const char *at = getenv("PATH");

    if (strlen(name) >= PATH_ROOM)
        return 0;
    if (strchr(name, '/')) {
        memcpy(path, name, strlen(name) + 1);
        return 1;
    }
    for (at = at ? at : "/bin:/usr/bin";; at++) {
        int size = (int)strcspn(at, ":");

        path[0] = '\0';
        if ((size_t)size + strlen(name) + 2 < PATH_ROOM)
            tool_append(path, PATH_ROOM, "%.*s/%s", size ? size : 1, size ? at : ".", name);
        if (is_program(path))
            return 1;
        at += size;
        if (!*at)
            return 0;
    }
}

/* Whether we may signal every user's processes. */
static int signals_all(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{.effective = 0}};

    return syscall(SYS_capget, &head, data) == 0 && (data[0].effective & (1U << CAP_KILL));
}

/* Whether a file's capabilities let it change its user: the permitted ones stand behind the version. */
static int changes_user(const char *path)
{
    unsigned char attribute[64];
    ssize_t size = getxattr(path, "security.capability", attribute, sizeof attribute);

    return size >= 8 && (attribute[4] & (1U << CAP_SETUID));
}

static const char *program_problem(const char *name)
{
    char path[PATH_ROOM];
    struct stat file;
    struct statvfs system;

    if (!find_program(name, path) || stat(path, &file) != 0 || signals_all() ||
        prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1)
        return NULL;
    if (statvfs(path, &system) == 0 && (system.f_flag & ST_NOSUID))
        return NULL;
    if ((file.st_mode & S_ISUID) && file.st_uid != getuid())
        return "it runs as another user (set-user-ID)";
    return changes_user(path) ? "it may become another user (CAP_SETUID)" : NULL;
}

/* ---- the system */

static const char *system_problem(const struct run *run)
{
    static struct run_tree tree;

    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return "the system does not let dlock find its orphans";
    if (!run_tree_state(getpid(), NULL) || run_tree_read(getpid(), NULL, &tree) < 0)
        return "/proc does not show which processes it starts";
    return run->guard.page->except[RUN_EXCEPT - 1] ? "dlock has other children already" : NULL;
}

int run_promise(struct run *run)
{
    const char *problem = run->stop.mode == RUN_WARN ? NULL : program_problem(run->command[0]);

    if (!problem)
        problem = system_problem(run);
    if (!problem || run->stop.mode == RUN_WARN)
        return 0;
    if (!run->best_effort)
        return tool_say(&run->tool, TOOL_CANNOT_RUN,
                        "cannot promise to stop %s when the lock is lost: %s; --best-effort runs it all the same",
                        run->command[0], problem);
    tool_say(&run->tool, 0, "%s may run on when the lock is lost: %s", run->command[0], problem);
    return 0;
}
