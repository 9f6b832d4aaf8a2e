/*
 * open.c: the store in the memory of this process: its table of operations, its life.
 */
#include "memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"

/* ---- places and requests */

static struct dli_place *place_new(struct dli_store *store, const struct dli_kind *kind, const char *name, size_t size)
{
    struct dli_place *place = malloc(sizeof *place + size);

    (void)store;
    if (!place)
        return NULL;
    place->kind = kind;
    place->size = size;
    memcpy(place->name, name, size);
    return place;
}

static void place_free(struct dli_place *place)
{
    free(place);
}

static const char *place_name(const struct dli_place *place)
{
    return place->name;
}

static struct dli_request *request_new(struct dli_store *store)
{
    struct dli_memory_job *job = calloc(1, sizeof *job);

    (void)store;
    if (!job)
        return NULL;
    dli_list_init(&job->link);
    return &job->request;
}

static void request_free(struct dli_request *request)
{
    if (request)
        free(dli_memory_job_of(request));
}

static uint32_t shard(const struct dli_store *store, const struct dli_place *place)
{
    (void)store, (void)place;
    return 0;
}

static int next_server(struct dli_store *store, int server)
{
    return store && server < 0 ? 0 : -1; /* there is one */
}

/* ---- all who wait are told: there is nothing to subscribe to */

static void want(struct dli_store *store, const struct dli_place *place)
{
    (void)store, (void)place;
}

static void subscribe(struct dli_store *store, const struct dli_kind *kind, const struct dli_place *place,
                      const char *owner, int on, int64_t *listeners)
{
    (void)store, (void)kind, (void)place, (void)owner, (void)on, (void)listeners;
}

static void forget(struct dli_store *store, int64_t *listeners)
{
    (void)store, (void)listeners;
}

/* ---- the store */

static void stats(struct dli_store *store, int64_t *all)
{
    all[DLOCK_STAT_COMMANDS] += __atomic_load_n(&dli_memory_of(store)->commands, __ATOMIC_RELAXED);
}

static void store_free(struct dli_store *store)
{
    struct dli_memory *memory = dli_memory_of(store);

    dli_memory_leave(memory);
    dli_memory_free_faults(memory);
    free(memory);
}

static void unused(struct dli_store *store)
{
    dli_memory_quit(dli_memory_of(store));
}

static const struct dli_store_ops ops = {
    .free = store_free,
    .unused = unused,
    .stats = stats,
    .fault = dli_memory_do_fault,
    .place_new = place_new,
    .place_free = place_free,
    .place_name = place_name,
    .request_new = request_new,
    .request_free = request_free,
    .shard = shard,
    .next_server = next_server,
    .txn_new = dli_memory_txn_new,
    .lane_new = dli_memory_lane_new,
    .lane_free = dli_memory_lane_free,
    .push = dli_memory_push,
    .execute = dli_memory_execute,
    .want = want,
    .subscribe = subscribe,
    .forget = forget,
    .push_urgent = dli_memory_push,
    .step = dli_memory_step,
    .alarm = dli_memory_alarm,
    .sleep = dli_memory_sleep,
    .awake = dli_memory_awake,
    .shut = dli_memory_shut,
};

static const struct dli_store_traits traits = {
    .where = "in memory",
    .kinds_text = "all kinds",
    .kinds = UINT32_MAX,
    .can = DLI_CAN_LINE | DLI_CAN_PASS | DLI_CAN_ACQUIRE_ALL | DLI_CAN_GATE | DLI_CAN_ADOPT | DLI_CAN_TRANSACTIONS |
           DLI_CAN_WAKE,
};

dlock_status dli_memory_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                             dlock_error *box)
{
    struct dli_memory *memory = calloc(1, sizeof *memory);

    if (!memory)
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    memcpy(memory->name, site->service, sizeof memory->name);
    snprintf(memory->text, sizeof memory->text, "%.*s", (int)sizeof memory->text - 1, site->target.text);
    memory->patience = options->number[DLI_OPT_COMMAND_TIMEOUT_MS] * DLI_MEMORY_MS;
    dli_list_init(&memory->link);
    dli_list_init(&memory->messages);
    dli_list_init(&memory->faults);
    memory->store.ops = &ops;
    memory->store.traits = &traits;
    memory->store.text = memory->text;
    if (dli_memory_enter(memory)) {
        free(memory);
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    }
    *ret = &memory->store;
    return DLOCK_OK;
}
