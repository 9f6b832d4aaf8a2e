/*
 * finding.h: what a look at a server may find, and what to do about it.
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
    const char *text; /* a sentence with one %s for the detail, or none */
};

struct dli_finding {
    const struct dli_finding_row *row;
    char detail[DLI_FINDING_DETAIL]; /* printable */
    char where[DLI_FINDING_WHERE];   /* which server, where several were looked at; else "" */
};

struct dli_findings {
    struct dli_finding *row;
    int count, room;
};

/* One more, with code and nothing else; NULL without memory, and when there are too many. */
struct dli_finding *dli_findings_add(struct dli_findings *all, int32_t code);

/* Add those of one server to the others. 0, or -1 as above. */
int dli_findings_take(struct dli_findings *all, const struct dli_findings *of, const char *where);
void dli_findings_free(struct dli_findings *all);

/* NULL when there is no such row. name is not terminated. */
const struct dli_finding_row *dli_finding_find(int32_t code);
const struct dli_finding_row *dli_finding_named(const char *name, size_t size);

/* The sentence. Returns out. */
const char *dli_finding_say(const struct dli_finding *finding, char *out, size_t size);

#endif
