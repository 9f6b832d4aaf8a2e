/*
 * main.c: dlock_worlds: command line and summary. What it simulates: see worlds.h.
 *
 *   dlock_worlds [--world etcd|zookeeper|memory] [--semaphores | --latches] --seeds FIRST:COUNT [--void-ok]
 *   dlock_worlds [--world etcd|zookeeper|memory] [--semaphores | --latches] --verbose SEED       one run, event by event
 *
 * With --semaphores the world has permit semaphores, in memory plain ones too; with --latches it has those, else locks.
 *
 * Exits with 0 when every rule held, 1 when one was violated, 2 when it could not run, 3 when some fault never struck: then the
 * seeds prove nothing.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "worlds.h"

static const char *const names[W_FAULT_COUNT] = {
#define W_FAULT_TEXT(id, name) [W_##id] = name,
    W_FAULTS(W_FAULT_TEXT)
#undef W_FAULT_TEXT
};

static void print_stats(const struct w_stats *stats)
{
    printf("seeds %" PRId64 " events %" PRId64 " messages %" PRId64 " grants %" PRId64 " losses %" PRId64
           " failures %" PRId64 " expired %" PRId64 " faults",
           stats->seeds, stats->events, stats->calls, stats->grants, stats->losses, stats->failures, stats->expired);
    for (int i = 0; i < W_FAULT_COUNT; i++)
        printf(" %s=%" PRId64, names[i], stats->fired[i]);
    printf(" hash %016" PRIx64 "\n", stats->hash);
}

static int print_void(const struct w_stats *stats)
{
    int found = 0;

    for (int i = 0; i < W_FAULT_COUNT; i++) {
        if (stats->fired[i] > 0 || w_without((enum w_fault)i))
            continue;
        printf("void: the fault %s never struck\n", names[i]);
        found = 1;
    }
    return found;
}

/* 0, or -1: there is no such world. */
static int choose_world(const char *name)
{
    static const struct w_model *const models[] = {&w_etcd, &w_zookeeper, &w_memory};

    for (int i = 0; i < 3; i++)
        if (strcmp(name, models[i]->scheme) == 0) {
            w.model = models[i];
            return 0;
        }
    return -1;
}

static int usage(void)
{
    fprintf(stderr, "usage: dlock_worlds [--world etcd|zookeeper|memory] [--semaphores | --latches]"
                    " (--seeds FIRST:COUNT [--void-ok] | --verbose SEED)\n");
    return 2;
}

int main(int argc, char **argv)
{
    uint64_t first = 0, count = 0;
    int void_ok = 0;

    w.model = &w_etcd;
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";

        if (strcmp(argv[i], "--seeds") == 0 && sscanf(value, "%" SCNu64 ":%" SCNu64, &first, &count) == 2) {
            i++;
        } else if (strcmp(argv[i], "--verbose") == 0 && sscanf(value, "%" SCNu64, &first) == 1) {
            w.verbose = void_ok = 1;
            count = 1;
            i++;
        } else if (strcmp(argv[i], "--world") == 0 && choose_world(value) == 0) {
            i++;
        } else if (strcmp(argv[i], "--semaphores") == 0) {
            w.semaphores = 1;
        } else if (strcmp(argv[i], "--latches") == 0) {
            w.latches = 1;
        } else if (strcmp(argv[i], "--void-ok") == 0) {
            void_ok = 1;
        } else {
            return usage();
        }
    }
    if (count == 0 || (w.semaphores && w.latches))
        return usage();
    for (uint64_t i = 0; i < count; i++)
        if (w_run_seed(first + i)) {
            print_stats(&w.stats);
            printf("violated: seed %" PRIu64 ": %s\n", first + i, w.why);
            return 1;
        }
    print_stats(&w.stats);
    return !void_ok && print_void(&w.stats) ? 3 : 0;
}
