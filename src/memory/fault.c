/*
 * fault.c: faults on demand, for the tests of those who use locks. Mutex: see inner.h.
 *
 * Some words act at once on the world. The others last for a time: they are about this client alone, except that a pause
 * stops the whole world.
 */
#include <stdlib.h>
#include <string.h>

#include "inner.h"

/* ---- what requests meet; world.mutex held */

static int is_about(const struct dli_memory_fault *fault, const struct dli_place *place)
{
    return fault->size == 0 ||
           (place && place->size == fault->size && memcmp(place->name, fault->name, fault->size) == 0);
}

const struct dli_memory_fault *dli_memory_fault(const struct dli_memory *memory, enum dli_memory_word word,
                                                const struct dli_place *place)
{
    for (struct dli_link *link = memory->faults.next; link != &memory->faults; link = link->next) {
        const struct dli_memory_fault *fault = DLI_OBJECT(link, struct dli_memory_fault, link);

        if (fault->word == word && fault->until > dli_now() && is_about(fault, place))
            return fault;
    }
    return NULL;
}

int64_t dli_memory_due(const struct dli_memory *memory, int64_t arrived)
{
    const struct dli_memory_fault *delay = dli_memory_fault(memory, DLI_MEMORY_DELAY, NULL);
    int64_t due = delay ? arrived + delay->value : arrived;

    return memory->world->paused > due ? memory->world->paused : due;
}

int64_t dli_memory_cut_until(const struct dli_memory *memory)
{
    const struct dli_memory_fault *cut = dli_memory_fault(memory, DLI_MEMORY_CUT, NULL);

    return cut ? cut->until : 0;
}

void dli_memory_free_faults(struct dli_memory *memory)
{
    struct dli_link *link;

    while ((link = dli_list_pop(&memory->faults)))
        free(DLI_OBJECT(link, struct dli_memory_fault, link));
}

/* ---- words that act at once; world.mutex held */

static dlock_status lose(struct dli_memory *memory, const struct dli_fault *fault, dlock_error *box)
{
    struct dli_world *world = memory->world;
    struct dli_memory_cell *cell = dli_memory_cell(world, fault->name, fault->size, 0);

    if (!cell || dli_list_empty(&cell->holds))
        return dli_fail(box, DLOCK_NOT_HELD, "%s: nobody holds a lock of this name", memory->text);
    while (!dli_list_empty(&cell->holds)) {
        struct dli_memory_hold *hold = dli_memory_hold_at(cell->holds.next);

        if (!hold->resting)
            dli_memory_tell(world, cell, hold->kind, hold->owner, dli_memory_number(hold->owner));
        dli_memory_let_go(cell, hold);
    }
    dli_memory_wake(world, cell);
    dli_memory_done(world, cell);
    return DLOCK_OK;
}

static dlock_status jump(struct dli_memory *memory, const struct dli_fault *fault, dlock_error *box)
{
    (void)box;
    memory->world->offset += fault->value * DLI_MEMORY_MS;
    dli_memory_settle_all(memory->world);
    dli_memory_tell_lapsed(memory->world);
    return DLOCK_OK;
}

static dlock_status heal(struct dli_memory *memory, const struct dli_fault *fault, dlock_error *box)
{
    struct dli_world *world = memory->world;

    (void)fault, (void)box;
    world->paused = 0;
    for (struct dli_link *link = world->stores.next; link != &world->stores; link = link->next)
        dli_memory_free_faults(DLI_OBJECT(link, struct dli_memory, link));
    return DLOCK_OK;
}

/* ---- words that last */

/* ms: -1 until it is ended; 0: it is over. */
static int64_t end_after(int64_t ms)
{
    return ms < 0 ? INT64_MAX : dli_now() + ms * DLI_MEMORY_MS;
}

static dlock_status pause_world(struct dli_memory *memory, const struct dli_fault *fault, dlock_error *box)
{
    (void)box;
    memory->world->paused = end_after(fault->value);
    return DLOCK_OK;
}

/* The fault of this word and name; a new one is over already. NULL without memory. */
static struct dli_memory_fault *fault_of(struct dli_memory *memory, enum dli_memory_word word,
                                         const struct dli_fault *wanted)
{
    struct dli_memory_fault *fault;

    for (struct dli_link *link = memory->faults.next; link != &memory->faults; link = link->next) {
        fault = DLI_OBJECT(link, struct dli_memory_fault, link);
        if (fault->word == word && fault->size == wanted->size &&
            (fault->size == 0 || memcmp(fault->name, wanted->name, fault->size) == 0))
            return fault;
    }
    if (!(fault = calloc(1, sizeof *fault + wanted->size)))
        return NULL;
    fault->word = word;
    fault->size = wanted->size;
    if (wanted->size)
        memcpy(fault->name, wanted->name, wanted->size);
    dli_list_append(&memory->faults, &fault->link);
    return fault;
}

