/*
 * round.c: optimistic transactions: a round of watches, reads and a commit. See store/txn.h.
 *
 * A round belongs to its user between steps. A step acts as every request does, under world.mutex, unless a fault holds it up.
 * The commit makes all new values first: then it writes all of them, or none.
 */
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "inner.h"

struct watch {
    struct dli_memory_key *key;
    int64_t changed; /* as it was then */
};

/* What the writes of a commit do to one key. */
struct dli_memory_effect {
    struct dli_memory_key *key;
    int made;    /* what follows; else it is as the key has it */
    char *value; /* NULL: the key is deleted */
    size_t size;
    int64_t ends;
};

struct round {
    struct dli_txn base; /* first */
    struct dli_memory *memory;
    struct dli_memory_job job; /* its request */
    struct dli_txn_step *step; /* under way */
    struct watch *watch;
    size_t watches, room;
    struct dli_buffer writes; /* see dli_txn_keep */

    /* the commit */
    struct dli_memory_effect *effect;
    size_t effects;
};

static struct round *round_at(struct dli_txn *txn)
{
    return DLI_OBJECT(txn, struct round, base);
}

static void free_room(struct round *round)
{
    free(round->watch);
    round->watch = NULL;
    round->watches = round->room = 0;
    dli_buffer_free(&round->writes);
    dli_txn_over(&round->base);
}

/* The round is over: forget all of it. */
static void clear(struct round *round)
{
    struct dli_world *world = round->memory->world;

    pthread_mutex_lock(&world->mutex);
    for (size_t i = 0; i < round->watches; i++) {
        round->watch[i].key->watchers--;
        dli_memory_key_done(world, round->watch[i].key);
    }
    pthread_mutex_unlock(&world->mutex);
    free_room(round);
}

/* ---- watch and read; world.mutex held */

static void no_memory(struct round *round)
{
    dli_memory_fail(&round->job.request, DLOCK_OUT_OF_MEMORY, "no memory for a key");
}

static void watch(struct round *round, struct dli_memory_key *key)
{
    if (round->watches == round->room) {
        size_t room = round->room ? 2 * round->room : 4;
        struct watch *more = realloc(round->watch, room * sizeof *more);

        if (!more) {
            no_memory(round);
            return;
        }
        round->watch = more;
        round->room = room;
    }
    round->watch[round->watches++] = (struct watch){key, key->changed};
    key->watchers++;
}

static void read_value(struct round *round, const struct dli_memory_key *key)
{
    struct dli_txn_step *step = round->step;

    if (!key->value) {
        dli_memory_fail(&round->job.request, DLOCK_NOT_FOUND, "there is no such key");
        return;
    }
    if (!(step->value = malloc(key->value_size + 1))) {
        no_memory(round);
        return;
    }
    memcpy(step->value, key->value, key->value_size);
    step->size = key->value_size;
}

/* ---- the commit; world.mutex held */

/* The effect on this key. NULL without memory. */
static struct dli_memory_effect *effect_of(struct round *round, const struct dli_txn_write *write)
{
    struct dli_memory_key *key = dli_memory_key(round->memory->world, write->key, write->key_size);
    struct dli_memory_effect *effect;

    if (!key || key->effect)
        return key ? key->effect : NULL;
    effect = &round->effect[round->effects++];
    *effect = (struct dli_memory_effect){.key = key, .ends = INT64_MAX};
    key->effect = effect;
    key->watchers++;
    return effect;
}

static dlock_status give(struct dli_memory_effect *effect, const char *value, size_t size)
{
    char *copy = malloc(size + 1);

    if (!copy)
        return DLOCK_OUT_OF_MEMORY;
    if (size > 0)
        memcpy(copy, value, size);
    free(effect->value);
    effect->made = 1;
    effect->value = copy;
    effect->size = size;
    return DLOCK_OK;
}

static int64_t end_after(const struct dli_world *world, int64_t ttl_ms)
{
    int64_t now = dli_memory_now(world);

    return ttl_ms < 0 || ttl_ms > (INT64_MAX - now) / DLI_MEMORY_MS ? INT64_MAX : now + ttl_ms * DLI_MEMORY_MS;
}

/* Returns DLOCK_OK, DLOCK_SERVER_ERROR: it is no number, or the sum is none; DLOCK_OUT_OF_MEMORY. */
static dlock_status add(struct dli_memory_effect *effect, int64_t by)
{
    const char *value = effect->made ? effect->value : effect->key->value;
    char text[24];
    int64_t sum = 0;

    if (value && dli_txn_number(value, effect->made ? effect->size : effect->key->value_size, &sum))
        return DLOCK_SERVER_ERROR;
    if (__builtin_add_overflow(sum, by, &sum))
        return DLOCK_SERVER_ERROR;
    if (!effect->made)
        effect->ends = effect->key->ends;
    return give(effect, text, dli_decimal(text, sum));
}

static dlock_status apply(struct round *round, const struct dli_txn_write *write)
{
    struct dli_memory_effect *effect = effect_of(round, write);

    if (!effect)
        return DLOCK_OUT_OF_MEMORY;
    if (write->kind == DLI_TXN_ADD)
        return add(effect, write->number);
    effect->ends = INT64_MAX;
    if (write->kind == DLI_TXN_SET) {
        effect->ends = end_after(round->memory->world, write->number);
        return give(effect, write->value, write->value_size);
    }
    free(effect->value);
    effect->made = 1;
    effect->value = NULL;
    return DLOCK_OK;
}

