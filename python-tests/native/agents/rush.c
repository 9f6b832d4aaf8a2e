/*
 * rush.c: threads of one client that submit, begin, read events and block, all at the same time and with random pauses,
 * against a server whose connections may break. Each call that promised an event has exactly one, and no lock has two
 * holders.
 *
 *     rush URL SUBMITTERS SEED CALLS
 *
 * Prints "granted N failed N prompt N at_once N" (prompt: submitted calls whose event was there when they returned).
 * Exits with 1 and a sentence if a rule is broken. The last calls overlap with the end of the client.
 */
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "dlock.h"

enum { THREADS = 4, LOCKS = 3 };

static dlock_client *client;
static dlock_lock *locks[LOCKS];
static int holders[LOCKS];       /* atomic: the believed holder */
static int64_t answers[THREADS]; /* atomic: 1 + 2 * tag + whether it was DLOCK_OK, of the last event for the thread */
static int64_t granted, failed, prompt, at_once; /* atomic */
static int over;                                 /* atomic */
static int64_t calls;
static int submitters; /* the other threads block */

static _Noreturn void wrong(const char *what, int64_t number)
{
    printf("%s: %" PRId64 "\n", what, number);
    exit(1);
}

/* ---- one thread */

struct self {
    int index;
    uint64_t random;
    dlock_error *why;
    dlock_event *event;
};

static uint32_t draw(struct self *self, uint32_t below)
{
    self->random = self->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(self->random >> 33) % below;
}

static void pause_some(struct self *self)
{
    switch (draw(self, 4)) {
    case 0:
        sched_yield();
        break;
    case 1:
        usleep(draw(self, 200));
        break;
    default:
        break;
    }
}

static void check_exclusive(int at, int by)
{
    int now = __atomic_add_fetch(&holders[at], by, __ATOMIC_SEQ_CST);

    if (now < 0 || now > 1)
        wrong("holders", now);
}

/* Give an event to the thread whose tag it has. 0 when the queue has ended. */
static int read_event(struct self *self, int64_t wait)
{
    dlock_status status = dlock_client_next(client, wait, self->event, self->why);
    int64_t field[DLOCK_FIELD_COUNT], tag, before, want = 0;
    size_t count = 0;

    if (status != DLOCK_OK)
        return status == DLOCK_NO_EVENT;
    dlock_event_unpack(self->event, field, DLOCK_FIELD_COUNT, &count, NULL);
    if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_LOG || field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_AT_RISK ||
        field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_LOST)
        return 1;
    tag = field[DLOCK_FIELD_TAG];
    before = 1 + 2 * tag + (field[DLOCK_FIELD_STATUS] == DLOCK_OK);
    if (!__atomic_compare_exchange_n(&answers[tag % THREADS], &want, before, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        wrong("an event before the last was waited for, or twice", tag);
    return 1;
}

/* Whether the call with the tag succeeded. The thread reads events, its own and others', until it knows. */
static int await(struct self *self, int64_t tag)
{
    int64_t answer;
    int late = 0; /* the queue may end while another thread delivers the event */

    read_event(self, 0);
    if (__atomic_load_n(&answers[self->index], __ATOMIC_SEQ_CST))
        __atomic_add_fetch(&prompt, 1, __ATOMIC_RELAXED);
    while (!(answer = __atomic_exchange_n(&answers[self->index], 0, __ATOMIC_SEQ_CST)))
        if (!read_event(self, draw(self, 2)) && (usleep(1000) || late++ > 10000))
            wrong("the queue ended before an answer", tag);
    if ((answer - 1) / 2 != tag)
        wrong("another call's answer", (answer - 1) / 2);
    return (answer & 1) == 0;
}

/* Whether a begun call succeeded. */
static int ended(struct self *self, dlock_status status, int64_t tag)
{
    if (status == DLOCK_OK)
        __atomic_add_fetch(&at_once, 1, __ATOMIC_RELAXED);
    return status == DLOCK_OK || (status == DLOCK_WOULD_BLOCK && await(self, tag));
}

static int acquire(struct self *self, int at, int64_t tag)
{
    int64_t owner = 1 + self->index, wait = (int64_t)draw(self, 3) * 20, token;

    if (self->index >= submitters)
        return dlock_lock_acquire(locks[at], owner, wait, &token, self->why) == DLOCK_OK;
    if (draw(self, 2))
        return ended(self, dlock_lock_begin_acquire(locks[at], owner, wait, tag, &token, self->why), tag);
    return dlock_lock_submit_acquire(locks[at], owner, wait, tag, self->why) == DLOCK_OK && await(self, tag);
}

/* It may be lost, or the outcome unknown: other tests check that. */
static void release(struct self *self, int at, int64_t tag)
{
    int64_t owner = 1 + self->index;

    if (self->index >= submitters)
        dlock_lock_release(locks[at], owner, self->why);
    else if (draw(self, 2))
        ended(self, dlock_lock_begin_release(locks[at], owner, tag, self->why), tag);
    else if (dlock_lock_submit_release(locks[at], owner, tag, self->why) == DLOCK_OK)
        await(self, tag);
}

static void *run(void *argument)
{
    struct self *self = argument;

    for (int64_t i = 0; i < calls && !__atomic_load_n(&over, __ATOMIC_RELAXED); i++) {
        int64_t tag = 2 * i * THREADS + self->index;
        int at = (int)draw(self, LOCKS), won = acquire(self, at, tag);

        __atomic_add_fetch(won ? &granted : &failed, 1, __ATOMIC_RELAXED);
        if (!won)
            continue;
        check_exclusive(at, 1);
        pause_some(self);
        check_exclusive(at, -1);
        release(self, at, tag + THREADS);
        pause_some(self);
    }
    return NULL;
}

static void begin(struct self *self, int index, uint64_t seed)
{
    self->index = index;
    self->random = seed * THREADS + (uint64_t)index;
    self->why = dlock_error_new();
    self->event = dlock_event_new();
}

static void end(struct self *self)
{
    dlock_error_free(self->why);
    dlock_event_free(self->event);
}

int main(int count, char **words)
{
    struct self self[THREADS + 1];
    pthread_t thread[THREADS];

    if (count != 5)
        wrong("URL SUBMITTERS SEED CALLS", count);
    submitters = atoi(words[2]);
    calls = strtoll(words[4], NULL, 10);
    for (int i = 0; i <= THREADS; i++)
        begin(&self[i], i, strtoull(words[3], NULL, 10));
    if (dlock_client_open(words[1], NULL, &client, self[0].why) != DLOCK_OK)
        wrong(dlock_error_message(self[0].why), 0);
    for (int i = 0; i < LOCKS; i++) {
        char name[32];
        int size = snprintf(name, sizeof name, "rush %d", i);

        if (dlock_lock_new(client, DLOCK_KIND_MUTEX, name, (size_t)size, NULL, &locks[i], self[0].why) != DLOCK_OK)
            wrong(dlock_error_message(self[0].why), i);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, run, &self[i]);
    while (__atomic_load_n(&granted, __ATOMIC_RELAXED) + __atomic_load_n(&failed, __ATOMIC_RELAXED) <
           calls * THREADS * 3 / 4)
        read_event(&self[THREADS], 1);
    dlock_client_close(client, 2000, self[THREADS].why);
    __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < LOCKS; i++)
        dlock_lock_free(locks[i]);
    dlock_client_free(client);
    for (int i = 0; i <= THREADS; i++)
        end(&self[i]);
    printf("granted %" PRId64 " failed %" PRId64 " prompt %" PRId64 " at_once %" PRId64 "\n", granted, failed, prompt,
           at_once);
    return 0;
}
