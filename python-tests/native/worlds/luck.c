/*
 * luck.c: random numbers, the faults that they choose, and what is said of a run. See worlds.h.
 */
#include <stdarg.h>

#include "worlds.h"

uint64_t w_random(void)
{
    uint64_t z = (w.random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t w_below(int64_t limit)
{
    return limit > 0 ? (int64_t)(w_random() % (uint64_t)limit) : 0;
}

int64_t w_between(int64_t low, int64_t high)
{
    return low + w_below(high - low + 1);
}

int w_percent(int percent)
{
    return w_below(100) < percent;
}

void w_fired(enum w_fault fault)
{
    w.stats.fired[fault]++;
}

int w_fault(enum w_fault fault)
{
    if (!w.faults_on || w_below(W_SECOND) >= w.plan.chance[fault])
        return 0;
    w_fired(fault);
    return 1;
}

void w_mix(int64_t value)
{
    w.hash = (w.hash ^ (uint64_t)value) * 0x100000001b3u;
    w.hash ^= w.hash >> 29;
}

static void say(const char *format, va_list words)
{
    printf("%10.3f ", (double)w.now / W_MS);
    vprintf(format, words);
    printf("\n");
}

void w_trace(const char *format, ...)
{
    va_list words;

    if (!w.verbose)
        return;
    va_start(words, format);
    say(format, words);
    va_end(words);
}

void w_violated(const char *format, ...)
{
    va_list words;

    if (w.failed)
        return;
    w.failed = 1;
    va_start(words, format);
    vsnprintf(w.why, sizeof w.why, format, words);
    va_end(words);
    w_trace("VIOLATED: %s", w.why);
}
