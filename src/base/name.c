/*
 * name.c: which names a lock can have, see name.h.
 *
 * Redisson puts braces around a name that has none, and leaves a name with braces as it is. Where Redis then finds no
 * hash tag in those braces, the keys of one lock would be on several servers of a cluster. Such names are refused
 * everywhere.
 */
#include "name.h"

#include <string.h>

/* Whether there are no braces at all, or the first "{" is closed after at least one byte. */
static int braces_agree(const char *name, size_t size)
{
    const char *open = memchr(name, '{', size), *close;

    if (!open)
        return memchr(name, '}', size) == NULL;
    close = memchr(open, '}', size - (size_t)(open - name));
    return close && close > open + 1;
}

dlock_status dli_name_check(const char *name, size_t size, dlock_error *box)
{
    char shown[80];

    if (!name || size == 0)
        return dli_fail(box, DLOCK_INVALID_NAME, "a lock name must not be empty");
    if (size > DLI_NAME_MAX)
        return dli_fail(box, DLOCK_INVALID_NAME, "a lock name has at most %d bytes, this one has %zu", DLI_NAME_MAX,
                        size);
    dli_escape(shown, sizeof shown, name, size);
    if (memchr(name, '\0', size))
        return dli_fail(box, DLOCK_INVALID_NAME, "lock name '%s' holds a NUL byte", shown);
    if (!braces_agree(name, size))
        return dli_fail(box, DLOCK_INVALID_NAME, "lock name '%s': braces must enclose at least one byte, as a hash tag",
                        shown);
    return DLOCK_OK;
}

dlock_status dli_name_in(char full[DLI_NAME_MAX + 1], size_t *size, const char *space, const char *name,
                         dlock_error *box)
{
    size_t before = strlen(space);

    if (*size + before + (before > 0) > DLI_NAME_MAX)
        return dli_fail(box, DLOCK_INVALID_NAME, "a lock name has at most %d bytes with its namespace", DLI_NAME_MAX);
    memcpy(full, space, before + 1);
    if (before)
        full[before++] = ':';
    memcpy(full + before, name, *size);
    *size += before;
    return dli_name_check(full, *size, box);
}

int dli_name_compare(const struct dli_name *a, const struct dli_name *b)
{
    int unlike = memcmp(a->text, b->text, a->size < b->size ? a->size : b->size);

    return unlike ? unlike : (a->size > b->size) - (a->size < b->size);
}
