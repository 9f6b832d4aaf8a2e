/*
 * txn.c: the rounds of a transaction up to EXEC, as blocking calls. See txn.h; no mutex.
 */
#include "txn.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/id.h"
#include "redis/codec/codec.h"
#include "redis/link/link.h"
#include "sys/sys.h"

enum { KEEP_ROOM = 64 * 1024 };

void dli_redis_txn_fini(struct dli_redis_txn *txn)
{
    dli_redis_txn_drop(txn);
    dli_conn_free(txn->conn);
    dli_buffer_free(&txn->writes);
}

void dli_redis_txn_fini_child(struct dli_redis_txn *txn)
{
    dli_conn_free(txn->conn);
    dli_buffer_free(&txn->writes);
}

void dli_redis_txn_end_round(struct dli_redis_txn *txn)
{
    dli_txn_over(&txn->base);
    txn->writes.size = 0;
    if (txn->writes.room > KEEP_ROOM)
        dli_buffer_free(&txn->writes);
}

/* shutdown ends the connection even if forked children still have the descriptor. */
static void hang_up(struct dli_conn *conn)
{
    if (conn->fd >= 0)
        shutdown(conn->fd, SHUT_RDWR);
    dli_conn_close(conn);
}

void dli_redis_txn_end_conn(struct dli_conn *conn)
{
    hang_up(conn);
    dli_conn_free(conn);
}

void dli_redis_txn_drop(struct dli_redis_txn *txn)
{
    dli_redis_txn_end_round(txn);
    if (txn->conn)
        hang_up(txn->conn);
}

void dli_redis_txn_break(struct dli_redis_txn *txn, dlock_status status)
{
    dli_redis_txn_drop(txn);
    if (txn->guide && (status == DLOCK_UNREACHABLE || status == DLOCK_UNKNOWN_OUTCOME))
        txn->guide->lost(txn);
}

/* ---- the connection */

/* Wait for the connect budget. 0, or -1: it allows no attempt before deadline. */
static int await_turn(struct dli_budget *budget, int64_t deadline)
{
    uint32_t never = 0;
    int64_t when;

    while ((when = dli_budget_take(budget, dli_now())) != 0) {
        if (when >= deadline)
            return -1;
        dli_futex_wait(&never, 0, when);
    }
    return 0;
}

struct dli_conn *dli_redis_txn_new_conn(const struct dli_conn_config *config)
{
    struct dli_conn *conn = dli_conn_new(config);

    if (conn)
        dli_reader_share(conn->reader, NULL);
    return conn;
}

static dlock_status connect_now(struct dli_redis_txn *txn, int64_t deadline, dlock_error *reason)
{
    dlock_status status;

    if (!txn->conn && !(txn->conn = dli_redis_txn_new_conn(txn->config)))
        return dli_fail(reason, DLOCK_OUT_OF_MEMORY, "no memory for a connection");
    if (dli_budget_refused(txn->budget, reason, dli_now()))
        return reason->code;
    if (await_turn(txn->budget, deadline))
        return dli_fail(reason, DLOCK_UNREACHABLE,
                        "no connection in time: connects_per_second or a pause after failures");
    status = dli_conn_open(txn->conn, deadline);
    if (status == DLOCK_OK) {
        dli_budget_result(txn->budget, 1, dli_now());
        return DLOCK_OK;
    }
    dli_budget_failed(txn->budget, &txn->conn->reason, dli_now());
    *reason = txn->conn->reason;
    return status;
}

/* Send one command and wait for its reply until deadline. NULL: none came, and reason says why. */
static const struct dli_reply *call(struct dli_redis_txn *txn, const char *verb, const char *key, size_t size,
                                    int64_t deadline, dlock_error *reason)
{
    const char *const argv[] = {verb, key};
    const size_t sizes[] = {strlen(verb), size};
    const struct dli_reply *reply = NULL;
    int sent;

    if (dli_encode(&txn->conn->out, key ? 2 : 1, argv, sizes)) {
        dli_fail(reason, DLOCK_OUT_OF_MEMORY, "no memory for the command");
        return NULL;
    }
    txn->base.commands++;
    if (dli_conn_call(txn->conn, deadline, &reply, &sent) == DLOCK_OK)
        return reply;
    *reason = txn->conn->reason;
    return NULL;
}

