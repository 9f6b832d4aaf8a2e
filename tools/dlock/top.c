/*
 * top.c: dlock top: arguments, the terminal, keys and time. See top.h.
 */
#include "top.h"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static const char help[] = "Usage: dlock top [options] [PATTERN]\n"
                           "A table of the locks that are held, renewed every second. PATTERN is a glob.\n"
                           "\n"
                           "  --once          print the table once, as plain text\n"
                           "  --json          with --once: one object a line\n"
                           "  --sort COLUMN   name, holder, held, left, waiting or grants\n"
                           "  --all           free locks, too\n"
                           "  --every T       how often the table is renewed (1s)\n"
                           "  --namespace S   only names with this prefix and a colon, without them\n"
                           "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
                           "\n"
                           "Keys: q quit, s sort by the next column, r reverse, / filter by a part of the name,\n"
                           "a all or held ones, j k space b scroll. GRANTS/S counts new holders that dlock saw:\n"
                           "at least so many there were. With many names dlock looks at what is shown first.\n"
                           "Exit code: 0; 69 the server cannot be reached (--once); 64 wrong usage.\n";

/* SHARE: one part in so many of the time is spent on asking the server. */
enum { SHARE = 5, EVERY_MS = 1000, EVERY_LEAST = 100, KEY_ESCAPE = 27, KEY_ERASE = 127 };

/* ---- the terminal */

static struct termios usual;
static volatile sig_atomic_t ended, stopped, resized;

static void on_signal(int number)
{
    if (number == SIGTSTP)
        stopped = 1;
    else if (number == SIGWINCH)
        resized = 1;
    else
        ended = number;
}

static void enter(void)
{
    struct termios raw = usual;

    raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(0, TCSANOW, &raw);
    fputs("\033[?1049h\033[?25l\033[H\033[2J", stdout);
    fflush(stdout);
}

static void leave(void)
{
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(0, TCSANOW, &usual);
}

static void hear_signals(void)
{
    static const int heard[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
    struct sigaction action = {.sa_handler = on_signal};

    for (size_t i = 0; i < sizeof heard / sizeof heard[0]; i++)
        sigaction(heard[i], &action, NULL);
}

static void stop(void)
{
    stopped = 0;
    leave();
    raise(SIGSTOP);
    enter();
}

/* ---- keys */

static void scroll(struct top *top, int64_t by)
{
    int64_t first = (int64_t)top->first + by;

    if (first >= (int64_t)top->shown_count)
        first = (int64_t)top->shown_count - 1;
    top->first = first < 0 ? 0 : (size_t)first;
}

static void type(struct top *top, char key)
{
    size_t size = strlen(top->filter);

    if (key == '\n' || key == '\r') {
        top->typing = 0;
    } else if (key == KEY_ESCAPE) {
        top->typing = 0;
        top->filter[0] = '\0';
    } else if (key == KEY_ERASE || key == '\b') {
        top->filter[size ? size - 1 : 0] = '\0';
    } else if (size + 1 < sizeof top->filter && (unsigned char)key >= ' ') {
        top->filter[size] = key;
        top->filter[size + 1] = '\0';
    }
}

/* 0: quit. */
static int obey(struct top *top, char key)
{
    int64_t page = (int64_t)top_page();

    if (top->typing)
        type(top, key);
    else if (key == 'q')
        return 0;
    else if (key == 's')
        top->sort = (top->sort + 1) % TOP_COLUMNS;
    else if (key == 'r')
        top->reverse = !top->reverse;
    else if (key == 'a')
        top->all = !top->all;
    else if (key == '/')
        top->typing = 1;
    else if (key == 'j' || key == 'k')
        scroll(top, key == 'j' ? 1 : -1);
    else if (key == ' ' || key == 'b')
        scroll(top, key == ' ' ? page : -page);
    return 1;
}

/* Until the time is over: keys at once. 0: quit. */
static int wait_for_keys(struct top *top, int64_t until)
{
    struct pollfd fd = {.fd = 0, .events = POLLIN};

    while (!ended) {
        int64_t left = until - tool_now();
        char keys[32];
        ssize_t size;

        if (stopped)
            stop();
        if (resized)
            fputs("\033[2J", stdout);
        resized = 0;
        top_arrange(top);
        top_draw(top);
        if (left <= 0)
            return 1;
        if (poll(&fd, 1, (int)left) <= 0)
            continue;
        size = read(0, keys, sizeof keys);
        if (size == 0)
            return 0; /* the terminal is gone */
        for (ssize_t i = 0; i < size; i++)
            if (!obey(top, keys[i]))
                return 0;
    }
    return 0;
}

static int show(struct top *top)
{
    if (!isatty(0) || !isatty(1) || tcgetattr(0, &usual) != 0)
        return tool_say(top->tool, TOOL_USAGE, "stdin and stdout are no terminal: --once prints the table");
    hear_signals();
    enter();
    top_arrange(top);
    top_draw(top);
    do
        top_refresh(top, top->every / SHARE);
    while (wait_for_keys(top, tool_now() + top->every - top->every / SHARE));
    leave();
    if (ended) {
        signal(ended, SIG_DFL);
        raise(ended);
    }
    return TOOL_DONE;
}

/* ---- arguments */

static int print_once(struct top *top)
{
    top_refresh(top, -1);
    if (top->trouble[0])
        return tool_say(top->tool, TOOL_UNAVAILABLE, "%s", top->trouble);
    top_arrange(top);
    top_print(top);
    return TOOL_DONE;
}

/* A server that does not answer must not keep the screen from its keys for long. */
static int open_quick(struct top *top)
{
    int code = tool_options(top->tool);

    if (!code)
        code = tool_option_number(top->tool, "command_timeout_ms", 500);
    if (!code)
        code = tool_option_number(top->tool, "connect_timeout_ms", 1000);
    return code ? code : tool_open(top->tool);
}

static int run(struct tool *tool, void *context)
{
    struct top *top = context;
    int code = 0;

    if (tool->json && !top->once)
        return tool_say(tool, TOOL_USAGE, "--json needs --once");
    top->glob = tool->count > 0 ? tool->words[0] : NULL;
    if (!(code = top->once ? tool_open(tool) : open_quick(top)))
        code = top->once ? print_once(top) : show(top);
    top_free(top);
    return code;
}

static int top_main(int argc, char **argv)
{
    struct tool tool = {.command = "top", .argc = argc, .argv = argv};
    struct top top = {.tool = &tool, .sort = TOP_NAME, .every = EVERY_MS};
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),
        TOOL_ARG_NAMESPACE(&tool),
        TOOL_ARG_JSON(&tool),
        {"once", TOOL_FLAG, &top.once, 0, 0, NULL},
        {"sort", TOOL_WORD, &top.sort, 0, 0, top_columns},
        {"all", TOOL_FLAG, &top.all, 0, 0, NULL},
        {"every", TOOL_TIME, &top.every, EVERY_LEAST, 3600000, NULL},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_top, args, run, &top);
}

const struct tool_command tool_top = {"top", "a live table of the locks", help, top_main, 0, 1};
