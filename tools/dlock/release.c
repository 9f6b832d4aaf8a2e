/*
 * release.c: dlock release and dlock gate: what an operator does to a lock.
 */
#include <string.h>

#include "tool.h"

/* {"name": ..., "DONE": true}, or a sentence. */
static void report(const struct tool *tool, const char *name, const char *done, const char *sentence)
{
    if (tool->json) {
        tool_json_begin(stdout);
        tool_json_text(stdout, "name", name);
        tool_json_flag(stdout, done, 1);
        tool_json_end(stdout);
    } else {
        tool_print_text(stdout, name, strlen(name));
        printf(": %s\n", sentence);
    }
}

/* ---- release */

static const char release_help[] =
    "Usage: dlock release --force [options] NAME\n"
    "Take a lock away from its holder, whoever that is, and wake the next waiter. The holder\n"
    "is not told: it hears of it at its next renewal, up to a third of its lease later, and\n"
    "until then works on. Make sure that it does not, or that fencing tokens keep it out.\n"
    "\n"
    "  --kind KIND     mutex, fair, read or write; without it dlock finds out\n"
    "  --json          one object\n"
    "  --namespace S   a prefix of NAME, joined by a colon\n"
    "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
    "\n"
    "Exit code: 0; 1 nobody held the lock; 69 the server cannot be reached; 64 wrong usage.\n";

static int force(struct tool *tool, dlock_lock *lock, void *context)
{
    if (dlock_lock_force_release(lock, tool->error) != DLOCK_OK)
        return tool_failed(tool);
    report(tool, context, "released", "released by force");
    return TOOL_DONE;
}

static int take(struct tool *tool, void *context)
{
    const int *forced = context;

    if (!*forced)
        return tool_say(tool, TOOL_USAGE, "a lock belongs to its holder: --force takes it away");
    return tool_with_lock(tool, tool->words[0], force, tool->words[0]);
}

static int release_main(int argc, char **argv)
{
    struct tool tool = {.command = "release", .argc = argc, .argv = argv};
    int forced = 0;
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),
        TOOL_ARG_NAMESPACE(&tool),
        TOOL_ARG_JSON(&tool),
        {"kind", TOOL_WORD, &tool.kind, 0, 0, tool_kinds},
        {"force", TOOL_FLAG, &forced, 0, 0, NULL},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_release, args, take, &forced);
}

const struct tool_command tool_release = {"release", "take a lock away from its holder", release_help, release_main, 1,
                                          1};

/* ---- gate */

static const char gate_help[] =
    "Usage: dlock gate close [options] NAME\n"
    "       dlock gate open [options] NAME\n"
    "A closed gate ends every wait for the lock NAME and refuses new ones, in all processes,\n"
    "until it is opened or its time is over. The holder goes on.\n"
    "\n"
    "  --for T         how long the gate stays closed (1h), a year at most\n"
    "  --kind KIND     of the lock; without it dlock finds out\n"
    "  --json          one object\n"
    "  --namespace S   a prefix of NAME, joined by a colon\n"
    "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
    "\n"
    "Exit code: 0; 1 the gate was open; 69 the server cannot be reached; 64 wrong usage.\n";

enum { HOUR_MS = 3600000 };

struct gate {
    const char *name;
    int64_t time;
};

static int close_gate(struct tool *tool, dlock_lock *lock, void *context)
{
    const struct gate *gate = context;
    char sentence[64], span[TOOL_SPAN];

    if (dlock_lock_close_gate(lock, gate->time, tool->error) != DLOCK_OK)
        return tool_failed(tool);
    snprintf(sentence, sizeof sentence, "gate closed for %s", tool_span(span, gate->time));
    report(tool, gate->name, "closed", sentence);
    return TOOL_DONE;
}

static int open_gate(struct tool *tool, dlock_lock *lock, void *context)
{
    const struct gate *gate = context;

    if (dlock_lock_open_gate(lock, tool->error) != DLOCK_OK)
        return tool_failed(tool);
    report(tool, gate->name, "open", "gate open");
    return TOOL_DONE;
}

static int gate(struct tool *tool, void *context)
{
    char **words = tool->words;
    int64_t time = *(const int64_t *)context;
    struct gate gate = {words[1], time >= 0 ? time : HOUR_MS};

    if (strcmp(words[0], "close") == 0)
        return tool_with_lock(tool, gate.name, close_gate, &gate);
    if (strcmp(words[0], "open") != 0)
        return tool_say(tool, TOOL_USAGE, "say close or open, not %s", words[0]);
    if (time >= 0)
        return tool_say(tool, TOOL_USAGE, "--for belongs to close");
    return tool_with_lock(tool, gate.name, open_gate, &gate);
}

static int gate_main(int argc, char **argv)
{
    struct tool tool = {.command = "gate", .argc = argc, .argv = argv};
    int64_t time = -1;
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),
        TOOL_ARG_NAMESPACE(&tool),
        TOOL_ARG_JSON(&tool),
        {"kind", TOOL_WORD, &tool.kind, 0, 0, tool_kinds},
        {"for", TOOL_TIME, &time, 1, INT64_C(1000) * TOOL_TIME_MOST, NULL},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_gate, args, gate, &time);
}

const struct tool_command tool_gate = {
    "gate", "close a lock for all who want it, open it again", gate_help, gate_main, 2, 2};
