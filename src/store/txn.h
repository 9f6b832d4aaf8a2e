/*
 * txn.h: optimistic transactions, which a store may have: keys are watched and read, writes are kept, the commit does all of
 * them or none. Included by store.h.
 *
 * A round begins with the first watch. It ends with commit, rollback or a failure. A transaction has no mutex: its owner lets
 * one thread or one step use it at a time. reason is never NULL, and gets a sentence if the status is not DLOCK_OK.
 */
#ifndef DLI_STORE_TXN_H
#define DLI_STORE_TXN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

enum {
    DLI_TXN_KEY_MAX = 64 * 1024,
    DLI_TXN_VALUE_MAX = 1024 * 1024, /* written or read */
    DLI_TXN_WRITES_MAX = 4096,
    DLI_TXN_BYTES_MAX = 16 * 1024 * 1024 /* of all writes */
};

struct dli_txn_ops;

/* What every transaction begins with. */
struct dli_txn {
    const struct dli_txn_ops *ops;
    int watching;     /* in a round: keys are watched */
    int count;        /* writes that wait for the commit */
    size_t bytes;     /* of them */
    int64_t commands; /* sent since its owner set it to 0, where the store does not count them */
};

enum dli_txn_verb { DLI_TXN_WATCH, DLI_TXN_GET, DLI_TXN_COMMIT, DLI_TXN_ROLLBACK };

/*
 * One step of a transaction. Its owner fills in the first five and hands it over. Until done runs or execute returns, step
 * and transaction belong to the store.
 */
struct dli_txn_step {
    struct dli_txn *txn;
    enum dli_txn_verb verb;
    const char *key; /* of WATCH and GET */
    size_t key_size;
    void (*done)(struct dli_txn_step *step); /* not for execute */

    dlock_status status; /* the results */
    dlock_error reason;
    char *value; /* GET: the owner frees it */
    size_t size;
};

enum dli_txn_write_kind { DLI_TXN_SET, DLI_TXN_ADD, DLI_TXN_DELETE };

struct dli_txn_write {
    enum dli_txn_write_kind kind;
    const char *key, *value; /* value: of SET */
    size_t key_size, value_size;
    int64_t number; /* SET: it expires after so many milliseconds, -1: never; ADD: is added */
};

/* What a step may end with is written at dlock_txn_watch and the following in dlock.h. */
struct dli_txn_ops {
    /* Nothing stays watched. Never blocks. free_child: in a forked child, whose parent goes on with its own. */
    void (*free)(struct dli_txn *txn);
    void (*free_child)(struct dli_txn *txn);

    /* End the round without a word to the server. Never blocks. */
    void (*drop)(struct dli_txn *txn);

    /* Whether the server of the round can have this key. NULL: any. */
    dlock_status (*fits)(const struct dli_txn *txn, const char *key, size_t size, dlock_error *reason);

    /* Keep a write, which dli_txn_write has checked. */
    dlock_status (*write)(struct dli_txn *txn, const struct dli_txn_write *write, dlock_error *reason);

    /* Do a step that dli_txn_may allows. Blocks. lane: the number of a lane that may have a part in it. */
    void (*execute)(struct dli_txn_step *step, int lane);

    /* The same without waiting: done runs on the lane's thread, or inside. 0, or -1: the lane is shut, done does not run. */
    int (*push)(struct dli_txn_step *step, int lane);
};

/* ---- txn.c */

/*
 * The checks of a step that need no server: DLOCK_NO_TRANSACTION without a round; DLOCK_INVALID_ARGUMENT for WATCH or GET
 * after the first write, or for a key that does not fit.
 */
dlock_status dli_txn_may(const struct dli_txn *txn, enum dli_txn_verb verb, const char *key, size_t size,
                         dlock_error *reason);

/* Keep one write for the commit. */
dlock_status dli_txn_write(struct dli_txn *txn, const struct dli_txn_write *write, dlock_error *reason);

/* ---- for a store */

/* A request has answered the step, which was its own to answer. Returns whether that ends the round. */
int dli_txn_answered(struct dli_txn_step *step, dlock_status status);

/* Keep a write behind the others. DLOCK_OUT_OF_MEMORY. */
dlock_status dli_txn_keep(struct dli_buffer *writes, const struct dli_txn_write *write, dlock_error *reason);

/* The write at *at, which then is behind it. 0: there are no more. */
int dli_txn_next(const struct dli_buffer *writes, size_t *at, struct dli_txn_write *write);

/* The decimal number to add to, as strict as Redis is. 0, or -1: it is no number. */
int dli_txn_number(const char *text, size_t size, int64_t *ret);

/* No round is under way any more. */
static inline void dli_txn_over(struct dli_txn *txn)
{
    txn->watching = txn->count = 0;
    txn->bytes = 0;
}

#endif
