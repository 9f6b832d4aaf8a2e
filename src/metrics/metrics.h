/*
 * metrics.h: how long things took in one client, as histograms with fixed buckets, and all its numbers as OpenMetrics text.
 *
 * A measurement is two additions to atomics, without a mutex and without a look at the clock. Who reads does not stop who
 * measures. So the parts of a text may be some operations apart.
 */
#ifndef DLI_METRICS_METRICS_H
#define DLI_METRICS_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "dlock.h"

/* Times in microseconds, hand-overs by number. */
enum dli_measure {
    DLI_WAIT_GRANTED,  /* from the request to the grant */
    DLI_WAIT_ENDED,    /* to any other answer */
    DLI_HOLD,          /* from a grant to its release, loss or export */
    DLI_RENEWAL_DELAY, /* from when a renewal was due until it was sent */
    DLI_RENEWAL_LEFT,  /* what was left of the lease when it was renewed */
    DLI_HANDOVERS,     /* served by one grant of the server after its first turn */
    DLI_MEASURES
};

enum { DLI_BUCKETS = 24 }; /* the last one is for what is above all bounds */

struct dli_histogram {
    int64_t bucket[DLI_BUCKETS];
    int64_t sum;
};

/* Zero it before first use. */
struct dli_metrics {
    int64_t asked; /* requests that began to wait */
    struct dli_histogram of[DLI_MEASURES];
};

/* What a bucket holds at most. */
extern const int64_t dli_time_bound[DLI_BUCKETS], dli_turn_bound[DLI_BUCKETS];

/* By the number of bits of a time: the first bucket whose bound may not be below it. */
extern const uint8_t dli_time_first[64];

static inline void dli_metrics_note(struct dli_metrics *metrics, enum dli_measure what, int64_t value)
{
    const int64_t *bound = what == DLI_HANDOVERS ? dli_turn_bound : dli_time_bound;
    int64_t least = value > 0 ? value : 0;
    int place = 0;

    if (what != DLI_HANDOVERS && least)
        place = dli_time_first[64 - __builtin_clzll((unsigned long long)least)];

    while (least > bound[place])
        place++;
    __atomic_add_fetch(&metrics->of[what].bucket[place], 1, __ATOMIC_RELAXED);
    if (least)
        __atomic_add_fetch(&metrics->of[what].sum, least, __ATOMIC_RELAXED);
}

static inline void dli_metrics_asked(struct dli_metrics *metrics)
{
    __atomic_add_fetch(&metrics->asked, 1, __ATOMIC_RELAXED);
}

/* A hold has ended. handovers: the grant has, too, after so many; -1: it goes on. */
static inline void dli_metrics_hold(struct dli_metrics *metrics, int64_t held, int32_t handovers)
{
    dli_metrics_note(metrics, DLI_HOLD, held);
    if (handovers >= 0)
        dli_metrics_note(metrics, DLI_HANDOVERS, handovers);
}

/* Read all histograms. Those of the ends come before the counters of the beginnings: what is left is never negative. */
void dli_metrics_read(const struct dli_metrics *metrics, struct dli_metrics *seen);

/* How many values a histogram has. */
int64_t dli_metrics_count(const struct dli_histogram *histogram);

/* Who waits as of seen. */
int64_t dli_metrics_waiting(const struct dli_metrics *seen);

/*
 * The text, with a terminator, as far as it fits into size bytes. stats: DLOCK_STAT_*; version: the library's; server: without a credential.
 * Returns the length of the whole text.
 */
size_t dli_metrics_text(const struct dli_metrics *seen, const int64_t *stats, const char *version, const char *server,
                        char *buffer, size_t size);

#endif
