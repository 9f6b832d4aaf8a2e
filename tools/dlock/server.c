/*
 * server.c: dlock check, dlock provision and dlock version.
 */
#include <string.h>

#include "tool.h"

/* ---- check */

static const char check_help[] =
    "Usage: dlock check [options]\n"
    "Check whether the server is fit to keep locks: eviction, persistence, version, role,\n"
    "replicas, clock, rights. On a cluster or a quorum every server is checked.\n"
    "\n"
    "  --json          one object with a list of findings\n"
    "  --timeout T     how long the check may take\n"
    "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
    "\n"
    "Exit code: 0 nothing was found; 1 warnings: less is guaranteed than could be;\n"
    "2 dangers: locks fail, or the server may lose them; 69 the server cannot be\n"
    "reached; 64 wrong usage.\n";

static void print_finding(const struct tool *tool, int64_t finding, int64_t severity, const char *text)
{
    const char *name = dlock_finding_name((int32_t)finding),
               *how = severity == DLOCK_SEVERITY_DANGER ? "danger" : "warning";

    if (tool->json) {
        tool_json_begin(stdout);
        tool_json_text(stdout, "finding", name);
        tool_json_text(stdout, "severity", how);
        tool_json_text(stdout, "advice", text);
        tool_json_end(stdout);
    } else {
        printf("%s %s: ", how, name);
        tool_print_text(stdout, text, strlen(text));
        fputc('\n', stdout);
    }
}

static int print_findings(struct tool *tool)
{
    int64_t field[DLOCK_FIELD_COUNT];
    int code = TOOL_DONE;

    for (size_t i = 0; dlock_client_finding(tool->client, i, tool->event, NULL) == DLOCK_OK; i++) {
        dlock_event_unpack(tool->event, field, DLOCK_FIELD_COUNT, NULL, NULL);
        print_finding(tool, field[DLOCK_FIELD_VALUE], field[DLOCK_FIELD_CAUSE], dlock_event_text(tool->event));
        if (code < TOOL_DANGER)
            code = field[DLOCK_FIELD_CAUSE] == DLOCK_SEVERITY_DANGER ? TOOL_DANGER : TOOL_UNCHANGED;
    }
    return code;
}

static int check(struct tool *tool, void *context)
{
    const int64_t *timeout = context;
    int code = tool_open(tool);

    if (code)
        return code;
    if (dlock_client_check(tool->client, *timeout, NULL, tool->error) != DLOCK_OK)
        return tool_failed(tool);
    if (!tool->json) {
        code = print_findings(tool);
        if (code == TOOL_DONE)
            fputs("nothing was found: the server is fit to keep locks\n", stdout);
        return code;
    }
    tool_json_begin(stdout);
    tool_json_list(stdout, "findings");
    code = print_findings(tool);
    tool_json_list_end(stdout);
    tool_json_end(stdout);
    return code;
}

static int check_main(int argc, char **argv)
{
    struct tool tool = {.command = "check", .argc = argc, .argv = argv};
    int64_t timeout = -1;
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),
        TOOL_ARG_JSON(&tool),
        {"timeout", TOOL_TIME, &timeout, 1, 3600000, NULL},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_check, args, check, &timeout);
}

const struct tool_command tool_check = {"check", "is the server fit to keep locks?", check_help, check_main, 0, 0};

/* ---- provision */

static const char provision_help[] =
    "Usage: dlock provision [options]\n"
    "Tell a server that it remembers all of its locks. That ends a quarantine (option\n"
    "quarantine_ms), and makes T the longest lease of all clients. Use it for a new\n"
    "server, when nobody can hold a lock that it has forgotten.\n"
    "\n"
    "  --quarantine T  the longest lease of all clients; or quarantine_ms in the URL\n"
    "  --json          one object\n"
    "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
    "\n"
    "Exit code: 0; 69 the server cannot be reached; 64 wrong usage.\n";

enum { LEASE_MS = 30000 };

static int provision(struct tool *tool, void *context)
{
    int64_t quarantine = *(const int64_t *)context;
    int code = tool_options(tool);

    if (!code && quarantine >= 0)
        code = tool_option_number(tool, "quarantine_ms", quarantine);
    if (!code && quarantine >= 0 && quarantine < LEASE_MS) /* a client's own lease must fit */
        code = tool_option_number(tool, "lease_ms", quarantine);
    if (!code)
        code = tool_open(tool);
    if (code)
        return code;
    if (dlock_client_provision(tool->client, -1, tool->error) != DLOCK_OK)
        return tool_failed(tool);
    if (tool->json) {
        tool_json_begin(stdout);
        tool_json_flag(stdout, "provisioned", 1);
        tool_json_end(stdout);
    } else {
        fputs("done: locks are granted from now on\n", stdout);
    }
    return TOOL_DONE;
}

static int provision_main(int argc, char **argv)
{
    struct tool tool = {.command = "provision", .argc = argc, .argv = argv};
    int64_t quarantine = -1;
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),
        TOOL_ARG_JSON(&tool),
        {"quarantine", TOOL_TIME, &quarantine, 500, 86400000, NULL},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_provision, args, provision, &quarantine);
}

const struct tool_command tool_provision = {
    "provision", "end the quarantine of a new server", provision_help, provision_main, 0, 0};

/* ---- version */

static const char version_help[] = "Usage: dlock version [--json]\n"
                                   "Print the version of the library.\n";

static int version(struct tool *tool, void *context)
{
    (void)context;
    if (tool->json) {
        tool_json_begin(stdout);
        tool_json_text(stdout, "version", dlock_version_string());
        tool_json_end(stdout);
    } else {
        printf("dlock %s\n", dlock_version_string());
    }
    return TOOL_DONE;
}

static int version_main(int argc, char **argv)
{
    struct tool tool = {.command = "version", .argc = argc, .argv = argv};
    const struct tool_arg args[] = {
        TOOL_ARG_JSON(&tool),
        {"help", TOOL_FLAG, &tool.help, 0, 0, NULL},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_version, args, version, NULL);
}

const struct tool_command tool_version = {"version", "the version of the library", version_help, version_main, 0, 0};
