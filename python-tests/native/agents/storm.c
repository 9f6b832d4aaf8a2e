/*
 * storm.c: random calls of the whole public ABI from several threads, on a client of a server and on a client of an
 * address without a server. Handles are freed, clients are closed or freed, and processes fork in between:
 *
 *     storm URL DEAD_URL SEED ROUNDS CALLS [nofork | spoiled]
 *
 * Each round has new clients. Checks: every answer is in the table and has its sentence, no sentence has a password,
 * every call that promised an event has exactly one, a round ends in time, and after it all permits of the plain
 * semaphore are back, and under AddressSanitizer that no more than MEMORY bytes are in use. spoiled: the server's answers are changed
 * on their way, so nothing is said about permits, timeouts are short, and nobody forks. Prints "calls N events N rounds N forks N
 * bytes N", the last one the most that were in use. Exits with 1 and a sentence if a rule is broken;
 * SIGALRM ends it when it hangs. Sanitizers check the rest.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "storm.h"

enum { ROUND_SECONDS = 240, PERMITS = 100, CLOSE_MS = 10000, MEMORY = 32 << 20 };

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

struct side storm_side[SIDES];
int64_t storm_calls_made; /* atomic */
int storm_keep_permits;
static int64_t events, forks, steps, calls, bytes; /* atomics, except calls */
static int spoiled;
static const char *url[SIDES];

uint32_t storm_draw(struct self *self, uint32_t below)
{
    self->random = self->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(self->random >> 33) % below;
}

_Noreturn void storm_wrong(const char *what, int64_t number)
{
    printf("%s: %" PRId64 "\n", what, number);
    fflush(stdout);
    _exit(1);
}

dlock_status storm_said(struct self *self, dlock_status status)
{
    __atomic_add_fetch(&storm_calls_made, 1, __ATOMIC_RELAXED);
    if (strcmp(dlock_status_name(status), "UNKNOWN") == 0)
        storm_wrong("a status that is none", status);
    if (status == DLOCK_OK)
        return status;
    if (dlock_error_code(self->why) != status)
        storm_wrong("the box has another status", status);
    if (!*dlock_error_message(self->why) || strstr(dlock_error_message(self->why), SECRET))
        storm_wrong("no sentence, or one with a password", status);
    return status;
}

/* ---- events */

static void take_event(struct side *side, struct self *self)
{
    int64_t field[DLOCK_FIELD_COUNT];
    uint8_t asked = TAG_ASKED;
    size_t count = 0;

    dlock_event_unpack(self->event, field, DLOCK_FIELD_COUNT, &count, NULL);
    if (strstr(dlock_event_text(self->event), SECRET))
        storm_wrong("an event with a password", field[DLOCK_FIELD_TYPE]);
    __atomic_add_fetch(&events, 1, __ATOMIC_RELAXED);
    switch (field[DLOCK_FIELD_TYPE]) {
    case DLOCK_EVENT_ACQUIRED:
    case DLOCK_EVENT_ACQUIRE_FAILED:
    case DLOCK_EVENT_RELEASED:
    case DLOCK_EVENT_RELEASE_FAILED:
    case DLOCK_EVENT_DONE:
        if (field[DLOCK_FIELD_TAG] < 0 || field[DLOCK_FIELD_TAG] >= TAGS ||
            !__atomic_compare_exchange_n(&side->tag[field[DLOCK_FIELD_TAG]], &asked, TAG_ANSWERED, 0, __ATOMIC_SEQ_CST,
                                         __ATOMIC_SEQ_CST))
            storm_wrong("an event that nobody waits for, or the second one", field[DLOCK_FIELD_TAG]);
        break;
    default:
        break;
    }
}

/* 0 when no more events will come. */
static int read_event(struct side *side, struct self *self)
{
    dlock_status status = DLOCK_CLOSED;

    pthread_rwlock_rdlock(&side->mutex);
    if (side->client)
        status = storm_said(self, dlock_client_next(side->client, storm_draw(self, 5), self->event, self->why));
    if (status == DLOCK_CLOSED && side->client)
        __atomic_store_n(&side->ended, 1, __ATOMIC_SEQ_CST);
    pthread_rwlock_unlock(&side->mutex);
    if (status == DLOCK_OK)
        take_event(side, self);
    else if (status != DLOCK_CLOSED && status != DLOCK_NO_EVENT)
        storm_wrong("no event, and why", status);
    return status != DLOCK_CLOSED;
}

