/*
 * ways_kinds.c: libdlock's kinds other than the mutex, as ways of ways.h.
 */
#include "ways_kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MEMBERS = 3, SEATS = 4 };

static void *open_client(const char *url)
{
    return dlock_connect(url, NULL, NULL);
}

static dlock_lock *of_kind(dlock_client *client, int32_t kind, const char *name)
{
    dlock_lock *lock;

    check(dlock_lock_new(client, kind, name, strlen(name), NULL, &lock, NULL), NULL);
    return lock;
}

static int64_t take(void *lock)
{
    int64_t token;

    check(dlock_lock_acquire(lock, 0, -1, &token, NULL), NULL);
    return token;
}

static void give(void *lock)
{
    check(dlock_lock_release(lock, 0, NULL), NULL);
}

static void *fair(void *client, const char *name)
{
    return of_kind(client, DLOCK_KIND_FAIR, name);
}

static void *reader(void *client, const char *name)
{
    return of_kind(client, DLOCK_KIND_READ, name);
}

static void *writer(void *client, const char *name)
{
    return of_kind(client, DLOCK_KIND_WRITE, name);
}

/* The first caller creates the semaphore with its permits. */
static void *seats(void *client, int32_t kind, const char *name)
{
    dlock_lock *lock = of_kind(client, kind, name);
    dlock_status status = dlock_semaphore_set(lock, SEATS, NULL);

    if (status != DLOCK_UNCHANGED)
        check(status, NULL);
    return lock;
}

static void *semaphore(void *client, const char *name)
{
    return seats(client, DLOCK_KIND_SEMAPHORE, name);
}

static void *permits(void *client, const char *name)
{
    return seats(client, DLOCK_KIND_PERMIT_SEMAPHORE, name);
}

/* ---- three mutexes of one slot */

struct three {
    dlock_lock *lock[MEMBERS];
};

static void *three(void *client, const char *name)
{
    struct three *all = zeroed(sizeof *all);

    for (int i = 0; i < MEMBERS; i++) {
        char member[128];

        snprintf(member, sizeof member, "{%s}:%d", name, i);
        all->lock[i] = dlock_named(client, member);
    }
    return all;
}

static int64_t take_three(void *opaque)
{
    struct three *all = opaque;
    int64_t token = 0;

    for (int i = 0; i < MEMBERS; i++)
        token = take(all->lock[i]);
    return token;
}

static void give_three(void *opaque)
{
    struct three *all = opaque;

    for (int i = MEMBERS - 1; i >= 0; i--)
        give(all->lock[i]);
}

static void *multi(void *client, const char *name)
{
    struct three *all = three(client, name);
    dlock_lock *lock;

    check(dlock_lock_new_multi(client, all->lock, MEMBERS, &lock, NULL), NULL);
    for (int i = 0; i < MEMBERS; i++)
        dlock_lock_free(all->lock[i]);
    free(all);
    return lock;
}

const struct way kind_ways[] = {
    {"fair", open_client, fair, take, give, 1},
    {"read", open_client, reader, take, give, 1024},
    {"write", open_client, writer, take, give, 1},
    {"semaphore", open_client, semaphore, take, give, SEATS},
    {"permits", open_client, permits, take, give, SEATS},
    {"multi", open_client, multi, take, give, 1},
    {"three", open_client, three, take_three, give_three, 1},
};
const size_t kind_way_count = sizeof kind_ways / sizeof kind_ways[0];
