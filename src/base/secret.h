/*
 * secret.h: text of a server for our own messages, without what must stay secret. A server may repeat a password or a token: as it
 * is, in part, or written in another way. No state.
 */
#ifndef DLI_BASE_SECRET_H
#define DLI_BASE_SECRET_H

#include <stddef.h>

/* What a server said. cut: there was more of it. */
struct dli_said {
    const char *bytes;
    size_t size;
    int cut;
};

/*
 * Copy what was said into out as dli_escape does, with stars in place of each secret (NULL or "": none). It is found as it is,
 * with percent or backslash escapes, in base64, also as a part of something longer, and in hexadecimal digits. Four characters
 * of it in a row are found, too. Returns out.
 */
const char *dli_mask(char *out, size_t out_size, const struct dli_said *said, const char *const *secret,
                     size_t secrets);

#endif
