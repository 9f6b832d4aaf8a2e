/*
 * commands.c: the list of subcommands, and dlock --help. See tool.h.
 */
#include <errno.h>
#include <string.h>

#include "tool.h"

static const struct tool_command *const commands[] = {
    &tool_run,       &tool_inspect, &tool_list,  &tool_watch,     &tool_top,   &tool_release, &tool_gate,
    &tool_semaphore, &tool_latch,   &tool_check, &tool_provision, &tool_bench, &tool_version,
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

int tool_frame(struct tool *tool, const struct tool_command *command, const struct tool_arg *args,
               int (*act)(struct tool *tool, void *context), void *context)
{
    int most = command->most < 0 ? tool->argc : command->most;
    int code = tool_parse(tool, args, tool->argc, tool->argv, command->least, most, &tool->words, &tool->count);

    if (!code)
        code = tool->help ? tool_help(command) : act(tool, context);
    tool_close(tool, 0);
    return code;
}

static int help(void)
{
    fputs("Usage: dlock COMMAND [options] [NAME...]\n"
          "Distributed locks on Redis, Valkey, etcd and ZooKeeper, from the command line.\n\n",
          stdout);
    for (size_t i = 0; i < COMMANDS; i++)
        printf("  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n"
          "The server: --url URL, --url-file FILE, or DLOCK_URL in the environment; without\n"
          "them redis://localhost:6379. dlock COMMAND --help has the options of each.\n",
          stdout);
    return TOOL_DONE;
}

static const struct tool_command *find(const char *name)
{
    for (size_t i = 0; i < COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int dispatch(int argc, char **argv)
{
    const struct tool none = {.command = NULL};
    const struct tool_command *command;

    if (argc < 2)
        return tool_say(&none, TOOL_USAGE, "there is no command; see dlock --help");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0) {
        command = argc > 2 ? find(argv[2]) : NULL;
        return command ? tool_help(command) : help();
    }
    if (!(command = find(strcmp(argv[1], "--version") == 0 ? "version" : argv[1])))
        return tool_say(&none, TOOL_USAGE, "there is no command %s; see dlock --help", argv[1]);
    return command->run(argc - 1, argv + 1);
}

int tool_main(int argc, char **argv)
{
    const struct tool none = {.command = NULL};
    int code = dispatch(argc, argv), failed;

    errno = 0;
    failed = ferror(stdout);
    if (fflush(stdout) != 0 || failed)
        return tool_say(&none, TOOL_OUTPUT, "cannot write to stdout: %s", strerror(errno));
    return code;
}
