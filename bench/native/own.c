/*
 * own.c: own WAY URL THREADS SECONDS: every thread acquires and releases its own lock, again and again.
 *
 * Prints pairs per second, the latency of a pair, and the CPU time of client and server per pair.
 */
#include "ways.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WARM_UP = 50 };

struct work {
    const struct way *way;
    void *process;
    int64_t duration;
    redisContext *control;
    struct usage before;
    pthread_barrier_t ready;
    pthread_mutex_t mutex; /* guards all */
    struct hist all;
};

static void pair(const struct work *work, void *lock)
{
    work->way->acquire(lock);
    work->way->release(lock);
}

static void run(int index, void *argument)
{
    struct work *work = argument;
    struct hist *hist = zeroed(sizeof *hist);
    int64_t before, after, end;
    char name[64];
    void *lock;

    snprintf(name, sizeof name, "own:%d:%d", (int)getpid(), index);
    lock = work->way->lock(work->process, name);
    for (int i = 0; i < WARM_UP; i++)
        pair(work, lock);
    pthread_barrier_wait(&work->ready);
    if (index == 0)
        work->before = usage_now(work->control);
    pthread_barrier_wait(&work->ready);
    before = now_ns();
    for (end = before + work->duration; before < end; before = after) {
        pair(work, lock);
        after = now_ns();
        hist_add(hist, after - before);
    }
    pthread_mutex_lock(&work->mutex);
    hist_merge(&work->all, hist);
    pthread_mutex_unlock(&work->mutex);
    free(hist);
}

int main(int argc, char **argv)
{
    static struct work work;
    int threads;

    if (argc != 5)
        die("usage", "own WAY URL THREADS SECONDS");
    threads = atoi(argv[3]);
    work.way = way_named(argv[1]);
    work.process = work.way->open(argv[2]);
    work.control = control_connect(argv[2]);
    work.duration = (int64_t)(atof(argv[4]) * NS_PER_S);
    pthread_barrier_init(&work.ready, NULL, (unsigned)threads);
    pthread_mutex_init(&work.mutex, NULL);
    run_threads(threads, run, &work);
    report("per_s", (double)work.all.count * NS_PER_S / (double)work.duration);
    report_hist("pair", &work.all);
    report_usage(&work.before, work.control, work.all.count);
    return 0;
}
