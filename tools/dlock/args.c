/*
 * args.c: options and operands of a subcommand, by getopt_long. See tool.h.
 */
#include "tool.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGS_MOST = 24, SENTENCE = 4096 /* a pipe that is writable takes as much */ };

const struct tool_word tool_kinds[] = {
    {"mutex", DLOCK_KIND_MUTEX},         {"fair", DLOCK_KIND_FAIR},
    {"read", DLOCK_KIND_READ},           {"write", DLOCK_KIND_WRITE},
    {"semaphore", DLOCK_KIND_SEMAPHORE}, {"permit", DLOCK_KIND_PERMIT_SEMAPHORE},
    {"latch", DLOCK_KIND_LATCH},         {NULL, 0},
};

static const struct tool_word units[] = {{"ms", 1},      {"s", 1000},     {"m", 60000},
                                         {"h", 3600000}, {"d", 86400000}, {NULL, 0}};

int tool_say(const struct tool *tool, int code, const char *format, ...)
{
    char text[2048], line[SENTENCE] = "dlock";
    size_t used;
    va_list rest;

    va_start(rest, format);
    vsnprintf(text, sizeof text, format, rest);
    va_end(rest);
    tool_append(line, sizeof line, "%s%s: ", tool->command ? " " : "", tool->command ? tool->command : "");
    used = strlen(line);
    used += tool_escape(line + used, sizeof line - used - 1, text, strlen(text));
    line[used++] = '\n';
    if (write(2, line, used) != (ssize_t)used) /* at once: other processes write there, too */
        errno = 0;
    return code;
}

void tool_append(char *text, size_t room, const char *format, ...)
{
    size_t size = strlen(text);
    va_list rest;

    va_start(rest, format);
    vsnprintf(text + size, room - size, format, rest);
    va_end(rest);
}

int tool_help(const struct tool_command *command)
{
    fputs(command->help, stdout);
    return TOOL_DONE;
}

/* Digits up to the end, or up to *end when it is not NULL. */
static int digits(const char *text, char **end, int64_t *ret_number)
{
    char *behind;
    long long number;

    if (text[0] == '-' ? text[1] < '0' || text[1] > '9' : text[0] < '0' || text[0] > '9')
        return 0;
    errno = 0;
    number = strtoll(text, &behind, 10);
    if (errno || (!end && *behind))
        return 0;
    if (end)
        *end = behind;
    *ret_number = number;
    return 1;
}

int tool_number(const char *text, int64_t *ret_number)
{
    return digits(text, NULL, ret_number);
}

int tool_time(const char *text, int64_t *ret_ms)
{
    int64_t number;
    char *unit;

    if (!digits(text, &unit, &number) || number < 0)
        return 0;
    if (number == 0 && !*unit) {
        *ret_ms = 0;
        return 1;
    }
    for (const struct tool_word *word = units; word->name; word++)
        if (strcmp(word->name, unit) == 0 && number <= INT64_C(1000) * TOOL_TIME_MOST / word->value) {
            *ret_ms = number * word->value;
            return 1;
        }
    return 0;
}

/* ---- one option */

static int set_word(struct tool *tool, const struct tool_arg *arg, const char *text)
{
    char known[256] = "";

    for (const struct tool_word *word = arg->words; word->name; word++) {
        if (strcmp(word->name, text) == 0) {
            *(int32_t *)arg->into = word->value;
            return 0;
        }
        tool_append(known, sizeof known, "%s%s", *known ? ", " : "", word->name);
    }
    return tool_say(tool, TOOL_USAGE, "--%s is one of %s", arg->name, known);
}

static int set_number(struct tool *tool, const struct tool_arg *arg, const char *text)
{
    int64_t number;

    if (!tool_number(text, &number) || number < arg->least || number > arg->most)
        return tool_say(tool, TOOL_USAGE, "--%s is a number from %" PRId64 " to %" PRId64, arg->name, arg->least,
                        arg->most);
    *(int64_t *)arg->into = number;
    return 0;
}

static int set_time(struct tool *tool, const struct tool_arg *arg, const char *text)
{
    char least[TOOL_SPAN], most[TOOL_SPAN];
    int64_t ms;

    if (!tool_time(text, &ms))
        return tool_say(tool, TOOL_USAGE, "--%s is a time such as 500ms, 30s, 2m or 1h, not '%s'", arg->name, text);
    if (ms < arg->least || ms > arg->most)
        return tool_say(tool, TOOL_USAGE, "--%s is a time from %s to %s", arg->name, tool_span(least, arg->least),
                        tool_span(most, arg->most));
    *(int64_t *)arg->into = ms;
    return 0;
}

static int set(struct tool *tool, const struct tool_arg *arg, const char *text)
{
    switch (arg->type) {
    case TOOL_FLAG:
        *(int *)arg->into = 1;
        return 0;
    case TOOL_TEXT:
        *(const char **)arg->into = text;
        return 0;
    case TOOL_TIME:
        return set_time(tool, arg, text);
    case TOOL_NUMBER:
        return set_number(tool, arg, text);
    case TOOL_WORD:
        return set_word(tool, arg, text);
    }
    return 0;
}

/* ---- all options */

static int fill(const struct tool_arg *args, struct option options[ARGS_MOST])
{
    int count = 0;

    for (; args[count].name; count++)
        options[count] =
            (struct option){args[count].name, args[count].type == TOOL_FLAG ? no_argument : required_argument, NULL, 0};
    options[count] = (struct option){NULL, 0, NULL, 0};
    return count;
}

/* optopt is 0 for a long option, whose word is the one before optind. */
static int refuse(struct tool *tool, int code, char **argv)
{
    if (optopt)
        return tool_say(tool, TOOL_USAGE, "there is no option -%c; see dlock %s --help", optopt, tool->command);
    if (code == ':')
        return tool_say(tool, TOOL_USAGE, "%s needs a value; see dlock %s --help", argv[optind - 1], tool->command);
    return tool_say(tool, TOOL_USAGE, "there is no option %s; see dlock %s --help", argv[optind - 1], tool->command);
}

static int count_operands(struct tool *tool, int count, int least, int most)
{
    if (count < least)
        return tool_say(tool, TOOL_USAGE, "something is missing; see dlock %s --help", tool->command);
    if (count > most)
        return tool_say(tool, TOOL_USAGE, "there are too many words; see dlock %s --help", tool->command);
    return 0;
}

int tool_parse(struct tool *tool, const struct tool_arg *args, int argc, char **argv, int least, int most,
               char ***operands, int *count)
{
    struct option options[ARGS_MOST + 1];
    int code, index, failed = 0;

    fill(args, options);
    opterr = 0;
    optind = 0; /* begin anew */
    while (!failed && (code = getopt_long(argc, argv, ":h", options, &index)) != -1) {
        if (code == 'h')
            tool->help = 1;
        else
            failed = code == 0 ? set(tool, &args[index], optarg) : refuse(tool, code, argv);
    }
    if (failed)
        return failed;
    *operands = argv + optind;
    *count = argc - optind;
    return tool->help ? 0 : count_operands(tool, *count, least, most);
}
