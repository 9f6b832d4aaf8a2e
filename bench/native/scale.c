/*
 * scale.c: scale KIND URL WAITERS SECONDS LIMIT: many waiters of one process want one lock, and get it one after the
 * other.
 *
 * A round: one owner holds the lock; WAITERS owners submit an acquire; when the server knows them, the holder releases.
 * Each waiter releases at once what it gets. For KIND read nobody holds: WAITERS readers get the lock, then all release.
 * One thread submits the calls and reads the events. No round begins after SECONDS. After LIMIT seconds the program
 * stops in the middle of a round, and prints the rate so far.
 */
#include "bench.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUIET = 50 * NS_PER_MS };

/* Calls at the server, from INFO commandstats: all, with those inside scripts; and scripts. */
struct calls {
    int64_t all, scripts;
};

/* One phase of all rounds: waiting begins, grants, releases. */
struct phase {
    int64_t count, ns;
    struct calls calls;
};

struct scale {
    int32_t kind;
    int waiters;
    dlock_client *client;
    dlock_event *event;
    redisContext *control;
    dlock_lock *lock; /* of this round */
    int64_t limit;    /* when the program stops */
    int64_t token, fell, failed;
    double part; /* the least share of the waiters that got the lock in a round */
    struct phase queued, granted, released;
};

static const struct {
    const char *name;
    int32_t kind;
} kinds[] = {
    {"mutex", DLOCK_KIND_MUTEX}, {"fair", DLOCK_KIND_FAIR},           {"read", DLOCK_KIND_READ},
    {"write", DLOCK_KIND_WRITE}, {"semaphore", DLOCK_KIND_SEMAPHORE}, {"permits", DLOCK_KIND_PERMIT_SEMAPHORE},
};

static int32_t kind_named(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return kinds[i].kind;
    die(name, "no such kind");
}

/* ---- what the server counts */

static struct calls calls_now(redisContext *control)
{
    redisReply *reply = redisCommand(control, "INFO commandstats");
    struct calls calls = {0};

    if (!reply || reply->type == REDIS_REPLY_ERROR)
        die("INFO commandstats", reply ? reply->str : control->errstr);
    for (const char *at = reply->str; (at = strstr(at, "cmdstat_")); at++) {
        const char *name = at + strlen("cmdstat_");
        const char *number = strstr(name, ":calls=");
        int64_t count = number ? strtoll(number + strlen(":calls="), NULL, 10) : 0;

        if (strncmp(name, "info:", 5) == 0)
            continue;
        calls.all += count;
        if (strncmp(name, "eval", 4) == 0 || strncmp(name, "fcall", 5) == 0)
            calls.scripts += count;
    }
    freeReplyObject(reply);
    return calls;
}

static void add_phase(struct phase *phase, int64_t count, int64_t ns, struct calls since, struct calls now)
{
    phase->count += count;
    phase->ns += ns;
    phase->calls.all += now.all - since.all;
    phase->calls.scripts += now.scripts - since.scripts;
}

static void report_phase(const char *prefix, const struct phase *phase)
{
    double count = phase->count ? (double)phase->count : 1;
    char name[64];

    snprintf(name, sizeof name, "%s_per_s", prefix);
    report(name, phase->ns ? (double)phase->count * NS_PER_S / (double)phase->ns : 0);
    snprintf(name, sizeof name, "%s_us", prefix);
    report(name, (double)phase->ns / NS_PER_US / count);
    snprintf(name, sizeof name, "%s_commands", prefix);
    report(name, (double)phase->calls.all / count);
    snprintf(name, sizeof name, "%s_scripts", prefix);
    report(name, (double)phase->calls.scripts / count);
}

/* ---- calls and events */

/* The owner of a waiter is its index + 1; that of the first holder is waiters + 1. */
static void submit_acquires(struct scale *s)
{
    for (int i = 0; i < s->waiters; i++)
        check(dlock_lock_submit_acquire(s->lock, i + 1, -1, i, NULL), NULL);
}

static void submit_release(struct scale *s, int64_t owner)
{
    check(dlock_lock_submit_release(s->lock, owner, owner, NULL), NULL);
}

/* The type of the next event that ends a call; DLOCK_EVENT_NONE once the limit is reached. */
static int64_t next(struct scale *s, int64_t *fields)
{
    for (;;) {
        int64_t left = (s->limit - now_ns()) / NS_PER_MS;
        dlock_status status = left > 0 ? dlock_client_next(s->client, left, s->event, NULL) : DLOCK_NO_EVENT;

        if (status == DLOCK_NO_EVENT)
            return DLOCK_EVENT_NONE;
        check(status, NULL);
        check(dlock_event_unpack(s->event, fields, DLOCK_FIELD_COUNT, NULL, NULL), NULL);
        switch (fields[DLOCK_FIELD_TYPE]) {
        case DLOCK_EVENT_ACQUIRE_FAILED:
        case DLOCK_EVENT_RELEASE_FAILED:
            s->failed++;
            return fields[DLOCK_FIELD_TYPE];
        case DLOCK_EVENT_LOST:
            s->failed++;
            break;
        case DLOCK_EVENT_ACQUIRED:
        case DLOCK_EVENT_RELEASED:
            return fields[DLOCK_FIELD_TYPE];
        case DLOCK_EVENT_LOG:
        case DLOCK_EVENT_AT_RISK:
            break;
        default:
            die("an event that no round has", dlock_event_text(s->event));
        }
    }
}

