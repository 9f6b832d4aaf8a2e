/*
 * sim_main.c: dlock_sim, the deterministic simulator: command line, jobs, summary. What it simulates: see sim.h.
 *
 *   dlock_sim --scripts src/redis/scripts --seeds FIRST:COUNT [--jobs N] [--void-ok]
 *             [--world fair|rw|semaphore|permit]      another kind than the mutex
 *             [--forgets]                             the server loses all of its memory again and again
 *             [--drift FACTOR] [--driver-mutant N]    clocks wrong by FACTOR times what they may be; a broken driver
 *   dlock_sim --scripts src/redis/scripts --verbose SEED    one run, event by event
 *   dlock_sim --scripts src/redis/scripts --replay          commands from stdin, see sim_replay.c
 *
 * Exits with 0 when every rule held, 1 when one was violated (the smallest seed is named), 2 when it could not run, 3 when
 * some fault never struck: then the seeds prove nothing.
 */
#include "sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS_MAX = 64 };

struct job {
    struct sim_stats stats;
    uint64_t bad_seed;
    int bad;
    char failed[400];
};

struct options {
    const char *scripts;
    uint64_t first, count;
    int jobs, verbose, replay, void_ok, drift, driver_mutant, world, forgets;
};

static struct sim *make(const struct options *options)
{
    struct sim *s = calloc(1, sizeof *s);

    if (!s)
        exit(2);
    s->scripts = sim_scripts_load(options->scripts, &s->store);
    sim_scripts_add(s->scripts, "red_acquire", sim_red_acquire);
    sim_scripts_add(s->scripts, "red_renew", sim_red_renew);
    sim_scripts_add(s->scripts, "red_release", sim_red_release);
    s->store.world = s;
    s->store.publish = sim_publish;
    s->store.subscribers = sim_subscribers;
    s->drift_factor = options->drift;
    s->driver_mutant = options->driver_mutant;
    s->forgets = options->forgets;
    s->world = (enum sim_world)options->world;
    s->verbose = options->verbose;
    return s;
}

static void unmake(struct sim *s)
{
    for (int i = 0; i < SIM_PEERS; i++)
        free(s->peer[i].number);
    for (int i = 0; i < s->arena.blocks; i++)
        free(s->arena.block[i]);
    free(s->heap.events);
    sim_store_free(&s->store);
    sim_scripts_free(s->scripts);
    free(s);
}

