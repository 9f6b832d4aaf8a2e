/*
 * fuzz_store.c: a whole store (store/store.h) against servers that reply anything: one server, sentinels, a cluster, a
 * quorum. Handshakes, sentinels, the subscriber, map refreshes, votes, repeats and redirects run as in a client, in one
 * thread, on sockets whose other ends are here and with a clock that the input moves. Every request that was pushed is
 * answered once, results are in bounds, and no sentence has the password.
 *
 * fuzz_net.c is the network, the clock and the servers.
 */
#include <poll.h>

#include "base/options.h"
#include "base/url.h"
#include "fuzz_net.h"
#include "fuzz_words.h"
#include "redis/redis.h"
#include "sys/sys.h"

enum { SLOTS = 8, STEPS = 120, ROWS = 3, MS = 1000 };

/* ---- callbacks of the store */

static void note_hook(void *owner)
{
    REQUIRE(owner == &fuzz_now);
}

static void note_target(void *owner, const struct dli_message_target *target)
{
    note_hook(owner);
    REQUIRE(dli_kind_find(target->family) && target->number >= 0 && target->size < 1 << 20);
}

static void heard(void *owner, const char *space, size_t size)
{
    note_hook(owner);
    REQUIRE(space && size < 1 << 20);
}

static void granted(void *owner, const struct dli_message_target *target, const struct dli_pushed *grant)
{
    note_target(owner, target);
    REQUIRE(grant->seq >= 0 && grant->token >= 0 && grant->tokens > 0);
}

static void gate(void *owner, const struct dli_message_target *target, int64_t ms)
{
    note_target(owner, target);
    REQUIRE(ms == -1);
}

static void check_text(const char *text)
{
    if (!fuzz_printable(text) || strstr(text, SECRET))
        fuzz_broken(text, __FILE__, __LINE__);
}

static void log_line(void *owner, dlock_status status, const char *text)
{
    note_hook(owner);
    REQUIRE(dli_status_find(status));
    check_text(text);
}

static const struct dli_store_hooks hooks = {.up = note_hook,
                                             .down = note_hook,
                                             .heard = heard,
                                             .subscribed = note_target,
                                             .unsubscribed = note_target,
                                             .hint = note_target,
                                             .rumour = note_target,
                                             .granted = granted,
                                             .gate = gate,
                                             .log = log_line};

/* ---- requests */

static struct slot {
    struct dli_request *request;
    struct dli_place *place;
    const struct dli_kind *kind;
    dlock_error reason;
    int under_way;
    struct dli_renewal row[ROWS];
    struct dli_multi_row taking[ROWS];
    struct dli_findings found;
} slot[SLOTS];

static void check_result(struct slot *s)
{
    const struct dli_request *request = s->request;
    const struct dli_answer *answer = &request->exchange.answer;

    if (request->verb == DLI_VERB_EXCHANGE) {
        REQUIRE(answer->status == request->status &&
                (answer->status == DLOCK_OK || answer->got != DLI_TRY_GRANTED ||
                 answer->status == DLOCK_NOT_REPLICATED || answer->status == DLOCK_SERVER_FORGOT ||
                 answer->status == DLOCK_PROTOCOL_ERROR));
        if (answer->status == DLOCK_OK && answer->got == DLI_TRY_GRANTED)
            REQUIRE(request->exchange.wish.want && answer->token > 0 && answer->tokens >= 1 &&
                    answer->tokens <= request->exchange.wish.block && answer->token >= request->above);
    }
    if (request->verb == DLI_VERB_ACQUIRE_ALL && request->status == DLOCK_OK && request->multi.result == DLI_MULTI_ALL)
        for (int i = 0; i < request->multi.count; i++)
            REQUIRE(s->taking[i].token > 0 && s->taking[i].tokens <= s->taking[i].block);
}

static void done(struct dli_request *request)
{
    struct slot *s = request->context;

    REQUIRE(s->request == request && s->under_way);
    REQUIRE(dli_status_find(request->status));
    s->under_way = 0;
    check_text(s->reason.message);
    check_result(s);
    s->reason = (dlock_error){.code = DLOCK_OK};
}

static void fill_rows(struct slot *s, struct fuzz *in)
{
    for (int i = 0; i < ROWS; i++) {
        s->row[i] = (struct dli_renewal){.kind = s->kind, .place = s->place, .lease = 30000 * MS, .permits = 1};
        dli_id(s->row[i].owner, UUID, i + 1);
        s->taking[i] = (struct dli_multi_row){.place = s->place, .lease = 30000 * MS, .block = 1 + fuzz_below(in, 65)};
        dli_id(s->taking[i].owner, UUID, i + 1);
    }
}

