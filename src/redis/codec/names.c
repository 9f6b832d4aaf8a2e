/*
 * names.c: names of keys and channels. T(N) is N if it contains "{" anywhere, else "{N}": Redisson's rule. No state.
 */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

/* A text under construction. at is NULL while only its size is measured. */
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

/* Write a pattern and a terminator, and set *word to the text. */
static void put_word(struct pen *pen, struct dli_slice *word, const char *pattern, const char *name, size_t size)
{
    size_t start = pen->size;

    put_pattern(pen, pattern, name, size);
    *word = (struct dli_slice){pen->at ? pen->at + start : NULL, pen->size - start};
    put(pen, "", 1);
}

static void put_place(struct pen *pen, struct dli_place *place, const struct dli_wire *wire, const char *name,
                      size_t size)
{
    for (place->keys = 0; place->keys < DLI_KEYS_MAX && wire->key[place->keys]; place->keys++)
        put_word(pen, &place->key[place->keys], wire->key[place->keys], name, size);
    place->slot = place->plain = 0;
    place->marker[0] = '\0';
    put_word(pen, &place->gate, "dlock_gate%@", name, size);
    put_word(pen, &place->channel, wire->channel, name, size);
}

struct dli_place *dli_place_new(const struct dli_kind *kind, const char *name, size_t size)
{
    const struct dli_wire *wire = dli_wire_of(kind);
    struct dli_place measured, *place;
    struct pen pen = {NULL, 0};

    put_place(&pen, &measured, wire, name, size);
    if (!(place = malloc(sizeof *place + sizeof *place->apart + pen.size)))
        return NULL;
    place->apart = (uint32_t *)(place + 1);
    *place->apart = 0;
    pen = (struct pen){(char *)(place->apart + 1), 0};
    put_place(&pen, place, wire, name, size);
    return place;
}

void dli_place_free(struct dli_place *place)
{
    free(place);
}

void dli_quarantine_init(struct dli_quarantine *quarantine, int64_t longest_ms, int64_t drift_ppm)
{
    strcpy(quarantine->marker, "dlock_memory");
    quarantine->longest_ms = longest_ms;
    quarantine->lasts_ms = longest_ms + longest_ms * drift_ppm / 1000000 + 3;
}

size_t dli_channel_of(char out[DLI_CHANNEL_MAX], const struct dli_kind *kind, const struct dli_place *place,
                      const char *owner)
{
    struct pen pen = {out, 0};

    put(&pen, place->channel.text, place->channel.size);
    if (kind->own_channel) {
        put(&pen, ":", 1);
        put(&pen, owner, strlen(owner));
    }
    return pen.size;
}

size_t dli_hold_key(char out[DLI_HOLD_KEY_MAX], const struct dli_slice *start, const char *id)
{
    static const char end[] = ":rwlock_timeout:1";
    size_t size = start->size;

    memcpy(out, start->text, size);
    while (*id)
        out[size++] = *id++;
    memcpy(out + size, end, sizeof end);
    return size + sizeof end - 1;
}
