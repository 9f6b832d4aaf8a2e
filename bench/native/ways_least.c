/*
 * ways_least.c: the least lock with a line that a server's script can be, as a way of ways.h: an owner, a lease, a token, and a
 * list of those who wait. A release gives the lock to the first of them and tells it. Nobody notices who died, nobody checks
 * who hears, Redisson's clients are not in the line, and there is no gate. So it shows what a lock in a script costs at least.
 */
#include "ways_kinds.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

static const char acquire_text[] = "if redis.call('HLEN', KEYS[1]) == 0 then "
                                   "redis.call('HSET', KEYS[1], ARGV[1], '1') "
                                   "redis.call('PEXPIRE', KEYS[1], '30000') "
                                   "return redis.call('INCR', KEYS[2]) end "
                                   "redis.call('RPUSH', KEYS[3], ARGV[1]) "
                                   "return 0";
static const char release_text[] = "redis.call('HDEL', KEYS[1], ARGV[1]) "
                                   "local first = redis.call('LPOP', KEYS[3]) "
                                   "if first then "
                                   "redis.call('HSET', KEYS[1], first, '1') "
                                   "redis.call('PEXPIRE', KEYS[1], '30000') "
                                   "redis.call('PUBLISH', first, redis.call('INCR', KEYS[2])) end "
                                   "return 1";

struct least {
    redisContext *connection, *messages; /* messages: subscribed to the channel that has the owner's name */
    char lock[80], token[80], line[80], owner[64];
    char acquire_sha[41], release_sha[41];
};

static void load(struct least *least, const char *text, char sha[41])
{
    const char *words[] = {"SCRIPT", "LOAD", text};
    redisReply *reply = bare_ask(least->connection, 3, words);

    snprintf(sha, 41, "%s", reply->str);
    freeReplyObject(reply);
}

static void *least_open(const char *url)
{
    return (void *)url;
}

static void *least_lock(void *url, const char *name)
{
    static uint64_t locks;
    struct least *least = zeroed(sizeof *least);
    const char *words[] = {"SUBSCRIBE", least->owner};

    least->connection = bare_connect(url);
    least->messages = bare_connect(url);
    snprintf(least->lock, sizeof least->lock, "{%s}:least", name);
    snprintf(least->token, sizeof least->token, "{%s}:token", name);
    snprintf(least->line, sizeof least->line, "{%s}:waiters", name);
    snprintf(least->owner, sizeof least->owner, "%d:%" PRIu64, (int)getpid(),
             __atomic_add_fetch(&locks, 1, __ATOMIC_RELAXED));
    load(least, acquire_text, least->acquire_sha);
    load(least, release_text, least->release_sha);
    freeReplyObject(bare_ask(least->messages, 2, words));
    return least;
}

static int64_t call(struct least *least, const char *sha)
{
    const char *words[] = {"EVALSHA", sha, "3", least->lock, least->token, least->line, least->owner};
    redisReply *reply = bare_ask(least->connection, 7, words);
    int64_t value = reply->integer;

    freeReplyObject(reply);
    return value;
}

static int64_t least_acquire(void *lock)
{
    struct least *least = lock;
    int64_t token = call(least, least->acquire_sha);
    redisReply *reply;

    if (token)
        return token;
    reply = bare_hear(least->messages);
    if (sscanf(reply->element[2]->str, "%" SCNd64, &token) != 1)
        die("acquire", "this is no message of the script");
    freeReplyObject(reply);
    return token;
}

static void least_release(void *lock)
{
    struct least *least = lock;

    if (call(least, least->release_sha) != 1)
        die("release", "this is no reply of the script");
}

const struct way least_way = {"least", least_open, least_lock, least_acquire, least_release, 1};
