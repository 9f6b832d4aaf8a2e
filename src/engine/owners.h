/*
 * owners.h: finds an owner's claim in the mutex machine when many wait. See mutex.h.
 *
 * A hash table has every claim that is waiting or lost. It is made when there are more than a few and one comes to wait,
 * grows and shrinks with their number, and is freed with the last one. Without it, and without memory for it, the lists are
 * walked: that takes longer, and finds the same.
 */
#ifndef DLI_ENGINE_OWNERS_H
#define DLI_ENGINE_OWNERS_H

#include <stddef.h>
#include <stdint.h>

struct dli_mutex;
struct dli_claim;

struct dli_owner_slot {
    int64_t owner;
    struct dli_claim *claim; /* NULL: the slot is free */
};

struct dli_owners {
    struct dli_owner_slot *slots; /* NULL: the lists are walked */
    uint32_t size;                /* a power of two */
};

/* The claim is in the list of the waiting or the lost since now. Its owner does not change there. */
void dli_owners_add(struct dli_mutex *m, struct dli_claim *claim);

/* The claim leaves that list. */
void dli_owners_remove(struct dli_mutex *m, const struct dli_claim *claim);

/* A waiting claim of owner, or NULL. */
struct dli_claim *dli_owners_waiting(const struct dli_mutex *m, int64_t owner);

/* A lost claim of owner, or NULL. */
struct dli_claim *dli_owners_lost(const struct dli_mutex *m, int64_t owner);

#endif