/* enough: how many seeds still matter, those before the smallest bad one that any job has found. */
static void run_seeds(const struct options *options, int index, struct job *job, uint64_t *enough)
{
    struct sim *s = make(options);

    for (uint64_t i = (uint64_t)index; i < __atomic_load_n(enough, __ATOMIC_RELAXED); i += (uint64_t)options->jobs) {
        uint64_t least = UINT64_MAX;

        if (sim_run(s, options->first + i) == 0)
            continue;
        while (least > i && !__atomic_compare_exchange_n(enough, &least, i, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            ;
        job->bad = 1;
        job->bad_seed = options->first + i;
        memcpy(job->failed, s->failed, sizeof job->failed);
    }
    job->stats = s->stats;
    unmake(s);
}

/* ---- jobs: one process each; a report comes back through a pipe */

static int start_job(const struct options *options, int index, uint64_t *enough, pid_t *pid)
{
    static struct job job;
    int ends[2];

    if (pipe(ends))
        exit(2);
    fflush(stdout);
    *pid = fork();
    if (*pid < 0)
        exit(2);
    if (*pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        run_seeds(options, index, &job, enough);
        _exit(write(ends[1], &job, sizeof job) == (ssize_t)sizeof job ? 0 : 2);
    }
    close(ends[1]);
    return ends[0];
}

static void read_job(int end, struct job *job)
{
    size_t got = 0;
    ssize_t size;

    while (got < sizeof *job && (size = read(end, (char *)job + got, sizeof *job - got)) > 0)
        got += (size_t)size;
    close(end);
    if (got < sizeof *job) {
        fprintf(stderr, "dlock_sim: a job died\n");
        exit(2);
    }
}

static void add(struct job *total, const struct job *job)
{
    uint64_t *sum = (uint64_t *)&total->stats; /* the last one is a hash: it may overflow */
    const uint64_t *part = (const uint64_t *)&job->stats;

    for (size_t i = 0; i < sizeof total->stats / sizeof *sum; i++)
        sum[i] += part[i];
    if (job->bad && (!total->bad || job->bad_seed < total->bad_seed)) {
        total->bad = 1;
        total->bad_seed = job->bad_seed;
        memcpy(total->failed, job->failed, sizeof total->failed);
    }
}

static void run_jobs(const struct options *options, struct job *total)
{
    uint64_t *enough = mmap(NULL, sizeof *enough, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int ends[JOBS_MAX];
    pid_t pids[JOBS_MAX];
    struct job job;

    if (enough == MAP_FAILED)
        exit(2);
    *enough = options->count;
    for (int i = 0; i < options->jobs; i++)
        ends[i] = start_job(options, i, enough, &pids[i]);
    for (int i = 0; i < options->jobs; i++) {
        read_job(ends[i], &job);
        waitpid(pids[i], NULL, 0);
        add(total, &job);
    }
    munmap(enough, sizeof *enough);
}

/* ---- output */

static const char *const fault_names[SIM_FAULT_COUNT] = {
#define SIM_FAULT_TEXT(id, name) [SIM_##id] = name,
    SIM_FAULTS(SIM_FAULT_TEXT)
#undef SIM_FAULT_TEXT
};

static void print_stats(const struct sim_stats *stats)
{
    printf("seeds %" PRId64 " events %" PRId64 " scripts %" PRId64 " claims %" PRId64 " grants %" PRId64
           " pushes %" PRId64 " handovers %" PRId64 " losses %" PRId64 " renewals %" PRId64 " undone %" PRId64
           " foreign %" PRId64 " writes %" PRId64 " refused %" PRId64 " extended %" PRId64 " adopted %" PRId64
           " lingered %" PRId64 " reclaimed %" PRId64 " faults",
           stats->seeds, stats->events, stats->scripts, stats->claims, stats->wire_grants, stats->pushed_grants,
           stats->handovers, stats->losses, stats->renewals, stats->undone, stats->foreign_grants, stats->writes,
           stats->refused_writes, stats->extended, stats->adopted, stats->lingered, stats->reclaimed);
    for (int i = 0; i < SIM_FAULT_COUNT; i++)
        printf(" %s=%" PRId64, fault_names[i], stats->fired[i]);
    printf(" hash %016" PRIx64 "\n", stats->hash);
}

/* Whether a fault can happen in a world. */
static int applies(int fault, int world, int forgets)
{
    if (fault == SIM_FLUSH || fault == SIM_RESTART)
        return forgets;
    if (fault == SIM_FORCE)
        return world == SIM_MUTEX;
    if (fault == SIM_PUSH_FIRST)
        return world <= SIM_FAIR || world == SIM_TURNS;
    return 1;
}

static int print_void(const struct sim_stats *stats, const struct options *options)
{
    int found = 0;

    for (int i = 0; i < SIM_FAULT_COUNT; i++) {
        if (stats->fired[i] == 0 && applies(i, options->world, options->forgets)) {
            printf("void: the fault %s never struck\n", fault_names[i]);
            found = 1;
        }
    }
    return found;
}

static int usage(void)
{
    fprintf(stderr,
            "usage: dlock_sim --scripts DIR (--seeds FIRST:COUNT [--jobs N] [--void-ok] | --verbose SEED | --replay)"
            " [--world KIND] [--forgets] [--drift FACTOR] [--driver-mutant N]\n");
    return 2;
}

static int parse(struct options *options, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        int takes = 1;

        if (strcmp(name, "--scripts") == 0)
            options->scripts = value;
        else if (strcmp(name, "--seeds") == 0)
            takes = sscanf(value, "%" SCNu64 ":%" SCNu64, &options->first, &options->count) == 2;
        else if (strcmp(name, "--verbose") == 0)
            options->verbose = sscanf(value, "%" SCNu64, &options->first) == 1;
        else if (strcmp(name, "--jobs") == 0)
            options->jobs = atoi(value);
        else if (strcmp(name, "--drift") == 0)
            options->drift = atoi(value);
        else if (strcmp(name, "--driver-mutant") == 0)
            options->driver_mutant = atoi(value);
        else if (strcmp(name, "--world") == 0)
            takes = (options->world = sim_world_find(value)) >= 0;
        else if (strcmp(name, "--replay") == 0)
            takes = !(options->replay = 1);
        else if (strcmp(name, "--forgets") == 0)
            takes = !(options->forgets = 1);
        else if (strcmp(name, "--void-ok") == 0)
            takes = !(options->void_ok = 1);
        else
            return 0;
        i += takes;
    }
    if (options->verbose)
        options->count = 1;
    return options->scripts && options->jobs >= 1 && options->jobs <= JOBS_MAX && options->drift >= 1;
}

int main(int argc, char **argv)
{
    struct options options = {.jobs = 1, .drift = 1};
    struct job total = {.bad = 0};

    if (!parse(&options, argc, argv))
        return usage();
    if (options.replay)
        return sim_replay(options.scripts);
    if (options.count == 0)
        return usage();
    if (options.jobs == 1)
        run_seeds(&options, 0, &total, &options.count);
    else
        run_jobs(&options, &total);
    print_stats(&total.stats);
    if (total.bad) {
        printf("violated: seed %" PRIu64 ": %s\n", total.bad_seed, total.failed);
        return 1;
    }
    return !options.verbose && !options.void_ok && print_void(&total.stats, &options) ? 3 : 0;
}
