/*
 * many.c: many submitted acquires of one lock that another owner of this process holds; then all waits end.
 *
 *     many URL COUNT END [KIND]
 *
 * KIND is "mutex", if it is left out, "write" or "semaphore": with one permit.
 * END is what ends them: "drain" (each owner gets the lock and releases it), "cancel" (in the order in which they came),
 * "shuffle" (in another order), "timeout" (of 1 second) or "close".
 *
 * Prints "queue N end N": CPU time of the process in nanoseconds per waiter, all threads. Exits with 1 and a sentence
 * when a call fails or an event is missing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dlock.h"

enum {
    FIRST = 100,
    STEP = 7,
    STRIDE = 7919 /* coprime to any count in use */,
    LONG = 600000,
    SHORT = 1000,
    FIELDS = 64
};

static dlock_client *client;
static dlock_lock *lock;
static dlock_error *reason;
static dlock_event *event;

static void good(dlock_status status, const char *call)
{
    if (status == DLOCK_OK)
        return;
    printf("%s: %d %s\n", call, (int)status, dlock_error_message(reason));
    exit(1);
}

static int64_t cpu_time(void)
{
    struct timespec time;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static int64_t owner_of(int64_t waiter)
{
    return FIRST + STEP * waiter;
}

static void queue_up(int64_t count, int64_t wait_ms)
{
    for (int64_t i = 0; i < count; i++)
        good(dlock_lock_submit_acquire(lock, owner_of(i), wait_ms, i, reason), "submit_acquire");
}

static void cancel_all(int64_t count, int64_t stride)
{
    for (int64_t i = 0, waiter = 0; i < count; i++, waiter = (waiter + stride) % count)
        good(dlock_lock_cancel(lock, owner_of(waiter), reason), "cancel");
}

/* One ending per waiter, with this status. A granted lock is released at once. */
static void take_events(int64_t count, int64_t expected)
{
    while (count > 0) {
        int64_t field[FIELDS];
        int64_t owner, status;
        size_t fields;

        good(dlock_client_next(client, LONG, event, reason), "next");
        if (dlock_event_type(event) != DLOCK_EVENT_ACQUIRED && dlock_event_type(event) != DLOCK_EVENT_ACQUIRE_FAILED)
            continue;
        good(dlock_event_unpack(event, field, FIELDS, &fields, reason), "unpack");
        owner = field[DLOCK_FIELD_OWNER];
        status = field[DLOCK_FIELD_STATUS];
        if (status != expected) {
            printf("owner %" PRId64 " has status %" PRId64 ": %s\n", owner, status, dlock_event_text(event));
            exit(1);
        }
        if (status == DLOCK_OK)
            good(dlock_lock_submit_release(lock, owner, 0, reason), "submit_release");
        count--;
    }
}

static void end(const char *how, int64_t count)
{
    int64_t expected = DLOCK_CANCELLED;

    if (!strcmp(how, "drain")) {
        good(dlock_lock_release(lock, 1, reason), "release");
        expected = DLOCK_OK;
    } else if (!strcmp(how, "cancel")) {
        cancel_all(count, 1);
    } else if (!strcmp(how, "shuffle")) {
        cancel_all(count, STRIDE);
    } else if (!strcmp(how, "timeout")) {
        expected = DLOCK_TIMED_OUT;
    } else {
        good(dlock_client_close(client, LONG, reason), "close");
        expected = DLOCK_CLOSED;
    }
    take_events(count, expected);
}

static void make_lock(const char *kind)
{
    int32_t number = DLOCK_KIND_MUTEX;

    if (!strcmp(kind, "write"))
        number = DLOCK_KIND_WRITE;
    if (!strcmp(kind, "semaphore"))
        number = DLOCK_KIND_SEMAPHORE;
    good(dlock_lock_new(client, number, kind, strlen(kind), NULL, &lock, reason), "new");
    if (number == DLOCK_KIND_SEMAPHORE && dlock_semaphore_set(lock, 1, reason) != DLOCK_UNCHANGED)
        good(dlock_error_code(reason), "set");
}

int main(int argc, char **argv)
{
    int64_t count = argc >= 4 ? strtoll(argv[2], NULL, 10) : 0, token, began, queued;

    if (count <= 0)
        return 2;
    reason = dlock_error_new();
    event = dlock_event_new();
    good(dlock_client_open(argv[1], NULL, &client, reason), "open");
    make_lock(argc == 5 ? argv[4] : "mutex");
    good(dlock_lock_acquire(lock, 1, LONG, &token, reason), "acquire");
    began = cpu_time();
    queue_up(count, strcmp(argv[3], "timeout") ? LONG : SHORT);
    queued = cpu_time();
    end(argv[3], count);
    printf("queue %" PRId64 " end %" PRId64 "\n", (queued - began) / count, (cpu_time() - queued) / count);
    if (strcmp(argv[3], "close"))
        good(dlock_client_close(client, LONG, reason), "close");
    dlock_lock_free(lock);
    dlock_client_free(client);
    dlock_event_free(event);
    dlock_error_free(reason);
    return 0;
}
