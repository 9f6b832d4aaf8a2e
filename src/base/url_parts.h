/*
 * url_parts.h: shared by the two files of the URL parser: url.c (schemes and options) and url_server.c (escapes and
 * servers).
 */
#ifndef DLI_BASE_URL_PARTS_H
#define DLI_BASE_URL_PARTS_H

#include <string.h>

#include "url.h"

enum { DLI_DECODED_MAX = 1024 };

/* A part of the URL, not decoded. */
struct dli_part {
    const char *bytes;
    size_t size;
};

/* A part with its escapes decoded; wiped after use. */
struct dli_decoded {
    char bytes[DLI_DECODED_MAX + 1]; /* terminated */
    size_t size;
};

static inline struct dli_part dli_part_of(const char *from, const char *to)
{
    return (struct dli_part){from, (size_t)(to - from)};
}

static inline const char *dli_part_find(struct dli_part in, char byte)
{
    return in.size ? memchr(in.bytes, byte, in.size) : NULL;
}

/*
 * The part of in before the first byte; rest gets the part after it. Without such a byte: all of in, and rest is empty.
 */
static inline struct dli_part dli_part_cut(struct dli_part in, char byte, struct dli_part *rest)
{
    const char *end = in.bytes + in.size, *at = dli_part_find(in, byte);
    *rest = at ? dli_part_of(at + 1, end) : dli_part_of(end, end);
    return at ? dli_part_of(in.bytes, at) : in;
}

/* Decode percent escapes. DLOCK_INVALID_URL. */
dlock_status dli_part_decode(struct dli_part in, struct dli_decoded *out, dlock_error *box);

/* Parse host[:port]; preset is the port when none is given. DLOCK_INVALID_URL. */
dlock_status dli_url_server(struct dli_part server, int preset, struct dli_target *target, dlock_error *box);

/* Parse host[:port][,host[:port]...] into site->node; messages call them what. DLOCK_INVALID_URL. */
dlock_status dli_url_servers(struct dli_part servers, int preset, const char *what, struct dli_site *site,
                             dlock_error *box);

/* Whether it is an absolute path, and no part of it is empty, "." or "..". "" is one. */
int dli_url_is_path(const char *path);

#endif
