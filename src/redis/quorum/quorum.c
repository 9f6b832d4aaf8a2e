/*
 * quorum.c: the store on a quorum of servers: its table of operations, and its lanes. Mutexes: see inner.h. A request
 * goes into its lane's inbox; the lane's thread makes a round of it. The nodes' hooks are set before a second thread
 * uses the store.
 */
#include "inner.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quorum.h"
#include "redis/single/single.h"
#include "sys/sys.h"

enum { MS = 1000, KEEP_LEAST_MS = 60000 };

/* ---- requests */

static struct dli_request *request_new(struct dli_store *store)
{
    void *ballot = calloc(1, sizeof(struct dli_ballot));

    (void)store;
    return ballot; /* the request is its first member */
}

static void request_free(struct dli_request *request)
{
    if (request)
        free(dli_ballot_of(request));
}

static uint32_t shard(const struct dli_store *store, const struct dli_place *place)
{
    (void)store;
    (void)place;
    return 0;
}

/* ---- lanes */

static void lane_free(struct dli_lane *lane)
{
    if (!lane)
        return;
    for (int i = 0; i < lane->quorum->count; i++)
        lane->quorum->node[i].store->ops->lane_free(lane->lane[i]);
    dli_membership_fini(lane);
    pthread_mutex_destroy(&lane->mutex);
    free(lane);
}

static struct dli_lane *lane_new(struct dli_store *store, int index, int wake_fd)
{
    struct dli_quorum *quorum = dli_quorum_of(store);
    struct dli_lane *lane = calloc(1, sizeof *lane);

    if (!lane)
        return NULL;
    lane->quorum = quorum;
    lane->index = index;
    lane->wake_fd = wake_fd;
    lane->inbox_end = &lane->inbox;
    lane->wake_at = INT64_MAX;
    lane->noise = (uint64_t)dli_now() << 8 | (uint64_t)(index + 1);
    dli_random(&lane->noise, sizeof lane->noise);
    lane->noise |= 1;
    dli_list_init(&lane->rounds);
    pthread_mutex_init(&lane->mutex, NULL);
    if (dli_membership_init(lane))
        goto fail;
    for (int i = 0; i < quorum->count; i++) {
        struct dli_store *node = quorum->node[i].store;

        node->uuid = store->uuid;
        node->secret = store->secret;
        if (!(lane->lane[i] = node->ops->lane_new(node, index, wake_fd)))
            goto fail;
    }
    return lane;
fail:
    lane_free(lane);
    return NULL;
}

/* Append to the inbox. DLOCK_CLOSED when the lane is shut. */
static dlock_status put(struct dli_lane *lane, struct dli_ballot *ballot)
{
    int wake, shut;

    ballot->next = NULL;
    pthread_mutex_lock(&lane->mutex);
    shut = lane->shut;
    wake = lane->sleeping && !shut;
    if (!shut) {
        lane->sleeping = 0;
        *lane->inbox_end = ballot;
        lane->inbox_end = &ballot->next;
    }
    pthread_mutex_unlock(&lane->mutex);
    if (wake)
        dli_wake_set(lane->wake_fd);
    return shut ? DLOCK_CLOSED : DLOCK_OK;
}

static dlock_status push(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_ballot *ballot = dli_ballot_of(request);

    ballot->sleeps = 0;
    return put(lane, ballot);
}

static void execute(struct dli_lane *lane, struct dli_request *request)
{
    struct dli_ballot *ballot = dli_ballot_of(request);
    uint32_t *word;

    ballot->done = 0;
    ballot->sleeps = 1;
    ballot->slot = __atomic_add_fetch(&lane->slots, 1, __ATOMIC_RELAXED) % DLI_SLEEP_WORDS;
    word = &lane->words[ballot->slot];
    if (put(lane, ballot) != DLOCK_OK) {
        ballot->sleeps = 0;
        request->sent = request->refused = 0;
        dli_ballot_answer(lane, ballot, DLOCK_CLOSED);
        return;
    }
    while (!__atomic_load_n(&ballot->done, __ATOMIC_ACQUIRE)) {
        uint32_t seen = __atomic_load_n(word, __ATOMIC_ACQUIRE);

        if (!__atomic_load_n(&ballot->done, __ATOMIC_ACQUIRE))
            dli_futex_sleep(word, seen);
    }
}

