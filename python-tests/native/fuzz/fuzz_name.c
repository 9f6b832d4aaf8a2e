/*
 * fuzz_name.c: names of locks, namespaces and channels: "NAMESPACE LF NAME". Accepted names are compared with simple
 * versions of the rules: Redisson's T(N), Redis's hash tags, and CRC16 one bit at a time. Every channel on which a lock
 * has a subscription is parsed as a channel of that lock.
 */
#include "base/name.h"
#include "fuzz.h"
#include "redis/codec/cluster_map.h"
#include "redis/codec/commands.h"
#include "redis/pubsub/messages.h"

#define UUID "01234567-89ab-cdef-0123-456789abcdef"

/* ---- the rules */

/* The part of a key that Redis hashes. */
static const char *tag_of(const char *key, size_t *size)
{
    for (size_t open = 0; open < *size; open++) {
        if (key[open] != '{')
            continue;
        for (size_t close = open + 1; close < *size; close++) {
            if (key[close] != '}')
                continue;
            *size = close > open + 1 ? close - open - 1 : *size;
            return close > open + 1 ? key + open + 1 : key;
        }
        break;
    }
    return key;
}

static int slow_slot(const char *key, size_t size)
{
    const char *tag = tag_of(key, &size);
    unsigned crc = 0;

    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned)(unsigned char)tag[i] << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1;
    }
    return (int)(crc % 16384);
}

/* "x:T(N):x", the form of keys. */
static size_t key_around(char *to, const char *name, size_t size)
{
    int braced = memchr(name, '{', size) != NULL;
    size_t at = 0;

    to[at++] = 'x';
    if (!braced)
        to[at++] = '{';
    memcpy(to + at, name, size);
    at += size;
    if (!braced)
        to[at++] = '}';
    to[at++] = 'x';
    return at;
}

/* Whether a lock can have the name: all its keys must be in the slot of its name, wherever the braces are. */
static int may_be(const char *name, size_t size)
{
    char key[DLI_NAME_MAX + 8];
    size_t own = size, other;
    const char *tag, *around;

    if (size == 0 || size > DLI_NAME_MAX || memchr(name, '\0', size))
        return 0;
    other = key_around(key, name, size);
    tag = tag_of(name, &own);
    around = tag_of(key, &other);
    return own == other && memcmp(tag, around, own) == 0;
}

/* ---- channels */

struct told {
    int32_t family;
    const char *name;
    size_t size;
    int64_t number;
    int found;
};

static void tell(void *owner, const struct dli_message_target *heard)
{
    struct told *told = owner;

    REQUIRE(heard->size > 0 && heard->number >= 0);
    told->found += heard->family == told->family && heard->size == told->size &&
                   memcmp(heard->name, told->name, told->size) == 0 && heard->number == told->number;
}

static void check_channel(const struct dli_kind *kind, const struct dli_place *place, const char *name, size_t size)
{
    char channel[DLI_CHANNEL_MAX], owner[DLI_OWNER_MAX];
    struct told told = {.family = kind->family, .name = name, .size = size, .number = kind->own_channel ? 42 : 0};
    struct dli_store store = {.owner = &told, .uuid = UUID};
    size_t length;

    dli_id(owner, UUID, 42);
    length = dli_channel_of(channel, kind, place, owner);
    REQUIRE(length <= DLI_CHANNEL_MAX);
    dli_message_channel(&store, channel, length, tell);
    REQUIRE(told.found == 1);
}

/* ---- one name */

static size_t write_key(char out[DLI_CHANNEL_MAX], const char *pattern, const struct dli_place *place)
{
    size_t size = dli_pattern(out, pattern, place);

    REQUIRE(size <= dli_pattern_most(pattern, place) && size <= DLI_CHANNEL_MAX);
    return size;
}

static void check_kind(int32_t id, const char *name, size_t size)
{
    char text[DLI_KEYS_MAX][DLI_CHANNEL_MAX];
    size_t written[DLI_KEYS_MAX];
    const struct dli_kind *kind = dli_kind_find(id);
    struct dli_place *place = dli_place_new(kind, name, size);
    int slot = slow_slot(name, size);
    char key[DLI_HOLD_KEY_MAX], owner[DLI_OWNER_MAX];

    REQUIRE(place && place->keys > 0 && place->size == size && memcmp(dli_place_name(place), name, size) == 0);
    for (int i = 0; i < place->keys; i++) {
        written[i] = write_key(text[i], dli_wire_at(place->wire)->key[i], place);
        REQUIRE(slow_slot(text[i], written[i]) == slot);
        for (int j = 0; j < i; j++)
            REQUIRE(written[i] != written[j] || memcmp(text[i], text[j], written[i]) != 0);
    }
    REQUIRE(written[0] == size && memcmp(text[0], name, size) == 0);
    REQUIRE(slow_slot(text[0], write_key(text[0], DLI_GATE_PATTERN, place)) == slot);
    if (dli_wire_of(kind)->holds) {
        dli_id(owner, UUID, INT64_MAX);
        size = dli_hold_key(key, place, owner);
        REQUIRE(size < sizeof key && slow_slot(key, size) == slot);
    }
    check_channel(kind, place, dli_place_name(place), place->size);
    dli_place_free(place);
}

static void check_name(const char *name, size_t size)
{
    dlock_error box = {.code = DLOCK_OK};
    dlock_status status = dli_name_check(name, size, &box);

    REQUIRE((status == DLOCK_OK) == may_be(name, size));
    REQUIRE(dli_slot_of(name, size) == slow_slot(name, size));
    if (status != DLOCK_OK) {
        REQUIRE(status == DLOCK_INVALID_NAME && box.message[0] && fuzz_printable(box.message));
        return;
    }
    check_kind(DLOCK_KIND_MUTEX + (int32_t)(size + (unsigned char)name[0]) % DLOCK_KIND_LATCH, name, size);
}

static void check_marker(int slot)
{
    char marker[DLI_MARKER_MAX];

    dli_slot_marker(marker, slot, "", 0);
    REQUIRE(slow_slot(marker, strlen(marker)) == slot);
}

static void check_order(const char *a, size_t a_size, const char *b, size_t b_size)
{
    struct dli_name x = {a, (uint32_t)a_size, 0}, y = {b, (uint32_t)b_size, 0};
    int there = dli_name_compare(&x, &y), back = dli_name_compare(&y, &x);

    REQUIRE((there < 0) == (back > 0) && (there == 0) == (back == 0));
    REQUIRE((there == 0) == (a_size == b_size && memcmp(a, b, a_size) == 0));
}

/* A name with a namespace equals the full name without one. */
static void check_space(const char *space, const char *name, size_t size)
{
    char full[DLI_NAME_MAX + 1];
    size_t length = size;
    dlock_status status = dli_name_in(full, &length, space, name, NULL);

    if (status != DLOCK_OK)
        return;
    REQUIRE(length == size + (*space ? strlen(space) + 1 : 0));
    REQUIRE(memcmp(full + length - size, name, size) == 0 && may_be(full, length));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz in = {data, size};
    size_t space_size;
    const char *space = fuzz_until(&in, '\n', &space_size);
    char *name = fuzz_text((const char *)in.at, in.left), *terminated;

    if (space_size <= 256) {
        terminated = fuzz_text(space, space_size);
        check_space(terminated, name, in.left);
        free(terminated);
    }
    check_name(name, in.left);
    check_name((const char *)data, size);
    check_order(space, space_size, name, in.left);
    check_marker(slow_slot(name, in.left));
    free(name);
    return 0;
}
