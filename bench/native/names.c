/*
 * names.c: names URL NAMES THREADS: use every name once: new, acquire, release, free. Memory should stay flat.
 */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

struct work {
    dlock_client *client;
    int64_t names;
    int64_t next; /* atomic */
    double early; /* memory in MB after a tenth of the names */
};

static double resident_mb(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    long size, resident;

    if (!file || fscanf(file, "%ld %ld", &size, &resident) != 2)
        die("statm", "cannot be read");
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1e6;
}

static void use(dlock_client *client, int64_t number)
{
    char name[48];
    dlock_lock *lock;

    snprintf(name, sizeof name, "order:%d:%lld", (int)getpid(), (long long)number);
    lock = dlock_named(client, name);
    check(dlock_lock_acquire(lock, 0, -1, NULL, NULL), NULL);
    check(dlock_lock_release(lock, 0, NULL), NULL);
    dlock_lock_free(lock);
}

static void run(int index, void *argument)
{
    struct work *work = argument;
    int64_t number;

    (void)index;
    while ((number = __atomic_fetch_add(&work->next, 1, __ATOMIC_RELAXED)) < work->names) {
        use(work->client, number);
        if (number == work->names / 10)
            work->early = resident_mb();
    }
}

int main(int argc, char **argv)
{
    static struct work work;
    int64_t start = now_ns(), values[DLOCK_STAT_COUNT];
    double seconds;

    if (argc != 4)
        die("usage", "names URL NAMES THREADS");
    work.client = dlock_connect(argv[1], NULL, NULL);
    work.names = atoll(argv[2]);
    run_threads(atoi(argv[3]), run, &work);
    seconds = (double)(now_ns() - start) / NS_PER_S;
    check(dlock_client_stats(work.client, values, DLOCK_STAT_COUNT, NULL, NULL), NULL);
    report("pairs_per_s", (double)work.names / seconds);
    report("resident_early_mb", work.early);
    report("resident_late_mb", resident_mb());
    report("locks_left", (double)values[DLOCK_STAT_LOCKS]);
    return 0;
}
