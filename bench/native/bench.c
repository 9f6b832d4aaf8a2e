/*
 * bench.c: functions that the benchmark programs share. See bench.h.
 */
#include "bench.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

/* ---- time, memory, the end */

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

void sleep_until(int64_t when)
{
    struct timespec at = {.tv_sec = (time_t)(when / NS_PER_S), .tv_nsec = (long)(when % NS_PER_S)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL))
        ;
}

void sleep_ns(int64_t duration)
{
    sleep_until(now_ns() + duration);
}

void *shared_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        die("mmap", "no memory");
    return memory;
}

void *zeroed(size_t size)
{
    void *memory = calloc(1, size);

    if (!memory)
        die("calloc", "no memory");
    return memory;
}

_Noreturn void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    fflush(stderr);
    _Exit(1);
}

/* ---- latencies */

static int bucket_of(int64_t ns)
{
    uint64_t value = ns > 0 ? (uint64_t)ns : 0;
    int shift = 0;
    int bucket;

    while ((value >> shift) >= 2 * HIST_SPLIT)
        shift++;
    bucket = shift * HIST_SPLIT + (int)(value >> shift);
    return bucket < HIST_BUCKETS ? bucket : HIST_BUCKETS - 1;
}

/* The middle of a bucket. */
static int64_t value_of(int bucket)
{
    int shift = bucket < 2 * HIST_SPLIT ? 0 : bucket / HIST_SPLIT - 1;
    int64_t low = (int64_t)(bucket - shift * HIST_SPLIT) << shift;

    return low + ((int64_t)1 << shift) / 2;
}

void hist_add(struct hist *hist, int64_t ns)
{
    hist->count++;
    hist->bucket[bucket_of(ns)]++;
    if (ns > hist->max)
        hist->max = ns;
}

void hist_merge(struct hist *into, const struct hist *from)
{
    into->count += from->count;
    if (from->max > into->max)
        into->max = from->max;
    for (int i = 0; i < HIST_BUCKETS; i++)
        into->bucket[i] += from->bucket[i];
}

int64_t hist_percentile(const struct hist *hist, double percent)
{
    uint64_t below = 0, wanted = (uint64_t)((double)hist->count * percent / 100.0);

    for (int i = 0; i < HIST_BUCKETS; i++) {
        below += hist->bucket[i];
        if (below > wanted)
            return value_of(i);
    }
    return hist->max;
}

/* ---- results */

void report(const char *name, double value)
{
    printf("%s %.17g\n", name, value);
}

static void report_part(const char *prefix, const char *part, int64_t ns)
{
    char name[64];

    snprintf(name, sizeof name, "%s_%s", prefix, part);
    report(name, (double)ns / NS_PER_US);
}

void report_hist(const char *prefix, const struct hist *hist)
{
    report_part(prefix, "p50", hist_percentile(hist, 50));
    report_part(prefix, "p99", hist_percentile(hist, 99));
    report_part(prefix, "max", hist->max);
}

static double seconds_of(const struct timeval *time)
{
    return (double)time->tv_sec + (double)time->tv_usec / 1e6;
}

/* The number after "field:" in the text of INFO. */
static double info_field(const char *text, const char *field)
{
    const char *at = strstr(text, field);

    if (!at)
        die("INFO", "misses a field");
    return atof(at + strlen(field));
}

static double server_cpu(redisContext *connection)
{
    redisReply *reply = redisCommand(connection, "INFO cpu");
    double seconds;

    if (!reply || reply->type != REDIS_REPLY_STRING)
        die("INFO", connection->errstr);
    seconds = info_field(reply->str, "used_cpu_sys:") + info_field(reply->str, "used_cpu_user:");
    freeReplyObject(reply);
    return seconds;
}

struct usage usage_now(redisContext *connection)
{
    struct usage now = {.server_cpu = connection ? server_cpu(connection) : 0};
    struct rusage usage;

    getrusage(RUSAGE_SELF, &usage);
    now.client_cpu = seconds_of(&usage.ru_utime) + seconds_of(&usage.ru_stime);
    now.switches = (double)(usage.ru_nvcsw + usage.ru_nivcsw);
    return now;
}