/* The same for a command whose reply is a status text. If the server refuses it, the status of the refusal. */
static dlock_status call_status(struct dli_redis_txn *txn, const char *verb, const char *key, size_t size,
                                int64_t deadline, dlock_error *reason)
{
    const struct dli_reply *reply = call(txn, verb, key, size, deadline, reason);

    if (!reply)
        return reason->code;
    txn->redirect = dli_redirect_of(reply);
    if (reply->type == DLI_REPLY_ERROR)
        return dli_redis_txn_refused(txn, reply, reason);
    if (reply->type != DLI_REPLY_TEXT)
        return dli_fail(reason, DLOCK_PROTOCOL_ERROR, "Redis does not give such a reply to %s", verb);
    return DLOCK_OK;
}

/* ---- which server */

/* On a cluster all keys of a round are in one slot. */
dlock_status dli_redis_txn_fits(const struct dli_txn *base, const char *key, size_t size, dlock_error *reason)
{
    const struct dli_redis_txn *txn = DLI_OBJECT(base, const struct dli_redis_txn, base);

    if (!txn->guide || dli_slot_of(key, size) == txn->slot)
        return DLOCK_OK;
    return dli_fail(
        reason, DLOCK_INVALID_ARGUMENT,
        "on a cluster the keys of a transaction share a slot: write the same word in braces into each, as {word}");
}

/* ---- watch and read */

/*
 * The first WATCH of a round. The connection of the last round may have been closed: then it is sent again, on a new
 * one.
 */
static dlock_status begin(struct dli_redis_txn *txn, const char *key, size_t size, dlock_error *reason)
{
    int64_t now = dli_now(), answered = now + txn->patience;
    dlock_status status;

    if (txn->conn && txn->conn->state == DLI_CONN_READY) {
        status = call_status(txn, "WATCH", key, size, answered, reason);
        if (status != DLOCK_UNREACHABLE || dli_now() >= answered)
            return status;
        dli_redis_txn_drop(txn);
    }
    status = connect_now(txn, now + txn->config->connect_timeout, reason);
    return status == DLOCK_OK ? call_status(txn, "WATCH", key, size, dli_now() + txn->patience, reason) : status;
}

dlock_status dli_redis_txn_refusal(const struct dli_redis_txn *txn, const struct dli_reply *reply)
{
    dlock_status status = dli_error_status(reply);

    return txn->guide && status == DLOCK_WRONG_SETUP ? DLOCK_SERVER_LOADING : status;
}

dlock_status dli_redis_txn_refused(const struct dli_redis_txn *txn, const struct dli_reply *reply, dlock_error *reason)
{
    enum dli_redirect_kind kind = dli_redirect_of(reply).kind;

    if (!txn->guide || (kind != DLI_REDIRECT_MOVED && kind != DLI_REDIRECT_ASK))
        return dli_decode_word(reply, reason);
    return dli_fail(reason, DLOCK_SERVER_LOADING, "the slot of the key has gone to another server, or is about to");
}

int dli_redis_txn_redirects(struct dli_redis_txn *txn, int *redirects)
{
    return txn->guide && txn->guide->follow(txn, &txn->redirect) && (*redirects)++ < DLI_TXN_REDIRECTS;
}

/* Find the server of the round, waiting until deadline if it is not known yet. */
static dlock_status lead(struct dli_redis_txn *txn, const char *key, size_t size, int64_t deadline, dlock_error *reason)
{
    uint32_t never = 0;
    dlock_status status;
    int64_t at;

    while ((status = txn->guide->lead(txn, key, size, &at, reason)) == DLOCK_WOULD_BLOCK && at < deadline)
        dli_futex_wait(&never, 0, at);
    return status == DLOCK_WOULD_BLOCK ? dli_fail(reason, DLOCK_UNREACHABLE, "no server said in time where the key is")
                                       : status;
}

/* As begin, on the server that has the key. */
static dlock_status begin_led(struct dli_redis_txn *txn, const char *key, size_t size, dlock_error *reason)
{
    int64_t deadline = dli_now() + txn->config->connect_timeout;
    dlock_status status;
    int redirects = 0;

    do {
        txn->redirect.kind = DLI_REDIRECT_NONE;
        status = lead(txn, key, size, deadline, reason);
        if (status == DLOCK_OK)
            status = begin(txn, key, size, reason);
        else
            return status;
    } while (status != DLOCK_OK && dli_redis_txn_redirects(txn, &redirects));
    return status;
}

