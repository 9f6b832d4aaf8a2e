/*
 * single.c: the store on one server. A lane has one shared connection; a caller uses a private one while the shared one
 * is idle. Lane 0 also has the subscriber.
 * What guards what: see inner.h.
 */
#include "inner.h"

#include <poll.h>
#include <stdlib.h>

#include "sys/sys.h"

enum { MS = 1000 };

/* ---- places and requests */

static struct dli_place *place_new(struct dli_store *store, const struct dli_kind *kind, const char *name, size_t size)
{
    (void)store;
    return dli_place_new(kind, name, size);
}

static struct dli_request *request_new(struct dli_store *store)
{
    struct dli_request *request = dli_job_new();

    if (request && dli_single_of(store)->quarantine.longest_ms > 0)
        request->quarantine = &dli_single_of(store)->quarantine;
    return request;
}

static int next_server(struct dli_store *store, int server)
{
    return store && server < 0 ? 0 : -1; /* there is one */
}

/* With a quarantine, locks of several namespaces share no request: each namespace has a marker of its own. */
static uint32_t shard(const struct dli_store *store, const struct dli_place *place)
{
    const struct single *single = (const struct single *)(const void *)store; /* its first member */

    return single->quarantine.longest_ms > 0 ? dli_place_space(place) : 0;
}

/* ---- lanes */

static struct dli_lane *lane_new(struct dli_store *store, int index, int wake_fd)
{
    struct single *single = dli_single_of(store);
    struct dli_lane *lane = calloc(1, sizeof *lane);

    if (!lane)
        return NULL;
    lane->single = single;
    lane->index = index;
    lane->trimmed = dli_now();
    dli_redis_txn_lane_init(&lane->txns, &single->txns, index, wake_fd);
    dli_replicas_init(&lane->replicas, &single->config, &single->budget, wake_fd, single->replicas, &single->reloads);
    if (dli_pipe_init(&lane->pipe, &single->config, &single->budget, wake_fd, single->patience, &single->reloads))
        goto fail_pipe;
    lane->pipe.spare = &single->pool;
    if (index > 0)
        return lane;
    single->pool.wake_fd = wake_fd;
    dli_ears_init(&single->ears, store->uuid);
    if (dli_subscriber_init(&lane->subscriber, &single->config, &single->budget, &single->ears, wake_fd,
                            single->patience))
        goto fail_subscriber;
    lane->subscriber.hooks = &dli_single_subscriber_hooks;
    lane->subscriber.owner = store;
    dli_listener_init(&lane->listener, &lane->subscriber, &lane->pipe.mutex);
    single->first = lane;
    return lane;

fail_subscriber:
    dli_subscriber_fini(&lane->subscriber);
    dli_ears_fini(&single->ears);
fail_pipe:
    dli_pipe_fini(&lane->pipe);
    dli_replicas_fini(&lane->replicas);
    dli_redis_txn_lane_fini(&lane->txns);
    free(lane);
    return NULL;
}

static void lane_free(struct dli_lane *lane)
{
    if (!lane)
        return;
    if (lane->index == 0) {
        dli_listener_fini(&lane->listener);
        dli_subscriber_fini(&lane->subscriber);
        dli_ears_fini(&lane->single->ears);
    }
    dli_pipe_fini(&lane->pipe);
    dli_replicas_fini(&lane->replicas);
    dli_redis_txn_lane_fini(&lane->txns);
    free(lane);
}

/* Encode the call. alone: it is not sent in a batch. Returns 0, or -1 without memory. */
static int begin(struct dli_job *job, int alone)
{
    if (dli_job_begin(job))
        return -1;
    job->call.batch = alone ? 0 : dli_batch_of(&job->request);
    job->call.direct = job->request.direct;
    return 0;
}

static dlock_status hand_over(struct dli_lane *lane, struct dli_request *request, int urgent)
{
    struct dli_job *job = dli_job_of(request);
    int shut = 0;

    if (begin(job, urgent))
        return DLOCK_OUT_OF_MEMORY;
    if (dli_replicas_want(&lane->replicas, request))
        shut = dli_replicas_push(&lane->replicas, job, urgent);
    else if (urgent)
        dli_pipe_push_urgent(&lane->pipe, &job->call);
    else
        shut = dli_pipe_push(&lane->pipe, &job->call);
    if (!shut)
        __atomic_add_fetch(&lane->single->commands, 1, __ATOMIC_RELAXED);
    return shut ? DLOCK_CLOSED : DLOCK_OK;
}

