/*
 * keep.c: keep WAY URL LOCKS LEASE_MS SECONDS: hold many locks and renew them.
 *
 * "dlock": submit all acquisitions, print "held", wait for a line on stdin, let the watchdog work for SECONDS, and
 * print its counters. "scripts": the same locks, then the renewal script for one lock after the other, each after the
 * reply to the one before. "bare": the same locks in the same random order, 64 in a script that has nothing but the two commands
 * of a renewal, at the pace of a lease of 9 s. SECONDS is not used then.
 */
#include "bench.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 512, BATCH = 64 };

static const char *const uuid = "0b5e5c1e-0000-8000-8000-00000000beef";

/* run.py measures the server between two of these. */
static void step(const char *word)
{
    printf("%s\n", word);
    fflush(stdout);
    if (getchar() == EOF)
        die("stdin", "closed");
}

static void name_of(char name[32], int i)
{
    snprintf(name, 32, "keep:%d", i);
}

/* ---- libdlock */

static void ask(dlock_client *client, int i)
{
    char name[32];
    dlock_lock *lock;

    name_of(name, i);
    lock = dlock_named(client, name);
    check(dlock_lock_submit_acquire(lock, 1, -1, i, NULL), NULL);
    dlock_lock_free(lock);
}

static void acquire_all(dlock_client *client, int locks)
{
    dlock_event *event = dlock_event_new();
    int asked = 0, answered = 0;

    while (answered < locks) {
        int64_t field[DLOCK_FIELD_COUNT];

        while (asked < locks && asked - answered < WINDOW)
            ask(client, asked++);
        check(dlock_client_next(client, -1, event, NULL), NULL);
        check(dlock_event_unpack(event, field, DLOCK_FIELD_COUNT, NULL, NULL), NULL);
        if (field[DLOCK_FIELD_TYPE] != DLOCK_EVENT_ACQUIRED)
            die("acquire", dlock_event_text(event));
        answered++;
    }
    dlock_event_free(event);
}

static void stats(dlock_client *client, int64_t values[DLOCK_STAT_COUNT])
{
    check(dlock_client_stats(client, values, DLOCK_STAT_COUNT, NULL, NULL), NULL);
}

static void keep_dlock(const char *url, int locks, const char *lease_ms, double seconds)
{
    dlock_client *client = dlock_connect(url, "lease_ms", lease_ms);
    int64_t start = now_ns(), before[DLOCK_STAT_COUNT], after[DLOCK_STAT_COUNT];

    acquire_all(client, locks);
    report("acquire_s", (double)(now_ns() - start) / NS_PER_S);
    sleep_ns(atoi(lease_ms) * (int64_t)NS_PER_MS / 2);
    step("held");
    stats(client, before);
    sleep_ns((int64_t)(seconds * NS_PER_S));
    stats(client, after);
    report("renewed", (double)(after[DLOCK_STAT_RENEWED] - before[DLOCK_STAT_RENEWED]));
    report("scripts", (double)(after[DLOCK_STAT_RENEWAL_SCRIPTS] - before[DLOCK_STAT_RENEWAL_SCRIPTS]));
    step("measured");
    sleep_ns((int64_t)(seconds * NS_PER_S));
    stats(client, after);
    report("late", (double)after[DLOCK_STAT_RENEWALS_LATE]);
    report("lost", (double)after[DLOCK_STAT_LOST]);
    report("held", (double)after[DLOCK_STAT_HELD]);
    step("done");
    exit(0);
}

/* ---- the renewal script, one lock at a time */

static void send(redisContext *connection, int count, const char **words)
{
    if (redisAppendCommandArgv(connection, count, words, NULL) != REDIS_OK)
        die("hiredis", connection->errstr);
}

static void receive(redisContext *connection)
{
    redisReply *reply;

    if (redisGetReply(connection, (void **)&reply) != REDIS_OK || reply->type == REDIS_REPLY_ERROR)
        die("hiredis", connection->err ? connection->errstr : "an error reply");
    freeReplyObject(reply);
}

