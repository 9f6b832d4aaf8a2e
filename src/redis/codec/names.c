/*
 * names.c: names of keys and channels. T(N) is N if it contains "{" anywhere, else "{N}": Redisson's rule. No state.
 */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

size_t dli_pattern_most(const char *pattern, const struct dli_place *place)
{
    return strlen(pattern) + place->size + 2; /* the name, once; two braces; a second colon */
}

/* Write T(N). */
static char *put_tagged(char *at, const struct dli_place *place)
{
    if (!place->braced)
        *at++ = '{';
    memcpy(at, dli_place_name(place), place->size);
    at += place->size;
    if (!place->braced)
        *at++ = '}';
    return at;
}

size_t dli_pattern(char *out, const char *pattern, const struct dli_place *place)
{
    char *at = out;

    for (;;) {
        size_t plain = strcspn(pattern, "%@=");

        memcpy(at, pattern, plain);
        at += plain;
        pattern += plain;
        if (!*pattern)
            return (size_t)(at - out);
        if (*pattern == '@') {
            at = put_tagged(at, place);
        } else if (*pattern == '=') {
            memcpy(at, dli_place_name(place), place->size);
            at += place->size;
        } else {
            *at++ = ':';
            if (place->braced)
                *at++ = ':';
        }
        pattern++;
    }
}

struct dli_place *dli_place_new(const struct dli_kind *kind, const char *name, size_t size)
{
    struct dli_place *place = malloc(sizeof *place + size);
    const struct dli_wire *wire;
    unsigned row = 0;

    if (!place)
        return NULL;
    while ((wire = dli_wire_at(row))->id != kind->id)
        row++;
    *place = (struct dli_place){.wire = row & 15U, .size = size & 2047, .braced = memchr(name, '{', size) != NULL};
    while (place->keys < DLI_KEYS_MAX && wire->key[place->keys])
        place->keys++;
    memcpy(place + 1, name, size);
    return place;
}

void dli_place_in(struct dli_place *place, size_t space)
{
    place->space = (uint16_t)space;
}

uint32_t dli_place_space(const struct dli_place *place)
{
    uint64_t hash = 0;

    for (size_t i = 0; i < place->space; i++)
        hash = (hash ^ (unsigned char)dli_place_name(place)[i]) * UINT64_C(0x100000001b3) + 1;
    return (uint32_t)(hash ^ hash >> 32) << 14; /* the low bits are those of a slot */
}

void dli_place_free(struct dli_place *place)
{
    free(place);
}

void dli_quarantine_init(struct dli_quarantine *quarantine, const char *space, int64_t longest_ms, int64_t drift_ppm)
{
    quarantine->space = space;
    quarantine->longest_ms = longest_ms;
    quarantine->lasts_ms = longest_ms + longest_ms * drift_ppm / 1000000 + 3;
}

size_t dli_channel_of(char out[DLI_CHANNEL_MAX], const struct dli_kind *kind, const struct dli_place *place,
                      const char *owner)
{
    size_t size = dli_pattern(out, dli_wire_at(place->wire)->channel, place);

    struct dli_text channel = dli_text_in(out + size, DLI_CHANNEL_MAX - size);

    if (!kind->own_channel)
        return size;
    dli_text_add(&channel, ":", 1);
    dli_text_add(&channel, owner, strlen(owner));
    return size + channel.size;
}

size_t dli_hold_key(char out[DLI_HOLD_KEY_MAX], const struct dli_place *place, const char *id)
{
    size_t size = dli_pattern(out, dli_wire_at(place->wire)->key[dli_wire_at(place->wire)->holds], place);

    return size + dli_print(out + size, DLI_HOLD_KEY_MAX - size, "%s:rwlock_timeout:1", id);
}
