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

enum { NAME_MAX_SIZE = 1024 };

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
    if (size > NAME_MAX_SIZE)
        return dli_fail(box, DLOCK_INVALID_NAME, "a lock name has at most %d bytes, this one has %zu", NAME_MAX_SIZE,
                        size);
    dli_quote(shown, sizeof shown, name, size);
    if (memchr(name, '\0', size))
        return dli_fail(box, DLOCK_INVALID_NAME, "lock name '%s' holds a NUL byte", shown);
    if (!braces_agree(name, size))
        return dli_fail(box, DLOCK_INVALID_NAME, "lock name '%s': braces must enclose at least one byte, as a hash tag",
                        shown);
    return DLOCK_OK;
}

/* Append prefix and, with a prefix, T(name); a terminator behind. Returns the place after it. */
static char *put(char *at, const char *prefix, const char *name, size_t size, const char **start, size_t *length)
{
    int tag = *prefix && !memchr(name, '{', size);
    size_t prefix_size = strlen(prefix);

    *start = at;
    memcpy(at, prefix, prefix_size);
    at += prefix_size;
    if (tag)
        *at++ = '{';
    memcpy(at, name, size);
    at += size;
    if (tag)
        *at++ = '}';
    *length = (size_t)(at - *start);
    *at++ = '\0';
    return at;
}

int dli_names_make(struct dli_names *names, const char *name, size_t size)
{
    int braced = memchr(name, '{', size) != NULL; /* T("x") = T("{x}"), but a line belongs to one lock */
    char *at = malloc(5 * (size + 3) + 128);

    if (!at)
        return -1;
    at = put(at, "", name, size, &names->lock, &names->lock_size);
    at = put(at, "redisson_lock_token:", name, size, &names->fence, &names->fence_size);
    at = put(at, braced ? "dlock_queue::" : "dlock_queue:", name, size, &names->line, &names->line_size);
    at = put(at, braced ? "dlock_waiters::" : "dlock_waiters:", name, size, &names->about, &names->about_size);
    put(at, "redisson_lock__channel:", name, size, &names->channel, &names->channel_size);
    return 0;
}