static void owner_of(char owner[64], int i)
{
    snprintf(owner, 64, "%s:%d", uuid, i + 1);
}

/* Make the keys of the acquire script. */
static void make_locks(redisContext *connection, int locks)
{
    for (int i = 0; i < locks; i++) {
        char name[32], owner[64], token[64];

        name_of(name, i);
        owner_of(owner, i);
        snprintf(token, sizeof token, "redisson_lock_token:{%s}", name);
        send(connection, 4, (const char *[]){"HSET", name, owner, "1"});
        send(connection, 3, (const char *[]){"PEXPIRE", name, "600000"});
        send(connection, 5, (const char *[]){"SET", token, "1700000000000000", "PX", "86400000"});
        if (i % WINDOW == WINDOW - 1 || i == locks - 1)
            for (int j = 0; j < 3 * (i % WINDOW + 1); j++)
                receive(connection);
    }
}

/* The numbers below count in a random order. */
static int *shuffled(int count)
{
    int *order = zeroed((size_t)count * sizeof *order);

    srand(1);
    for (int i = 0; i < count; i++) {
        int at = rand() % (i + 1);

        order[i] = order[at];
        order[at] = i;
    }
    return order;
}

static void send_batch(redisContext *connection, const int *order, int count, const char *until)
{
    static char names[BATCH][32], owners[BATCH][64];
    const char *words[4 + 2 * BATCH];
    char number[12];
    int used = 0;

    snprintf(number, sizeof number, "%d", count);
    words[used++] = "EVALSHA";
    words[used++] = script_sha("bare_renew");
    words[used++] = number;
    for (int i = 0; i < count; i++) {
        name_of(names[i], order[i]);
        words[used++] = names[i];
    }
    for (int i = 0; i < count; i++) {
        owner_of(owners[i], order[i]);
        words[used++] = owners[i];
    }
    words[used++] = until;
    send(connection, used, words);
}

/* Say that all were renewed since start, and end. */
static void renewed_all(int locks, int64_t start)
{
    report("renewed", locks);
    report("per_s", locks * (double)NS_PER_S / (double)(now_ns() - start));
    step("measured");
    exit(0);
}

static void keep_bare(const char *url, int locks)
{
    redisContext *connection = bare_connect(url);
    int *order = shuffled(locks);
    int64_t start;

    make_locks(connection, locks);
    step("held");
    start = now_ns();
    for (int i = 0; i < locks; i += BATCH) {
        send_batch(connection, order + i, locks - i < BATCH ? locks - i : BATCH, "9999999999999");
        receive(connection);
        sleep_ns((int64_t)2700 * NS_PER_MS * BATCH / locks);
    }
    renewed_all(locks, start);
}

static void keep_scripts(const char *url, int locks, const char *lease_ms)
{
    redisContext *connection = bare_connect(url);
    const char *sha = script_sha("renew");
    int64_t start;

    make_locks(connection, locks);
    step("held");
    start = now_ns();
    for (int i = 0; i < locks; i++) {
        char name[32], owner[64];

        name_of(name, i);
        owner_of(owner, i);
        send(connection, 6, (const char *[]){"EVALSHA", sha, "1", name, owner, lease_ms});
        receive(connection);
    }
    renewed_all(locks, start);
}

int main(int argc, char **argv)
{
    if (argc != 6)
        die("usage", "keep WAY URL LOCKS LEASE_MS SECONDS");
    if (strcmp(argv[1], "dlock") == 0)
        keep_dlock(argv[2], atoi(argv[3]), argv[4], atof(argv[5]));
    if (strcmp(argv[1], "bare") == 0)
        keep_bare(argv[2], atoi(argv[3]));
    keep_scripts(argv[2], atoi(argv[3]), "900000");
}
