/*
 * names.c: names of locks and nodes. No state.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "kinds.h"

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
    return dli_zk_side_text(dli_zk_side(kind));
}

struct dli_zk_text dli_zk_node(const struct dli_kind *kind, const struct dli_place *place, const char *owner,
                               char out[DLI_ZK_PATH_MAX])
{
    return (struct dli_zk_text){out, dli_print(out, DLI_ZK_PATH_MAX, "%s/_c_%s-%s", place->path, owner, text_of(kind))};
}

struct dli_zk_text dli_zk_numbered(const struct dli_kind *kind, const struct dli_place *place, const char *owner,
                                   int64_t seq, char out[DLI_ZK_PATH_MAX])
{
    return (struct dli_zk_text){
        out, dli_print(out, DLI_ZK_PATH_MAX, "%s/_c_%s-%s%010" PRId64, place->path, owner, text_of(kind), seq)};
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