static dlock_status push(struct dli_lane *lane, struct dli_request *request)
{
    return hand_over(lane, request, 0);
}

static dlock_status push_urgent(struct dli_lane *lane, struct dli_request *request)
{
    return hand_over(lane, request, 1);
}

/* On a private connection while the shared one is idle, else on the shared one. */
static void execute(struct dli_lane *lane, struct dli_request *request)
{
    struct single *single = lane->single;
    struct dli_job *job = dli_job_of(request);
    struct dli_call *call = &job->call;

    if (begin(job, 0)) {
        dli_fail(request->reason, DLOCK_OUT_OF_MEMORY, "no memory for the command");
        dli_job_fail(job, DLOCK_OUT_OF_MEMORY);
        return;
    }
    __atomic_add_fetch(&single->commands, 1, __ATOMIC_RELAXED);
    if (dli_replicas_want(&lane->replicas, request)) {
        dli_replicas_execute(&lane->replicas, job);
        return;
    }
    if (__atomic_load_n(&lane->pipe.load, __ATOMIC_RELAXED) == 0 &&
        dli_private_call(&single->pool, call, dli_pipe_ready(&lane->pipe))) {
        if (call->fallback)
            __atomic_add_fetch(&single->reloads, 1, __ATOMIC_RELAXED);
        return;
    }
    call->sleeps = 1;
    if (dli_pipe_push(&lane->pipe, call) == 0)
        dli_pipe_wait(&lane->pipe, call);
    else
        dli_job_fail(job, DLOCK_CLOSED);
}

static void step(struct dli_lane *lane, int64_t now)
{
    dli_pipe_step(&lane->pipe, now);
    dli_failure_report(&lane->failure, &lane->pipe, &lane->single->store, lane->single->store.text);
    dli_redis_txn_lane_step(&lane->txns, dli_now());
    dli_replicas_step(&lane->replicas, dli_now());
    if (lane->index > 0)
        return;
    dli_subscriber_leave(&lane->subscriber, __atomic_load_n(&lane->single->pool.left_at, __ATOMIC_ACQUIRE));
    dli_subscriber_step(&lane->subscriber, dli_now());
    if (now - lane->trimmed > DLI_PRIVATE_TRIM) {
        dli_private_trim(&lane->single->pool, now - DLI_PRIVATE_TRIM, !dli_pipe_ready(&lane->pipe));
        lane->trimmed = now;
    }
}

static int64_t alarm_at(const struct dli_lane *lane)
{
    int64_t at = dli_pipe_alarm(&lane->pipe), other = dli_redis_txn_lane_alarm(&lane->txns);

    at = other < at ? other : at;
    other = dli_replicas_alarm(&lane->replicas);
    at = other < at ? other : at;
    if (lane->index > 0)
        return other < at ? other : at;
    at = other < at ? other : at;
    other = dli_private_alarm(&lane->single->pool, lane->trimmed);
    at = other < at ? other : at;
    other = dli_subscriber_alarm(&lane->subscriber);
    return other < at ? other : at;
}

static int lane_sleep(struct dli_lane *lane, struct pollfd *fds)
{
    int count = 0;

    fds[count++] = dli_pipe_poll(&lane->pipe);
    if (lane->index == 0)
        fds[count++] = dli_listener_poll(&lane->listener);
    count += dli_redis_txn_lane_fds(&lane->txns, fds + count);
    count += dli_replicas_fds(&lane->replicas, fds + count);
    __atomic_store_n(&lane->pipe.sleeping, 1, __ATOMIC_SEQ_CST);
    count = __atomic_load_n(&lane->pipe.pushed, __ATOMIC_SEQ_CST) ? -1 : count;
    dli_pipe_leave(&lane->pipe);
    return count;
}

static void awake(struct dli_lane *lane)
{
    dli_pipe_enter(&lane->pipe);
    __atomic_store_n(&lane->pipe.sleeping, 0, __ATOMIC_SEQ_CST);
}

