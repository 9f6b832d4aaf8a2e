/*
 * escape.c: the text of an error reply, escaped and without the password, for our own messages.
 */
#include "errors.h"

#include <string.h>

enum { ENOUGH = 300 }; /* dli_escape cuts at less */

const char *dli_escape_error(char *out, size_t out_size, const struct dli_reply *error)
{
    static const char stars[] = "***";
    size_t length = error->secret ? strlen(error->secret) : 0, used = 0;
    const char *at = error->text, *end = at + error->size;
    char clean[ENOUGH];

    while (at < end && used + sizeof stars <= sizeof clean) {
        if (length > 0 && (size_t)(end - at) >= length && memcmp(at, error->secret, length) == 0) {
            memcpy(clean + used, stars, sizeof stars - 1);
            used += sizeof stars - 1;
            at += length;
        } else {
            clean[used++] = *at++;
        }
    }
    return dli_escape(out, out_size, clean, used);
}