static void fill_exchange(struct slot *s, struct fuzz *in)
{
    struct dli_exchange *exchange = &s->request->exchange;
    unsigned how = fuzz_byte(in);
    int may_drop = (s->kind->pass || !(how & 1)) && !s->kind->momentary;

    memset(exchange, 0, sizeof *exchange);
    if (s->kind->momentary)
        how |= 1;
    exchange->wish = (struct dli_wish){.want = how & 1,
                                       .drop = (how & 2 || !(how & 1)) && may_drop ? 2 : 0,
                                       .lease = s->kind->lasting ? INT64_MAX : 30000 * MS,
                                       .block = 1 + how / 4,
                                       .beat = 4000 * MS,
                                       .attempt = 1000 * MS,
                                       .seq = 1 + fuzz_below(in, 4),
                                       .mode = (enum dli_mode)(how / 8 % 3),
                                       .patient = how / 16 % 2};
    exchange->keep_ms = 86400000;
    if (exchange->wish.want)
        dli_id(exchange->want, UUID, 1);
    if (exchange->wish.drop)
        dli_id(exchange->drop, UUID, 2);
}

static void fill(struct slot *s, struct fuzz *in, const struct dli_store *store)
{
    static const enum dli_verb verbs[] = {DLI_VERB_EXCHANGE, DLI_VERB_EXCHANGE, DLI_VERB_RENEW, DLI_VERB_ACQUIRE_ALL,
                                          DLI_VERB_FORCE,    DLI_VERB_INSPECT,  DLI_VERB_GATE,  DLI_VERB_GATE_LEFT,
                                          DLI_VERB_CHANGE,   DLI_VERB_PING,     DLI_VERB_CHECK, DLI_VERB_PROVISION};
    struct dli_request *request = s->request;

    request->verb = verbs[fuzz_below(in, 12)];
    if ((request->verb == DLI_VERB_PROVISION && !request->quarantine) ||
        (request->verb == DLI_VERB_CHANGE && s->kind->id < DLOCK_KIND_SEMAPHORE) ||
        (request->verb == DLI_VERB_RENEW && !s->kind->renewal) ||
        (request->verb == DLI_VERB_FORCE && !s->kind->forcible) ||
        ((request->verb == DLI_VERB_ACQUIRE_ALL || request->verb == DLI_VERB_CHECK) &&
         s->kind->id != DLOCK_KIND_MUTEX) ||
        (request->verb == DLI_VERB_ACQUIRE_ALL && !dli_store_can(store, DLI_CAN_ACQUIRE_ALL)))
        request->verb = DLI_VERB_PING;
    request->kind =
        request->verb == DLI_VERB_RENEW || request->verb == DLI_VERB_ACQUIRE_ALL || request->verb == DLI_VERB_PING
            ? NULL
            : s->kind;
    request->place = request->kind ? s->place : NULL;
    if (request->verb == DLI_VERB_EXCHANGE)
        fill_exchange(s, in);
    fill_rows(s, in);
    if (request->verb == DLI_VERB_RENEW) {
        request->renew.row = s->row;
        request->renew.count = 1 + (int)fuzz_below(in, ROWS);
        request->renew.again = 0;
    } else if (request->verb == DLI_VERB_ACQUIRE_ALL) {
        request->multi.row = s->taking;
        request->multi.count = 1 + (int)fuzz_below(in, ROWS);
        request->multi.keep_ms = 86400000;
    } else if (request->verb == DLI_VERB_CHECK) {
        dli_findings_free(&s->found);
        request->check.found = &s->found;
        request->check.replicated = request->check.keyless = 0;
    } else if (request->verb == DLI_VERB_GATE) {
        request->gate_ms = (int64_t)fuzz_below(in, 3) * 1000;
    } else if (request->verb == DLI_VERB_CHANGE) {
        request->change.what = "add";
        request->change.number = 1;
        dli_id(request->change.id, UUID, 9);
    }
}

static void push(struct fuzz *in, struct dli_store *store, struct dli_lane *lane)
{
    struct slot *s = &slot[fuzz_below(in, SLOTS)];
    dlock_status status;

    if (s->under_way)
        return;
    fill(s, in, store);
    s->request->deadline = fuzz_now + (1 + (int64_t)fuzz_byte(in)) * 20 * MS;
    s->request->repeatable = s->request->verb != DLI_VERB_CHECK;
    s->request->above = fuzz_below(in, 4) ? 0 : 100;
    s->request->direct = 0;
    s->request->brisk = s->request->verb == DLI_VERB_RENEW && fuzz_below(in, 2);
    s->request->done = done;
    s->request->context = s;
    s->request->reason = &s->reason;
    s->under_way = 1;
    status = fuzz_below(in, 4) ? store->ops->push(lane, s->request) : store->ops->push_urgent(lane, s->request);
    REQUIRE(status == DLOCK_OK || status == DLOCK_OUT_OF_MEMORY || status == DLOCK_CLOSED ||
            status == DLOCK_UNSUPPORTED);
    if (status != DLOCK_OK)
        s->under_way = 0;
}

/* ---- an input */

static void listen_to(struct fuzz *in, struct dli_store *store)
{
    static int64_t listeners[SLOTS];
    unsigned which = fuzz_below(in, SLOTS);
    struct slot *s = &slot[which];
    char owner[DLI_OWNER_MAX];

    dli_id(owner, UUID, 1);
    store->ops->want(store, s->place);
    if (listeners[which] <= 0)
        listeners[which] = 0;
    if (fuzz_below(in, 2) || listeners[which] == 0)
        store->ops->subscribe(store, s->kind, s->place, owner, 1, &listeners[which]);
    else
        store->ops->subscribe(store, s->kind, s->place, owner, 0, &listeners[which]);
}