static struct dli_ballot *take_inbox(struct dli_lane *lane)
{
    struct dli_ballot *first;

    pthread_mutex_lock(&lane->mutex);
    first = lane->inbox;
    lane->inbox = NULL;
    lane->inbox_end = &lane->inbox;
    pthread_mutex_unlock(&lane->mutex);
    return first;
}

static void start_rounds(struct dli_lane *lane)
{
    struct dli_ballot *ballot, *inbox = take_inbox(lane);

    while ((ballot = inbox)) {
        inbox = ballot->next;
        dli_round_start(lane, ballot, dli_now());
    }
}

/* An answer may push a request to a server that was stepped already: then all are stepped again. */
static void step(struct dli_lane *lane, int64_t now)
{
    const struct dli_quorum *quorum = lane->quorum;

    lane->clock = 0;
    start_rounds(lane);
    dli_round_wake_all(lane, now, 0);
    for (int again = 0; again < 4; again++) {
        lane->stirred = 0;
        for (int i = 0; i < quorum->count; i++)
            quorum->node[i].store->ops->step(lane->lane[i], dli_now());
        dli_membership_judge(lane);
        if (!lane->stirred)
            break;
    }
    dli_lane_wake_sleepers(lane);
}

static int64_t alarm_at(const struct dli_lane *lane)
{
    const struct dli_quorum *quorum = lane->quorum;
    int64_t at = lane->stirred ? 0 : lane->wake_at;

    for (int i = 0; i < quorum->count; i++) {
        int64_t other = quorum->node[i].store->ops->alarm(lane->lane[i]);

        at = other < at ? other : at;
    }
    return at;
}

static int lane_sleep(struct dli_lane *lane, struct pollfd *fds)
{
    const struct dli_quorum *quorum = lane->quorum;
    int count = 0, news = 0;

    for (int i = 0; i < quorum->count; i++) {
        int more = quorum->node[i].store->ops->sleep(lane->lane[i], fds + count);

        news |= more < 0;
        count += more > 0 ? more : 0;
    }
    pthread_mutex_lock(&lane->mutex);
    news |= lane->inbox != NULL;
    lane->sleeping = !news;
    pthread_mutex_unlock(&lane->mutex);
    return news ? -1 : count;
}

static void awake(struct dli_lane *lane)
{
    const struct dli_quorum *quorum = lane->quorum;

    pthread_mutex_lock(&lane->mutex);
    lane->sleeping = 0;
    pthread_mutex_unlock(&lane->mutex);
    for (int i = 0; i < quorum->count; i++)
        quorum->node[i].store->ops->awake(lane->lane[i]);
}

/* The nodes answer no more requests, so all rounds end. */
static void shut(struct dli_lane *lane)
{
    const struct dli_quorum *quorum = lane->quorum;
    struct dli_ballot *ballot, *inbox;

    pthread_mutex_lock(&lane->mutex);
    lane->shut = 1;
    pthread_mutex_unlock(&lane->mutex);
    for (int i = 0; i < quorum->count; i++)
        quorum->node[i].store->ops->shut(lane->lane[i]);
    dli_round_wake_all(lane, dli_now(), 1);
    inbox = take_inbox(lane);
    while ((ballot = inbox)) {
        inbox = ballot->next;
        ballot->request.sent = ballot->request.refused = 0;
        dli_ballot_answer(lane, ballot, DLOCK_CLOSED);
    }
    dli_lane_wake_sleepers(lane);
}

/* ---- the store */

static void stats(struct dli_store *store, int64_t *all)
{
    struct dli_quorum *quorum = dli_quorum_of(store);

    for (int i = 0; i < quorum->count; i++)
        quorum->node[i].store->ops->stats(quorum->node[i].store, all);
}

