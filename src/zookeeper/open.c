/*
 * open.c: the store on ZooKeeper: its options, its table of operations, its life.
 */
#include "zookeeper.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inner.h"

enum { MS = 1000, RENEWALS = 2 }; /* the first one of each lock sets a watch */

static uint32_t shard(const struct dli_store *store, const struct dli_place *place)
{
    (void)store, (void)place;
    return 0;
}

static void stats(struct dli_store *store, int64_t *all)
{
    struct dli_zk *zk = dli_zk_of(store);

    all[DLOCK_STAT_COMMANDS] += __atomic_load_n(&zk->lanes.commands, __ATOMIC_RELAXED);
    dli_budget_count(&zk->budget, &all[DLOCK_STAT_CONNECTS], &all[DLOCK_STAT_CONNECT_FAILURES]);
}

/* Every number in line is watched: there is nothing to subscribe to but gates. */
static void want(struct dli_store *store, const struct dli_place *place)
{
    struct dli_zk *zk = dli_zk_of(store);

    (void)place;
    if (!__atomic_exchange_n(&zk->follows, 1, __ATOMIC_ACQ_REL))
        dli_wake_set(zk->lanes.lane[0]->wake_fd);
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

static int may_listen(struct dli_store *store)
{
    return dli_lanes_may_listen(&dli_zk_of(store)->lanes);
}

static int listen(struct dli_store *store, int64_t deadline)
{
    return dli_lanes_listen(&dli_zk_of(store)->lanes, deadline);
}

static void ring(struct dli_store *store)
{
    dli_lanes_ring(&dli_zk_of(store)->lanes);
}

static void store_free(struct dli_store *store)
{
    struct dli_zk *zk = dli_zk_of(store);

    dli_zk_sessions_free(zk);
    dli_zk_forget_all(zk);
    dli_zk_place_free(zk->bells);
    dli_tls_free(zk->tls);
    dli_budget_fini(&zk->budget);
    dli_lanes_fini(&zk->lanes);
    free(zk);
}

static const struct dli_store_ops ops = {
    .free = store_free,
    .stats = stats,
    .place_new = dli_zk_place_new,
    .place_free = dli_zk_place_free,
    .place_name = dli_zk_place_name,
    .request_new = dli_zk_request_new,
    .request_free = dli_zk_request_free,
    .shard = shard,
    .lane_new = dli_zk_lane_new,
    .lane_free = dli_lane_free,
    .push = dli_zk_push,
    .execute = dli_zk_execute,
    .want = want,
    .subscribe = subscribe,
    .forget = forget,
    .may_listen = may_listen,
    .listen = listen,
    .ring = ring,
    .push_urgent = dli_zk_push,
    .step = dli_lane_step,
    .alarm = dli_lane_alarm,
    .sleep = dli_lane_sleep,
    .awake = dli_lane_awake,
    .shut = dli_zk_shut,
};

static const struct dli_store_traits traits = {
    .where = "on ZooKeeper",
    .kinds_text = "mutexes, fair and read-write locks, permit semaphores, latches",
    .kinds = 1U << DLOCK_KIND_MUTEX | 1U << DLOCK_KIND_FAIR | 1U << DLOCK_KIND_READ | 1U << DLOCK_KIND_WRITE |
             1U << DLOCK_KIND_PERMIT_SEMAPHORE | 1U << DLOCK_KIND_LATCH,
    .can = DLI_CAN_LINE | DLI_CAN_WAKE | DLI_CAN_GATE | DLI_CAN_KEEP,
};

static void set_members(struct dli_zk *zk, const struct dlock_options *options, const struct dli_site *site)
{
    zk->members = site->count;
    for (int i = 0; i < site->count; i++) {
        struct dli_conn_config *config = &zk->member[i];

        config->protocol = &dli_zk_protocol;
        config->target = site->node[i];
        config->username = config->password = config->client_name = "";
        config->connect_timeout = options->number[DLI_OPT_CONNECT_TIMEOUT_MS] * MS;
        config->tls = zk->tls;
    }
}

static void set_lists(struct dli_zk *zk)
{
    dli_list_init(&zk->sessions);
    dli_list_init(&zk->ended);
    dli_list_init(&zk->checks);
}

dlock_status dli_zookeeper_open(const struct dlock_options *options, const struct dli_site *site,
                                struct dli_store **ret, dlock_error *box)
{
    struct dli_zk *zk = calloc(1, sizeof *zk);
    dlock_status status = DLOCK_OK;

    if (!zk)
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    snprintf(zk->chroot, sizeof zk->chroot, "%s", site->service);
    if (!(zk->bells = dli_zk_place_new(&zk->store, dli_kind_find(DLOCK_KIND_MUTEX), "dlock_gates", 11)))
        status = dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    else if (site->target.tls)
        status = dli_tls_new(options, &zk->tls, box);
    if (status != DLOCK_OK) {
        dli_zk_place_free(zk->bells);
        free(zk);
        return status;
    }
    dli_lanes_init(&zk->lanes, &dli_zk_lanes_ops);
    dli_budget_init(&zk->budget, (int)options->number[DLI_OPT_CONNECTS_PER_SECOND], (uint64_t)dli_now());
    set_lists(zk);
    set_members(zk, options, site);
    zk->user = dli_options_text(options, DLI_OPT_USERNAME);
    zk->password = dli_options_text(options, DLI_OPT_PASSWORD);
    zk->patience = options->number[DLI_OPT_COMMAND_TIMEOUT_MS] * MS;
    zk->lease = options->number[DLI_OPT_LEASE_MS] * MS;
    zk->drift_ppm = options->number[DLI_OPT_DRIFT_PPM];
    snprintf(zk->text, sizeof zk->text, "%.*s", (int)sizeof zk->text - 1, site->target.text);
    zk->store.ops = &ops;
    zk->store.traits = &traits;
    zk->store.text = zk->text;
    zk->store.renewals = RENEWALS;
    zk->store.connect_time = options->number[DLI_OPT_CONNECT_TIMEOUT_MS] * MS;
    *ret = &zk->store;
    return DLOCK_OK;
}
