/*
 * tool.h: what the subcommands of the command dlock share: exit codes, arguments, the client, and output.
 *
 * The command uses the public header of the library, and compiles base/printable.c as well. It has one thread; no mutex
 * guards anything.
 */
#ifndef TOOL_H
#define TOOL_H

#include <dlock.h>
#include <stdio.h>

/* Exit codes besides those of a command that dlock run ran. Those of sysexits.h where there is one. */
enum {
    TOOL_DONE = 0,
    TOOL_UNCHANGED = 1, /* nothing to do; dlock check: warnings */
    TOOL_DANGER = 2,    /* dlock check: dangers */
    TOOL_USAGE = 64,
    TOOL_UNAVAILABLE = 69, /* the server cannot be reached, or refuses */
    TOOL_SYSTEM = 71,      /* no memory, no process ... */
    TOOL_OUTPUT = 74,      /* stdout cannot be written */
    TOOL_BUSY = 75,        /* somebody else has the lock */
    TOOL_LOST = 76,
    TOOL_NOT_STOPPED = 77, /* dlock run: the lock is lost, and the command runs on */
    TOOL_CANNOT_RUN = 126,
    TOOL_NOT_FOUND = 127,
    TOOL_SIGNAL = 128 /* and the number of the signal */
};

enum { TOOL_OWNER = 1 }; /* who holds what this command acquires */

struct tool {
    const char *command; /* "run", for messages */
    const char *url, *url_file, *namespace;
    int32_t kind; /* DLOCK_KIND_*; 0: not said */
    int json, help;
    int argc;
    char **argv;  /* what the subcommand was given, from its name on */
    char **words; /* the operands, once they are read */
    int count;
    char *url_text; /* a copy that was read, or taken from the command line or the environment */
    char *url_env;  /* a copy of DLOCK_URL, NULL: it was not set */
    dlock_options *options;
    dlock_client *client;
    dlock_event *event;
    dlock_error *error;
};

/* ---- commands */

struct tool_command {
    const char *name;
    const char *summary; /* a few words for dlock --help */
    const char *help;    /* usage and options */
    int (*run)(int argc, char **argv);
    int least, most; /* operands; most -1: any number */
};

extern const struct tool_command tool_run, tool_inspect, tool_list, tool_watch, tool_top, tool_release, tool_gate,
    tool_semaphore, tool_latch, tool_check, tool_provision, tool_bench, tool_version;

/* The whole command. Returns the exit code. */
int tool_main(int argc, char **argv);

/* ---- args.c: arguments */

enum tool_type { TOOL_FLAG, TOOL_TEXT, TOOL_TIME, TOOL_NUMBER, TOOL_WORD };

struct tool_arg {
    const char *name;
    enum tool_type type;
    void *into;    /* int, const char *, int64_t (TIME: milliseconds), int64_t, int32_t */
    int64_t least; /* TIME and NUMBER */
    int64_t most;
    const struct tool_word *words; /* WORD: up to one without a name */
};

struct tool_word {
    const char *name;
    int32_t value;
};

#define TOOL_ARG_URL(tool)                                                                                             \
    {"url", TOOL_TEXT, &(tool)->url, 0, 0, NULL}, {"url-file", TOOL_TEXT, &(tool)->url_file, 0, 0, NULL},              \
    {                                                                                                                  \
        "help", TOOL_FLAG, &(tool)->help, 0, 0, NULL                                                                   \
    }
#define TOOL_ARG_NAMESPACE(tool)                                                                                       \
    {                                                                                                                  \
        "namespace", TOOL_TEXT, &(tool)->namespace, 0, 0, NULL                                                         \
    }
#define TOOL_ARG_JSON(tool)                                                                                            \
    {                                                                                                                  \
        "json", TOOL_FLAG, &(tool)->json, 0, 0, NULL                                                                   \
    }
#define TOOL_ARG_END                                                                                                   \
    {                                                                                                                  \
        NULL, TOOL_FLAG, NULL, 0, 0, NULL                                                                              \
    }

enum { TOOL_TIME_MOST = 31536000 }; /* seconds: a year */

/* The kinds of locks by name, for TOOL_WORD. */
extern const struct tool_word tool_kinds[];

/*
 * Read the options of argv, which begins with the name of the subcommand, in any order with the operands. *operands is
 * the first operand, and *count their number, least to most. Returns 0, or TOOL_USAGE after a sentence. When --help was
 * given, tool->help is set, and the operands are not counted.
 */
int tool_parse(struct tool *tool, const struct tool_arg *args, int argc, char **argv, int least, int most,
               char ***operands, int *count);

/* Milliseconds of "30s", "500ms", "2m", "1h", "1d" or "0". 0 when text is no such time. */
int tool_time(const char *text, int64_t *ret_ms);

/* A whole number. 0 when text is none. */
int tool_number(const char *text, int64_t *ret_number);