/* All new values, not written yet. */
static void fold(struct round *round)
{
    struct dli_request *request = &round->job.request;
    struct dli_txn_write write = {0};
    char shown[120];
    size_t at = 0;

    round->effects = 0;
    if (round->base.count > 0 && !(round->effect = calloc((size_t)round->base.count, sizeof *round->effect)))
        request->status = DLOCK_OUT_OF_MEMORY;
    while (request->status == DLOCK_OK && dli_txn_next(&round->writes, &at, &write))
        request->status = apply(round, &write);
    if (request->status == DLOCK_OUT_OF_MEMORY)
        dli_memory_fail(request, DLOCK_OUT_OF_MEMORY, "nothing was written: no memory for the writes");
    else if (request->status == DLOCK_SERVER_ERROR)
        dli_fail(request->reason, DLOCK_SERVER_ERROR,
                 "nothing was written: key '%s' has no decimal number to add to, or the sum has more than 64 bits",
                 dli_escape(shown, sizeof shown, write.key, write.key_size));
}

/* Write all new values, or forget them. */
static void finish(struct round *round, int writes)
{
    struct dli_world *world = round->memory->world;

    for (size_t i = 0; i < round->effects; i++) {
        struct dli_memory_effect *effect = &round->effect[i];
        struct dli_memory_key *key = effect->key;

        key->effect = NULL;
        key->watchers--;
        if (writes && (effect->value || key->value))
            dli_memory_key_set(world, key, effect->value, effect->size, effect->ends);
        else
            free(effect->value);
        dli_memory_key_done(world, key);
    }
    free(round->effect);
    round->effect = NULL;
    round->effects = 0;
}

static int has_changed(const struct round *round)
{
    for (size_t i = 0; i < round->watches; i++) {
        dli_memory_key_settle(round->memory->world, round->watch[i].key);
        if (round->watch[i].key->changed != round->watch[i].changed)
            return 1;
    }
    return 0;
}

static void commit(struct round *round)
{
    struct dli_request *request = &round->job.request;

    if (has_changed(round)) {
        dli_memory_fail(request, DLOCK_CONFLICT, "a watched key was changed; nothing was written");
        return;
    }
    fold(round);
    finish(round, request->status == DLOCK_OK);
}

void dli_memory_round(struct dli_memory *memory, struct dli_request *request)
{
    struct round *round = request->own;
    const struct dli_txn_step *step = round->step;
    struct dli_memory_key *key;

    if (step->verb == DLI_TXN_COMMIT) {
        commit(round);
        return;
    }
    if (!(key = dli_memory_key(memory->world, step->key, step->key_size))) {
        no_memory(round);
        return;
    }
    if (step->verb == DLI_TXN_WATCH)
        watch(round, key);
    else
        read_value(round, key);
    dli_memory_key_done(memory->world, key);
}

/* ---- the table of store/txn.h */

/* A rollback needs nobody. 0: the step needs the world. */
static int do_at_once(struct round *round, struct dli_txn_step *step)
{
    if (step->verb != DLI_TXN_ROLLBACK)
        return 0;
    step->status = DLOCK_OK;
    clear(round);
    return 1;
}

static struct dli_request *prepare(struct round *round, struct dli_txn_step *step, void (*done)(struct dli_request *))
{
    struct dli_request *request = &round->job.request;

    round->step = step;
    request->verb = DLI_VERBS;
    request->own = round;
    request->done = done;
    request->reason = &step->reason;
    request->deadline = dli_now() + round->memory->patience;
    return request;
}

static void settle(struct round *round)
{
    if (dli_txn_answered(round->step, round->job.request.status))
        clear(round);
}

static void execute(struct dli_txn_step *step, int lane)
{
    struct round *round = round_at(step->txn);

    if (do_at_once(round, step))
        return;
    dli_memory_execute(round->memory->lane[lane], prepare(round, step, NULL));
    settle(round);
}

static void done(struct dli_request *request)
{
    struct round *round = request->own;

    settle(round);
    round->step->done(round->step);
}

static int push(struct dli_txn_step *step, int lane)
{
    struct round *round = round_at(step->txn);

    if (do_at_once(round, step)) {
        step->done(step);
        return 0;
    }
    return dli_memory_push(round->memory->lane[lane], prepare(round, step, done)) == DLOCK_OK ? 0 : -1;
}

static dlock_status keep(struct dli_txn *txn, const struct dli_txn_write *write, dlock_error *reason)
{
    return dli_txn_keep(&round_at(txn)->writes, write, reason);
}

static void drop(struct dli_txn *txn)
{
    clear(round_at(txn));
}

static void round_free(struct dli_txn *txn)
{
    clear(round_at(txn));
    free(round_at(txn));
}

/* The keys belong to the parent's world. */
static void free_in_child(struct dli_txn *txn)
{
    free_room(round_at(txn));
    free(round_at(txn));
}

static const struct dli_txn_ops ops = {
    .free = round_free, .free_child = free_in_child, .drop = drop, .write = keep, .execute = execute, .push = push};

struct dli_txn *dli_memory_txn_new(struct dli_store *store)
{
    struct round *round = calloc(1, sizeof *round);

    if (!round)
        return NULL;
    round->base.ops = &ops;
    round->memory = dli_memory_of(store);
    dli_list_init(&round->job.link);
    return &round->base;
}