static dlock_status last(struct dli_memory *memory, enum dli_memory_word word, const struct dli_fault *wanted,
                         dlock_error *box)
{
    struct dli_memory_fault *fault = fault_of(memory, word, wanted);

    if (!fault)
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a fault");
    fault->until = word == DLI_MEMORY_DELAY ? INT64_MAX : end_after(wanted->value);
    fault->value = wanted->value * DLI_MEMORY_MS;
    return DLOCK_OK;
}

static dlock_status cut(struct dli_memory *memory, const struct dli_fault *fault, dlock_error *box)
{
    return last(memory, DLI_MEMORY_CUT, fault, box);
}

static dlock_status deny(struct dli_memory *memory, const struct dli_fault *fault, dlock_error *box)
{
    return last(memory, DLI_MEMORY_DENY, fault, box);
}

static dlock_status delay(struct dli_memory *memory, const struct dli_fault *fault, dlock_error *box)
{
    return last(memory, DLI_MEMORY_DELAY, fault, box);
}

static dlock_status renewals(struct dli_memory *memory, const struct dli_fault *fault, dlock_error *box)
{
    return last(memory, DLI_MEMORY_RENEWALS, fault, box);
}

/* ---- the table of words */

enum { NAME_NEVER, NAME_MAY, NAME_MUST };

#define LONGEST_MS INT64_C(86400000)
#define OTHERS     " others"

static const struct word {
    const char *text;
    int name;
    int others;        /* it is about one client: " others" may follow */
    int64_t low, high; /* of the value */
    dlock_status (*apply)(struct dli_memory *memory, const struct dli_fault *fault, dlock_error *box);
} words[] = {
    {"lose", NAME_MUST, 0, 0, 0, lose},
    {"renewals", NAME_MAY, 1, -1, LONGEST_MS, renewals},
    {"deny", NAME_MAY, 1, -1, LONGEST_MS, deny},
    {"cut", NAME_NEVER, 1, -1, LONGEST_MS, cut},
    {"pause", NAME_NEVER, 0, -1, LONGEST_MS, pause_world},
    {"delay", NAME_NEVER, 1, 0, LONGEST_MS, delay},
    {"clock", NAME_NEVER, 0, -LONGEST_MS, LONGEST_MS, jump},
    {"heal", NAME_NEVER, 0, 0, 0, heal},
};

/* The word in text, and whether " others" follows. NULL: there is none such. */
static const struct word *find(const char *text, int *others)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t size = strlen(words[i].text);

        *others = words[i].others && strcmp(text + strnlen(text, size), OTHERS) == 0;
        if (strncmp(text, words[i].text, size) == 0 && (*others || text[size] == '\0'))
            return &words[i];
    }
    return NULL;
}

static dlock_status check(const struct dli_memory *memory, const struct word *word, const struct dli_fault *fault,
                          dlock_error *box)
{
    if (!word)
        return dli_fail(box, DLOCK_INVALID_ARGUMENT,
                        "%s: the faults are lose, renewals, deny, cut, pause, delay, clock and heal", memory->text);
    if (fault->size ? word->name == NAME_NEVER : word->name == NAME_MUST)
        return dli_fail(box, DLOCK_INVALID_ARGUMENT, "%s: the fault %s %s", memory->text, word->text,
                        fault->size ? "is not about one lock" : "needs the name of a lock");
    if (fault->value < word->low || fault->value > word->high)
        return dli_fail(box, DLOCK_INVALID_ARGUMENT, "%s: the value of the fault %s is from %lld to %lld", memory->text,
                        word->text, (long long)word->low, (long long)word->high);
    return DLOCK_OK;
}

static dlock_status apply_to_others(const struct word *word, const struct dli_memory *memory,
                                    const struct dli_fault *fault, dlock_error *box)
{
    const struct dli_link *stores = &memory->world->stores;
    dlock_status status = DLOCK_OK;
    int count = 0;

    for (struct dli_link *link = stores->next; link != stores; link = link->next) {
        struct dli_memory *other = DLI_OBJECT(link, struct dli_memory, link);

        count += other != memory;
        if (other != memory && status == DLOCK_OK)
            status = word->apply(other, fault, box);
    }
    if (count == 0)
        status = dli_fail(box, DLOCK_NOT_FOUND, "%s: no other client shares it now", memory->text);
    return status;
}

dlock_status dli_memory_do_fault(struct dli_store *store, const struct dli_fault *fault, dlock_error *box)
{
    struct dli_memory *memory = dli_memory_of(store);
    int others = 0;
    const struct word *word = find(fault->what, &others);
    dlock_status status = check(memory, word, fault, box);

    if (status != DLOCK_OK)
        return status;
    pthread_mutex_lock(&memory->world->mutex);
    status = others ? apply_to_others(word, memory, fault, box) : word->apply(memory, fault, box);
    dli_memory_stir(memory->world);
    pthread_mutex_unlock(&memory->world->mutex);
    return status;
}
