/*
 * handle.c: the transactions of a store on Redis, by the table of store/txn.h. A round has one connection; afterwards it goes to
 * the next round that begins. dli_redis_txns.mutex guards those in between.
 */
#include "txn.h"

#include <stdlib.h>

/* A transaction, and the step that is under way. */
struct handle {
    struct dli_redis_txn txn; /* first */
    struct dli_redis_txns *txns;
    struct dli_redis_txn_step own;
    struct dli_txn_step *step;
    uint32_t lefts; /* dli_budget_lefts when the round began */
};

static struct handle *handle_of(struct dli_txn *txn)
{
    return DLI_OBJECT(txn, struct handle, txn.base);
}

/* ---- connections between rounds */

void dli_redis_txns_init(struct dli_redis_txns *txns)
{
    pthread_mutex_init(&txns->mutex, NULL);
}

void dli_redis_txns_fini(struct dli_redis_txns *txns)
{
    dli_redis_txns_end(txns);
    pthread_mutex_destroy(&txns->mutex);
}

static struct dli_conn *take_spare(struct dli_redis_txns *txns)
{
    struct dli_conn *conn;

    pthread_mutex_lock(&txns->mutex);
    conn = txns->spares > 0 ? txns->spare[--txns->spares] : NULL;
    pthread_mutex_unlock(&txns->mutex);
    return conn;
}

void dli_redis_txns_end(struct dli_redis_txns *txns)
{
    struct dli_conn *conn;

    pthread_mutex_lock(&txns->mutex);
    txns->shut = 1;
    pthread_mutex_unlock(&txns->mutex);
    while ((conn = take_spare(txns)))
        dli_redis_txn_end_conn(conn);
}

/* Connections to a server that was left since are closed. */
static void end_left(struct dli_redis_txns *txns, uint32_t lefts)
{
    struct dli_conn *conn;
    int left;

    pthread_mutex_lock(&txns->mutex);
    left = txns->lefts != lefts;
    txns->lefts = lefts;
    pthread_mutex_unlock(&txns->mutex);
    while (left && (conn = take_spare(txns)))
        dli_redis_txn_end_conn(conn);
}

/* Whether the server of the round was left since. A guide finds the server of each round itself. */
static int was_left(const struct handle *handle)
{
    return !handle->txn.guide && handle->lefts != dli_budget_lefts(handle->txn.budget);
}

/* A round needs a connection: one of an earlier round, if there is one. */
static void begin(struct handle *handle, enum dli_txn_verb verb)
{
    if (verb != DLI_TXN_WATCH || handle->txn.base.watching)
        return;
    if (was_left(handle)) {
        dli_redis_txn_drop(&handle->txn);
        handle->lefts = dli_budget_lefts(handle->txn.budget);
    }
    if (!handle->txn.guide)
        end_left(handle->txns, handle->lefts);
    if (!handle->txn.conn)
        handle->txn.conn = take_spare(handle->txns);
}

/*
 * A step has ended. The server may have said that it is not the primary any more, or that it loads its data as one does that is
 * demoted: nothing that leads there is used for another round.
 */
static void judge(struct handle *handle, dlock_status status)
{
    if ((status == DLOCK_SERVER_READ_ONLY || status == DLOCK_SERVER_LOADING) && !handle->txn.guide && !was_left(handle))
        dli_budget_leave(handle->txn.budget);
}

/* Give the connection back when it is in no round. It stays with the transaction when the store has enough of them. */
static void give_back(struct handle *handle)
{
    struct dli_redis_txns *txns = handle->txns;

    if (handle->txn.base.watching || !handle->txn.conn || handle->txn.conn->state != DLI_CONN_READY)
        return;
    if (was_left(handle)) {
        dli_redis_txn_drop(&handle->txn);
        return;
    }
    pthread_mutex_lock(&txns->mutex);
    if (!txns->shut && txns->spares < DLI_TXN_SPARES) {
        txns->spare[txns->spares++] = handle->txn.conn;
        handle->txn.conn = NULL;
    }
    pthread_mutex_unlock(&txns->mutex);
}

/* ---- steps */

static void execute(struct dli_txn_step *step, int lane)
{
    struct handle *handle = handle_of(step->txn);
    struct dli_redis_txn *txn = &handle->txn;

    (void)lane;
    begin(handle, step->verb);
    if (step->verb == DLI_TXN_WATCH)
        step->status = dli_redis_txn_watch(txn, step->key, step->key_size, &step->reason);
    else if (step->verb == DLI_TXN_GET)
        step->status = dli_redis_txn_get(txn, step->key, step->key_size, &step->value, &step->size, &step->reason);
    else if (step->verb == DLI_TXN_COMMIT)
        step->status = dli_redis_txn_commit(txn, &step->reason);
    else
        dli_redis_txn_rollback(txn);
    judge(handle, step->status);
    give_back(handle);
}

static void done(struct dli_redis_txn_step *own)
{
    struct handle *handle = DLI_OBJECT(own, struct handle, own);
    struct dli_txn_step *step = handle->step;

    step->status = own->status;
    step->reason = own->reason;
    step->value = own->value;
    step->size = own->size;
    judge(handle, step->status);
    give_back(handle);
    step->done(step);
}

static int push(struct dli_txn_step *step, int lane)
{
    struct handle *handle = handle_of(step->txn);

    handle->step = step;
    handle->own = (struct dli_redis_txn_step){
        .txn = &handle->txn, .verb = step->verb, .key = step->key, .key_size = step->key_size, .done = done};
    if (step->verb == DLI_TXN_ROLLBACK && !step->txn->watching) {
        done(&handle->own);
        return 0;
    }
    begin(handle, step->verb);
    return dli_redis_txn_lane_push(handle->txns->lane[lane], &handle->own);
}

/* ---- life */

static void handle_free(struct dli_txn *txn)
{
    dli_redis_txn_fini(&handle_of(txn)->txn);
    free(handle_of(txn));
}

static void free_child(struct dli_txn *txn)
{
    dli_redis_txn_fini_child(&handle_of(txn)->txn);
    free(handle_of(txn));
}

static void drop(struct dli_txn *txn)
{
    dli_redis_txn_drop(&handle_of(txn)->txn);
}

static const struct dli_txn_ops ops = {
    .free = handle_free,
    .free_child = free_child,
    .drop = drop,
    .fits = dli_redis_txn_fits,
    .write = dli_redis_txn_write,
    .execute = execute,
    .push = push,
};

static struct handle *handle_new(struct dli_redis_txns *txns)
{
    struct handle *handle = calloc(1, sizeof *handle);

    if (handle)
        handle->txns = txns;
    return handle;
}

struct dli_txn *dli_redis_txn_new(struct dli_redis_txns *txns, const struct dli_conn_config *config,
                                  struct dli_budget *budget, int64_t patience)
{
    struct handle *handle = handle_new(txns);

    if (!handle)
        return NULL;
    handle->txn.base.ops = &ops;
    handle->txn.config = config;
    handle->txn.budget = budget;
    handle->txn.patience = patience;
    return &handle->txn.base;
}
