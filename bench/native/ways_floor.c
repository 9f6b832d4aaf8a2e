/*
 * ways_floor.c: a fair queue of futexes in one process, without a server, as a way of ways.h: the least cost of a
 * hand-over from thread to thread on this machine.
 *
 * line.mutex guards the queue. Each place has a futex, turn.
 */
#include "ways_kinds.h"

#include <linux/futex.h>
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

const struct way floor_way = {"futexes", floor_open, floor_lock, floor_acquire, floor_release, 1};
