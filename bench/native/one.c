/*
 * one.c: one WAY URL PROCESSES THREADS SECONDS: all threads of all processes acquire one lock; the critical section is
 * empty.
 *
 * Shared memory checks that no more threads are inside at once than the lock permits, and that the tokens of an
 * exclusive lock rise. A hand-off is an acquisition by another thread than the last one, a turn one by another process.
 */
#include "ways.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LEAD_IN = 200 * NS_PER_MS, MOST_THREADS = 1024, MOST_PROCESSES = 64 };

struct shared {
    int64_t from, until;               /* only the time between them counts; until is 0 before that is known */
    int32_t ready;                     /* threads that wait for the start; atomic */
    int32_t inside;                    /* threads in the critical section; atomic */
    int32_t last_thread, last_process; /* atomic */
    int64_t violations;                /* atomic */
    int64_t token;                     /* guarded by the lock that is measured */
    int64_t acquired, handoffs, turns; /* atomic */
    int64_t by_thread[MOST_THREADS], by_process[MOST_PROCESSES];
    struct hist waits[MOST_PROCESSES];
};

struct work {
    const struct way *way;
    void *process;
    const char *name;
    int index, threads; /* number of the process; threads in it */
    struct shared *shared;
};

static pthread_mutex_t merging = PTHREAD_MUTEX_INITIALIZER; /* guards this process's histogram in waits */

static void violated(struct shared *s)
{
    __atomic_add_fetch(&s->violations, 1, __ATOMIC_RELAXED);
}

static void add(int64_t *counter, int64_t number)
{
    __atomic_add_fetch(counter, number, __ATOMIC_RELAXED);
}

/* Inside the critical section. */
static void count(struct work *work, int thread, int64_t now)
{
    struct shared *s = work->shared;
    int32_t last_thread = __atomic_exchange_n(&s->last_thread, thread, __ATOMIC_RELAXED);
    int32_t last_process = __atomic_exchange_n(&s->last_process, work->index, __ATOMIC_RELAXED);

    if (now < s->from || now >= s->until)
        return;
    add(&s->acquired, 1);
    add(&s->handoffs, last_thread != thread);
    s->by_thread[thread]++;
    if (last_process != work->index) {
        add(&s->turns, 1);
        add(&s->by_process[work->index], 1);
    }
}

/* Inside the critical section: check the number of threads and, for an exclusive lock, that the token has risen. */
static void guard(struct shared *s, int places, int64_t token)
{
    if (__atomic_add_fetch(&s->inside, 1, __ATOMIC_SEQ_CST) > places)
        violated(s);
    if (places > 1)
        return;
    if (token && token <= s->token)
        violated(s);
    s->token = token;
}

static void unguard(struct shared *s)
{
    __atomic_sub_fetch(&s->inside, 1, __ATOMIC_SEQ_CST);
}

static void stand_at_start(struct work *work)
{
    __atomic_add_fetch(&work->shared->ready, 1, __ATOMIC_SEQ_CST);
    while (!__atomic_load_n(&work->shared->until, __ATOMIC_ACQUIRE))
        sleep_ns(NS_PER_MS);
}

static void run(int index, void *argument)
{
    struct work *work = argument;
    struct shared *s = work->shared;
    struct hist *waits = zeroed(sizeof *waits);
    void *lock = work->way->lock(work->process, work->name);
    int thread = work->index * work->threads + index;
    int64_t before, now;

    stand_at_start(work);
    for (before = now_ns(); before < s->until; before = now_ns()) {
        int64_t token = work->way->acquire(lock);

        now = now_ns();
        guard(s, work->way->places, token);
        count(work, thread, now);
        unguard(s);
        work->way->release(lock);
        if (now >= s->from)
            hist_add(waits, now - before);
    }
    pthread_mutex_lock(&merging);
    hist_merge(&s->waits[work->index], waits);
    pthread_mutex_unlock(&merging);
    free(waits);
}

static pid_t start(struct work *work, const char *url)
{
    pid_t parent = getpid(), child = fork();

    if (child < 0)
        die("fork", "no process");
    if (child > 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    work->process = work->way->open(url);
    run_threads(work->threads, run, work);
    _exit(0);
}

/* Jain's fairness index: 1 when all shares are equal, 1/n when one has everything. */
static double jain(const int64_t *shares, int number)
{
    double sum = 0, squares = 0;

    for (int i = 0; i < number; i++) {
        sum += (double)shares[i];
        squares += (double)shares[i] * (double)shares[i];
    }
    return squares > 0 ? sum * sum / (number * squares) : 0;
}

static void report_all(struct shared *s, int processes, int threads, double seconds)
{
    int64_t acquired[MOST_PROCESSES] = {0}, least = INT64_MAX;

    for (int i = 0; i < processes * threads; i++)
        acquired[i / threads] += s->by_thread[i];
    for (int i = 0; i < processes; i++)
        least = s->by_process[i] < least ? s->by_process[i] : least;
    for (int i = 1; i < processes; i++)
        hist_merge(&s->waits[0], &s->waits[i]);
    report("acquired_per_s", (double)s->acquired / seconds);
    report("handoffs_per_s", (double)s->handoffs / seconds);
    report("turns_per_s", (double)s->turns / seconds);
    report("least_turns_per_s", (double)least / seconds);
    report("jain_threads", jain(s->by_thread, processes * threads));
    report("jain_processes", jain(acquired, processes));
    report("violations", (double)s->violations);
    report_hist("wait", &s->waits[0]);
}

/* Measure the server's CPU time per acquisition. This process is idle meanwhile. */
static void watch(const struct shared *s, const char *url)
{
    redisContext *control = control_connect(url);
    struct usage before;

    sleep_until(s->from);
    before = usage_now(control);
    sleep_until(s->until);
    report_usage(&before, control, (uint64_t)s->acquired);
    if (control)
        redisFree(control);
}

static void wait_for(const pid_t *children, int count)
{
    for (int i = 0; i < count; i++) {
        int status;

        if (waitpid(children[i], &status, 0) < 0 || status != 0)
            die("child", "did not end well");
    }
}

int main(int argc, char **argv)
{
    struct shared *s = shared_memory(sizeof *s);
    struct work work = {.shared = s};
    pid_t children[MOST_PROCESSES];
    int processes;
    char name[64];
    double seconds;

    if (argc != 6)
        die("usage", "one WAY URL PROCESSES THREADS SECONDS");
    work.way = way_named(argv[1]);
    processes = atoi(argv[3]);
    work.threads = atoi(argv[4]);
    seconds = atof(argv[5]);
    if (processes > MOST_PROCESSES || processes * work.threads > MOST_THREADS)
        die("usage", "too many");
    snprintf(name, sizeof name, "one:%d", (int)getpid());
    work.name = name;
    for (work.index = 0; work.index < processes; work.index++)
        children[work.index] = start(&work, argv[2]);
    while (__atomic_load_n(&s->ready, __ATOMIC_SEQ_CST) < processes * work.threads)
        sleep_ns(NS_PER_MS);
    s->from = now_ns() + LEAD_IN;
    __atomic_store_n(&s->until, s->from + (int64_t)(seconds * NS_PER_S), __ATOMIC_RELEASE);
    watch(s, argv[2]);
    wait_for(children, processes);
    report_all(s, processes, work.threads, seconds);
    return 0;
}
