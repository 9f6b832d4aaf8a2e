/*
 * connect.c: from the URL to a client and its locks, and from a status to an exit code. See tool.h.
 */
#include "tool.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_URL "redis://localhost:6379"

enum { URL_MOST = 65536 };

int tool_code(dlock_status status)
{
    switch (status) {
    case DLOCK_OK:
        return TOOL_DONE;
    case DLOCK_BUSY:
    case DLOCK_TIMED_OUT:
    case DLOCK_GATE_CLOSED:
        return TOOL_BUSY;
    case DLOCK_NOT_HELD:
    case DLOCK_UNCHANGED:
        return TOOL_UNCHANGED;
    case DLOCK_LOST:
        return TOOL_LOST;
    case DLOCK_INVALID_ARGUMENT:
    case DLOCK_INVALID_NAME:
    case DLOCK_UNKNOWN_OPTION:
    case DLOCK_INVALID_OPTION:
    case DLOCK_INVALID_URL:
    case DLOCK_UNSUPPORTED:
    case DLOCK_WRONG_KIND:
    case DLOCK_LEASE_REFUSED:
        return TOOL_USAGE;
    case DLOCK_OUT_OF_MEMORY:
    case DLOCK_SYSTEM_ERROR:
        return TOOL_SYSTEM;
    default:
        return TOOL_UNAVAILABLE;
    }
}

int tool_failed(const struct tool *tool)
{
    return tool_say(tool, tool_code(dlock_error_code(tool->error)), "%s", dlock_error_message(tool->error));
}

/* ---- the URL */

/* The first line of a file, without white space at its ends. */
static int read_url(struct tool *tool)
{
    FILE *file = fopen(tool->url_file, "re");
    size_t size, begin = 0;

    if (!file)
        return tool_say(tool, TOOL_USAGE, "cannot read %s: %s", tool->url_file, strerror(errno));
    if (!(tool->url_text = calloc(1, URL_MOST))) {
        fclose(file);
        return tool_say(tool, TOOL_SYSTEM, "no memory for the URL");
    }
    if (!fgets(tool->url_text, URL_MOST, file))
        tool->url_text[0] = '\0';
    fclose(file);
    for (size = strlen(tool->url_text); size && isspace((unsigned char)tool->url_text[size - 1]); size--)
        tool->url_text[size - 1] = '\0';
    while (isspace((unsigned char)tool->url_text[begin]))
        begin++;
    if (!tool->url_text[begin])
        return tool_say(tool, TOOL_USAGE, "the first line of %s is empty: it must be a URL", tool->url_file);
    tool->url = tool->url_text + begin;
    return 0;
}

/* A copy of text, which is overwritten where ps shows it. NULL after a sentence. */
static char *hide(const struct tool *tool, char *shown)
{
    char *copy = strdup(shown);

    if (copy)
        memset(shown, '*', strlen(shown));
    else
        tool_say(tool, TOOL_SYSTEM, "no memory for the URL");
    return copy;
}

static int hide_url(struct tool *tool)
{
    if (!(tool->url_text = hide(tool, (char *)tool->url)))
        return TOOL_SYSTEM;
    tool->url = tool->url_text;
    return 0;
}

static int take_variable(struct tool *tool)
{
    char *shown = getenv("DLOCK_URL");

    if (!shown)
        return 0;
    tool->url_env = hide(tool, shown);
    return tool->url_env ? 0 : TOOL_SYSTEM;
}

static int find_url(struct tool *tool)
{
    int failed = take_variable(tool);

    if (failed)
        return failed;
    if (tool->url && tool->url_file)
        return tool_say(tool, TOOL_USAGE, "give --url or --url-file, not both");
    if (tool->url_file)
        return read_url(tool);
    if (tool->url)
        return hide_url(tool);
    tool->url = tool->url_env && *tool->url_env ? tool->url_env : DEFAULT_URL;
    return 0;
}

/* ---- options */

int tool_option(struct tool *tool, const char *name, const char *value)
{
    return dlock_options_set(tool->options, name, value, tool->error) == DLOCK_OK ? 0 : tool_failed(tool);
}

int tool_option_number(struct tool *tool, const char *name, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRId64, value);
    return tool_option(tool, name, text);
}

int tool_options(struct tool *tool)
{
    tool->error = dlock_error_new();
    tool->event = dlock_event_new();
    tool->options = dlock_options_new();
    if (!tool->error || !tool->event || !tool->options)
        return tool_say(tool, TOOL_SYSTEM, "no memory");
    return tool->namespace ? tool_option(tool, "namespace", tool->namespace) : 0;
}

/* ---- the client */

int tool_open(struct tool *tool)
{
    int failed = tool->options ? 0 : tool_options(tool);

    if (!failed)
        failed = find_url(tool);
    if (failed)
        return failed;
    if (dlock_client_open(tool->url, tool->options, &tool->client, tool->error) != DLOCK_OK)
        return tool_failed(tool);
    return 0;
}

int tool_lock(struct tool *tool, int32_t kind, const char *name, dlock_lock **ret_lock)
{
    if (dlock_lock_new(tool->client, kind, name, strlen(name), NULL, ret_lock, tool->error) != DLOCK_OK)
        return tool_failed(tool);
    return 0;
}

void tool_close(struct tool *tool, int64_t timeout_ms)
{
    if (tool->client && timeout_ms > 0)
        dlock_client_close(tool->client, timeout_ms, NULL);
    dlock_client_free(tool->client);
    dlock_options_free(tool->options);
    dlock_event_free(tool->event);
    dlock_error_free(tool->error);
    free(tool->url_text);
    free(tool->url_env);
    tool->client = NULL;
    tool->options = NULL;
    tool->event = NULL;
    tool->error = NULL;
    tool->url_text = NULL;
    tool->url_env = NULL;
}
