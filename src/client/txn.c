/*
 * txn.c: the life of a transaction, see txn.h. A transaction has no mutex: inside says who uses it. When the handle is
 * freed during a submitted step, the end of the step frees the transaction.
 */
#include "txn.h"

#include <stdlib.h>
#include <string.h>

enum { NOBODY, CALLER, STEP, LAST_STEP };

/* A submitted step, and its event. */
struct operation {
    struct dli_txn_step step;
    struct dli_snapshot shot;
    struct dlock_txn *txn;
    struct dli_client *client; /* with a ref: the event may outlive the transaction */
    char key[];
};

struct dlock_txn *dli_txn_new(struct dli_client *client)
{
    struct dlock_txn *txn = calloc(1, sizeof *txn);

    if (!txn || !(txn->txn = client->store->ops->txn_new(client->store))) {
        free(txn);
        return NULL;
    }
    dli_client_ref(client);
    txn->client = client;
    return txn;
}

/* A call that was under way at the fork never ends in the child. Its state cannot be trusted, so it is not freed. */
static void free_in_child(struct dlock_txn *txn)
{
    if (__atomic_load_n(&txn->inside, __ATOMIC_ACQUIRE))
        return;
    txn->txn->ops->free_child(txn->txn);
    free(txn);
}

static void txn_free(struct dlock_txn *txn)
{
    txn->txn->ops->free(txn->txn);
    dli_client_unref(txn->client);
    free(txn);
}

