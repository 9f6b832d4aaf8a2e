/*
 * run.c: dlock run, from its arguments to its exit code. See run.h.
 */
#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CLOSE_MS = 1000, GRACE_MS = 5000, TOKENS_KEPT_MS = 86400000 };

static const struct tool_word kinds[] = {
    {"mutex", DLOCK_KIND_MUTEX},
    {"fair", DLOCK_KIND_FAIR},
    {"read", DLOCK_KIND_READ},
    {"write", DLOCK_KIND_WRITE},
    {"permit", DLOCK_KIND_PERMIT_SEMAPHORE},
    {NULL, 0},
};

static const struct tool_word losses[] = {{"term", RUN_TERM}, {"kill", RUN_KILL}, {"warn", RUN_WARN}, {NULL, 0}};

static const char help[] = "Usage: dlock run [options] NAME -- COMMAND [argument...]\n"
                           "Run COMMAND while the lock NAME is held.\n"
                           "\n"
                           "  --wait T        wait for the lock up to T; 0: not at all; without it: for ever\n"
                           "  --lease T       how long the server keeps the lock when this host dies (30s)\n"
                           "  --kind KIND     mutex (the default), fair, read, write, or permit\n"
                           "  --permits N     with --kind permit: at most N commands run at once\n"
                           "  --min-hold T    keep others out for T at least, also when COMMAND ends earlier\n"
                           "  --lost WHAT     when the lock is lost: term (SIGTERM, the default), kill or warn\n"
                           "  --grace T       the time between SIGTERM and SIGKILL (5s)\n"
                           "  --best-effort   also run a COMMAND that dlock cannot promise to stop, such as sudo\n"
                           "  --keep-url      COMMAND finds DLOCK_URL, with its password, in its environment\n"
                           "  --namespace S   a prefix of NAME, joined by a colon\n"
                           "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
                           "\n"
                           "T is a time such as 500ms, 30s, 2m or 1h. COMMAND finds DLOCK_NAME, DLOCK_TOKEN (the\n"
                           "fencing token) and DLOCK_FD (readable when the lock is lost) in its environment.\n"
                           "Exit code: that of COMMAND; 128 + n when signal n ended it; 75 the lock is taken;\n"
                           "76 the lock was lost; 77 and COMMAND could not be stopped; 69 no server; 64 wrong usage;\n"
                           "126 COMMAND cannot be run; 127 it was not found.\n";

/* ---- arguments */

/* NAME stands before the first "--", COMMAND behind it; a NAME that begins with "-" may have one before it, too. */
static int split(struct run *run, const struct tool_arg *args, int argc, char **argv)
{
    char **operands;
    int first = 1, count, failed;

    while (first < argc && strcmp(argv[first], "--") != 0)
        first++;
    failed = tool_parse(&run->tool, args, first, argv, 0, argc, &operands, &count);
    if (failed || run->tool.help)
        return failed;
    if (count == 0 && first + 2 < argc && strcmp(argv[first + 2], "--") == 0) {
        run->name = argv[first + 1];
        first += 2;
    } else if (count == 1) {
        run->name = operands[0];
    } else if (count > 1 && first == argc) {
        return tool_say(&run->tool, TOOL_USAGE, "put -- between NAME and COMMAND; see dlock run --help");
    } else {
        return tool_say(&run->tool, TOOL_USAGE, "one NAME stands before --; see dlock run --help");
    }
    run->command = argv + first + 1;
    if (first + 1 >= argc)
        return tool_say(&run->tool, TOOL_USAGE, "there is no COMMAND; see dlock run --help");
    return 0;
}

static int parse(struct run *run, int argc, char **argv)
{
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&run->tool),
        TOOL_ARG_NAMESPACE(&run->tool),
        {"wait", TOOL_TIME, &run->wait, 0, INT64_C(1000) * TOOL_TIME_MOST, NULL},
        {"lease", TOOL_TIME, &run->lease, 500, 86400000, NULL},
        {"kind", TOOL_WORD, &run->tool.kind, 0, 0, kinds},
        {"permits", TOOL_NUMBER, &run->permits, 1, INT32_MAX, NULL},
        {"min-hold", TOOL_TIME, &run->min_hold, 0, 86400000, NULL},
        {"lost", TOOL_WORD, &run->stop.mode, 0, 0, losses},
        {"grace", TOOL_TIME, &run->stop.grace, 0, 86400000, NULL},
        {"best-effort", TOOL_FLAG, &run->best_effort, 0, 0, NULL},
        {"keep-url", TOOL_FLAG, &run->keep_url, 0, 0, NULL},
        TOOL_ARG_END,
    };
    int failed = split(run, args, argc, argv);

    if (failed || run->tool.help)
        return failed;
    if (run->permits >= 0 && run->tool.kind != DLOCK_KIND_PERMIT_SEMAPHORE)
        return tool_say(&run->tool, TOOL_USAGE, "--permits needs --kind permit");
    return 0;
}

