/*
 * list.c: dlock list.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

static const char help[] = "Usage: dlock list [options] [PATTERN]\n"
                           "List the locks that are held. PATTERN is a glob: * any bytes, ? one, [a-z] one of these.\n"
                           "\n"
                           "  --all           free locks, too, whose token the server still remembers (a day)\n"
                           "  --names         only names: no look at each lock\n"
                           "  --json          one object a line\n"
                           "  --namespace S   only names with this prefix and a colon, without them\n"
                           "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
                           "\n"
                           "The server is asked for some 100 keys at a time, and is never blocked. Locks that\n"
                           "Redisson alone uses without a fencing token, and latches, are not listed.\n"
                           "Exit code: 0, also for an empty list; 69 the server cannot be reached; 64 wrong usage.\n";

struct list {
    struct tool *tool;
    int all, only_names;
    const char *glob;
};

static void print_name(const struct tool *tool, const char *name)
{
    if (tool->json) {
        tool_json_begin(stdout);
        tool_json_text(stdout, "name", name);
        tool_json_end(stdout);
    } else {
        tool_print_text(stdout, name, strlen(name));
        fputc('\n', stdout);
    }
}

/* Other kinds of keys, and what was forgotten meanwhile, are passed over. */
static int show(const struct list *list, const char *name)
{
    struct tool_look look;
    dlock_status status;

    if (list->only_names) {
        print_name(list->tool, name);
        return TOOL_DONE;
    }
    status = tool_look(list->tool, list->tool->kind, name, &look);
    if (status == DLOCK_WRONG_KIND || status == DLOCK_INVALID_NAME)
        return TOOL_DONE;
    if (status != DLOCK_OK)
        return tool_failed(list->tool);
    if (list->all || look.counts || look.holder[0])
        tool_print_look(list->tool, name, &look);
    return TOOL_DONE;
}

static int run(struct tool *tool, void *context)
{
    struct list *list = context;
    struct tool_names names = {.name = NULL};
    int code = tool_open(tool);

    if (code)
        return code;
    list->glob = tool->count > 0 ? tool->words[0] : NULL;
    do
        if (tool_names_more(list->tool, list->glob, &names) != DLOCK_OK)
            code = tool_failed(list->tool);
    while (!code && names.cursor != 0);
    tool_names_sort(&names);
    for (size_t i = 0; i < names.count && !code; i++)
        code = show(list, names.name[i]);
    tool_names_free(&names);
    return code;
}

static int list_main(int argc, char **argv)
{
    struct tool tool = {.command = "list", .argc = argc, .argv = argv};
    struct list list = {.tool = &tool};
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),
        TOOL_ARG_NAMESPACE(&tool),
        TOOL_ARG_JSON(&tool),
        {"all", TOOL_FLAG, &list.all, 0, 0, NULL},
        {"names", TOOL_FLAG, &list.only_names, 0, 0, NULL},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_list, args, run, &list);
}

const struct tool_command tool_list = {"list", "the locks that are held", help, list_main, 0, 1};
