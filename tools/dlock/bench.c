/*
 * bench.c: dlock bench: a short look at what this server gives, from this host.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"

static const char help[] = "Usage: dlock bench [options]\n"
                           "A short look at what this server gives: a round trip, an acquire and release, many at\n"
                           "once, and the time from a release to the grant of the next process. It uses locks of\n"
                           "its own, which leave nothing behind after a minute.\n"
                           "\n"
                           "  --for T         how long it runs in all (20s)\n"
                           "  --json          one object for each measurement\n"
                           "  --namespace S   a prefix of the names of its locks\n"
                           "  --url URL       the server; or --url-file FILE, or DLOCK_URL in the environment\n"
                           "\n"
                           "Exit code: 0; 69 the server cannot be reached; 64 wrong usage.\n";

enum { FOR_MS = 20000, SAMPLES = 1 << 18, AT_ONCE = 64, PARTS = 4, PATIENCE_MS = 10000, CLOSE_MS = 1000 };

struct bench {
    struct tool *tool;
    dlock_client *other; /* as another process: a client of its own */
    char name[64];
    int64_t time, part_ms; /* time: of all parts together */
    int32_t *sample;       /* microseconds */
    size_t count;          /* of samples, SAMPLES at most */
    int64_t done, took_us;
};

static int64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void add(struct bench *bench, int64_t us)
{
    bench->sample[(size_t)bench->done++ % SAMPLES] = us > INT32_MAX ? INT32_MAX : (int32_t)us;
    if (bench->count < SAMPLES)
        bench->count++;
}

/* ---- measurements: each returns DLOCK_OK, or a status with tool->error */

static dlock_status ping(struct bench *bench)
{
    return dlock_client_ping(bench->tool->client, -1, bench->tool->error);
}

static dlock_status pair(struct bench *bench, dlock_lock *lock)
{
    dlock_status status = dlock_lock_acquire(lock, TOOL_OWNER, PATIENCE_MS, NULL, bench->tool->error);

    return status == DLOCK_OK ? dlock_lock_release(lock, TOOL_OWNER, bench->tool->error) : status;
}

static dlock_status round_trips(struct bench *bench, int64_t until)
{
    dlock_status status = DLOCK_OK;

    for (int64_t begun = now_us(); status == DLOCK_OK && begun < until; begun = now_us()) {
        status = ping(bench);
        add(bench, now_us() - begun);
    }
    return status;
}

static dlock_status pairs(struct bench *bench, int64_t until)
{
    dlock_status status;
    dlock_lock *lock;

    status = dlock_lock_new(bench->tool->client, DLOCK_KIND_MUTEX, bench->name, strlen(bench->name), NULL, &lock,
                            bench->tool->error);
    if (status != DLOCK_OK)
        return status;
    for (int64_t begun = now_us(); status == DLOCK_OK && begun < until; begun = now_us()) {
        status = pair(bench, lock);
        add(bench, now_us() - begun);
    }
    dlock_lock_free(lock);
    return status;
}

/* One event: its lock goes on with what comes next. A sample is a pair. */
static dlock_status step(struct bench *bench, dlock_lock **lock, int64_t *begun, int64_t until, int *busy)
{
    struct tool *tool = bench->tool;
    int64_t field[DLOCK_FIELD_COUNT], tag;
    dlock_status status = dlock_client_next(tool->client, PATIENCE_MS, tool->event, tool->error);

    if (status != DLOCK_OK)
        return status;
    dlock_event_unpack(tool->event, field, DLOCK_FIELD_COUNT, NULL, NULL);
    tag = field[DLOCK_FIELD_TAG];
    if (tag < 0 || tag >= AT_ONCE)
        return DLOCK_OK; /* a log line, or a risk */
    if (field[DLOCK_FIELD_TYPE] == DLOCK_EVENT_ACQUIRED)
        return dlock_lock_submit_release(lock[tag], TOOL_OWNER, tag, tool->error);
    (*busy)--;
    if (field[DLOCK_FIELD_TYPE] != DLOCK_EVENT_RELEASED)
        return (dlock_status)field[DLOCK_FIELD_STATUS];
    add(bench, now_us() - begun[tag]);
    begun[tag] = now_us();
    if (begun[tag] >= until)
        return DLOCK_OK;
    (*busy)++;
    return dlock_lock_submit_acquire(lock[tag], TOOL_OWNER, PATIENCE_MS, tag, tool->error);
}

