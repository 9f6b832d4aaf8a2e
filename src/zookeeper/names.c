/*
 * names.c: names of locks and nodes, and the order of nodes. No state.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kinds.h"

enum { DIGITS = 10 };

/* What stands before the number of a node. */
static const struct side {
    char side;
    const char *text;
} sides[] = {{'l', "lock-"}, {'r', "__READ__"}, {'w', "__WRIT__"}, {'p', "lease-"}};

/* ---- places */

/* ZooKeeper takes no part of a path that is empty, "." or "..", no control characters, and keeps /zookeeper for itself. */
static int is_fit(const char *name, size_t size)
{
    size_t begin = 0;

    for (size_t i = 0; i <= size; i++) {
        size_t part = i - begin;

        if (i < size && ((unsigned char)name[i] < 0x20 || (unsigned char)name[i] == 0x7f))
            return 0;
        if (i < size && name[i] != '/')
            continue;
        if (part == 0 || (part == 1 && name[begin] == '.') || (part == 2 && memcmp(name + begin, "..", 2) == 0))
            return 0;
        begin = i + 1;
    }
    return 1;
}

static int is_reserved(const char *name, size_t size)
{
    static const char own[] = "zookeeper";
    size_t length = sizeof own - 1;

    return size >= length && memcmp(name, own, length) == 0 && (size == length || name[length] == '/');
}

static struct dli_place *place_at(const char *chroot, const struct dli_kind *kind, const char *name, size_t size)
{
    size_t before = strlen(chroot);
    struct dli_place *place = calloc(1, sizeof *place + before + 1 + size + 1);

    if (!place)
        return NULL;
    place->kind = kind;
    place->fit = is_fit(name, size) && (before > 0 || !is_reserved(name, size));
    place->chroot = (uint16_t)before;
    place->size = (uint16_t)(before + 1 + size);
    memcpy(place->path, chroot, before);
    place->path[before] = '/';
    memcpy(place->path + before + 1, name, size);
    place->path[place->size] = '\0';
    return place;
}

static struct dli_place *place_below(const struct dli_place *place, const char *chroot, const struct dli_kind *kind,
                                     const char *part)
{
    char name[DLI_ZK_PATH_MAX];
    size_t size = dli_print(name, sizeof name, "%s/%s", dli_zk_place_name(place), part);

    return size > 0 ? place_at(chroot, kind, name, size) : NULL;
}

struct dli_place *dli_zk_place_new(struct dli_store *store, const struct dli_kind *kind, const char *name, size_t size)
{
    struct dli_place *place = place_at(dli_zk_of(store)->chroot, kind, name, size);

    if (!place || !kind->slots)
        return place;
    place->line = place_below(place, dli_zk_of(store)->chroot, dli_kind_find(DLOCK_KIND_MUTEX), "locks");
    place->leases = place_below(place, dli_zk_of(store)->chroot, kind, "leases");
    if (place->line && place->leases)
        return place;
    dli_zk_place_free(place);
    return NULL;
}

const struct dli_place *dli_zk_home(const struct dli_place *place)
{
    return place->leases ? place->leases : place;
}

const char *dli_zk_place_name(const struct dli_place *place)
{
    return place->path + place->chroot + 1;
}

void dli_zk_place_free(struct dli_place *place)
{
    if (!place)
        return;
    free(place->line);
    free(place->leases);
    free(place);
}

struct dli_zk_text dli_zk_path(const struct dli_place *place)
{
    return (struct dli_zk_text){place->path, place->size};
}

/* ---- nodes */

struct dli_zk_text dli_zk_child_path(const struct dli_place *place, struct dli_zk_text child, char out[DLI_ZK_PATH_MAX])
{
    struct dli_text path = dli_text_in(out, DLI_ZK_PATH_MAX);

    dli_text_add(&path, place->path, place->size);
    dli_text_add(&path, "/", 1);
    dli_text_add(&path, child.bytes, child.size);
    return (struct dli_zk_text){out, dli_text_cut(&path) ? 0 : path.size};
}

char dli_zk_side(const struct dli_kind *kind)
{
    return kind->slots ? 'p' : kind->id == DLOCK_KIND_READ ? 'r' : kind->id == DLOCK_KIND_WRITE ? 'w' : 'l';
}

