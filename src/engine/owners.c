/*
 * owners.c: a hash table of claims by owner: open addressing, linear probing, no marks for removed ones. See owners.h.
 */
#include "mutex.h"

#include <stdlib.h>

enum { FEW = 32, SMALLEST = 128 /* slots */ };

/* The slot in which the search for owner begins. */
static size_t home(const struct dli_owners *owners, int64_t owner)
{
    uint64_t x = (uint64_t)owner;

    x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
    x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    return (size_t)(x ^ x >> 33) & (owners->size - 1);
}

static size_t after(const struct dli_owners *owners, size_t slot)
{
    return (slot + 1) & (owners->size - 1);
}

/* At three quarters a search takes few steps. */
static int has_room(size_t size, int64_t count)
{
    return (uint64_t)count <= size / 4 * 3;
}

static void put(struct dli_owners *owners, struct dli_owner_slot slot)
{
    size_t i = home(owners, slot.owner);

    while (owners->slots[i].claim)
        i = after(owners, i);
    owners->slots[i] = slot;
}

static void put_claim(struct dli_owners *owners, struct dli_claim *claim)
{
    put(owners, (struct dli_owner_slot){claim->owner, claim});
}

/* The claims of both lists. */
static void put_all(struct dli_owners *owners, const struct dli_mutex *m)
{
    const struct dli_link *waiting = &m->active->waiting;

    for (const struct dli_link *link = waiting->next; link != waiting; link = link->next)
        put_claim(owners, DLI_OBJECT(link, struct dli_claim, link));
    for (struct dli_link *link = dli_ring_first(&m->lost); link; link = dli_ring_next(&m->lost, link))
        put_claim(owners, DLI_OBJECT(link, struct dli_claim, link));
}

/* A table of size slots takes the place of the one there is. -1: no memory, nothing changes. */
static int resize(struct dli_mutex *m, uint32_t size)
{
    struct dli_owners *old = &m->active->owners;
    struct dli_owners fresh = {calloc(size, sizeof *fresh.slots), size};

    if (!fresh.slots)
        return -1;
    if (old->slots) { /* the claims themselves are not touched: many lie outside of the cache */
        for (size_t i = 0; i < old->size; i++)
            if (old->slots[i].claim)
                put(&fresh, old->slots[i]);
    } else {
        put_all(&fresh, m);
    }
    free(old->slots);
    *old = fresh;
    return 0;
}

static void drop_table(struct dli_owners *owners)
{
    free(owners->slots);
    owners->slots = NULL;
}

void dli_owners_add(struct dli_mutex *m, struct dli_claim *claim)
{
    struct dli_owners *owners = &m->active->owners;
    uint32_t size = SMALLEST;

    m->claims++;
    if (!owners->slots) {
        while (!has_room(size, m->claims))
            size *= 2;
        if (m->claims > FEW && dli_active_own(m))
            resize(m, size); /* the lists have the claim, too */
    } else if (has_room(owners->size, m->claims) || !resize(m, owners->size * 2)) {
        put_claim(owners, claim);
    } else {
        drop_table(owners);
    }
}

/* Free a slot. Claims behind it that a search would not reach any more move up. */
static void take_out(struct dli_owners *owners, size_t hole)
{
    size_t mask = owners->size - 1;

    for (size_t i = after(owners, hole); owners->slots[i].claim; i = after(owners, i)) {
        size_t begin = home(owners, owners->slots[i].owner);

        if (((i - begin) & mask) < ((i - hole) & mask))
            continue;
        owners->slots[hole] = owners->slots[i];
        hole = i;
    }
    owners->slots[hole].claim = NULL;
}

void dli_owners_remove(struct dli_mutex *m, const struct dli_claim *claim)
{
    struct dli_owners *owners = &m->active->owners;
    size_t i;

    m->claims--;
    if (!owners->slots)
        return;
    i = home(owners, claim->owner);
    while (owners->slots[i].claim != claim)
        i = after(owners, i);
    take_out(owners, i);
    if (m->claims == 0)
        drop_table(owners);
    else if (owners->size > SMALLEST && (uint64_t)m->claims < owners->size / 16)
        resize(m, owners->size / 4);
}

static struct dli_claim *walk_waiting(const struct dli_mutex *m, int64_t owner)
{
    const struct dli_link *list = &m->active->waiting;

    for (const struct dli_link *link = list->next; link != list; link = link->next) {
        struct dli_claim *claim = DLI_OBJECT(link, struct dli_claim, link);

        if (claim->owner == owner)
            return claim;
    }
    return NULL;
}

static struct dli_claim *walk_lost(const struct dli_mutex *m, int64_t owner)
{
    for (struct dli_link *link = dli_ring_first(&m->lost); link; link = dli_ring_next(&m->lost, link)) {
        struct dli_claim *claim = DLI_OBJECT(link, struct dli_claim, link);

        if (claim->owner == owner)
            return claim;
    }
    return NULL;
}

/* An owner may have a claim in each list. */
static struct dli_claim *find(const struct dli_owners *owners, int64_t owner, enum dli_claim_state state)
{
    for (size_t i = home(owners, owner); owners->slots[i].claim; i = after(owners, i))
        if (owners->slots[i].owner == owner && owners->slots[i].claim->state == (int8_t)state)
            return owners->slots[i].claim;
    return NULL;
}

struct dli_claim *dli_owners_waiting(const struct dli_mutex *m, int64_t owner)
{
    if (m->waiters == 0)
        return NULL;
    return m->active->owners.slots ? find(&m->active->owners, owner, DLI_CLAIM_WAITING) : walk_waiting(m, owner);
}

struct dli_claim *dli_owners_lost(const struct dli_mutex *m, int64_t owner)
{
    if (!dli_ring_first(&m->lost))
        return NULL;
    return m->active->owners.slots ? find(&m->active->owners, owner, DLI_CLAIM_LOST) : walk_lost(m, owner);
}
