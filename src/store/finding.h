/*
 * finding.h: what a check of a server may find, with advice for each finding.
 */
#ifndef DLI_STORE_FINDING_H
#define DLI_STORE_FINDING_H

#include <stddef.h>

#include "dlock.h"

enum { DLI_FINDINGS_MAX = 4096, DLI_FINDING_DETAIL = 128, DLI_FINDING_WHERE = 280 };

struct dli_finding_row {
    int32_t code; /* DLOCK_FINDING_* */
    const char *name;
    int32_t severity;
    const char *text; /* a sentence with at most one %s, for the detail */
};

struct dli_finding {
    const struct dli_finding_row *row;
    char detail[DLI_FINDING_DETAIL]; /* printable */
    char where[DLI_FINDING_WHERE];   /* which server, when several were checked; else "" */
};

struct dli_findings {
    struct dli_finding *row;
    int count, room;
};

/* Append a finding with this code and no text. NULL: no memory, or DLI_FINDINGS_MAX is reached. */
struct dli_finding *dli_findings_add(struct dli_findings *all, int32_t code);

/* Append the findings of one server, called where, to all. 0; -1 when dli_findings_add fails. */
int dli_findings_take(struct dli_findings *all, const struct dli_findings *of, const char *where);
void dli_findings_free(struct dli_findings *all);

/* The row of a code or a name, or NULL. name is not terminated. */
const struct dli_finding_row *dli_finding_find(int32_t code);
const struct dli_finding_row *dli_finding_named(const char *name, size_t size);

/* Write the finding as a sentence. Returns out. */
const char *dli_finding_say(const struct dli_finding *finding, char *out, size_t size);

#endif
