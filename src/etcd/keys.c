/*
 * keys.c: names of keys, their slots, and the parts of transactions. Slots belong to lane 0's thread.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "inner.h"

enum { SPARES = 1024 };

/* ---- slots */

/* The owner id in the key of a number that is in line or held, and of others after it. */
struct dli_etcd_slot {
    struct dli_etcd_node node; /* the number; 0: it has no key, and no request for one is under way */
    struct dli_link link;      /* in etcd.spare */
    int64_t id;
    int asked; /* requests that may change the key and had no answer */
    int there; /* it was put */
};

static struct dli_etcd_slot *slot_of(const struct dli_place *place, int64_t number)
{
    struct dli_etcd_node *node = dli_etcd_find(&place->etcd->slots, number);

    return node ? DLI_OBJECT(node, struct dli_etcd_slot, node) : NULL;
}

/* NULL without memory. */
static struct dli_etcd_slot *slot_new(struct dli_etcd *etcd)
{
    struct dli_link *link = dli_list_pop(&etcd->spare);
    struct dli_etcd_slot *slot = link ? DLI_OBJECT(link, struct dli_etcd_slot, link) : calloc(1, sizeof *slot);

    etcd->spares -= link != NULL;
    if (slot && !slot->id)
        slot->id = ++etcd->slot_ids;
    return slot;
}

static void slot_free(struct dli_etcd *etcd, struct dli_etcd_slot *slot)
{
    dli_etcd_delist(&etcd->slots, &slot->node);
    if (slot->asked)
        slot->id = 0;
    slot->asked = slot->there = 0;
    if (!slot->id || etcd->spares == SPARES) {
        free(slot);
        return;
    }
    dli_list_append(etcd->spare.next, &slot->link);
    etcd->spares++;
}

void dli_etcd_slot_take(const struct dli_place *place, int64_t number)
{
    struct dli_etcd_slot *slot = slot_of(place, number);

    if (!slot && (slot = slot_new(place->etcd)) && dli_etcd_enlist(&place->etcd->slots, &slot->node, number))
        slot_free(place->etcd, slot);
    dli_etcd_slot_ask(place, number);
}

void dli_etcd_slot_ask(const struct dli_place *place, int64_t number)
{
    struct dli_etcd_slot *slot = slot_of(place, number);

    if (slot)
        slot->asked++;
}

void dli_etcd_slot_answered(const struct dli_place *place, int64_t number)
{
    struct dli_etcd_slot *slot = slot_of(place, number);

    if (slot && slot->asked)
        slot->asked--;
}

void dli_etcd_slot_there(const struct dli_place *place, int64_t number)
{
    struct dli_etcd_slot *slot = slot_of(place, number);

    if (slot)
        slot->there = 1;
}

void dli_etcd_slot_end(const struct dli_place *place, int64_t number)
{
    struct dli_etcd_slot *slot = slot_of(place, number);

    if (slot)
        slot_free(place->etcd, slot);
}

void dli_etcd_slot_unused(const struct dli_place *place, int64_t number)
{
    const struct dli_etcd_slot *slot = slot_of(place, number);

    if (slot && !slot->asked && !slot->there)
        dli_etcd_slot_end(place, number);
}

void dli_etcd_slots_free(struct dli_etcd *etcd)
{
    struct dli_etcd_node *node;
    struct dli_link *link;

    while ((node = dli_etcd_any(&etcd->slots)))
        slot_free(etcd, DLI_OBJECT(node, struct dli_etcd_slot, node));
    while ((link = dli_list_pop(&etcd->spare)))
        free(DLI_OBJECT(link, struct dli_etcd_slot, link));
}

/* ---- places */

struct dli_place *dli_etcd_place_new(struct dli_store *store, const struct dli_kind *kind, const char *name,
                                     size_t size)
{
    struct dli_place *place = malloc(sizeof *place + size + 1);

    if (!place)
        return NULL;
    place->kind = kind;
    place->etcd = dli_etcd_of(store);
    place->size = (uint16_t)size;
    memcpy(place->name, name, size);
    place->name[size] = '/';
    return place;
}

const char *dli_etcd_place_name(const struct dli_place *place)
{
    return place->name;
}

void dli_etcd_place_free(struct dli_place *place)
{
    free(place);
}

struct dli_etcd_bytes dli_etcd_prefix(const struct dli_place *place)
{
    return dli_etcd_text(place->name, (size_t)place->size + 1);
}