/* Read the events of count calls; returns how many are of this type. */
static int collect(struct scale *s, int64_t type, int count)
{
    int64_t fields[DLOCK_FIELD_COUNT], found;
    int seen = 0;

    for (int i = 0; i < count && (found = next(s, fields)) != DLOCK_EVENT_NONE; i++)
        seen += found == type;
    return seen;
}

/* ---- rounds */

static void new_lock(struct scale *s, int round)
{
    char name[64];

    snprintf(name, sizeof name, "scale:%d:%d", (int)getpid(), round);
    check(dlock_lock_new(s->client, s->kind, name, strlen(name), NULL, &s->lock, NULL), NULL);
    if (s->kind == DLOCK_KIND_SEMAPHORE || s->kind == DLOCK_KIND_PERMIT_SEMAPHORE)
        check(dlock_semaphore_set(s->lock, 1, NULL), NULL);
    s->token = 0;
}

/*
 * Wait until the server knows the waiters: it ran commands for them, and none follows for a while. Returns when it ran
 * the last one. At most half of the time that is left is spent here.
 */
static int64_t settle(struct scale *s, int64_t began)
{
    int64_t seen = -1, last = began, limit = began + (s->limit - began) / 2, now;

    do {
        int64_t calls = calls_now(s->control).all;

        now = now_ns();
        if (calls != seen)
            last = now;
        seen = calls;
        sleep_ns((now - began) / 20 + NS_PER_MS / 5);
    } while (now - last < QUIET && now < limit);
    return last;
}

static void queue_up(struct scale *s)
{
    struct calls since = calls_now(s->control);
    int64_t began = now_ns(), settled;

    submit_acquires(s);
    settled = settle(s, began);
    add_phase(&s->queued, s->waiters, settled - began, since, calls_now(s->control));
}

/* The holder releases, then each waiter what it gets. Returns how many got the lock. */
static int drain(struct scale *s)
{
    int64_t fields[DLOCK_FIELD_COUNT], type;
    int granted = 0, ended = 0; /* ended: releases, and failed calls */

    submit_release(s, s->waiters + 1);
    while (ended < s->waiters + 1 && (type = next(s, fields)) != DLOCK_EVENT_NONE) {
        if (type != DLOCK_EVENT_ACQUIRED) {
            ended++;
            continue;
        }
        s->fell += fields[DLOCK_FIELD_TOKEN] <= s->token;
        s->token = fields[DLOCK_FIELD_TOKEN];
        submit_release(s, fields[DLOCK_FIELD_TAG] + 1);
        granted++;
    }
    return granted;
}

static int round_of_waiters(struct scale *s)
{
    struct calls since;
    int64_t began;
    int granted;

    check(dlock_lock_acquire(s->lock, s->waiters + 1, -1, &s->token, NULL), NULL);
    queue_up(s);
    since = calls_now(s->control);
    began = now_ns();
    granted = drain(s);
    add_phase(&s->granted, granted, now_ns() - began, since, calls_now(s->control));
    return granted;
}

static int round_of_readers(struct scale *s)
{
    struct calls since = calls_now(s->control), held;
    int64_t began = now_ns();
    int granted, released;

    submit_acquires(s);
    granted = collect(s, DLOCK_EVENT_ACQUIRED, s->waiters);
    held = calls_now(s->control);
    add_phase(&s->granted, granted, now_ns() - began, since, held);
    add_phase(&s->queued, granted, now_ns() - began, since, held);
    if (granted < s->waiters)
        return granted;
    began = now_ns();
    for (int i = 0; i < s->waiters; i++)
        submit_release(s, i + 1);
    released = collect(s, DLOCK_EVENT_RELEASED, s->waiters);
    add_phase(&s->released, released, now_ns() - began, held, calls_now(s->control));
    return granted;
}

static void run(struct scale *s, int64_t duration)
{
    int64_t end = now_ns() + duration;
    int rounds = 0;

    while (rounds == 0 || now_ns() < (end < s->limit ? end : s->limit)) {
        int granted;

        new_lock(s, rounds++);
        granted = s->kind == DLOCK_KIND_READ ? round_of_readers(s) : round_of_waiters(s);
        if ((double)granted / s->waiters < s->part)
            s->part = (double)granted / s->waiters;
        dlock_lock_free(s->lock);
    }
    report("rounds", rounds);
}

int main(int argc, char **argv)
{
    struct scale s = {.part = 1};

    if (argc != 6)
        die("usage", "scale KIND URL WAITERS SECONDS LIMIT");
    s.kind = kind_named(argv[1]);
    s.client =
        dlock_connect(argv[2], "command_timeout_ms", "20000"); /* thousands of requests wait for the server at once */
    s.control = bare_connect(argv[2]);
    s.waiters = atoi(argv[3]);
    s.event = dlock_event_new();
    s.limit = now_ns() + (int64_t)(atof(argv[5]) * NS_PER_S);
    run(&s, (int64_t)(atof(argv[4]) * NS_PER_S));
    report_phase("queued", &s.queued);
    report_phase("granted", &s.granted);
    report_phase("released", &s.released);
    report("part", s.part);
    report("fell", (double)s.fell);
    report("failed", (double)s.failed);
    fflush(stdout);
    _exit(0); /* what is left of a round that was stopped belongs to nobody else */
}
