/*
 * names.c: names of locks, keys, channels and clients.
 *
 * T(N) is N when it holds "{" anywhere, else "{N}": Redisson's rule. Names on which that rule and Redis's idea of a hash
 * tag disagree would spread the keys of one lock over a cluster; they are refused everywhere.
 */
#include "commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

int dli_make_uuid(char out[DLI_UUID_SIZE + 1])
{
    uint8_t b[16];

    if (dli_random(b, sizeof b))
        return -1;
    b[6] = (uint8_t)((b[6] & 0x0f) | 0x80);
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    snprintf(out, DLI_UUID_SIZE + 1, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return 0;
}

/* Whether the first "{" is closed after at least one byte, or there are no braces at all. */
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
    dli_quote(shown, sizeof shown, name, size);
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

/* One text under construction. at is NULL while it is only measured. */
struct pen {
    char *at;
    size_t size;
};

static void put(struct pen *pen, const char *text, size_t size)
{
    if (pen->at)
        memcpy(pen->at + pen->size, text, size);
    pen->size += size;
}

/* Write a pattern of kinds.h for a name. */
static void put_pattern(struct pen *pen, const char *pattern, const char *name, size_t size)
{
    int braced = memchr(name, '{', size) != NULL;

    for (; *pattern; pattern++) {
        if (*pattern == '%') {
            put(pen, "::", braced ? 2 : 1);
        } else if (*pattern == '=' || (*pattern == '@' && braced)) {
            put(pen, name, size);
        } else if (*pattern == '@') {
            put(pen, "{", 1);
            put(pen, name, size);
            put(pen, "}", 1);
        } else {
            put(pen, pattern, 1);
        }
    }
}

/* Write it with a terminator behind, and say where it is. */
static void put_word(struct pen *pen, struct dli_word *word, const char *pattern, const char *name, size_t size)
{
    size_t start = pen->size;

    put_pattern(pen, pattern, name, size);
    *word = (struct dli_word){pen->at ? pen->at + start : NULL, pen->size - start};
    put(pen, "", 1);
}

static void put_names(struct pen *pen, struct dli_names *names, const struct dli_kind *kind, const char *name,
                      size_t size)
{
    for (names->keys = 0; names->keys < DLI_KEYS_MAX && kind->key[names->keys]; names->keys++)
        put_word(pen, &names->key[names->keys], kind->key[names->keys], name, size);
    put_word(pen, &names->gate, "dlock_gate%@", name, size);
    put_word(pen, &names->channel, kind->channel, name, size);
}

int dli_names_make(struct dli_names *names, const struct dli_kind *kind, const char *name, size_t size)
{
    struct pen pen = {NULL, 0};

    put_names(&pen, names, kind, name, size);
    if (!(pen.at = malloc(pen.size)))
        return -1;
    pen.size = 0;
    put_names(&pen, names, kind, name, size);
    names->lock = names->key[0].text;
    names->lock_size = names->key[0].size;
    return 0;
}