/* ---- the lock */

/* The client, and a handle on the lock. Nothing is connected yet. */
static int prepare(struct run *run)
{
    int failed = tool_options(&run->tool);

    if (!failed && run->lease >= 0)
        failed = tool_option_number(&run->tool, "lease_ms", run->lease);
    if (!failed && run->lease > TOKENS_KEPT_MS / 10)
        failed = tool_option_number(&run->tool, "token_ttl_ms", run->lease * 10); /* the least that is accepted */
    if (!failed && run->min_hold >= 0)
        failed = tool_option_number(&run->tool, "min_hold_ms", run->min_hold);
    if (!failed)
        failed = tool_open(&run->tool);
    if (!failed)
        failed = tool_lock(&run->tool, run->tool.kind, run->name, &run->lock);
    if (!failed && dlock_client_fd(run->tool.client, &run->client_fd, run->tool.error) != DLOCK_OK)
        failed = tool_failed(&run->tool);
    return failed;
}

/* The command has ended. Returns the exit code. */
static int release(struct run *run)
{
    int code = WIFSIGNALED(run->status) ? TOOL_SIGNAL + WTERMSIG(run->status) : WEXITSTATUS(run->status);

    if (run->left_over)
        return TOOL_NOT_STOPPED;
    if (!run_stop_over(&run->stop))
        return run_release(run, code);
    if (run->stop.mode == RUN_WARN && code != 0)
        tool_say(&run->tool, 0, "the command ended with %d", code);
    return TOOL_LOST;
}

static int with_client(struct run *run)
{
    int code = run_wait(run);

    if (!code)
        code = run_watch_begin(run);
    if (!code)
        code = run_child_start(run);
    if (code)
        return code; /* what was granted is released by the close */
    run_watch(run);
    return release(run);
}

/* ---- from the beginning to the end */

/* The guard begins before the client: a client that was not used has no threads, and the guard must have no files. */
static int with_guard(struct run *run)
{
    int code = prepare(run);

    if (code)
        return code;
    if (run_signals_open(run) != 0 || run_guard_start(&run->guard) != 0)
        return tool_say(&run->tool, TOOL_SYSTEM, "cannot prepare: %s", strerror(errno));
    run_tty_open(&run->tty);
    if ((code = run_promise(run)) == 0)
        code = with_client(run);
    dlock_lock_free(run->lock);
    run->lock = NULL;
    tool_close(&run->tool, CLOSE_MS);
    run_guard_end(&run->guard);
    return code;
}

/* The command had the terminal and was interrupted there. So are a script around dlock, and dlock itself. */
static int interrupted(const struct run *run, int code)
{
    if (run->child <= 0 || !run->tty.kept || code != TOOL_SIGNAL + SIGINT || !WIFSIGNALED(run->status))
        return code;
    kill(0, SIGINT);
    return run_signals_die(SIGINT);
}

static int run_main(int argc, char **argv)
{
    struct run run = {
        .tool = {.command = "run", .kind = DLOCK_KIND_MUTEX},
        .wait = -1,
        .lease = -1,
        .min_hold = -1,
        .permits = -1,
        .stop = {.mode = RUN_TERM, .grace = GRACE_MS},
        .signals = -1,
        .loss = {-1, -1},
    };
    int code = parse(&run, argc, argv);

    if (run.tool.help && !code)
        return tool_help(&tool_run);
    if (!code)
        code = with_guard(&run);
    dlock_lock_free(run.lock);
    tool_close(&run.tool, 0);
    if (code > TOOL_SIGNAL && run.child <= 0 && run.signals >= 0)
        return run_signals_die(code - TOOL_SIGNAL);
    return interrupted(&run, code);
}

const struct tool_command tool_run = {"run", "run a command while a lock is held", help, run_main, 1, -1};