void report_usage(const struct usage *since, redisContext *connection, uint64_t pieces)
{
    struct usage now = usage_now(connection);
    double many = pieces ? (double)pieces : 1;

    report("client_us", (now.client_cpu - since->client_cpu) * 1e6 / many);
    report("server_us", (now.server_cpu - since->server_cpu) * 1e6 / many);
    report("switches", (now.switches - since->switches) / many);
}

/* ---- threads */

struct start {
    pthread_t thread;
    int index;
    void (*run)(int index, void *argument);
    void *argument;
};

static void *thread_main(void *opaque)
{
    struct start *start = opaque;

    start->run(start->index, start->argument);
    return NULL;
}

void run_threads(int count, void (*run)(int index, void *argument), void *argument)
{
    struct start *starts = zeroed((size_t)count * sizeof *starts);
    pthread_attr_t small;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 * 1024);
    for (int i = 0; i < count; i++) {
        starts[i] = (struct start){.index = i, .run = run, .argument = argument};
        if (pthread_create(&starts[i].thread, &small, thread_main, &starts[i]))
            die("pthread_create", "no thread");
    }
    for (int i = 0; i < count; i++)
        pthread_join(starts[i].thread, NULL);
    pthread_attr_destroy(&small);
    free(starts);
}

/* ---- libdlock */

void check(dlock_status status, const dlock_error *error)
{
    if (status != DLOCK_OK)
        die(dlock_status_name(status), error ? dlock_error_message(error) : dlock_status_text(status));
}

dlock_client *dlock_connect(const char *url, const char *option, const char *value)
{
    dlock_error *error = dlock_error_new();
    dlock_options *options = dlock_options_new();
    dlock_client *client;

    if (option)
        check(dlock_options_set(options, option, value, error), error);
    check(dlock_client_open(url, options, &client, error), error);
    dlock_options_free(options);
    dlock_error_free(error);
    return client;
}

dlock_lock *dlock_named(dlock_client *client, const char *name)
{
    dlock_lock *lock;

    check(dlock_lock_new(client, DLOCK_KIND_MUTEX, name, strlen(name), NULL, &lock, NULL), NULL);
    return lock;
}

/* ---- bare hiredis */

redisContext *control_connect(const char *url)
{
    return strncmp(url, "redis", 5) == 0 ? bare_connect(url) : NULL;
}

redisContext *bare_connect(const char *url)
{
    static const char local[] = "redis+unix://", tcp[] = "redis", cluster[] = "+cluster";
    redisContext *connection;

    if (strncmp(url, local, sizeof local - 1) == 0) {
        char path[128];

        snprintf(path, sizeof path, "%.*s", (int)strcspn(url, "?") - (int)sizeof local + 1, url + sizeof local - 1);
        connection = redisConnectUnix(path);
    } else {
        const char *at = url + sizeof tcp - 1;
        char host[64];
        int port;

        if (strncmp(url, tcp, sizeof tcp - 1) != 0)
            die(url, "not an address");
        at += strncmp(at, cluster, sizeof cluster - 1) == 0 ? sizeof cluster - 1 : 0;
        if (sscanf(at, "://%63[^:]:%d", host, &port) != 2) /* of a cluster: the first server */
            die(url, "not an address");
        connection = redisConnect(host, port);
    }
    if (!connection || connection->err)
        die("hiredis", connection ? connection->errstr : "no memory");
    return connection;
}

redisReply *bare_ask(redisContext *connection, int count, const char **words)
{
    redisReply *reply = redisCommandArgv(connection, count, words, NULL);

    if (!reply)
        die("hiredis", connection->errstr);
    if (reply->type == REDIS_REPLY_ERROR)
        die("server", reply->str);
    return reply;
}

redisReply *bare_hear(redisContext *connection)
{
    redisReply *reply;

    if (redisGetReply(connection, (void **)&reply) != REDIS_OK)
        die("hiredis", connection->errstr);
    if (reply->elements != 3)
        die("hiredis", "this is no message");
    return reply;
}

const char *script_sha(const char *name)
{
    char variable[32];
    const char *sha;

    snprintf(variable, sizeof variable, "BENCH_SHA_%s", name);
    sha = getenv(variable);
    if (!sha)
        die(variable, "not set; run.py sets it");
    return sha;
}