static const char *text_of(const struct dli_kind *kind)
{
    char side = dli_zk_side(kind);

    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++)
        if (sides[i].side == side)
            return sides[i].text;
    return "";
}

struct dli_zk_text dli_zk_node(const struct dli_kind *kind, const struct dli_place *place, const char *owner,
                               char out[DLI_ZK_PATH_MAX])
{
    return (struct dli_zk_text){out, dli_print(out, DLI_ZK_PATH_MAX, "%s/_c_%s-%s", place->path, owner, text_of(kind))};
}

struct dli_zk_text dli_zk_numbered(const struct dli_kind *kind, const struct dli_place *place, const char *owner,
                                   int32_t seq, char out[DLI_ZK_PATH_MAX])
{
    return (struct dli_zk_text){
        out, dli_print(out, DLI_ZK_PATH_MAX, "%s/_c_%s-%s%010" PRId32, place->path, owner, text_of(kind), seq)};
}

int dli_zk_is_owners(struct dli_zk_text name, const char *owner)
{
    size_t size = strlen(owner);

    return name.size > size + 4 && memcmp(name.bytes, "_c_", 3) == 0 && memcmp(name.bytes + 3, owner, size) == 0 &&
           name.bytes[3 + size] == '-';
}

int64_t dli_zk_number(const char *owner)
{
    const char *colon = strrchr(owner, ':');

    return colon ? strtoll(colon + 1, NULL, 10) : 0;
}

/* ---- the line */

/* Split off the ten digits at the end, and a sign. Returns the size of the rest; 0: there are none. */
static size_t split(struct dli_zk_text name, int64_t *seq)
{
    size_t size = name.size;

    if (size <= DIGITS)
        return 0;
    *seq = 0;
    for (size_t i = size - DIGITS; i < size; i++) {
        if (name.bytes[i] < '0' || name.bytes[i] > '9')
            return 0;
        *seq = 10 * *seq + (name.bytes[i] - '0');
    }
    return size - DIGITS;
}

static int ends_with(struct dli_zk_text name, size_t size, const char *text)
{
    size_t length = strlen(text);

    return size >= length && memcmp(name.bytes + size - length, text, length) == 0;
}

int dli_zk_sequence(struct dli_zk_text path, int32_t *seq)
{
    int64_t number;
    size_t rest = split(path, &number);

    if (!rest || number > INT32_MAX || ends_with(path, rest, "--"))
        return -1;
    *seq = (int32_t)number;
    return 0;
}

/* Whether a node stands in line. */
static int parse(struct dli_zk_text name, struct dli_zk_child *child, int *odd)
{
    int64_t number;
    size_t rest = split(name, &number);

    for (size_t i = 0; rest && i < sizeof sides / sizeof sides[0]; i++) {
        int below = ends_with(name, rest, "-") && ends_with(name, rest - 1, sides[i].text);

        *odd |= below;
        if (!below && !ends_with(name, rest, sides[i].text))
            continue;
        *child = (struct dli_zk_child){.seq = (int32_t)number, .side = sides[i].side, .name = name};
        return 1;
    }
    return 0;
}

static int in_order(const void *a, const void *b)
{
    int32_t x = ((const struct dli_zk_child *)a)->seq, y = ((const struct dli_zk_child *)b)->seq;

    return x < y ? -1 : x > y;
}

int dli_zk_children(struct dli_zk_text body, struct dli_zk_children *all)
{
    struct dli_zk_text name;
    int32_t count;

    memset(all, 0, sizeof *all);
    if (dli_zk_decode_count(&body, &count) || count < 0 || (size_t)count > body.size / 4)
        return -1;
    if (!(all->child = calloc((size_t)count + 1, sizeof *all->child)))
        return -2;
    while (count-- > 0) {
        if (dli_zk_decode_name(&body, &name)) {
            free(all->child);
            return -1;
        }
        all->count += parse(name, &all->child[all->count], &all->odd);
        all->gate |= dli_zk_is_gate(name);
    }
    qsort(all->child, (size_t)all->count, sizeof *all->child, in_order);
    return 0;
}
