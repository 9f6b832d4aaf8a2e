/*
 * buyer.h: what the parts of a process full of buyers share: buyer.c runs it, buyer_lock.c serves a buyer with a lock,
 * buyer_txn.c without one.
 */
#ifndef BUYER_H
#define BUYER_H

#include <stdint.h>

#include "dlock.h"

enum { LINE_MAX_BYTES = 1024, REPLY_MAX = 256, NUMBERS_MAX = 4096 };

enum variant { LOCK, FAIR, GATE, OPTIMISTIC };

struct numbers {
    int64_t at[NUMBERS_MAX];
    int count;
};

/* The same for all threads; nothing in it changes once they run. */
struct sale {
    const char *stock_path, *script;
    unsigned seed;
    enum variant variant;
    struct numbers halts, buyers;
    dlock_client *client;
    dlock_lock *lock; /* NULL: optimistic */
};

extern struct sale sale;

struct turn {
    int64_t buyer, token, left;
    int64_t asked, granted, checked; /* CLOCK_MONOTONIC, microseconds */
    int64_t conflicts;
    int32_t state;
    const char *answer; /* "bought", "sold out", "refused" */
};

/* CLOCK_MONOTONIC, microseconds. */
int64_t now(void);

/* A line of JSON on standard output. */
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);
_Noreturn void fail(const char *what, const char *why);
void tell_turn(const struct turn *turn);
void write_all(int fd, const char *text, size_t size);

/* Between reading and writing: think, and when the stock read is one of the halts, say so and wait for the word. */
void think(int64_t buyer);
void halt_at(const struct turn *turn);

/* Serve a buyer once; the answer. What a thread needs for it is made and freed by the other two. */
struct desk *desk_open(void);
const char *lock_turn(struct desk *desk, int64_t buyer);
void desk_close(struct desk *desk);

const char *txn_turn(dlock_txn *txn, int64_t buyer);

#endif
