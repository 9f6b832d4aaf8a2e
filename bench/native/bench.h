/*
 * bench.h: functions that the benchmark programs share.
 *
 * Each program does one kind of work in one way for some seconds and prints "name value" lines; run.py compares them.
 * Anything unexpected ends the program with a sentence on stderr.
 */
#ifndef BENCH_H
#define BENCH_H

#include <stddef.h>
#include <stdint.h>

#include <dlock.h>
#include <hiredis.h>

enum { NS_PER_US = 1000, NS_PER_MS = 1000000, NS_PER_S = 1000000000 };

/* ---- time, memory, the end */

/* CLOCK_MONOTONIC in nanoseconds: the same in all processes. */
int64_t now_ns(void);
void sleep_until(int64_t when);
void sleep_ns(int64_t duration);

/* Zeroed memory that is shared with forked children. */
void *shared_memory(size_t size);
void *zeroed(size_t size);

_Noreturn void die(const char *what, const char *why);

/* ---- latencies in buckets of 1.6 % */

enum { HIST_SPLIT = 64, HIST_BUCKETS = 40 * HIST_SPLIT };

struct hist {
    uint64_t count;
    int64_t max;
    uint32_t bucket[HIST_BUCKETS];
};

void hist_add(struct hist *hist, int64_t ns);
void hist_merge(struct hist *into, const struct hist *from);
int64_t hist_percentile(const struct hist *hist, double percent);

/* ---- results */

void report(const char *name, double value);

/* prefix_p50, prefix_p99, prefix_max, in microseconds. */
void report_hist(const char *prefix, const struct hist *hist);

/* Resources used until now: by this process, and by the server of connection (NULL: not measured). */
struct usage {
    double client_cpu, server_cpu; /* seconds */
    double switches;
};

struct usage usage_now(redisContext *connection);

/* Report microseconds of CPU time and context switches since then, per piece of work. */
void report_usage(const struct usage *since, redisContext *connection, uint64_t pieces);

/* ---- threads */

/* Run count threads of run(index, argument) and wait for all of them. */
void run_threads(int count, void (*run)(int index, void *argument), void *argument);

/* ---- libdlock and bare hiredis */

/* Ends the program unless status is DLOCK_OK. */
void check(dlock_status status, const dlock_error *error);

dlock_client *dlock_connect(const char *url, const char *option, const char *value);
dlock_lock *dlock_named(dlock_client *client, const char *name);

/* A blocking connection. url is one for libdlock, redis://host:port or redis+unix://path; its options are ignored. */
redisContext *bare_connect(const char *url);

/* The reply to a command, or the next message of a subscription. The caller frees it. An error ends the program. */
redisReply *bare_ask(redisContext *connection, int count, const char **words);
redisReply *bare_hear(redisContext *connection);

/* The same to read the server's CPU time. NULL: it is not Redis, and has none. */
redisContext *control_connect(const char *url);

/* The SHA1 of a script of libdlock ("acquire"), which server.py has loaded into the server. */
const char *script_sha(const char *name);

#endif
