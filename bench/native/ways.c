/*
 * ways.c: see ways.h. "scripts" sends the commands of src/redis/codec/commands.c; run.py checks that they are the same.
 */
#include "ways.h"

#include "ways_kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- libdlock */

static void *dlock_way_open(const char *url)
{
    return dlock_connect(url, NULL, NULL);
}

static void *dlock_way_lock(void *process, const char *name)
{
    return dlock_named(process, name);
}

static int64_t dlock_way_acquire(void *lock)
{
    int64_t token;

    check(dlock_lock_acquire(lock, 0, -1, &token, NULL), NULL);
    return token;
}

static void dlock_way_release(void *lock)
{
    check(dlock_lock_release(lock, 0, NULL), NULL);
}

/* ---- one connection per thread */

struct process {
    const char *url;
    char uuid[37];
    int64_t numbers; /* atomic */
};

struct bare {
    redisContext *connection;
    redisContext *messages; /* "queued" only: subscribed to the channel of the process */
    struct process *process;
    char names[6][128]; /* lock, fence, line, about, gate, channel */
    char owner[64];
    int64_t seq;
    const char *acquire_sha, *release_sha;
};

static void *bare_open(const char *url)
{
    struct process *process = zeroed(sizeof *process);

    process->url = url;
    snprintf(process->uuid, sizeof process->uuid, "%08x-0000-8000-8000-%012" PRIx64, (unsigned)getpid(),
             (uint64_t)now_ns() & 0xffffffffffff);
    return process;
}

static struct bare *bare_lock(struct process *process, const char *name)
{
    static const char *const prefix[] = {
        "", "redisson_lock_token:", "dlock_queue:", "dlock_waiters:", "dlock_gate:", "redisson_lock__channel:"};
    struct bare *bare = zeroed(sizeof *bare);

    bare->process = process;
    bare->connection = bare_connect(process->url);
    for (int i = 0; i < 6; i++)
        snprintf(bare->names[i], sizeof bare->names[i], i ? "%s{%s}" : "%s%s", prefix[i], name);
    return bare;
}

static void new_owner(struct bare *bare)
{
    snprintf(bare->owner, sizeof bare->owner, "%s:%" PRId64, bare->process->uuid,
             __atomic_add_fetch(&bare->process->numbers, 1, __ATOMIC_RELAXED));
}

/* ---- libdlock's scripts */

static void *scripts_lock(void *process, const char *name)
{
    struct bare *bare = bare_lock(process, name);

    bare->acquire_sha = script_sha("acquire");
    bare->release_sha = script_sha("release");
    return bare;
}

/* The token, or 0 when somebody else has the lock. With queues, the process is in line then. */
static int64_t scripts_try(struct bare *bare, int queues)
{
    char seq[24];
    const char *words[] = {"EVALSHA",
                           bare->acquire_sha,
                           "5",
                           bare->names[0],
                           bare->names[1],
                           bare->names[2],
                           bare->names[3],
                           bare->names[4],
                           bare->owner,
                           "30000",
                           "65",
                           queues ? "1" : "0",
                           "0",
                           "4000",
                           "86400000",
                           seq,
                           "0",
                           "0",
                           "1"};
    redisReply *reply;
    int64_t token;

    new_owner(bare);
    snprintf(seq, sizeof seq, "%" PRId64, ++bare->seq);
    reply = bare_ask(bare->connection, sizeof words / sizeof words[0], words);
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements < 2 || (uint64_t)reply->element[0]->integer > 1)
        die("acquire", "the script's reply has changed");
    token = reply->element[0]->integer ? reply->element[1]->integer : 0;
    freeReplyObject(reply);
    return token;
}

static int64_t scripts_acquire(void *lock)
{
    int64_t token = scripts_try(lock, 0);

    if (!token)
        die("acquire", "somebody holds it");
    return token;
}

