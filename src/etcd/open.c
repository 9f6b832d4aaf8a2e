/*
 * open.c: the store on etcd: its options, its table of operations, its life.
 */
#include "etcd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "round.h"

enum { MS = 1000, RENEWALS = 32 }; /* most of them need no answer of the server */

static uint32_t shard(const struct dli_store *store, const struct dli_place *place)
{
    (void)store, (void)place;
    return 0;
}

static void stats(struct dli_store *store, int64_t *all)
{
    struct dli_etcd *etcd = dli_etcd_of(store);

    all[DLOCK_STAT_COMMANDS] += __atomic_load_n(&etcd->lanes.commands, __ATOMIC_RELAXED);
    dli_budget_count(&etcd->budget, &all[DLOCK_STAT_CONNECTS], &all[DLOCK_STAT_CONNECT_FAILURES]);
}

/* Every number in line is watched: there is nothing to subscribe to but gates. */
static void want(struct dli_store *store, const struct dli_place *place)
{
    struct dli_etcd *etcd = dli_etcd_of(store);

    (void)place;
    if (!__atomic_exchange_n(&etcd->follows, 1, __ATOMIC_ACQ_REL))
        dli_wake_set(etcd->lanes.lane[0]->wake_fd);
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
    return dli_lanes_may_listen(&dli_etcd_of(store)->lanes);
}

static int listen(struct dli_store *store, int64_t deadline)
{
    return dli_lanes_listen(&dli_etcd_of(store)->lanes, deadline);
}

static void ring(struct dli_store *store)
{
    dli_lanes_ring(&dli_etcd_of(store)->lanes);
}

static void store_free(struct dli_store *store)
{
    struct dli_etcd *etcd = dli_etcd_of(store);

    dli_etcd_sessions_free(etcd);
    dli_etcd_forget_all(etcd);
    dli_etcd_slots_free(etcd);
    dli_etcd_markers_free(etcd);
    dli_grpc_call_free(&etcd->login);
    dli_grpc_call_free(&etcd->alive);
    dli_grpc_call_free(&etcd->proof);
    dli_grpc_call_free(&etcd->watches);
    free(etcd->token);
    dli_tls_free(etcd->tls);
    dli_budget_fini(&etcd->budget);
    dli_lanes_fini(&etcd->lanes);
    free(etcd);
}

static const struct dli_store_ops ops = {
    .free = store_free,
    .stats = stats,
    .place_new = dli_etcd_place_new,
    .place_free = dli_etcd_place_free,
    .place_name = dli_etcd_place_name,
    .request_new = dli_etcd_request_new,
    .request_free = dli_etcd_request_free,
    .txn_new = dli_etcd_txn_new,
    .shard = shard,
    .lane_new = dli_etcd_lane_new,
    .lane_free = dli_etcd_lane_free,
    .push = dli_etcd_push,
    .execute = dli_etcd_execute,
    .want = want,
    .subscribe = subscribe,
    .forget = forget,
    .may_listen = may_listen,
    .listen = listen,
    .ring = ring,
    .push_urgent = dli_etcd_push,
    .step = dli_lane_step,
    .alarm = dli_lane_alarm,
    .sleep = dli_lane_sleep,
    .awake = dli_lane_awake,
    .shut = dli_etcd_shut,
};

static const struct dli_store_traits traits = {
    .where = "on etcd",
    .kinds_text = "mutexes, fair and read-write locks, permit semaphores, latches",
    .kinds = 1U << DLOCK_KIND_MUTEX | 1U << DLOCK_KIND_FAIR | 1U << DLOCK_KIND_READ | 1U << DLOCK_KIND_WRITE |
             1U << DLOCK_KIND_PERMIT_SEMAPHORE | 1U << DLOCK_KIND_LATCH,
    .can = DLI_CAN_LINE | DLI_CAN_WAKE | DLI_CAN_ACQUIRE_ALL | DLI_CAN_GATE | DLI_CAN_KEEP | DLI_CAN_TRANSACTIONS,
};

static void set_members(struct dli_etcd *etcd, const struct dlock_options *options, const struct dli_site *site)
{
    etcd->members = site->count;
    for (int i = 0; i < site->count; i++) {
        struct dli_conn_config *config = &etcd->member[i];

        config->protocol = &dli_grpc_protocol;
        config->target = site->node[i];
        config->username = config->password = config->client_name = "";
        config->connect_timeout = options->number[DLI_OPT_CONNECT_TIMEOUT_MS] * MS;
        config->tls = etcd->tls;
    }
    etcd->grpc.member = etcd->member;
    etcd->grpc.count = etcd->members;
    etcd->grpc.at = (int)((uint64_t)dli_now() % (uint64_t)etcd->members);
    etcd->grpc.budget = &etcd->budget;
    etcd->grpc.up = dli_etcd_up;
    etcd->grpc.down = dli_etcd_down;
    etcd->grpc.owner = etcd;
    etcd->grpc.password = dli_options_text(options, DLI_OPT_PASSWORD);
}

/* An outcome is found out within the time of two calls; the marker lasts longer. */
static void set_times(struct dli_etcd *etcd, const struct dlock_options *options)
{
    int64_t lease = (options->number[DLI_OPT_LEASE_MS] + options->number[DLI_OPT_LOCK_DELAY_MS]) * MS;

    etcd->patience = options->number[DLI_OPT_COMMAND_TIMEOUT_MS] * MS;
    etcd->drift_ppm = options->number[DLI_OPT_DRIFT_PPM];
    etcd->markers_last = lease > 4 * etcd->patience ? lease : 4 * etcd->patience;
}

static void set_lists(struct dli_etcd *etcd)
{
    dli_list_init(&etcd->spare);
    dli_list_init(&etcd->loose);
    dli_list_init(&etcd->sessions);
    dli_list_init(&etcd->ended);
    dli_list_init(&etcd->exams);
    dli_list_init(&etcd->markers);
    dli_list_init(&etcd->resting);
}

dlock_status dli_etcd_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                           dlock_error *box)
{
    struct dli_etcd *etcd = calloc(1, sizeof *etcd);
    dlock_status status = DLOCK_OK;

    if (!etcd)
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    if (site->target.tls)
        status = dli_tls_new(options, &etcd->tls, box);
    if (status != DLOCK_OK) {
        free(etcd);
        return status;
    }
    dli_lanes_init(&etcd->lanes, &dli_etcd_lanes_ops);
    dli_budget_init(&etcd->budget, (int)options->number[DLI_OPT_CONNECTS_PER_SECOND], (uint64_t)dli_now());
    set_lists(etcd);
    set_members(etcd, options, site);
    etcd->user = dli_options_text(options, DLI_OPT_USERNAME);
    etcd->password = dli_options_text(options, DLI_OPT_PASSWORD);
    etcd->anonymous = !etcd->user[0] && !dli_options_text(options, DLI_OPT_TLS_CERT_FILE)[0];
    set_times(etcd, options);
    snprintf(etcd->text, sizeof etcd->text, "%.*s", (int)sizeof etcd->text - 1, site->target.text);
    etcd->store.ops = &ops;
    etcd->store.traits = &traits;
    etcd->store.text = etcd->text;
    etcd->store.renewals = RENEWALS;
    etcd->store.connect_time = options->number[DLI_OPT_CONNECT_TIMEOUT_MS] * MS;
    *ret = &etcd->store;
    return DLOCK_OK;
}
