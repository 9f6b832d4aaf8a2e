/*
 * finding.c: the table of findings, see finding.h. check.lua uses the same names.
 */
#include "finding.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/* By hand: releases of clang-format disagree here. */
/* clang-format off */
#define DANGER(name, text)  {DLOCK_FINDING_##name, #name, DLOCK_SEVERITY_DANGER, text}
#define WARNING(name, text) {DLOCK_FINDING_##name, #name, DLOCK_SEVERITY_WARNING, text}
/* clang-format on */

static const struct dli_finding_row rows[] = {
    DANGER(EVICTION, "The server may throw locks away when memory is short (maxmemory-policy %s): set noeviction."),
    WARNING(PERSISTENCE, "The server keeps no append-only file, so a restart forgets who holds what: set appendonly "
                         "yes, or quarantine_ms in every client."),
    DANGER(PERSISTENCE_FAILS, "The server could not write to its disk the last time: make room or mend it."),
    DANGER(VERSION, "The server is older than 6.0 (%s): replace it."),
    DANGER(READ_ONLY, "The server is a replica: name its primary, or its sentinels."),
    WARNING(REPLICAS, "A failover may lose the last grants (connected replicas: %s): set the option replicas, or "
                      "min-replicas-to-write at the server."),
    WARNING(CLOCK, "The clocks of the server and of this host are %s s apart: set them."),
    DANGER(COMMAND_MISSING, "The server does not know the command %s: it was renamed or a proxy is in between."),
    DANGER(COMMAND_DENIED, "The user may not use %s on the keys of locks: docs/acl.md lists the rights."),
    DANGER(WRITE_REFUSED, "The server refuses to write: %s"),
    WARNING(NO_ANSWER, "The server was not checked: %s"),
    DANGER(NO_LEADER,
           "The member has no leader, so it grants nothing: most of its cluster is down or out of its reach."),
    DANGER(ALARM, "The cluster has raised an alarm (%s): mend it, then disarm it."),
    WARNING(OPEN, "Everybody who reaches the cluster may delete locks: enable authentication."),
    DANGER(FAULTY_VERSION, "This version is known to corrupt its data when it is killed (%s): replace it."),
    WARNING(OLD_VERSION, "This version gets no repairs any more (%s): replace it by 3.5 or newer."),
};

const struct dli_finding_row *dli_finding_find(int32_t code)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].code == code)
            return &rows[i];
    return NULL;
}

const struct dli_finding_row *dli_finding_named(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strlen(rows[i].name) == size && memcmp(rows[i].name, name, size) == 0)
            return &rows[i];
    return NULL;
}

const char *dli_finding_say(const struct dli_finding *finding, char *out, size_t size)
{
    const char *text = finding->row->text, *at = strstr(text, "%s");
    int before = at ? (int)(at - text) : (int)strlen(text);
    char whole[512];

    snprintf(whole, sizeof whole, "%s%s%.*s%s%s", finding->where, finding->where[0] ? ": " : "", before, text,
             at ? finding->detail : "", at ? at + 2 : "");
    return dli_escape(out, size, whole, strlen(whole));
}

/* ---- lists */

struct dli_finding *dli_findings_add(struct dli_findings *all, int32_t code)
{
    int room = all->room ? 2 * all->room : 16;
    struct dli_finding *row;

    if (all->count == DLI_FINDINGS_MAX)
        return NULL;
    if (all->count == all->room) {
        if (!(row = realloc(all->row, (size_t)room * sizeof *row)))
            return NULL;
        all->row = row;
        all->room = room;
    }
    row = &all->row[all->count++];
    memset(row, 0, sizeof *row);
    row->row = dli_finding_find(code);
    return row;
}

int dli_findings_take(struct dli_findings *all, const struct dli_findings *of, const char *where)
{
    for (int i = 0; i < of->count; i++) {
        struct dli_finding *row = dli_findings_add(all, of->row[i].row->code);

        if (!row)
            return -1;
        memcpy(row->detail, of->row[i].detail, sizeof row->detail);
        snprintf(row->where, sizeof row->where, "%.*s", DLI_FINDING_WHERE - 1, where);
    }
    return 0;
}

void dli_findings_free(struct dli_findings *all)
{
    free(all->row);
    *all = (struct dli_findings){.row = NULL};
}