void dli_txn_free(struct dlock_txn *txn)
{
    uint32_t step = STEP;

    if (dli_client_usable(txn->client, NULL) == DLOCK_FORKED)
        free_in_child(txn);
    else if (!__atomic_compare_exchange_n(&txn->inside, &step, LAST_STEP, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        txn_free(txn);
}

/* ---- who is in it */

dlock_status dli_txn_enter(struct dlock_txn *txn, int start, dlock_error *reason)
{
    dlock_status status = dli_client_usable(txn->client, reason);
    uint32_t who = NOBODY;

    if (status == DLOCK_FORKED)
        return status;
    if (!__atomic_compare_exchange_n(&txn->inside, &who, CALLER, 0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
        return dli_fail(reason, DLOCK_INVALID_ARGUMENT,
                        who == CALLER ? "another thread is in a call of this transaction"
                                      : "a submitted call of this transaction is under way");
    if (status == DLOCK_OK && start)
        status = dli_client_start(txn->client, reason);
    if (status == DLOCK_OK)
        return DLOCK_OK;
    if (status == DLOCK_CLOSED)
        txn->txn->ops->drop(txn->txn);
    dli_txn_leave(txn);
    return status;
}

/* Returns who was in it. */
static uint32_t leave(struct dlock_txn *txn)
{
    dli_client_count(txn->client, DLOCK_STAT_COMMANDS, txn->txn->commands);
    txn->txn->commands = 0;
    return __atomic_exchange_n(&txn->inside, NOBODY, __ATOMIC_ACQ_REL);
}

void dli_txn_leave(struct dlock_txn *txn)
{
    leave(txn);
}

/* The lane of a transaction; before the client's first use, no step needs one. */
static int lane_of(const struct dlock_txn *txn)
{
    size_t count = (size_t)txn->client->loop_count;

    return count > 0 ? (int)(((uintptr_t)txn / sizeof *txn) % count) : 0;
}

/* WATCH begins a round, so it starts the client. */
static int starts(enum dli_txn_verb verb)
{
    return verb == DLI_TXN_WATCH;
}

dlock_status dli_txn_do(struct dlock_txn *txn, struct dli_txn_step *step)
{
    step->status = dli_txn_enter(txn, starts(step->verb), &step->reason);
    if (step->status != DLOCK_OK)
        return step->status;
    step->txn = txn->txn;
    step->status = dli_txn_may(step->txn, step->verb, step->key, step->key_size, &step->reason);
    if (step->status == DLOCK_OK)
        step->txn->ops->execute(step, lane_of(txn));
    dli_txn_leave(txn);
    return step->status;
}

dlock_status dli_txn_report(const struct dli_client *client, const char *key, size_t key_size,
                            const dlock_error *reason, dlock_error *reterr)
{
    char shown[120];

    if (!key)
        return dli_fail(reterr, reason->code, "transaction at %s: %s", client->store->text, reason->message);
    return dli_fail(reterr, reason->code, "transaction at %s, key '%s': %s", client->store->text,
                    dli_escape(shown, sizeof shown, key, key_size), reason->message);
}

/* ---- submitted steps */

static void operation_free(struct operation *operation)
{
    struct dli_client *client = operation->client;

    free(operation);
    dli_client_unref(client);
}

static void read_node(struct dli_node *node, struct dlock_event *event)
{
    struct operation *operation = DLI_OBJECT(node, struct operation, shot.node);
    dlock_error box = {.code = DLOCK_OK};

    dli_snapshot_read(&operation->shot, event);
    event->text[0] = '\0';
    if (operation->step.status != DLOCK_OK) {
        dli_txn_report(operation->client, operation->step.key, operation->step.key_size, &operation->step.reason, &box);
        dli_escape(event->text, DLI_EVENT_TEXT, box.message, strlen(box.message));
    }
    operation_free(operation);
}

static void fill_fields(struct operation *operation, int64_t *field)
{
    const struct dli_txn_step *step = &operation->step;

    field[DLOCK_FIELD_TYPE] = DLOCK_EVENT_DONE;
    field[DLOCK_FIELD_STATUS] = step->status;
    if (step->status != DLOCK_OK || step->verb != DLI_TXN_GET)
        return;
    field[DLOCK_FIELD_VALUE] = (int64_t)step->size;
    operation->shot.data = step->value;
    operation->shot.size = step->size;
}

/* Leave before the event is posted: its reader finds nobody in the transaction. */
static void done(struct dli_txn_step *step)
{
    struct operation *operation = DLI_OBJECT(step, struct operation, step);

    fill_fields(operation, operation->shot.field);
    if (leave(operation->txn) == LAST_STEP)
        txn_free(operation->txn);
    if (!dli_events_keep(&operation->client->events, &operation->shot.node)) {
        free(operation->shot.data);
        operation_free(operation);
    }
}

/* NULL without memory. */
static struct operation *operation_new(struct dlock_txn *txn, enum dli_txn_verb verb, const char *key, size_t key_size,
                                       int64_t tag)
{
    struct operation *operation = calloc(1, sizeof *operation + key_size);

    if (!operation)
        return NULL;
    if (key)
        operation->step.key = memcpy(operation->key, key, key_size);
    operation->step.key_size = key_size;
    operation->step.txn = txn->txn;
    operation->step.verb = verb;
    operation->step.done = done;
    operation->txn = txn;
    operation->client = txn->client;
    dli_client_ref(txn->client);
    operation->shot.node.read = read_node;
    dli_list_init(&operation->shot.node.link);
    for (int i = 0; i < DLOCK_FIELD_COUNT; i++)
        operation->shot.field[i] = -1;
    operation->shot.field[DLOCK_FIELD_TAG] = tag;
    return operation;
}

/* The caller is inside: hand the step to a lane. */
static dlock_status push(struct operation *operation, dlock_error *reason)
{
    struct dlock_txn *txn = operation->txn;
    struct dli_client *client = txn->client;
    int late = dli_events_promise(&client->events) != DLOCK_OK;

    __atomic_store_n(&txn->inside, STEP, __ATOMIC_RELEASE);
    if (!late && txn->txn->ops->push(&operation->step, lane_of(txn)) == 0)
        return DLOCK_OK;
    if (!late)
        dli_events_keep(&client->events, NULL);
    txn->txn->ops->drop(txn->txn);
    if (leave(txn) == LAST_STEP)
        txn_free(txn);
    operation_free(operation);
    return dli_fail(reason, DLOCK_CLOSED, "the client was closed");
}

dlock_status dli_txn_submit(struct dlock_txn *txn, enum dli_txn_verb verb, const char *key, size_t key_size,
                            int64_t tag, dlock_error *reason)
{
    dlock_status status = dli_txn_enter(txn, starts(verb) || verb == DLI_TXN_ROLLBACK, reason);
    struct operation *operation;

    if (status != DLOCK_OK)
        return status;
    status = dli_txn_may(txn->txn, verb, key, key_size, reason);
    if (status != DLOCK_OK) {
        dli_txn_leave(txn);
        return status;
    }
    if ((operation = operation_new(txn, verb, key, key_size, tag)))
        return push(operation, reason);
    dli_txn_leave(txn);
    return dli_fail(reason, DLOCK_OUT_OF_MEMORY, "no memory for the command");
}