static void shut(struct dli_lane *lane)
{
    dli_pipe_shut(&lane->pipe);
    if (lane->index == 0) {
        dli_listener_shut(&lane->listener);
        dli_subscriber_disconnect(&lane->subscriber);
    }
    dli_private_shut(&lane->single->pool);
    dli_pipe_leave(&lane->pipe);
    dli_redis_txn_lane_shut(&lane->txns);
    dli_replicas_shut(&lane->replicas);
}

/* ---- the store */

static struct dli_txn *txn_new(struct dli_store *store)
{
    return dli_redis_txn_new(&dli_single_of(store)->txns, &dli_single_of(store)->config, &dli_single_of(store)->budget,
                             dli_single_of(store)->patience);
}

static void stats(struct dli_store *store, int64_t *all)
{
    struct single *single = dli_single_of(store);

    all[DLOCK_STAT_COMMANDS] += __atomic_load_n(&single->commands, __ATOMIC_RELAXED);
    all[DLOCK_STAT_SCRIPT_RELOADS] += __atomic_load_n(&single->reloads, __ATOMIC_RELAXED);
    dli_budget_count(&single->budget, &all[DLOCK_STAT_CONNECTS], &all[DLOCK_STAT_CONNECT_FAILURES]);
}

static void store_free(struct dli_store *store)
{
    struct single *single = dli_single_of(store);

    dli_private_fini(&single->pool);
    dli_redis_txns_fini(&single->txns);
    dli_tls_free(single->config.tls);
    dli_sentinels_free(single->config.sentinels);
    dli_budget_fini(&single->budget);
    free(single);
}

static const struct dli_store_ops ops = {
    .free = store_free,
    .stats = stats,
    .place_new = place_new,
    .place_in = dli_place_in,
    .place_free = dli_place_free,
    .place_name = dli_place_name,
    .request_new = request_new,
    .request_free = dli_job_free,
    .shard = shard,
    .next_server = next_server,
    .txn_new = txn_new,
    .lane_new = lane_new,
    .lane_free = lane_free,
    .push = push,
    .execute = execute,
    .want = dli_single_want,
    .subscribe = dli_single_subscribe,
    .forget = dli_single_forget,
    .may_listen = dli_single_may_listen,
    .listen = dli_single_listen,
    .ring = dli_single_ring,
    .push_urgent = push_urgent,
    .step = step,
    .alarm = alarm_at,
    .sleep = lane_sleep,
    .awake = awake,
    .shut = shut,
};

void dli_single_among(struct dli_store *store, int count)
{
    dli_single_of(store)->replies.most = DLI_REPLY_SHARED / count;
}

dlock_status dli_single_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                             dlock_error *box)
{
    struct single *single = calloc(1, sizeof *single);
    dlock_status status;

    if (!single)
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    dli_open_configure(&single->config, options, &site->target);
    single->replies.most = DLI_REPLY_SHARED;
    single->config.replies = &single->replies;
    if ((status = dli_open_reach(&single->config, options, site, box)) != DLOCK_OK) {
        free(single);
        return status;
    }
    single->config.leave = 1;
    single->replicas = dli_options_replicas(options);
    dli_quarantine_init(&single->quarantine, dli_options_text(options, DLI_OPT_NAMESPACE),
                        options->number[DLI_OPT_QUARANTINE_MS], options->number[DLI_OPT_DRIFT_PPM]);
    single->patience = options->number[DLI_OPT_COMMAND_TIMEOUT_MS] * MS;
    dli_budget_init(&single->budget, (int)options->number[DLI_OPT_CONNECTS_PER_SECOND], (uint64_t)dli_now());
    dli_redis_txns_init(&single->txns);
    dli_private_init(&single->pool, &single->config, &single->budget,
                     (int)options->number[DLI_OPT_PRIVATE_CONNECTIONS]);
    single->store.ops = &ops;
    single->store.traits = &dli_redis_traits;
    single->store.text = single->config.target.text;
    single->store.connect_time = single->config.connect_timeout;
    *ret = &single->store;
    return DLOCK_OK;
}
