/*
 * inspect.c: dlock inspect.
 */
#include <inttypes.h>
#include <string.h>

#include "tool.h"

static const char help[] = "Usage: dlock inspect [options] NAME...\n"
                           "Show who holds each lock, since when, for how long, and how many processes wait.\n"
                           "\n"
                           "  --kind KIND     mutex, fair, read, write, semaphore, permit or latch; without it\n"
                           "                  dlock finds out (semaphores and latches look alike)\n"
                           "  --json          one object a line\n"
                           "  --namespace S   a prefix of NAME, joined by a colon\n"
                           "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
                           "\n"
                           "Exit code: 0, also for a free lock; 69 the server cannot be reached; 64 wrong usage.\n";

static void print_json(const char *name, const struct tool_look *look)
{
    tool_json_begin(stdout);
    tool_json_text(stdout, "name", name);
    tool_json_text(stdout, "kind", tool_kind_name(look->kind));
    if (look->counts) {
        tool_json_number(stdout, look->kind == DLOCK_KIND_LATCH ? "count" : "available", look->number);
    } else {
        tool_json_flag(stdout, "held", look->holder[0] != '\0');
        tool_json_text(stdout, "holder", look->holder);
        tool_json_known(stdout, "token", look->token);
        tool_json_known(stdout, "remaining_ms", look->left_ms);
        tool_json_known(stdout, "held_for_ms", look->held_ms);
        tool_json_known(stdout, "waiters", look->waiters);
        tool_json_flag(stdout, "foreign", look->foreign > 0);
    }
    tool_json_end(stdout);
}

static void print_holder(const struct tool_look *look)
{
    char span[TOOL_SPAN];

    fputs("held by ", stdout);
    tool_print_text(stdout, look->holder, strlen(look->holder));
    if (look->foreign > 0)
        fputs(" (Redisson)", stdout);
    if (look->held_ms >= 0)
        printf(" for %s", tool_span(span, look->held_ms));
    if (look->left_ms >= 0)
        printf(", %s left", tool_span(span, look->left_ms));
    if (look->token >= 0)
        printf(", token %" PRId64, look->token);
}

static void print_text(const char *name, const struct tool_look *look)
{
    tool_print_text(stdout, name, strlen(name));
    printf(": %s, ", tool_kind_name(look->kind));
    if (look->counts)
        printf(look->kind == DLOCK_KIND_LATCH ? "%" PRId64 " to go" : "%" PRId64 " free", look->number);
    else if (look->holder[0])
        print_holder(look);
    else
        fputs("free", stdout);
    if (look->waiters > 0)
        printf(", %" PRId64 " waiting", look->waiters);
    fputc('\n', stdout);
}

void tool_print_look(const struct tool *tool, const char *name, const struct tool_look *look)
{
    if (tool->json)
        print_json(name, look);
    else
        print_text(name, look);
}

static int inspect(struct tool *tool, void *context)
{
    struct tool_look look;
    int code = tool_open(tool), worst = code;

    (void)context;
    for (int i = 0; i < tool->count && !code; i++) {
        if (tool_look(tool, tool->kind, tool->words[i], &look) != DLOCK_OK) {
            code = tool_look_failed(tool);
            worst = worst ? worst : code;
            code = code == TOOL_USAGE ? 0 : code; /* the others are asked all the same */
        } else {
            tool_print_look(tool, tool->words[i], &look);
        }
    }
    return worst;
}

static int inspect_main(int argc, char **argv)
{
    struct tool tool = {.command = "inspect", .argc = argc, .argv = argv};
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),  TOOL_ARG_NAMESPACE(&tool),
        TOOL_ARG_JSON(&tool), {"kind", TOOL_WORD, &tool.kind, 0, 0, tool_kinds},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_inspect, args, inspect, NULL);
}

const struct tool_command tool_inspect = {"inspect", "who holds a lock, for how long, who waits", help, inspect_main, 1,
                                          -1};