static int64_t scripts_poll(void *lock)
{
    int64_t token;

    while (!(token = scripts_try(lock, 0)))
        sleep_ns(NS_PER_MS);
    return token;
}

static void scripts_release(void *lock)
{
    struct bare *bare = lock;
    const char *words[] = {"EVALSHA",
                           bare->release_sha,
                           "5",
                           bare->names[0],
                           bare->names[1],
                           bare->names[2],
                           bare->names[3],
                           bare->names[4],
                           bare->owner,
                           bare->names[5],
                           "0",
                           "0"};
    redisReply *reply = bare_ask(bare->connection, sizeof words / sizeof words[0], words);

    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
        die("release", "it was not held, or the script's reply has changed");
    freeReplyObject(reply);
}

/* ---- libdlock's scripts, and the messages that they publish. One lock per process. */

static void *queued_lock(void *process, const char *name)
{
    struct bare *bare = scripts_lock(process, name);
    redisReply *reply;

    bare->messages = bare_connect(bare->process->url);
    if (!(reply = redisCommand(bare->messages, "SUBSCRIBE dlock_client:%s", bare->process->uuid)))
        die("hiredis", bare->messages->errstr);
    freeReplyObject(reply);
    return bare;
}

static int64_t queued_acquire(void *lock)
{
    struct bare *bare = lock;
    int64_t token = scripts_try(bare, 1);
    redisReply *reply;

    if (token)
        return token;
    reply = bare_hear(bare->messages);
    if (sscanf(reply->element[2]->str, "grant %*d %*d %" SCNd64, &token) != 1)
        die("acquire", "the script's message has changed");
    freeReplyObject(reply);
    return token;
}

/* ---- poll */

static void *poll_lock(void *process, const char *name)
{
    struct bare *bare = bare_lock(process, name);

    bare->release_sha = script_sha("poll_release");
    return bare;
}

static int64_t poll_acquire(void *lock)
{
    struct bare *bare = lock;
    const char *words[] = {"SET", bare->names[0], bare->owner, "NX", "PX", "30000"};

    new_owner(bare);
    for (;;) {
        redisReply *reply = bare_ask(bare->connection, sizeof words / sizeof words[0], words);
        int won = reply->type == REDIS_REPLY_STATUS;

        freeReplyObject(reply);
        if (won)
            return 0;
        sleep_ns(NS_PER_MS);
    }
}

static void poll_release(void *lock)
{
    struct bare *bare = lock;
    const char *words[] = {"EVALSHA", bare->release_sha, "1", bare->names[0], bare->owner};
    redisReply *reply = bare_ask(bare->connection, sizeof words / sizeof words[0], words);

    if (reply->integer != 1)
        die("release", "it was not held");
    freeReplyObject(reply);
}

static const struct way ways[] = {
    {"dlock", dlock_way_open, dlock_way_lock, dlock_way_acquire, dlock_way_release, 1},
    {"scripts", bare_open, scripts_lock, scripts_acquire, scripts_release, 1},
    {"queued", bare_open, queued_lock, queued_acquire, scripts_release, 1},
    {"scripts_poll", bare_open, scripts_lock, scripts_poll, scripts_release, 1},
    {"poll", bare_open, poll_lock, poll_acquire, poll_release, 1},
};

static const struct way *const floors[] = {
    &floor_way,
    &blpop_way,
    &least_way,
#ifdef BENCH_ETCD
    &etcd_way,
#endif
};

const struct way *way_named(const char *name)
{
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        if (strcmp(ways[i].name, name) == 0)
            return &ways[i];
    for (size_t i = 0; i < kind_way_count; i++)
        if (strcmp(kind_ways[i].name, name) == 0)
            return &kind_ways[i];
    for (size_t i = 0; i < sizeof floors / sizeof floors[0]; i++)
        if (strcmp(floors[i]->name, name) == 0)
            return floors[i];
    die(name, "no such way");
}
