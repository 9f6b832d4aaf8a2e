/*
 * change.c: see change.h.
 */
#include "change.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

void dli_change_begin(struct dli_change *change, int sent)
{
    change->doubt |= change->writes && sent;
    change->writes = 0;
}

static void last_id(const char *value, char out[DLI_OWNER_MAX])
{
    const char *at = strchr(value, ' ');

    snprintf(out, DLI_OWNER_MAX, "%.*s", at ? (int)strcspn(at + 1, " ") : 0, at ? at + 1 : "");
}

void dli_change_write(struct dli_change *change, int64_t version, const char *front, const char *before,
                      char out[DLI_CHANGE_VALUE])
{
    struct dli_text text = dli_text_in(out, DLI_CHANGE_VALUE);
    const char *ids = strchr(before, ' ');

    dli_text_print(&text, "%s %s%s", front, change->id, ids ? ids : "");
    if (dli_text_cut(&text))
        *strrchr(out, ' ') = '\0'; /* no part of an id is one */
    for (int spaces = 0; *out; out++)
        if (*out == ' ' && ++spaces > DLI_CHANGE_IDS)
            *out-- = '\0';
    last_id(before, change->seen);
    change->version = version;
    change->writes = 1;
}

static int knows(const char *value, const char *id)
{
    size_t size = strlen(id);

    for (const char *at = strstr(value, id); at; at = strstr(at + size, id))
        if (at[size] == ' ' || at[size] == '\0')
            return 1;
    return 0;
}

int dli_change_acted(const struct dli_change *change, const char *value)
{
    return knows(value, change->id);
}

int dli_change_unclear(const struct dli_change *change, const char *value, int certain)
{
    return change->doubt && !certain && !(*change->seen && knows(value, change->seen));
}

int dli_change_ids(const char *value)
{
    int ids = 0;

    for (; *value; value++)
        ids += *value == ' ';
    return ids;
}