static void rest(struct dli_store *store, struct dli_lane *lane)
{
    static struct pollfd fds[DLI_LANE_FDS];
    int count = store->ops->sleep(lane, fds);

    REQUIRE(count >= -1 && count <= DLI_LANE_FDS);
    for (int i = 0; i < count; i++)
        REQUIRE(fds[i].fd >= -1);
    store->ops->awake(lane);
}

static void step(struct fuzz *in, struct dli_store *store, struct dli_lane *lane)
{
    unsigned what = fuzz_byte(in);
    int64_t at = store->ops->alarm(lane);

    if (what < 60)
        push(in, store, lane);
    else if (what < 170)
        fuzz_net_answer(in);
    else if (what < 190 && at > fuzz_now && at < fuzz_now + 60000000)
        fuzz_now = at;
    else if (what < 210)
        fuzz_now += (int64_t)fuzz_byte(in) * MS;
    else if (what < 225 && fuzz_net_peers() > 0)
        fuzz_net_drop((int)(what % (unsigned)fuzz_net_peers()));
    else if (what < 240)
        listen_to(in, store);
    else
        rest(store, lane);
    store->ops->step(lane, fuzz_now);
    fuzz_net_drain(in);
}

static void begin_slots(struct dli_store *store, struct fuzz *in)
{
    static const char *const names[] = {"a", "{a}", "a{b}c", "lock"};

    for (int i = 0; i < SLOTS; i++) {
        const char *name = names[fuzz_below(in, 4)];

        slot[i].kind = dli_kind_find(1 + (int32_t)fuzz_below(in, DLOCK_KIND_LATCH));
        if (!dli_store_has(store, slot[i].kind))
            slot[i].kind = dli_kind_find(DLOCK_KIND_MUTEX);
        slot[i].request = store->ops->request_new(store);
        slot[i].place = store->ops->place_new(store, slot[i].kind, name, strlen(name));
        REQUIRE(slot[i].request && slot[i].place);
        if (store->ops->place_in)
            store->ops->place_in(slot[i].place, fuzz_below(in, 2) ? strlen(name) / 2 : 0);
    }
}

static void end_slots(const struct dli_store *store)
{
    for (int i = 0; i < SLOTS; i++) {
        REQUIRE(!slot[i].under_way);
        store->ops->request_free(slot[i].request);
        store->ops->place_free(slot[i].place);
        dli_findings_free(&slot[i].found);
        memset(&slot[i], 0, sizeof slot[i]);
    }
}

static const struct dli_secret secret = {{1, 2}}; /* as in the message of fuzz_net.c */

static void run(struct fuzz *in, struct dli_store *store)
{
    int wake_fd = dli_wake_open();
    struct dli_lane *lane;
    int64_t all[DLOCK_STAT_COUNT] = {0};

    REQUIRE(wake_fd >= 0);
    store->hooks = &hooks;
    store->owner = &fuzz_now;
    store->uuid = UUID;
    store->secret = &secret;
    lane = store->ops->lane_new(store, 0, wake_fd);
    REQUIRE(lane);
    begin_slots(store, in);
    store->ops->awake(lane);
    for (int steps = 0; in->left > 0 && steps < STEPS; steps++)
        step(in, store, lane);
    store->ops->shut(lane);
    end_slots(store);
    store->ops->stats(store, all);
    store->ops->lane_free(lane);
    dli_fd_close(wake_fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {
        "redis+unix://:" SECRET "@/x?private_connections=0",
        "redis://127.0.0.1:1/3?quarantine_ms=60000&replicas=1&password=" SECRET,
        "redis+sentinel://:" SECRET "@127.0.0.1:1,127.0.0.1:2/s%1Bvc?replicas=all&sentinel_password=" SECRET,
        "redis+sentinel://:" SECRET "@127.0.0.1:1,[::1]:2/svc?sentinel_password=" SECRET,
        "redis+cluster://127.0.0.1:1,127.0.0.1:2?password=" SECRET,
        "redis+cluster://127.0.0.1:1,127.0.0.1:2?quarantine_ms=60000&replicas=all&password=" SECRET,
        "redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?password=" SECRET,
        "redis+quorum://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?quarantine_ms=60000&password=" SECRET,
    };
    struct fuzz in = {data, size};
    struct dlock_options set;
    struct dli_site site;
    struct dli_store *store;
    unsigned kind = fuzz_byte(&in);

    fuzz_net_begin(kind & 8);
    dli_options_init(&set);
    REQUIRE(dli_url_parse(urls[kind % 8], &site, &set, NULL) == DLOCK_OK);
    set.number[DLI_OPT_CONNECTS_PER_SECOND] = 1000;
    REQUIRE(dli_redis_open(&set, &site, &store, NULL) == DLOCK_OK);
    run(&in, store);
    store->ops->free(store);
    dli_options_fini(&set);
    fuzz_net_end();
    return 0;
}