static void store_free(struct dli_store *store)
{
    struct dli_quorum *quorum = dli_quorum_of(store);

    for (int i = 0; i < quorum->count; i++)
        if (quorum->node[i].store)
            quorum->node[i].store->ops->free(quorum->node[i].store);
    pthread_mutex_destroy(&quorum->mutex);
    free(quorum);
}

static const struct dli_store_ops ops = {
    .free = store_free,
    .stats = stats,
    .place_new = dli_quorum_place_new,
    .place_in = dli_quorum_place_in,
    .place_free = dli_quorum_place_free,
    .place_name = dli_quorum_place_name,
    .request_new = request_new,
    .request_free = request_free,
    .shard = shard,
    .next_server = dli_list_next,
    .lane_new = lane_new,
    .lane_free = lane_free,
    .push = push,
    .execute = execute,
    .want = dli_quorum_want,
    .subscribe = dli_quorum_subscribe,
    .forget = dli_quorum_forget,
    .push_urgent = push,
    .step = step,
    .alarm = alarm_at,
    .sleep = lane_sleep,
    .awake = awake,
    .shut = shut,
};

static dlock_status open_node(struct dli_quorum *quorum, int index, const struct dlock_options *options,
                              const struct dli_target *target, dlock_error *box)
{
    struct dli_site *site = calloc(1, sizeof *site);
    struct dli_server *node = &quorum->node[index];
    dlock_status status;

    if (!site)
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    site->target = *target;
    status = dli_single_open(options, site, &node->store, box);
    free(site);
    if (status != DLOCK_OK)
        return status;
    node->quorum = quorum;
    node->index = index;
    node->store->hooks = &dli_server_hooks;
    node->store->owner = node;
    quorum->count = index + 1;
    dli_single_among(node->store, DLI_VOTERS_MAX);
    return DLOCK_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const struct dli_target *const *)a)->text, (*(const struct dli_target *const *)b)->text);
}

/* In an order that all clients share: sorted by address, or as written when the quorum has a name. */
static dlock_status open_nodes(struct dli_quorum *quorum, const struct dlock_options *options,
                               const struct dli_site *site, dlock_error *box)
{
    const struct dli_target *node[DLI_VOTERS_MAX];
    dlock_status status = DLOCK_OK;

    for (int i = 0; i < site->count; i++)
        node[i] = &site->node[i];
    if (!*dli_options_text(options, DLI_OPT_QUORUM_NAME))
        qsort(node, (size_t)site->count, sizeof(const struct dli_target *), by_name);
    for (int i = 0; i < site->count && status == DLOCK_OK; i++)
        status = open_node(quorum, i, options, node[i], box);
    return status;
}

dlock_status dli_quorum_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                             dlock_error *box)
{
    struct dli_quorum *quorum = calloc(1, sizeof *quorum);
    int64_t lease_ms = options->number[DLI_OPT_LEASE_MS], needed = options->number[DLI_OPT_QUORUM];
    dlock_status status;

    if (!quorum)
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    pthread_mutex_init(&quorum->mutex, NULL);
    if ((status = open_nodes(quorum, options, site, box)) != DLOCK_OK) {
        store_free(&quorum->store);
        return status;
    }
    quorum->needed = needed ? (int)needed : quorum->count / 2 + 1;
    quorum->patience = options->number[DLI_OPT_COMMAND_TIMEOUT_MS] * MS;
    quorum->keep_ms = 2 * lease_ms > KEEP_LEAST_MS ? 2 * lease_ms : KEEP_LEAST_MS;
    quorum->space = dli_options_text(options, DLI_OPT_NAMESPACE);
    quorum->named = *dli_options_text(options, DLI_OPT_QUORUM_NAME) != '\0';
    dli_quorum_view(quorum, (int)options->number[DLI_OPT_DB], dli_options_text(options, DLI_OPT_QUORUM_NAME));
    snprintf(quorum->text, sizeof quorum->text, "%s", site->target.text);
    quorum->store.ops = &ops;
    quorum->store.text = quorum->text;
    quorum->store.connect_time = quorum->node[0].store->connect_time;
    quorum->store.traits = &dli_quorum_traits;
    *ret = &quorum->store;
    return DLOCK_OK;
}