static dlock_status many_pairs(struct bench *bench, int64_t until)
{
    struct tool *tool = bench->tool;
    dlock_lock *lock[AT_ONCE] = {NULL};
    dlock_status status = DLOCK_OK;
    int64_t begun[AT_ONCE];
    int busy = 0;

    for (int i = 0; i < AT_ONCE && status == DLOCK_OK; i++) {
        char name[96];

        snprintf(name, sizeof name, "%s:%d", bench->name, i);
        status = dlock_lock_new(tool->client, DLOCK_KIND_MUTEX, name, strlen(name), NULL, &lock[i], tool->error);
        begun[i] = now_us();
        if (status == DLOCK_OK)
            status = dlock_lock_submit_acquire(lock[i], TOOL_OWNER, PATIENCE_MS, i, tool->error);
        busy += status == DLOCK_OK;
    }
    while (status == DLOCK_OK && busy > 0)
        status = step(bench, lock, begun, until, &busy);
    for (int i = 0; i < AT_ONCE; i++)
        dlock_lock_free(lock[i]);
    return status;
}

/* The next holder stands in line, the present one releases: how long until the next has it. */
static dlock_status hand_over(struct bench *bench, dlock_lock *from, dlock_lock *to, dlock_client *next)
{
    struct tool *tool = bench->tool;
    int64_t field[DLOCK_FIELD_COUNT] = {0}, begun;
    dlock_status status = dlock_lock_submit_acquire(to, TOOL_OWNER, PATIENCE_MS, 0, tool->error);

    for (int i = 0; i < 200 && status == DLOCK_OK; i++) { /* until it stands in line */
        struct timespec moment = {.tv_nsec = 100000};

        if ((status = dlock_lock_inspect(from, tool->event, tool->error)) != DLOCK_OK)
            return status;
        dlock_event_unpack(tool->event, field, DLOCK_FIELD_COUNT, NULL, NULL);
        if (field[DLOCK_FIELD_WAITERS] != 0)
            break;
        nanosleep(&moment, NULL);
    }
    begun = now_us();
    if (status == DLOCK_OK)
        status = dlock_lock_release(from, TOOL_OWNER, tool->error);
    while (status == DLOCK_OK) {
        status = dlock_client_next(next, PATIENCE_MS, tool->event, tool->error);
        if (status == DLOCK_OK && dlock_event_type(tool->event) == DLOCK_EVENT_ACQUIRED)
            break;
    }
    add(bench, now_us() - begun);
    return status;
}

static dlock_status hand_overs(struct bench *bench, int64_t until)
{
    dlock_client *client[2] = {bench->tool->client, bench->other};
    dlock_lock *lock[2] = {NULL, NULL};
    dlock_status status = DLOCK_OK;
    int has = 0;

    for (int i = 0; i < 2 && status == DLOCK_OK; i++)
        status = dlock_lock_new(client[i], DLOCK_KIND_MUTEX, bench->name, strlen(bench->name), NULL, &lock[i],
                                bench->tool->error);
    if (status == DLOCK_OK)
        status = dlock_lock_acquire(lock[0], TOOL_OWNER, PATIENCE_MS, NULL, bench->tool->error);
    for (; status == DLOCK_OK && now_us() < until; has = !has)
        status = hand_over(bench, lock[has], lock[!has], client[!has]);
    if (status == DLOCK_OK)
        status = dlock_lock_release(lock[has], TOOL_OWNER, bench->tool->error);
    dlock_lock_free(lock[0]);
    dlock_lock_free(lock[1]);
    return status;
}

