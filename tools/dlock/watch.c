/*
 * watch.c: dlock watch: what happens to some locks, as it happens. It asks the server every so often, so it sees what
 * lasts for that long: a lock that is granted and released in between shows as one grant with a higher token.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool.h"

static const char help[] = "Usage: dlock watch [options] NAME...\n"
                           "Print what happens to each lock: grants, releases and losses, until you press Ctrl-C.\n"
                           "\n"
                           "  --every T       how often to look (200ms)\n"
                           "  --for T         end after T\n"
                           "  --kind KIND     of the locks; without it dlock finds out\n"
                           "  --json          one object a line\n"
                           "  --namespace S   a prefix of NAME, joined by a colon\n"
                           "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
                           "\n"
                           "A lock that changes hands more often than dlock looks shows its last holder.\n"
                           "Exit code: 0 after --for; 64 wrong usage. While the server is away, dlock waits for it.\n";

enum { EVERY_MS = 200, EVERY_LEAST = 10 };

struct seen {
    const char *name;
    int known; /* look is from at */
    int64_t at;
    struct tool_look look;
};

struct watch {
    struct tool *tool;
    struct seen *seen;
    int count, away;
    int64_t every, time, ends; /* time: -1 without --for; ends: INT64_MAX then */
};

/* ---- output */

static void print_time(int json)
{
    struct timespec now;
    struct tm tm;
    char text[40];

    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &tm);
    if (json) {
        char zone[8];

        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
        strftime(zone, sizeof zone, "%z", &tm);
        tool_append(text, sizeof text, ".%03ld%s", now.tv_nsec / 1000000, zone);
        tool_json_text(stdout, "time", text);
    } else {
        strftime(text, sizeof text, "%H:%M:%S", &tm);
        printf("%s.%03ld ", text, now.tv_nsec / 1000000);
    }
}

/* holder may be ""; token -1. */
static void say(const struct tool *tool, const char *name, const char *event, const char *holder, int64_t token)
{
    if (tool->json) {
        tool_json_begin(stdout);
        print_time(1);
        tool_json_text(stdout, "name", name);
        tool_json_text(stdout, "event", event);
        tool_json_text(stdout, "holder", holder);
        tool_json_known(stdout, "token", token);
        tool_json_end(stdout);
    } else {
        print_time(0);
        tool_print_text(stdout, name, strlen(name));
        printf(": %s", event);
        if (holder[0])
            fputs(strcmp(event, "granted") == 0 ? " to " : " by ", stdout);
        tool_print_text(stdout, holder, strlen(holder));
        if (token >= 0)
            printf(", token %" PRId64, token);
        fputc('\n', stdout);
    }
    fflush(stdout);
}

static void say_number(const struct tool *tool, const char *name, const struct tool_look *look)
{
    const char *what = look->kind == DLOCK_KIND_LATCH ? "count" : "available";

    if (tool->json) {
        tool_json_begin(stdout);
        print_time(1);
        tool_json_text(stdout, "name", name);
        tool_json_text(stdout, "event", "changed");
        tool_json_number(stdout, what, look->number);
        tool_json_end(stdout);
    } else {
        print_time(0);
        tool_print_text(stdout, name, strlen(name));
        printf(": %" PRId64 " %s\n", look->number, look->kind == DLOCK_KIND_LATCH ? "to go" : "free");
    }
    fflush(stdout);
}

/* ---- what has changed */

static void compare(const struct tool *tool, const struct seen *before, const struct tool_look *look, int64_t now)
{
    const char *was = before->look.holder;
    int over = before->look.left_ms >= 0 && now - before->at >= before->look.left_ms;

    if (!before->known) {
        say(tool, before->name, look->holder[0] ? "held" : "free", look->holder, look->token);
        return;
    }
    if (strcmp(was, look->holder) == 0)
        return;
    if (was[0])
        say(tool, before->name, over ? "lost" : "released", was, -1);
    if (look->holder[0])
        say(tool, before->name, "granted", look->holder, look->token);
}

static void look_at(struct watch *watch, struct seen *seen)
{
    const struct tool *tool = watch->tool;
    struct tool_look look;
    dlock_status status = tool_look(watch->tool, tool->kind, seen->name, &look);
    int64_t now = tool_now();

    if (status != DLOCK_OK) {
        if (!watch->away)
            tool_failed(tool);
        watch->away = 1;
        return;
    }
    if (watch->away)
        tool_say(tool, 0, "the server answers again");
    watch->away = 0;
    if (!look.counts)
        compare(tool, seen, &look, now);
    else if (!seen->known || seen->look.number != look.number)
        say_number(tool, seen->name, &look);
    seen->known = 1;
    seen->at = now;
    seen->look = look;
}

/* 0: nobody reads any more. */
static int pause_for(int64_t ms)
{
    struct pollfd reader = {.fd = 1};

    return poll(&reader, 1, ms > 0 ? (int)ms : 0) <= 0 || !(reader.revents & POLLERR);
}

static int run(struct watch *watch)
{
    while (!ferror(stdout)) {
        int64_t began = tool_now(), left;

        for (int i = 0; i < watch->count; i++)
            look_at(watch, &watch->seen[i]);
        left = watch->every - (tool_now() - began);
        if (tool_now() + left >= watch->ends)
            return TOOL_DONE;
        if (!pause_for(left))
            return TOOL_DONE;
    }
    return TOOL_DONE; /* tool_main says why */
}

/* The names are checked first: a handle tells without the server. */
static int begin(struct tool *tool, void *context)
{
    struct watch *watch = context;
    dlock_lock *lock;
    int code = tool_open(tool);

    if (code)
        return code;
    watch->count = tool->count;
    watch->ends = watch->time < 0 ? INT64_MAX : tool_now() + watch->time;
    if (!(watch->seen = calloc((size_t)watch->count, sizeof *watch->seen)))
        return tool_say(tool, TOOL_SYSTEM, "no memory");
    for (int i = 0; i < watch->count && !code; i++) {
        watch->seen[i].name = tool->words[i];
        if ((code = tool_lock(tool, DLOCK_KIND_MUTEX, tool->words[i], &lock)) == 0)
            dlock_lock_free(lock);
    }
    if (!code)
        code = run(watch);
    free(watch->seen);
    return code;
}

static int watch_main(int argc, char **argv)
{
    struct tool tool = {.command = "watch", .argc = argc, .argv = argv};
    struct watch watch = {.tool = &tool, .every = EVERY_MS, .time = -1};
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),
        TOOL_ARG_NAMESPACE(&tool),
        TOOL_ARG_JSON(&tool),
        {"kind", TOOL_WORD, &tool.kind, 0, 0, tool_kinds},
        {"every", TOOL_TIME, &watch.every, EVERY_LEAST, 3600000, NULL},
        {"for", TOOL_TIME, &watch.time, 0, INT64_C(1000) * TOOL_TIME_MOST, NULL},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_watch, args, begin, &watch);
}

const struct tool_command tool_watch = {"watch", "grants, releases and losses as they come", help, watch_main, 1, -1};
