/*
 * counters.c: dlock semaphore and dlock latch.
 */
#include <inttypes.h>
#include <string.h>

#include "tool.h"

struct verb {
    const char *name;
    int least, most; /* words after NAME */
    int is_time;     /* the word is a time; else a number */
    int64_t lowest;
    dlock_status (*act)(dlock_lock *lock, int64_t number, int64_t *ret_value, dlock_error *reterr);
    const char *key, *text; /* of the value; NULL: none */
};

struct work {
    const char *name;
    const struct verb *verb;
    int64_t number;
};

static int act(struct tool *tool, dlock_lock *lock, void *context)
{
    const struct work *work = context;
    int64_t value = 0;

    if (work->verb->act(lock, work->number, &value, tool->error) != DLOCK_OK)
        return tool_failed(tool);
    if (tool->json) {
        tool_json_begin(stdout);
        tool_json_text(stdout, "name", work->name);
        if (work->verb->key)
            tool_json_number(stdout, work->verb->key, value);
        tool_json_end(stdout);
        return TOOL_DONE;
    }
    tool_print_text(stdout, work->name, strlen(work->name));
    if (work->verb->key)
        printf(": %" PRId64 " %s\n", value, work->verb->text);
    else
        fputs(": done\n", stdout);
    return TOOL_DONE;
}

static const struct verb *find(struct tool *tool, const struct verb *verbs, const char *name)
{
    char known[128] = "";

    for (; verbs->name; verbs++) {
        if (strcmp(verbs->name, name) == 0)
            return verbs;
        tool_append(known, sizeof known, "%s%s", *known ? ", " : "", verbs->name);
    }
    tool_say(tool, TOOL_USAGE, "say %s, not %s", known, name);
    return NULL;
}

/* VERB NAME [NUMBER] */
static int run(struct tool *tool, const struct verb *verbs)
{
    char **words = tool->words;
    int count = tool->count;
    struct work work = {.name = words[1], .verb = find(tool, verbs, words[0]), .number = 1};
    const struct verb *verb = work.verb;

    if (!verb)
        return TOOL_USAGE;
    if (count - 2 < verb->least)
        return tool_say(tool, TOOL_USAGE, "%s needs a %s after NAME", verb->name, verb->is_time ? "time" : "number");
    if (count - 2 > verb->most)
        return tool_say(tool, TOOL_USAGE, "there are too many words; see dlock %s --help", tool->command);
    if (count > 2 && (verb->is_time ? !tool_time(words[2], &work.number) : !tool_number(words[2], &work.number)))
        return tool_say(tool, TOOL_USAGE, "'%s' is no %s", words[2], verb->is_time ? "time such as 30s" : "number");
    if (work.number < verb->lowest || (!verb->is_time && work.number > INT32_MAX))
        return tool_say(tool, TOOL_USAGE, "the number is %" PRId64 " to %d", verb->lowest, INT32_MAX);
    return tool_with_lock(tool, work.name, act, &work);
}

/* ---- semaphore */

static const char semaphore_help[] =
    "Usage: dlock semaphore set [options] NAME N     give it its permits, if it has none yet\n"
    "       dlock semaphore add [options] NAME N     add permits\n"
    "       dlock semaphore remove [options] NAME N  take permits away for good\n"
    "       dlock semaphore drain [options] NAME     take all free permits for good\n"
    "       dlock semaphore reclaim [options] NAME T give back permits of holders that were\n"
    "                                                silent for their lease and T\n"
    "       dlock semaphore show [options] NAME      how many are free\n"
    "\n"
    "  --kind KIND     permit (the default, as of dlock run: permits have a lease) or\n"
    "                  semaphore (plain ones have none: drain and reclaim are for these)\n"
    "  --json          one object\n"
    "  --namespace S   a prefix of NAME, joined by a colon\n"
    "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
    "\n"
    "Exit code: 0; 1 set found permits; 69 the server cannot be reached; 64 wrong usage.\n";

static dlock_status set_permits(dlock_lock *lock, int64_t number, int64_t *ret_value, dlock_error *reterr)
{
    (void)ret_value;
    return dlock_semaphore_set(lock, number, reterr);
}

static dlock_status remove_permits(dlock_lock *lock, int64_t number, int64_t *ret_value, dlock_error *reterr)
{
    return dlock_semaphore_add(lock, -number, ret_value, reterr);
}

static dlock_status drain(dlock_lock *lock, int64_t number, int64_t *ret_value, dlock_error *reterr)
{
    (void)number;
    return dlock_semaphore_drain(lock, ret_value, reterr);
}