static const struct part {
    const char *key, *text;
    dlock_status (*measure)(struct bench *bench, int64_t until);
} parts[PARTS] = {
    {"round_trip", "a round trip", round_trips},
    {"pair", "acquire and release", pairs},
    {"pairs_at_once", "the same, 64 at once", many_pairs},
    {"hand_over", "release to the next's grant", hand_overs},
};

/* ---- output */

static int by_size(const void *a, const void *b)
{
    int32_t left = *(const int32_t *)a, right = *(const int32_t *)b;

    return (left > right) - (left < right);
}

static void report(struct bench *bench, const struct part *part)
{
    int64_t rate = bench->took_us > 0 ? bench->done * 1000000 / bench->took_us : 0;
    int32_t half, most;

    if (bench->count == 0)
        return;
    qsort(bench->sample, bench->count, sizeof bench->sample[0], by_size);
    half = bench->sample[bench->count / 2];
    most = bench->sample[bench->count * 99 / 100];
    if (bench->tool->json) {
        tool_json_begin(stdout);
        tool_json_text(stdout, "measured", part->key);
        tool_json_number(stdout, "per_second", rate);
        tool_json_number(stdout, "p50_us", half);
        tool_json_number(stdout, "p99_us", most);
        tool_json_number(stdout, "samples", bench->done);
        tool_json_end(stdout);
    } else {
        printf("%-28s p50 %7.3f ms   p99 %7.3f ms   %7" PRId64 " a second\n", part->text, half / 1000.0, most / 1000.0,
               rate);
    }
    fflush(stdout);
}

static int measure(struct bench *bench)
{
    for (int i = 0; i < PARTS; i++) {
        int64_t begun = now_us();
        dlock_status status;

        bench->count = 0;
        bench->done = 0;
        status = parts[i].measure(bench, begun + bench->part_ms * 1000);
        bench->took_us = now_us() - begun;
        if (status == DLOCK_OK)
            report(bench, &parts[i]);
        else if (dlock_error_code(bench->tool->error) == status)
            return tool_failed(bench->tool);
        else
            return tool_say(bench->tool, tool_code(status), "%s", dlock_status_text(status));
    }
    return TOOL_DONE;
}

/* Two clients, with a lease that lets tokens be forgotten soon. */
static int open_both(struct bench *bench)
{
    struct tool *tool = bench->tool;
    int code = tool_options(tool);

    if (!code)
        code = tool_option_number(tool, "lease_ms", 5000);
    if (!code)
        code = tool_option_number(tool, "token_ttl_ms", 60000);
    if (!code)
        code = tool_open(tool);
    if (!code && dlock_client_open(tool->url, tool->options, &bench->other, tool->error) != DLOCK_OK)
        code = tool_failed(tool);
    if (!code && !(bench->sample = malloc(SAMPLES * sizeof bench->sample[0])))
        code = tool_say(tool, TOOL_SYSTEM, "no memory");
    return code;
}

static int run(struct tool *tool, void *context)
{
    struct bench *bench = context;
    int code;

    bench->part_ms = bench->time / PARTS;
    snprintf(bench->name, sizeof bench->name, "dlock-bench:%d:%" PRId64, (int)getpid(), tool_now());
    if (!(code = open_both(bench)))
        code = measure(bench);
    if (bench->other)
        dlock_client_close(bench->other, CLOSE_MS, NULL);
    dlock_client_free(bench->other);
    free(bench->sample);
    tool_close(tool, CLOSE_MS);
    return code;
}

static int bench_main(int argc, char **argv)
{
    struct tool tool = {.command = "bench", .argc = argc, .argv = argv};
    struct bench bench = {.tool = &tool, .time = FOR_MS};
    const struct tool_arg args[] = {
        TOOL_ARG_URL(&tool),  TOOL_ARG_NAMESPACE(&tool),
        TOOL_ARG_JSON(&tool), {"for", TOOL_TIME, &bench.time, 100, 3600000, NULL},
        TOOL_ARG_END,
    };

    return tool_frame(&tool, &tool_bench, args, run, &bench);
}

const struct tool_command tool_bench = {"bench", "a short look at what this server gives", help, bench_main, 0, 0};
