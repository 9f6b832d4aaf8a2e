/*
 * storm.h: random calls of the public ABI from many threads, see storm.c. storm_calls.c makes the calls, storm_child.c what a
 * forked process does.
 *
 * Who uses a handle has the lock of its place for reading, who frees it has it for writing, as dlock.h asks for: nobody uses a
 * handle that goes back. Boxes and transactions belong to one thread. Everything else is atomic, or constant in a round.
 */
#ifndef STORM_H
#define STORM_H

#include <pthread.h>
#include <stdint.h>

#include "dlock.h"

#define SECRET "S3cr3tPaSs"

enum { SIDES = 2, LIVE = 0, DEAD = 1, PLACES = 14, WORKERS = 4, READERS = 2, TAGS = 1 << 15, GRANT_MAX = 1024 };

/* What is known of a tag: a call with it is under way or was taken; then its event has come. */
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
    uint32_t tags;     /* atomic: given out */
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
extern int storm_keep_permits; /* in this round a client goes away without a close: no plain semaphore is acquired */

uint32_t storm_draw(struct self *self, uint32_t below);
_Noreturn void storm_wrong(const char *what, int64_t number);

/* The answer of a call: it is one of the table, and the box says the same. Returns it. */
dlock_status storm_said(struct self *self, dlock_status status);

/* One random call, or a few that belong together. */
void storm_call(struct self *self);

/* Every function with nothing at all, and with numbers that are refused. */
void storm_nothing(struct self *self);

/* A process that was forked in the middle of it all; returns in the parent. */
void storm_fork(struct self *self);

#endif