static void check_memory(void)
{
    int64_t now, most = __atomic_load_n(&bytes, __ATOMIC_RELAXED);

    if (!__sanitizer_get_current_allocated_bytes)
        return;
    now = (int64_t)__sanitizer_get_current_allocated_bytes();
    if (now > MEMORY)
        storm_wrong("bytes in use", now);
    while (now > most && !__atomic_compare_exchange_n(&bytes, &most, now, 1, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

static void *run_reader(void *argument)
{
    struct self *self = argument;
    int live = 1, dead = 1;

    while (live || dead) {
        live = live && read_event(&storm_side[LIVE], self);
        dead = dead && read_event(&storm_side[DEAD], self);
        check_memory();
    }
    return NULL;
}

static void *run_worker(void *argument)
{
    struct self *self = argument;

    for (int64_t i = 0; i < calls; i++) {
        storm_call(self);
        __atomic_add_fetch(&steps, 1, __ATOMIC_RELAXED);
        if (storm_draw(self, 8) == 0)
            sched_yield();
    }
    for (int i = 0; i < SIDES; i++) {
        dlock_txn_free(self->txn[i]);
        self->txn[i] = NULL;
    }
    return NULL;
}

/* ---- a round */

static dlock_options *draw_options(struct self *self, int which)
{
    static const char *const values[][2] = {
        {"linger_ms", "20"},     {"busy_poll_us", "0"},     {"private_connections", "0"},
        {"handover_turns", "0"}, {"watchdog_threads", "3"}, {"event_limit", "16"},
        {"min_hold_ms", "5"},    {"interruptible", "true"}, {"lock_delay_ms", "50"}};
    dlock_options *options = dlock_options_new();

    dlock_options_set(options, "lease_ms", storm_draw(self, 2) ? "1000" : "5000", NULL);
    dlock_options_set(options, "connects_per_second", "1000", NULL);
    if (which == DEAD) {
        dlock_options_set(options, "connect_timeout_ms", "20", NULL);
        dlock_options_set(options, "command_timeout_ms", "20", NULL);
        dlock_options_set(options, "release_timeout_ms", "20", NULL);
        dlock_options_set(options, "password", SECRET, NULL);
    } else if (spoiled) {
        dlock_options_set(options, "connect_timeout_ms", "200", NULL);
        dlock_options_set(options, "command_timeout_ms", "200", NULL);
        dlock_options_set(options, "release_timeout_ms", "200", NULL);
    }
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (storm_draw(self, 4) == 0)
            dlock_options_set(options, values[i][0], values[i][1], NULL);
    return options;
}

/* Options that the engine does not have are drawn again. */
static dlock_client *open_client(struct self *self, int which)
{
    dlock_client *client = NULL;
    dlock_status status;

    do {
        dlock_options *options = draw_options(self, which);

        status = dlock_client_open(url[which], options, &client, self->why);
        dlock_options_free(options);
    } while (status == DLOCK_INVALID_OPTION);
    if (status != DLOCK_OK)
        storm_wrong(dlock_error_message(self->why), which);
    return client;
}

static void begin_side(struct self *self, int which)
{
    struct side *side = &storm_side[which];

    memset(side->tag, TAG_NONE, sizeof side->tag);
    side->tags = 0;
    side->ended = 0;
    side->client = open_client(self, which);
}

/* Anything a round may do with a client before its threads have ended. */
static void disturb(struct self *self, int which)
{
    struct side *side = &storm_side[which];
    uint32_t how = storm_draw(self, 4);
    int64_t time = which == DEAD || storm_keep_permits ? storm_draw(self, 200) : CLOSE_MS;

    pthread_rwlock_rdlock(&side->mutex);
    if (how == 1)
        storm_said(self, dlock_client_close(side->client, time, self->why));
    else if (how == 2)
        storm_said(self, dlock_client_submit_close(side->client, time, self->why));
    pthread_rwlock_unlock(&side->mutex);
    if (how != 3 || !storm_keep_permits)
        return;
    pthread_rwlock_wrlock(&side->mutex);
    dlock_client_free(side->client);
    side->client = NULL;
    pthread_rwlock_unlock(&side->mutex);
}

/* Returns when the workers have done a part of a round. */
static void wait_for_some(struct self *self)
{
    int64_t part = calls * WORKERS * (2 + (int64_t)storm_draw(self, 8)) / 10;

    while (__atomic_load_n(&steps, __ATOMIC_RELAXED) < part)
        usleep(1000);
}

/* The workers have ended, readers have not. 1: everything was confirmed. */
static int close_side(struct self *self, int which)
{
    struct side *side = &storm_side[which];
    dlock_status status = DLOCK_CLOSED;

    pthread_rwlock_rdlock(&side->mutex);
    if (side->client)
        status = storm_said(self, dlock_client_close(side->client, CLOSE_MS, self->why));
    pthread_rwlock_unlock(&side->mutex);
    return status == DLOCK_OK;
}

static void end_side(struct self *self, int which)
{
    struct side *side = &storm_side[which];

    for (uint32_t i = 0; side->client && i < side->tags && i < TAGS; i++)
        if (side->tag[i] == TAG_ASKED)
            storm_wrong("no event came for the call with the tag", i);
    for (int i = 0; i < PLACES; i++) { /* handles may be freed before or after their client */
        if (storm_draw(self, 2))
            continue;
        dlock_lock_free(side->place[i].lock);
        side->place[i].lock = NULL;
    }
    dlock_client_free(side->client);
    side->client = NULL;
    for (int i = 0; i < PLACES; i++) {
        dlock_lock_free(side->place[i].lock);
        side->place[i].lock = NULL;
    }
}

/*
 * The plain semaphore, which has no lease: set it before, and check that all permits are back afterwards. Some engines
 * do not have it.
 */
static void look_at_permits(struct self *self, int after)
{
    dlock_client *client = NULL;
    dlock_lock *lock = NULL;
    dlock_status status;
    int64_t available = -1;
    int tries = 0;

    if (dlock_client_open(url[LIVE], NULL, &client, self->why) != DLOCK_OK)
        storm_wrong(dlock_error_message(self->why), 0);
    status = dlock_lock_new(client, DLOCK_KIND_SEMAPHORE, "storm s", 7, NULL, &lock, self->why);
    if (status != DLOCK_OK && status != DLOCK_UNSUPPORTED)
        storm_wrong(dlock_error_message(self->why), 0);
    if (lock && !after)
        dlock_semaphore_set(lock, PERMITS, self->why);
    while (lock && after && dlock_semaphore_available(lock, &available, self->why) == DLOCK_OK &&
           available != PERMITS) {
        if (tries++ == 100)
            storm_wrong("permits that did not come back; there are", available);
        usleep(50000);
    }
    dlock_lock_free(lock);
    dlock_client_close(client, 1000, NULL);
    dlock_client_free(client);
}

static void run_round(struct self *self, int may_fork)
{
    pthread_t worker[WORKERS], reader[READERS];
    int confirmed;

    alarm(ROUND_SECONDS);
    steps = 0;
    storm_keep_permits = storm_draw(&self[0], 4) == 0;
    if (!spoiled)
        look_at_permits(&self[0], 0);
    for (int i = 0; i < SIDES; i++)
        begin_side(&self[0], i);
    for (int i = 0; i < READERS; i++)
        pthread_create(&reader[i], NULL, run_reader, &self[1 + WORKERS + i]);
    for (int i = 0; i < WORKERS; i++)
        pthread_create(&worker[i], NULL, run_worker, &self[1 + i]);
    for (int i = 0; may_fork && i < 3; i++) {
        usleep(storm_draw(&self[0], 20000));
        storm_fork(&self[0]);
        __atomic_add_fetch(&forks, 1, __ATOMIC_RELAXED);
    }
    wait_for_some(&self[0]);
    for (int i = 0; i < SIDES; i++)
        disturb(&self[0], i);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(worker[i], NULL);
    confirmed = close_side(&self[0], LIVE);
    close_side(&self[0], DEAD);
    for (int i = 0; i < READERS; i++)
        pthread_join(reader[i], NULL);
    for (int i = 0; i < SIDES; i++)
        end_side(&self[0], i);
    if (confirmed && !storm_keep_permits && !spoiled)
        look_at_permits(&self[0], 1);
}

static void begin_selves(struct self *self, uint64_t seed)
{
    memset(self, 0, (1 + WORKERS + READERS) * sizeof *self);
    for (int i = 0; i < 1 + WORKERS + READERS; i++) {
        self[i].index = i;
        self[i].random = seed * 64U + (unsigned)i;
        self[i].why = dlock_error_new();
        self[i].event = dlock_event_new();
        self[i].options = dlock_options_new();
    }
}

int main(int count, char **words)
{
    struct self self[1 + WORKERS + READERS];
    dlock_client *always = NULL;        /* a store in memory ends with its last client */
    pthread_rwlockattr_t writers_first; /* readers without a pause would keep out the thread that frees a client */
    int64_t rounds;

    if (count < 6)
        storm_wrong("URL DEAD_URL SEED ROUNDS CALLS [nofork | spoiled]", count);
    url[LIVE] = words[1];
    url[DEAD] = words[2];
    rounds = strtoll(words[4], NULL, 10);
    calls = strtoll(words[5], NULL, 10);
    spoiled = count > 6 && strcmp(words[6], "spoiled") == 0;
    begin_selves(self, strtoull(words[3], NULL, 10));
    pthread_rwlockattr_init(&writers_first);
#ifdef __GLIBC__ /* musl has no choice */
    pthread_rwlockattr_setkind_np(&writers_first, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
#endif
    for (int i = 0; i < SIDES; i++) {
        pthread_rwlock_init(&storm_side[i].mutex, &writers_first);
        for (int j = 0; j < PLACES; j++)
            pthread_rwlock_init(&storm_side[i].place[j].mutex, NULL);
    }
    if (dlock_client_open(url[LIVE], NULL, &always, self->why) != DLOCK_OK)
        storm_wrong(dlock_error_message(self->why), LIVE);
    for (int64_t i = 0; i < rounds; i++)
        run_round(self, count == 6);
    dlock_client_free(always);
    for (int i = 0; i < 1 + WORKERS + READERS; i++) {
        dlock_error_free(self[i].why);
        dlock_event_free(self[i].event);
        dlock_options_free(self[i].options);
    }
    printf("calls %" PRId64 " events %" PRId64 " rounds %" PRId64 " forks %" PRId64 " bytes %" PRId64 "\n",
           storm_calls_made, events, rounds, forks, bytes);
    return 0;
}
