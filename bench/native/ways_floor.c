/*
 * ways_floor.c: two lines that are not locks, as ways of ways.h. A fair queue of futexes in one process, without a server: the
 * least cost of a hand-over from thread to thread on this machine. And BLPOP of a list with one element: the server serves
 * its clients in the order in which they came, so that is the least cost of a strict order over processes. It has no
 * token and no lease, and whoever dies with the element keeps it.
 *
 * line.mutex guards the queue. Each place has a futex, turn.
 */
#include "ways_kinds.h"

#include <linux/futex.h>
#include <stdio.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

struct place {
    struct line *line;
    struct place *behind;
    uint32_t turn;
};

struct line {
    pthread_mutex_t mutex;
    struct place *first, **end; /* the waiters */
    int taken;
};

static void *floor_open(const char *url)
{
    struct line *line = zeroed(sizeof *line);

    (void)url;
    pthread_mutex_init(&line->mutex, NULL);
    line->end = &line->first;
    return line;
}

static void *floor_lock(void *line, const char *name)
{
    struct place *place = zeroed(sizeof *place);

    (void)name;
    place->line = line;
    return place;
}

static int64_t floor_acquire(void *lock)
{
    struct place *place = lock;
    struct line *line = place->line;
    int waits;

    place->turn = 0;
    place->behind = NULL;
    pthread_mutex_lock(&line->mutex);
    waits = line->taken;
    line->taken = 1;
    if (waits) {
        *line->end = place;
        line->end = &place->behind;
    }
    pthread_mutex_unlock(&line->mutex);
    while (waits && !__atomic_load_n(&place->turn, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &place->turn, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
    return 0;
}

static void floor_release(void *lock)
{
    struct line *line = ((struct place *)lock)->line;
    struct place *next;

    pthread_mutex_lock(&line->mutex);
    next = line->first;
    if (!next)
        line->taken = 0;
    else if (!(line->first = next->behind))
        line->end = &line->first;
    pthread_mutex_unlock(&line->mutex);
    if (!next)
        return;
    __atomic_store_n(&next->turn, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &next->turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* ---- BLPOP */

struct blpop {
    redisContext *connection;
    char list[80];
};

static void blpop_command(const struct blpop *blpop, const char *format, const char *name)
{
    redisReply *reply = redisCommand(blpop->connection, format, name);

    if (!reply || reply->type == REDIS_REPLY_ERROR)
        die(format, blpop->connection->errstr);
    freeReplyObject(reply);
}

static void *blpop_open(const char *url)
{
    return (void *)url;
}

/* The first one of all puts the element into the list. */
static void *blpop_lock(void *url, const char *name)
{
    struct blpop *blpop = zeroed(sizeof *blpop);

    blpop->connection = bare_connect(url);
    snprintf(blpop->list, sizeof blpop->list, "{%s}:line", name);
    blpop_command(blpop,
                  "EVAL return(redis.call('SETNX',KEYS[1]..':begun',1)==1)and(redis.call('RPUSH',KEYS[1],'x')) 1 %s",
                  blpop->list);
    return blpop;
}

static int64_t blpop_acquire(void *lock)
{
    blpop_command(lock, "BLPOP %s 0", ((struct blpop *)lock)->list);
    return 0;
}

static void blpop_release(void *lock)
{
    blpop_command(lock, "RPUSH %s x", ((struct blpop *)lock)->list);
}

const struct way blpop_way = {"blpop", blpop_open, blpop_lock, blpop_acquire, blpop_release, 1};
const struct way floor_way = {"futexes", floor_open, floor_lock, floor_acquire, floor_release, 1};
