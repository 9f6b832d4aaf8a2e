/*
 * run.h: the parts of dlock run: the wait for the lock, the command and its processes, its terminal, its guard, and
 * when it is stopped.
 *
 * dlock run has one thread besides those of the library, and a process, the guard, with which it shares a page. What
 * both write there is atomic.
 */
#ifndef RUN_H
#define RUN_H

#include <signal.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "tool.h"

enum run_lost { RUN_TERM, RUN_KILL, RUN_WARN };

/* ---- run_stop.c: when the command must be stopped; decisions without I/O */

struct run_stop {
    int32_t mode;    /* enum run_lost */
    int64_t grace;   /* milliseconds between SIGTERM and SIGKILL */
    int64_t longest; /* the most that was left of the lock: about its lease */
    int lost, early; /* the lock is lost; SIGTERM came before that */
    int64_t term_at; /* 0: no SIGTERM yet */
    int killed;
};

/* What is known of the lock. left: milliseconds for which it may be trusted, 0 when it is lost. */
struct run_view {
    int64_t now, left;
    int at_risk, lost;
};

enum run_act { RUN_GO_ON, RUN_SEND_TERM, RUN_SEND_KILL };

/* What to do now. Each act but RUN_GO_ON comes once. */
enum run_act run_stop_decide(struct run_stop *stop, const struct run_view *view);

/* How many milliseconds may pass before the next decision. */
int64_t run_stop_wait(const struct run_stop *stop, const struct run_view *view);

/* When nothing of the command may run any more, if this process does nothing until then; INT64_MAX: never. */
int64_t run_stop_deadline(const struct run_stop *stop, const struct run_view *view);

/* Whether the command was stopped, or lost its lock. */
int run_stop_over(const struct run_stop *stop);

/* ---- run_tree.c: the processes that the command has started, by /proc */

enum { RUN_TREE_MOST = 1024, RUN_EXCEPT = 32 };

/* The variable that has the marks of a command's dlock run and of those around it. */
#define RUN_MARKS "DLOCK_RUN"

struct run_tree {
    pid_t pid[RUN_TREE_MOST];
    int count, more; /* more: there was no room for all */
};

/* The living descendants of root but those of except (0: none; NULL: none at all). Their number; -1 without /proc. */
int run_tree_read(pid_t root, const pid_t except[RUN_EXCEPT], struct run_tree *tree);

/* Send a signal to all that still descend from root. Returns one that the system does not let us signal, or 0. */
pid_t run_tree_send(const struct run_tree *tree, int number, pid_t root);

/* SIGKILL to all that have this in their environment. Returns how many there were. */
int run_tree_kill_marked(const char *mark);

/* The first children of a process, up to most. */
void run_tree_children(pid_t pid, pid_t *ret_child, int most);

/* S, R, T ... of /proc/PID/stat; '\0' when there is none. ret_parent may be NULL. */
char run_tree_state(pid_t pid, pid_t *ret_parent);

/* Call each for every entry of a folder that begins with a digit. 0 when one of them returned 0, else -1. */
int run_tree_entries(const char *path, void *context, int (*each)(void *context, const char *name));

/* ---- run_guard.c: a process that ends the command when dlock was killed, is stopped or hangs */

struct run_page {
    _Atomic int64_t deadline; /* of run_stop_deadline; on the clock of tool_now */
    _Atomic int32_t group;    /* of the command; 0: none */
    _Atomic int32_t asleep;   /* the command is stopped, too: nothing needs to be done */
    _Atomic int32_t killed;   /* the guard has ended the command */
    pid_t except[RUN_EXCEPT]; /* [0] the guard; then children that dlock had before: the command did not start them */
    char mark[64];            /* "/.../": those with it in RUN_MARKS are the command's processes */
};

struct run_guard {
    struct run_page *page;
    int pipe;  /* its other end is the guard's: a byte wakes it, end of file means that dlock was killed */
    pid_t pid; /* 0: it was killed, and could not be replaced yet */
};

/* Start the guard. 0, or -1 with errno. */
int run_guard_start(struct run_guard *guard);