/* Print "dlock COMMAND: " and a sentence to stderr. Returns code. */
int tool_say(const struct tool *tool, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Put something at the end of a text, as much as fits into its room. */
void tool_append(char *text, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Print the help of a subcommand. Returns TOOL_DONE. */
int tool_help(const struct tool_command *command);

/*
 * The frame of a subcommand: read the arguments, print the help if it was wanted or act, close the client and free all.
 * Returns the exit code.
 */
int tool_frame(struct tool *tool, const struct tool_command *command, const struct tool_arg *args,
               int (*act)(struct tool *tool, void *context), void *context);

/* ---- connect.c: the client */

/*
 * Open the client: tool->options, if any, over the URL of --url, --url-file or DLOCK_URL. Nothing is connected yet.
 * Returns 0, or an exit code after a sentence.
 */
int tool_open(struct tool *tool);

/* A new set of options with the namespace. 0, or an exit code after a sentence. */
int tool_options(struct tool *tool);
int tool_option(struct tool *tool, const char *name, const char *value);
int tool_option_number(struct tool *tool, const char *name, int64_t value);

/* A handle. 0, or an exit code after a sentence. */
int tool_lock(struct tool *tool, int32_t kind, const char *name, dlock_lock **ret_lock);

/* Open the client and a handle on tool->kind (0: what the server says, see tool_look), run work, and close all. */
int tool_with_lock(struct tool *tool, const char *name, int (*work)(struct tool *tool, dlock_lock *lock, void *context),
                   void *context);

/* Close the client, within timeout_ms, and free all. */
void tool_close(struct tool *tool, int64_t timeout_ms);

/* Print the sentence of the error box. Returns the exit code for its status. */
int tool_failed(const struct tool *tool);
int tool_code(dlock_status status);

/* ---- look.c: what the server says of a name */

struct tool_look {
    int32_t kind; /* as asked for, or as found: then MUTEX also for a free lock, SEMAPHORE for any number */
    int counts;   /* a semaphore or a latch: number is what is free, or the count */
    int64_t number;
    char holder[256]; /* "" when nobody holds it */
    int64_t token, left_ms, held_ms, waiters, foreign;
};

/* kind 0: find it out. DLOCK_OK, or a status with tool->error. */
dlock_status tool_look(struct tool *tool, int32_t kind, const char *name, struct tool_look *look);

/* As tool_failed, after tool_look: tells a user who may not look for the kind of a lock to name it. */
int tool_look_failed(const struct tool *tool);

/*
 * The same without waiting, for a kind that is known: an event with tag follows, which tool_look_read reads. It has a
 * status of its own.
 */
dlock_status tool_look_submit(struct tool *tool, int32_t kind, const char *name, int64_t tag);
void tool_look_read(const dlock_event *event, int32_t kind, struct tool_look *look);

/* Of kinds that look alike, name the one that shows. */
void tool_look_name_kind(struct tool_look *look);

/* inspect.c: print it, as text or as JSON. */
void tool_print_look(const struct tool *tool, const char *name, const struct tool_look *look);

/* "mutex" ... */
const char *tool_kind_name(int32_t kind);

/* ---- names.c: the names that the servers know */

struct tool_names {
    char **name; /* sorted after tool_names_sort, each once */
    size_t count, room;
    char *buffer; /* of one call */
    size_t size;
    int64_t cursor; /* 0: before the first call, and after the last */
};

/* Ask for some more names, and keep those that the glob matches (NULL: all). DLOCK_OK, or a status with tool->error. */
dlock_status tool_names_more(struct tool *tool, const char *glob, struct tool_names *names);

/* Sort the names, and drop what came twice. */
void tool_names_sort(struct tool_names *names);
void tool_names_free(struct tool_names *names);

/* ---- print.c: text */

/* Bytes as printable text (printable.h): all else becomes \xNN. */
void tool_print_text(FILE *out, const char *bytes, size_t size);

/* The same into out, cut at its room. Returns the length. */
size_t tool_escape(char *out, size_t room, const char *bytes, size_t size);

/*
 * The same, cut to a width of the terminal. Returns the width that was used: most characters take one place, those of
 * East Asia and pictures two, combining ones none.
 */
int tool_print_width(FILE *out, const char *bytes, size_t size, int width);

/* ---- json.c */

/* One JSON object on one line, which may have lists of objects. A text that is no UTF-8 has its bytes in KEY_hex. */
void tool_json_begin(FILE *out);
void tool_json_list(FILE *out, const char *key);
void tool_json_list_end(FILE *out);
void tool_json_text(FILE *out, const char *key, const char *bytes);
void tool_json_number(FILE *out, const char *key, int64_t value);
void tool_json_flag(FILE *out, const char *key, int value);
void tool_json_null(FILE *out, const char *key);
void tool_json_end(FILE *out);

/* A number, or null when it is negative. */
void tool_json_known(FILE *out, const char *key, int64_t value);

/* ---- print.c: times */

/* A time as people read it: "9.8 s", "3 m 20 s", "2 h 5 m", "3 d 4 h"; "-" when it is negative. Returns text. */
enum { TOOL_SPAN = 32 };
const char *tool_span(char text[TOOL_SPAN], int64_t ms);

/* Milliseconds that also pass while the machine sleeps. */
int64_t tool_now(void);

#endif