static dlock_status show_permits(dlock_lock *lock, int64_t number, int64_t *ret_value, dlock_error *reterr)
{
    (void)number;
    return dlock_semaphore_available(lock, ret_value, reterr);
}

static const struct verb semaphore_verbs[] = {
    {"set", 1, 1, 0, 1, set_permits, NULL, NULL},
    {"add", 1, 1, 0, 1, dlock_semaphore_add, "available", "free"},
    {"remove", 1, 1, 0, 1, remove_permits, "available", "free"},
    {"drain", 0, 0, 0, 1, drain, "drained", "drained"},
    {"reclaim", 1, 1, 1, 0, dlock_semaphore_reclaim, "reclaimed", "came back"},
    {"show", 0, 0, 0, 1, show_permits, "available", "free"},
    {NULL, 0, 0, 0, 0, NULL, NULL, NULL},
};

static int semaphore(struct tool *tool, void *context)
{
    (void)context;
    return run(tool, semaphore_verbs);
}

static int semaphore_main(int argc, char **argv)
{
    static const struct tool_word kinds[] = {
        {"permit", DLOCK_KIND_PERMIT_SEMAPHORE}, {"semaphore", DLOCK_KIND_SEMAPHORE}, {NULL, 0}};
    struct tool tool = {.command = "semaphore", .argc = argc, .argv = argv, .kind = DLOCK_KIND_PERMIT_SEMAPHORE};
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),  TOOL_ARG_NAMESPACE(&tool),
        TOOL_ARG_JSON(&tool), {"kind", TOOL_WORD, &tool.kind, 0, 0, kinds},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_semaphore, args, semaphore, NULL);
}

const struct tool_command tool_semaphore = {
    "semaphore", "the permits of a semaphore", semaphore_help, semaphore_main, 2, 3};

/* ---- latch */

static const char latch_help[] = "Usage: dlock latch set [options] NAME N      give an open latch its count\n"
                                 "       dlock latch down [options] NAME [N]   count down, by 1 without N\n"
                                 "       dlock latch wait [options] NAME [T]   until the count is zero, or T is over\n"
                                 "       dlock latch show [options] NAME       the count\n"
                                 "\n"
                                 "  --json          one object\n"
                                 "  --namespace S   a prefix of NAME, joined by a colon\n"
                                 "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
                                 "\n"
                                 "Exit code: 0; 1 set found a count; 75 the wait is over; 69 the server cannot be\n"
                                 "reached; 64 wrong usage.\n";

static dlock_status set_count(dlock_lock *lock, int64_t number, int64_t *ret_value, dlock_error *reterr)
{
    (void)ret_value;
    return dlock_latch_set(lock, number, reterr);
}

static dlock_status wait_for_zero(dlock_lock *lock, int64_t number, int64_t *ret_value, dlock_error *reterr)
{
    (void)ret_value;
    return dlock_lock_acquire(lock, TOOL_OWNER, number, NULL, reterr);
}

static dlock_status wait_for_ever(dlock_lock *lock, int64_t number, int64_t *ret_value, dlock_error *reterr)
{
    (void)number;
    return wait_for_zero(lock, -1, ret_value, reterr);
}

static dlock_status show_count(dlock_lock *lock, int64_t number, int64_t *ret_value, dlock_error *reterr)
{
    (void)number;
    return dlock_latch_count(lock, ret_value, reterr);
}

static const struct verb latch_verbs[] = {
    {"set", 1, 1, 0, 1, set_count, NULL, NULL},
    {"down", 0, 1, 0, 1, dlock_latch_count_down, "count", "to go"},
    {"wait", 1, 1, 1, 0, wait_for_zero, NULL, NULL},
    {"show", 0, 0, 0, 1, show_count, "count", "to go"},
    {NULL, 0, 0, 0, 0, NULL, NULL, NULL},
};

static const struct verb patience[] = {{"wait", 0, 0, 0, 1, wait_for_ever, NULL, NULL},
                                       {NULL, 0, 0, 0, 0, NULL, NULL, NULL}};

static int latch(struct tool *tool, void *context)
{
    (void)context;
    return run(tool, tool->count == 2 && strcmp(tool->words[0], "wait") == 0 ? patience : latch_verbs);
}

static int latch_main(int argc, char **argv)
{
    struct tool tool = {.command = "latch", .argc = argc, .argv = argv, .kind = DLOCK_KIND_LATCH};
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),
        TOOL_ARG_NAMESPACE(&tool),
        TOOL_ARG_JSON(&tool),
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_latch, args, latch, NULL);
}

const struct tool_command tool_latch = {"latch", "the count of a latch; wait for zero", latch_help, latch_main, 2, 3};