dlock_status dli_redis_txn_watch(struct dli_redis_txn *txn, const char *key, size_t size, dlock_error *reason)
{
    dlock_status status;

    if (txn->base.watching)
        status = call_status(txn, "WATCH", key, size, dli_now() + txn->patience, reason);
    else
        status = txn->guide ? begin_led(txn, key, size, reason) : begin(txn, key, size, reason);
    if (status == DLOCK_OK)
        txn->base.watching = 1;
    else
        dli_redis_txn_break(txn, status);
    return status;
}

dlock_status dli_redis_txn_value(const struct dli_reply *reply, char **ret_value, size_t *ret_size, dlock_error *reason)
{
    if (reply->type == DLI_REPLY_NIL)
        return dli_fail(reason, DLOCK_NOT_FOUND, "there is no such key");
    if (!(*ret_value = malloc(reply->size + 1)))
        return dli_fail(reason, DLOCK_OUT_OF_MEMORY, "no memory for the value");
    memcpy(*ret_value, reply->text, reply->size);
    *ret_size = reply->size;
    return DLOCK_OK;
}

dlock_status dli_redis_txn_get(struct dli_redis_txn *txn, const char *key, size_t size, char **ret_value,
                               size_t *ret_size, dlock_error *reason)
{
    const struct dli_reply *reply = call(txn, "GET", key, size, dli_now() + txn->patience, reason);

    if (reply && reply->type == DLI_REPLY_ERROR)
        return dli_redis_txn_refused(txn, reply, reason);
    if (reply && (reply->type == DLI_REPLY_TEXT || reply->type == DLI_REPLY_NIL))
        dli_redis_txn_value(reply, ret_value, ret_size, reason);
    else if (reply)
        dli_fail(reason, DLOCK_PROTOCOL_ERROR, "Redis does not give such a reply to GET");
    if (reason->code != DLOCK_OK && reason->code != DLOCK_NOT_FOUND)
        dli_redis_txn_break(txn, reason->code);
    return reason->code;
}

/* ---- write and commit */

dlock_status dli_redis_txn_write(struct dli_txn *base, const struct dli_txn_write *write, dlock_error *reason)
{
    static const char *const verbs[] = {"SET", "INCRBY", "DEL"};
    struct dli_redis_txn *txn = DLI_OBJECT(base, struct dli_redis_txn, base);
    int limited = write->kind == DLI_TXN_SET && write->number >= 0;
    char number[24];
    size_t digits = dli_decimal(number, write->number);
    const char *const verb = verbs[write->kind], *const value = write->kind == DLI_TXN_SET ? write->value : number;
    const char *const argv[] = {verb, write->key, value, "PX", number};
    const size_t sizes[] = {strlen(verb), write->key_size, write->kind == DLI_TXN_SET ? write->value_size : digits, 2,
                            digits};

    if (dli_encode(&txn->writes, write->kind == DLI_TXN_DELETE ? 2 : limited ? 5 : 3, argv, sizes))
        return dli_fail(reason, DLOCK_OUT_OF_MEMORY, "no memory for the write");
    return DLOCK_OK;
}

static dlock_status exec(struct dli_redis_txn *txn, dlock_error *reason)
{
    int64_t deadline = dli_now() + txn->patience;
    struct dli_exec exec;
    dlock_status status = dli_redis_txn_exec_begin(&exec, txn, reason);

    if (status != DLOCK_OK)
        return status;
    while (!dli_redis_txn_exec_step(&exec, dli_now() >= deadline))
        dli_conn_wait(txn->conn, txn->conn->want_write ? POLLIN | POLLOUT : POLLIN, deadline);
    return exec.status;
}

dlock_status dli_redis_txn_commit(struct dli_redis_txn *txn, dlock_error *reason)
{
    dlock_status status = call_status(txn, "MULTI", NULL, 0, dli_now() + txn->patience, reason);

    if (status == DLOCK_OK)
        status = exec(txn, reason);
    if (status == DLOCK_OK || status == DLOCK_CONFLICT)
        dli_redis_txn_end_round(txn);
    else
        dli_redis_txn_break(txn, status);
    return status;
}

void dli_redis_txn_rollback(struct dli_redis_txn *txn)
{
    dlock_error reason = {.code = DLOCK_OK};

    if (!txn->base.watching)
        return;
    if (call_status(txn, "UNWATCH", NULL, 0, dli_now() + txn->patience, &reason) == DLOCK_OK)
        dli_redis_txn_end_round(txn);
    else
        dli_redis_txn_drop(txn);
}
