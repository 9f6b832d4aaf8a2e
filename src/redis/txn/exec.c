/*
 * exec.c: sends the writes and EXEC of a transaction in one piece, and interprets the replies. A dli_exec belongs to
 * one thread at a time.
 *
 * Until the last byte of EXEC is with the kernel, the server cannot have executed any write. From then on only the
 * reply to EXEC shows.
 */
#include "txn.h"

#include <stdio.h>
#include <string.h>

#include "redis/codec/codec.h"
#include "redis/link/link.h"

/* ---- which write */

/* The next word of an encoded command, "$SIZE CR LF bytes CR LF"; returns what follows it. */
static const char *next_word(const char *at, const char **word, size_t *size)
{
    *size = 0;
    for (at++; *at != '\r'; at++)
        *size = *size * 10 + (size_t)(*at - '0');
    *word = at + 2;
    return *word + *size + 2;
}

/* Describe the write number index, as in "INCRBY of key 'x'". */
static void describe(const struct dli_redis_txn *txn, int index, char *out, size_t room)
{
    const char *at = txn->writes.bytes, *verb = at, *key = at, *word;
    size_t verb_size = 0, key_size = 0, size;
    char shown[120];

    for (int i = 0; i <= index; i++) {
        int words = at[1] - '0';

        at = next_word(at + 4, &verb, &verb_size);
        at = next_word(at, &key, &key_size);
        for (; words > 2; words--)
            at = next_word(at, &word, &size);
    }
    snprintf(out, room, "%.*s of key '%s'", (int)verb_size, verb, dli_escape(shown, sizeof shown, key, key_size));
}

/* ---- what replies mean */

static void settle(struct dli_exec *exec, dlock_status status)
{
    exec->status = status;
    exec->done = 1;
}

/* The replies do not fit the commands. */
static void settle_odd(struct dli_exec *exec)
{
    settle(exec, dli_fail(exec->reason, DLOCK_UNKNOWN_OUTCOME,
                          "the replies are not those Redis gives to a transaction: it may have been carried out"));
}

/* The reply to one write: it was queued, or refused, and then EXEC will be refused as well. */
static void take_queued(struct dli_exec *exec, const struct dli_reply *reply)
{
    char write[160], shown[200];

    if (reply->type == DLI_REPLY_TEXT && reply->size == 6 && memcmp(reply->text, "QUEUED", 6) == 0)
        return;
    if (reply->type != DLI_REPLY_ERROR) {
        settle_odd(exec);
        return;
    }
    if (exec->status != DLOCK_OK)
        return;
    describe(exec->txn, exec->taken, write, sizeof write);
    exec->status =
        dli_fail(exec->reason, dli_redis_txn_refusal(exec->txn, reply), "nothing was written, %s was refused: %s",
                 write, dli_escape_error(shown, sizeof shown, reply));
}

/* The reply to EXEC, an array: the writes were executed, each with its own reply. */
static void take_results(struct dli_exec *exec, const struct dli_reply *reply)
{
    char write[160], shown[200];

    for (size_t i = 0; i < reply->size; i++) {
        const struct dli_reply *result = &reply->items[i];

        if (result->type != DLI_REPLY_ERROR)
            continue;
        describe(exec->txn, (int)i, write, sizeof write);
        settle(exec,
               dli_fail(exec->reason, DLOCK_SERVER_ERROR, "%s failed, other writes of the transaction were done: %s",
                        write, dli_escape_error(shown, sizeof shown, result)));
        return;
    }
    settle(exec, DLOCK_OK);
}

/* EXEC was refused. The reason may follow the code: "EXECABORT Transaction discarded because of: OOM ...". */
static void take_refusal(struct dli_exec *exec, const struct dli_reply *reply)
{
    static const char because[] = "because of: ";
    struct dli_reply cause = *reply;
    const char *found = memmem(reply->text, reply->size, because, sizeof because - 1);
    char shown[200];

    if (exec->status != DLOCK_OK) {
        settle(exec, exec->status);
        return;
    }
    if (found) {
        cause.text = found + sizeof because - 1;
        cause.size = reply->size - (size_t)(cause.text - reply->text);
    }
    settle(exec, dli_fail(exec->reason, dli_redis_txn_refusal(exec->txn, &cause),
                          "nothing was written, EXEC was refused: %s", dli_escape_error(shown, sizeof shown, reply)));
}

static void take(struct dli_exec *exec, const struct dli_reply *reply)
{
    if (exec->taken < exec->txn->base.count) {
        take_queued(exec, reply);
        exec->taken++;
    } else if (reply->type == DLI_REPLY_ERROR) {
        take_refusal(exec, reply);
    } else if (reply->type == DLI_REPLY_NIL && exec->status == DLOCK_OK) {
        settle(exec, dli_fail(exec->reason, DLOCK_CONFLICT, "a watched key was changed; nothing was written"));
    } else if (reply->type == DLI_REPLY_ARRAY && exec->status == DLOCK_OK &&
               reply->size == (size_t)exec->txn->base.count) {
        take_results(exec, reply);
    } else {
        settle_odd(exec);
    }
}

/* ---- sending and waiting */

static void take_all(struct dli_exec *exec)
{
    const struct dli_reply *reply;

    while (!exec->done && dli_conn_next(exec->txn->conn, &reply) == 1)
        take(exec, reply);
}

/* The connection has FAILED. */
static dlock_status lost(const struct dli_conn *conn, int sent, dlock_error *reason)
{
    if (sent)
        return dli_fail(reason, DLOCK_UNKNOWN_OUTCOME, "no answer to EXEC, all writes were done or none: %s",
                        conn->reason.message);
    return dli_fail(reason, conn->reason.code, "nothing was written: %s", conn->reason.message);
}

dlock_status dli_redis_txn_exec_begin(struct dli_exec *exec, struct dli_redis_txn *txn, dlock_error *reason)
{
    static const char *const word = "EXEC";
    struct dli_buffer *out = &txn->conn->out;

    *exec = (struct dli_exec){.txn = txn, .status = DLOCK_OK, .reason = reason};
    if (!dli_conn_quiet(txn->conn))
        return lost(txn->conn, 0, reason);
    if (dli_buffer_add(out, txn->writes.bytes, txn->writes.size) || dli_encode_args(out, 1, &word))
        return dli_fail(reason, DLOCK_OUT_OF_MEMORY, "nothing was written: no memory for the commands");
    txn->base.commands += txn->base.count + 1;
    return DLOCK_OK;
}

/* A reply that came counts, whatever then happens to the connection. */
int dli_redis_txn_exec_step(struct dli_exec *exec, int late)
{
    struct dli_conn *conn = exec->txn->conn;

    while (!exec->done) {
        dli_conn_flush(conn);
        exec->sent |= conn->state == DLI_CONN_READY && conn->out.size == 0;
        if (dli_conn_receive(conn) == 1)
            take_all(exec);
        else if (conn->state == DLI_CONN_READY && !late)
            return 0;
        else if (conn->state == DLI_CONN_READY)
            dli_conn_fail(conn, DLOCK_UNREACHABLE, "did not answer in time", NULL);
        if (!exec->done && conn->state != DLI_CONN_READY)
            settle(exec, lost(conn, exec->sent, exec->reason));
    }
    if (conn->state == DLI_CONN_READY && (dli_reader_left(conn->reader) > 0 || conn->out.size > 0))
        dli_conn_fail(conn, DLOCK_PROTOCOL_ERROR, "sent more than it was asked for", NULL);
    return 1;
}
