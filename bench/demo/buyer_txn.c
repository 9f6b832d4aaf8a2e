/*
 * buyer_txn.c: a buyer without a lock: watch the stock, read it, think, write, commit; when somebody else has sold
 * meanwhile, that is a conflict and nothing was written: begin again.
 *
 * The buyer's own key says what it has bought: a buyer that was killed after its commit, before it could tell, does not
 * buy twice.
 */
#include "buyer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEFT  "left:{stock}"
#define SALES "sales:{stock}"

/* The number in a watched key; -1: there is none. */
static int64_t watched(dlock_txn *txn, const char *key, dlock_error *error)
{
    uint8_t text[24] = {0};
    dlock_status status = dlock_txn_watch(txn, key, strlen(key), error);

    if (status == DLOCK_OK)
        status = dlock_txn_get(txn, key, strlen(key), text, sizeof text - 1, NULL, error);
    if (status != DLOCK_OK && status != DLOCK_NOT_FOUND)
        fail("transaction", dlock_error_message(error));
    return status == DLOCK_OK ? strtoll((const char *)text, NULL, 10) : -1;
}

static void set(dlock_txn *txn, const char *key, int64_t number)
{
    char text[24];
    int size = snprintf(text, sizeof text, "%" PRId64, number);

    if (dlock_txn_set(txn, key, strlen(key), (const uint8_t *)text, (size_t)size, -1, NULL) != DLOCK_OK)
        fail("transaction", "refused a write");
}

/* Up to the commit. */
static const char *try_to_buy(dlock_txn *txn, struct turn *turn, const char *own, dlock_error *error)
{
    int64_t mine;

    turn->granted = now();
    turn->left = watched(txn, LEFT, error);
    mine = watched(txn, own, error);
    if (mine > 0) {
        turn->left = mine;
        return "bought";
    }
    think(turn->buyer);
    if (turn->left <= 0)
        return "sold out";
    halt_at(turn);
    set(txn, LEFT, turn->left - 1);
    set(txn, own, turn->left);
    if (dlock_txn_incr(txn, SALES, strlen(SALES), 1, error) != DLOCK_OK)
        fail("transaction", dlock_error_message(error));
    return "bought";
}

const char *txn_turn(dlock_txn *txn, int64_t buyer)
{
    struct turn turn = {.buyer = buyer, .asked = now(), .conflicts = -1};
    dlock_error *error = dlock_error_new();
    dlock_status status;
    char own[48];

    snprintf(own, sizeof own, "bought:{stock}:%" PRId64, buyer);
    do {
        turn.conflicts++;
        turn.answer = try_to_buy(txn, &turn, own, error);
        status = dlock_txn_commit(txn, error);
    } while (status == DLOCK_CONFLICT);
    if (status != DLOCK_OK)
        fail("commit", dlock_error_message(error));
    turn.checked = now();
    tell_turn(&turn);
    dlock_error_free(error);
    return turn.answer;
}
