/*
 * storm.h: random calls of the public ABI from many threads, see storm.c. storm_calls.c makes the calls, storm_child.c
 * those of a forked process.
 *
 * A thread that uses a handle holds its place's lock for reading, a thread that frees it for writing: dlock.h forbids
 * the use of a handle while it is freed. Boxes and transactions belong to one thread. Everything else is atomic, or
 * constant in a round.
 */
#ifndef STORM_H
#define STORM_H

#include <pthread.h>
#include <stdint.h>

#include "dlock.h"

#define SECRET "S3cr3tPaSs"

enum { SIDES = 2, LIVE = 0, DEAD = 1, PLACES = 14, WORKERS = 4, READERS = 2, TAGS = 1 << 15, GRANT_MAX = 1024 };

/* The state of a tag: unused, or answered without an event; in a call that may end with an event; its event was read. */
enum { TAG_NONE, TAG_ASKED, TAG_ANSWERED };

/* A lock handle. */
struct place {
    pthread_rwlock_t mutex;
    dlock_lock *lock; /* may be NULL */
    int32_t kind;
};

/* A client of a round: a server that is there, or none. */
struct side {
    pthread_rwlock_t mutex;
    dlock_client *client; /* NULL: freed */
    struct place place[PLACES];
    uint8_t tag[TAGS]; /* atomics */
    uint32_t tags;     /* atomic: tags in use so far */
    int ended;         /* atomic: a reader has seen the end of the queue */
};

/* A thread. */
struct self {
    int index;
    uint64_t random;
    dlock_error *why;
    dlock_event *event;
    dlock_options *options;
    dlock_txn *txn[SIDES];
    uint8_t grant[GRANT_MAX];
    size_t grant_size;
};

extern struct side storm_side[SIDES];
extern int64_t storm_calls_made;
extern int storm_keep_permits; /* in this round a client is freed without a close: no plain semaphore is acquired */

uint32_t storm_draw(struct self *self, uint32_t below);
_Noreturn void storm_wrong(const char *what, int64_t number);

/* Check the answer of a call: it is in the table, and the box has the same. Returns it. */
dlock_status storm_said(struct self *self, dlock_status status);

/* One random call, or a short sequence. */
void storm_call(struct self *self);

/* Every function with NULLs and zeros, and with numbers out of range. */
void storm_nothing(struct self *self);

/* Forks in the middle of everything; returns in the parent. */
void storm_fork(struct self *self);

#endif