/* The byte after '/' is '0'. */
struct dli_etcd_bytes dli_etcd_prefix_end(const struct dli_place *place, char out[DLI_ETCD_KEY_MAX])
{
    memcpy(out, place->name, place->size);
    out[place->size] = '/' + 1;
    return dli_etcd_text(out, (size_t)place->size + 1);
}

/* What stands before the owner in a key. */
static const char *side_of(const struct dli_kind *kind)
{
    return kind->id == DLOCK_KIND_READ    ? "read-"
           : kind->id == DLOCK_KIND_WRITE ? "write-"
           : kind->slots                  ? "permit-"
                                          : "";
}

static size_t write_key(char out[DLI_ETCD_KEY_MAX], const struct dli_place *place, const char *side, const char *owner)
{
    size_t size = (size_t)place->size + 1;

    memcpy(out, place->name, size);
    return size + dli_print(out + size, DLI_ETCD_KEY_MAX - size, "%s%s", side, owner);
}

struct dli_etcd_bytes dli_etcd_key(const struct dli_kind *kind, const struct dli_place *place, const char *owner,
                                   char out[DLI_ETCD_KEY_MAX])
{
    const struct dli_etcd_slot *slot = slot_of(place, dli_etcd_number(owner));
    const char *colon = strrchr(owner, ':');
    char id[DLI_OWNER_MAX];

    if (!slot || !colon)
        return dli_etcd_text(out, write_key(out, place, side_of(kind), owner));
    snprintf(id, sizeof id, "%.*s:k%" PRId64, (int)(colon - owner), owner, slot->id);
    return dli_etcd_text(out, write_key(out, place, side_of(kind), id));
}

void dli_etcd_rivals(const struct dli_kind *kind, const struct dli_place *place, struct dli_etcd_rivals *rivals)
{
    if (kind->id == DLOCK_KIND_READ) {
        rivals->key = dli_etcd_text(rivals->room, write_key(rivals->room, place, "write-", ""));
        rivals->end = dli_etcd_text(rivals->end_room, write_key(rivals->end_room, place, "write.", ""));
    } else {
        dli_etcd_claims(kind, place, rivals);
    }
}

void dli_etcd_claims(const struct dli_kind *kind, const struct dli_place *place, struct dli_etcd_rivals *claims)
{
    claims->key = dli_etcd_prefix(place);
    claims->end = dli_etcd_prefix_end(place, claims->end_room);
    if (!kind->slots)
        return;
    claims->key = dli_etcd_text(claims->room, write_key(claims->room, place, "permit-", ""));
    claims->end = dli_etcd_text(claims->end_room, write_key(claims->end_room, place, "permit.", ""));
}

struct dli_etcd_bytes dli_etcd_gate_key(const struct dli_place *place, char out[DLI_ETCD_KEY_MAX])
{
    size_t size = sizeof DLI_ETCD_GATES - 1;

    memcpy(out, DLI_ETCD_GATES, size);
    memcpy(out + size, place->name, place->size);
    return dli_etcd_text(out, size + place->size);
}

int64_t dli_etcd_number(const char *owner)
{
    const char *colon = strrchr(owner, ':');

    return colon ? strtoll(colon + 1, NULL, 10) : 0;
}

struct dli_etcd_bytes dli_etcd_mark(const struct dli_etcd_session *session, char out[DLI_ETCD_MARK_MAX])
{
    return dli_etcd_text(out, dli_print(out, DLI_ETCD_MARK_MAX, "dlock_mark/%" PRIx64, (uint64_t)session->id));
}

void dli_etcd_test(struct dli_etcd_txn *txn, enum dli_etcd_target target, struct dli_etcd_bytes key, int64_t revision)
{
    txn->test[txn->tests++] = (struct dli_etcd_test){.target = target, .key = key, .revision = revision};
}

struct dli_etcd_step *dli_etcd_then(struct dli_etcd_txn *txn, enum dli_etcd_step_kind kind, struct dli_etcd_bytes key)
{
    struct dli_etcd_step *step = &txn->then_step[txn->then++];

    *step = (struct dli_etcd_step){.kind = kind, .key = key, .limit = 1};
    return step;
}

struct dli_etcd_step *dli_etcd_otherwise(struct dli_etcd_txn *txn, enum dli_etcd_step_kind kind,
                                         struct dli_etcd_bytes key)
{
    struct dli_etcd_step *step = &txn->otherwise_step[txn->otherwise++];

    *step = (struct dli_etcd_step){.kind = kind, .key = key, .limit = 1};
    return step;
}
