/*
 * memory.c: memory URL LOCKS WAITERS: what held locks and waiters take of memory, how long the close of their client
 * takes, and what of the memory is back afterwards.
 *
 * One client holds LOCKS mutexes that nobody waits for, and WAITERS owners wait for one more. One thread submits the calls
 * and reads the events. Memory is what malloc has given out in all its arenas, and the resident memory of the process.
 */
#include "bench.h"

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WINDOW = 512 };

struct memory {
    double in_use, resident; /* bytes */
};

static struct memory memory_now(void)
{
    struct mallinfo2 info = mallinfo2();
    FILE *file = fopen("/proc/self/statm", "r");
    long size, resident;

    if (!file || fscanf(file, "%ld %ld", &size, &resident) != 2)
        die("statm", "cannot be read");
    fclose(file);
    return (struct memory){(double)info.uordblks + (double)info.hblkhd,
                           (double)resident * (double)sysconf(_SC_PAGESIZE)};
}

/* What each of count objects has taken since then. */
static void report_each(const char *what, const struct memory *since, int64_t count)
{
    struct memory now = memory_now();
    char name[64];

    snprintf(name, sizeof name, "%s_bytes", what);
    report(name, (now.in_use - since->in_use) / (double)count);
    snprintf(name, sizeof name, "%s_resident", what);
    report(name, (now.resident - since->resident) / (double)count);
}

static void expect(dlock_client *client, dlock_event *event, int64_t type)
{
    int64_t field[DLOCK_FIELD_COUNT];

    check(dlock_client_next(client, -1, event, NULL), NULL);
    check(dlock_event_unpack(event, field, DLOCK_FIELD_COUNT, NULL, NULL), NULL);
    if (field[DLOCK_FIELD_TYPE] != type)
        die("event", dlock_event_text(event));
}

static void hold(dlock_client *client, dlock_event *event, dlock_lock **locks, int64_t count)
{
    int64_t asked = 0, answered = 0;
    char name[32];

    while (answered < count) {
        while (asked < count && asked - answered < WINDOW) {
            snprintf(name, sizeof name, "held:%07" PRId64, asked);
            locks[asked] = dlock_named(client, name);
            check(dlock_lock_submit_acquire(locks[asked], 1, -1, 1, NULL), NULL);
            asked++;
        }
        expect(client, event, DLOCK_EVENT_ACQUIRED);
        answered++;
    }
}

/* Close the client, and read all events that are left. */
static void end(dlock_client *client, dlock_event *event)
{
    int64_t start = now_ns(), events = 0;

    check(dlock_client_close(client, 600 * 1000, NULL), NULL);
    report("close_s", (double)(now_ns() - start) / NS_PER_S);
    while (dlock_client_next(client, -1, event, NULL) == DLOCK_OK)
        events++;
    report("events", (double)events);
    start = now_ns();
    dlock_client_free(client);
    report("free_s", (double)(now_ns() - start) / NS_PER_S);
}

static void measure(const char *url, dlock_lock **locks, int64_t count, int64_t waiters)
{
    dlock_event *event = dlock_event_new();
    dlock_client *client = dlock_connect(url, "lease_ms", "600000");
    dlock_lock *crowded = dlock_named(client, "crowded");
    struct memory before;
    int64_t start;

    check(dlock_lock_acquire(crowded, 1, -1, NULL, NULL), NULL);
    before = memory_now();
    start = now_ns();
    hold(client, event, locks, count);
    report("acquire_s", (double)(now_ns() - start) / NS_PER_S);
    report_each("held", &before, count);
    for (int64_t i = 0; i < count; i++)
        dlock_lock_free(locks[i]);
    report_each("freed", &before, count);
    before = memory_now();
    for (int64_t i = 0; i < waiters; i++)
        check(dlock_lock_submit_acquire(crowded, 2 + i, -1, i, NULL), NULL);
    report_each("waiter", &before, waiters > 0 ? waiters : 1);
    dlock_lock_free(crowded);
    end(client, event);
    dlock_event_free(event);
}

/* A client that held one lock, before the start is measured: what is made once is there. */
static void warm_up(const char *url)
{
    dlock_client *client = dlock_connect(url, NULL, NULL);
    dlock_lock *lock = dlock_named(client, "warm");

    check(dlock_lock_acquire(lock, 1, -1, NULL, NULL), NULL);
    dlock_lock_free(lock);
    check(dlock_client_close(client, -1, NULL), NULL);
    dlock_client_free(client);
}

int main(int argc, char **argv)
{
    int64_t count = argc == 4 ? atoll(argv[2]) : 0;
    struct memory start, now;
    dlock_lock **locks;

    if (count <= 0)
        die("usage", "memory URL LOCKS WAITERS");
    locks = shared_memory((size_t)count * sizeof(dlock_lock *));
    memset(locks, 0, (size_t)count * sizeof(dlock_lock *)); /* its pages are there */
    warm_up(argv[1]);
    start = memory_now();
    measure(argv[1], locks, count, atoll(argv[3]));
    now = memory_now();
    report("start_bytes", start.in_use);
    report("start_resident", start.resident);
    report("end_bytes", now.in_use);
    report("end_resident", now.resident);
    return 0;
}