/* Continue a guard that was stopped, replace one that was killed. 0, or -1 with errno: there is none. */
int run_guard_keep(struct run_guard *guard);

/* The next deadline. */
void run_guard_deadline(struct run_guard *guard, int64_t deadline);

/* The command has ended: so does the guard. */
void run_guard_end(struct run_guard *guard);

/* ---- run_tty.c: whose turn it is at the terminal */

struct run_tty {
    int fd;     /* the controlling terminal, -1 without one */
    pid_t own;  /* the process group of dlock */
    int wanted; /* the command gets the terminal when dlock has it */
    int given;  /* it has it */
    int kept;   /* it had it when it ended */
};

void run_tty_open(struct run_tty *tty);

/* The command gets the terminal if it is wanted and dlock has it. */
void run_tty_give(struct run_tty *tty, pid_t group);

/* dlock takes the terminal back if the command still has it. */
void run_tty_take(struct run_tty *tty, pid_t group);

/* Whether dlock's process group has the terminal. */
int run_tty_mine(const struct run_tty *tty);

/* ---- all together */

struct run {
    struct tool tool;
    int64_t wait, lease, min_hold, permits; /* -1: not said; wait: no limit */
    const char *name;
    char **command;
    int keep_url, best_effort;

    struct run_stop stop;
    struct run_guard guard;
    struct run_tty tty;
    dlock_lock *lock;
    int64_t token;
    int32_t client_fd;
    int signals;                   /* a signalfd; -1: none yet */
    sigset_t before;               /* the signals that were blocked when dlock began */
    struct sigaction child_before; /* what SIGCHLD did then */
    int loss[2];                   /* the pipe of DLOCK_FD: [0] is the command's, [1] ours */
    char **environment;            /* the command's */
    pid_t child;                   /* 0: none. Also its process group */
    int ended, status;             /* the command has ended, with this of waitpid */
    int64_t cause;                 /* of the loss, DLOCK_CAUSE_* */
    int64_t kill_at;               /* when SIGKILL was sent first, 0: not yet */
    int left_over;                 /* something could not be stopped */
    int denied, unguarded;         /* said that a process takes no signals; that there is no guard */
};

/* ---- run_promise.c */

/* Whether dlock can promise to stop the command. 0, or an exit code after a sentence. */
int run_promise(struct run *run);

/* ---- run_stopping.c: signals to all that the command has started */

/* To the process group of the command. */
void run_signal_group(struct run *run, int number);

/* To the group, and to those of the command's processes that have left it. */
void run_signal_all(struct run *run, int number);

/* Whether processes that a stopped command left behind have time, or are to be killed. */
int run_stopping(struct run *run);

/* As tool_say, but drops the sentence when stderr would block: the command must be stopped in time. */
void run_say(const struct run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- run_signals.c */

/* Take signals by run->signals from now on. 0, or -1 with errno. */
int run_signals_open(struct run *run);

/* The next signal, 0 when there is none. */
int run_signals_next(const struct run *run);

/* In the command, before it is executed: signals are as they were when dlock began. */
void run_signals_restore(const struct run *run);

/* End dlock as that signal does by default. Returns 128 and its number if it does not. */
int run_signals_die(int number);

/* ---- run_wait.c */

/* Acquire the lock. 0, or an exit code after a sentence; TOOL_SIGNAL and its number after a signal. */
int run_wait(struct run *run);

/* Release it: the code of the command, or what became of the lock. A signal ends the wait for the answer. */
int run_release(struct run *run, int code);

/* ---- run_child.c */

/* Start the command. 0, or an exit code after a sentence. */
int run_child_start(struct run *run);

/* ---- run_watch.c */

/* Before the command begins: its guard must know when the lock ends. 0, or TOOL_LOST after a sentence. */
int run_watch_begin(struct run *run);

/* Until the command has ended: forward signals, watch the lock, stop the command when the lock is lost. The command may
   be left over: then run->left_over is set. */
void run_watch(struct run *run);

#endif
