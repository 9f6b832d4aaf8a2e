/*
 * url_parts.h: what the files of a URL share: url.c (schemes and options) and url_server.c (escapes and servers).
 */
#ifndef DLI_BASE_URL_PARTS_H
#define DLI_BASE_URL_PARTS_H

#include <string.h>

#include "url.h"

enum { DLI_DECODED_MAX = 1024 };

/* A part of the URL as it stands there. */
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

/* Cut in at the first byte (which is dropped); what follows goes to rest, an empty part when there is no such byte. */
static inline struct dli_part dli_part_cut(struct dli_part in, char byte, struct dli_part *rest)
{
    const char *end = in.bytes + in.size, *at = dli_part_find(in, byte);
    *rest = at ? dli_part_of(at + 1, end) : dli_part_of(end, end);
    return at ? dli_part_of(in.bytes, at) : in;
}

/* Decode the escapes. DLOCK_INVALID_URL. */
dlock_status dli_part_decode(struct dli_part in, struct dli_decoded *out, dlock_error *box);

/* host[:port], with the port preset. DLOCK_INVALID_URL. */
dlock_status dli_url_server(struct dli_part server, int preset, struct dli_target *target, dlock_error *box);

/* host[:port][,host[:port]...] into site->node; what: how messages call them. DLOCK_INVALID_URL. */
dlock_status dli_url_servers(struct dli_part servers, int preset, const char *what, struct dli_site *site,
                             dlock_error *box);

#endif
