/*
 * pipe_io.c: the connection of the pipe: connects when there is something to send, sends, receives, and detects
 * silence. Where calls may be direct, the caller holds dli_pipe.mutex.
 */
#include "pipe_io.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { SCAN_MAX = 64 }; /* calls of a list that are checked for one batch */

/* Make room in the ring for one more batch. 0, or -1 without memory. */
static int reserve_flight(struct dli_pipe *pipe)
{
    size_t room = pipe->flying_room ? 2 * pipe->flying_room : 256;
    struct dli_flight *ring;

    if (pipe->flying_count + DLI_BATCH_MOST <= pipe->flying_room)
        return 0;
    assert(pipe->flying_count == 0 || pipe->flying_room > 0);
    ring = malloc(room * sizeof *ring);
    if (!ring)
        return -1;
    for (size_t i = 0; i < pipe->flying_count; i++)
        ring[i] = pipe->flying[(pipe->flying_first + i) % pipe->flying_room];
    free(pipe->flying);
    pipe->flying = ring;
    pipe->flying_first = 0;
    pipe->flying_room = room;
    return 0;
}

static struct dli_call *pop_in_flight(struct dli_pipe *pipe)
{
    struct dli_call *call = pipe->flying[pipe->flying_first].call;

    pipe->flying_first = (pipe->flying_first + 1) % pipe->flying_room;
    pipe->flying_count--;
    return call;
}

/* The connection is lost: the outcome of every call in flight is unknown. Waiting calls keep waiting. */
static void connection_lost(struct dli_pipe *pipe, int64_t now)
{
    pipe->failures++;
    pipe->failure = pipe->conn->reason;
    while (pipe->flying_count > 0) {
        struct dli_call *call = pop_in_flight(pipe);

        if (call)
            dli_pipe_complete(pipe, call, DLOCK_UNREACHABLE, 1, NULL);
    }
    dli_conn_close(pipe->conn);
    dli_unknown_forget(&pipe->unknown);
    pipe->try_at = pipe->lost_at = now;
    pipe->barren = pipe->leaving = 0;
}

/* Connecting failed: waiting calls are answered now, not at their deadline. */
static void fail_waiting(struct dli_pipe *pipe, struct dli_call **list, struct dli_call ***end, dlock_status status)
{
    struct dli_call *call, *all = *list;

    *list = NULL;
    *end = list;
    while ((call = all)) {
        all = call->next;
        dli_pipe_complete(pipe, call, status, 0, NULL);
    }
}

static void fail_all(struct dli_pipe *pipe)
{
    pipe->barren = 1;
    fail_waiting(pipe, &pipe->again, &pipe->again_end, pipe->conn->reason.code);
    fail_waiting(pipe, &pipe->urgent, &pipe->urgent_end, pipe->conn->reason.code);
    fail_waiting(pipe, &pipe->waiting, &pipe->waiting_end, pipe->conn->reason.code);
}

/*
 * A lock is renewed on whatever connection works: no new one is needed while a caller's is free. One that was not used
 * since this one was lost may be as dead as it; it is taken only when connecting failed, too.
 */
static int take_over(struct dli_pipe *pipe)
{
    struct dli_conn *conn;

    if (!pipe->spare || (!pipe->urgent && !pipe->barren))
        return 0;
    conn = dli_private_yield(pipe->spare, pipe->barren ? 0 : pipe->lost_at);
    if (!conn)
        return 0;
    dli_conn_free(pipe->conn);
    pipe->conn = conn;
    pipe->barren = 0;
    return 1;
}

/* Whether an attempt began; it may also have ended already. */
static int begin_connect(struct dli_pipe *pipe, int64_t now)
{
    int64_t later;

    if ((!pipe->again && !pipe->urgent && !pipe->waiting) || take_over(pipe) || now < pipe->try_at)
        return 0;
    later = dli_budget_take(pipe->budget, now);
    if (later && dli_budget_refused(pipe->budget, &pipe->conn->reason, now))
        fail_all(pipe);
    else if (later)
        pipe->try_at = later;
    else
        dli_conn_start(pipe->conn, now);
    return !later;
}

static void connected(struct dli_pipe *pipe, int64_t now)
{
    dli_budget_result(pipe->budget, 1, now);
    pipe->barren = 0;
}

static void go_on_connecting(struct dli_pipe *pipe, int64_t now)
{
    if (dli_conn_under_way(pipe->conn))
        dli_conn_step(pipe->conn, now);
    if (pipe->conn->state == DLI_CONN_READY)
        connected(pipe, now);
    if (pipe->conn->state != DLI_CONN_FAILED)
        return;
    dli_budget_failed(pipe->budget, &pipe->conn->reason, now);
    pipe->failures++;
    pipe->failure = pipe->conn->reason;
    pipe->try_at = now;
    fail_all(pipe);
}

/* Record a sent call in the ring, which has room for it. */
static void take_off(struct dli_pipe *pipe, struct dli_call *call, int more)
{
    pipe->flying[(pipe->flying_first + pipe->flying_count++) % pipe->flying_room] = (struct dli_flight){call, more};
}

/*
 * Send ASKING; nobody waits for its reply. 0, or -1 without memory. An ASKING without its call, or sent twice, does no
 * harm.
 */
static int begin_asking(struct dli_pipe *pipe)
{
    static const char word[] = "*1\r\n$6\r\nASKING\r\n";

    if (dli_buffer_add(&pipe->conn->out, word, sizeof word - 1))
        return -1;
    take_off(pipe, NULL, 0);
    return reserve_flight(pipe);
}

/* Gather the first call of a list and those behind it that fit it. They stay in the list. */
static void gather(struct dli_call *call, struct dli_batch *batch)
{
    batch->count = 0;
    for (int scanned = 0; call && call->batch && batch->count < DLI_BATCH_MOST && scanned < SCAN_MAX; scanned++) {
        dli_batch_add(batch, call);
        call = call->next;
    }
}

/* The batch was sent: move its calls from the list into the ring. They are in the order of the list. */
static void take_out(struct dli_pipe *pipe, struct dli_call **list, struct dli_call ***end,
                     const struct dli_batch *batch)
{
    struct dli_call **at = list;

    for (int i = 0; *at && i < batch->count;) {
        if (*at != batch->call[i]) {
            at = &(*at)->next;
            continue;
        }
        *at = (*at)->next;
        take_off(pipe, batch->call[i], batch->count - 1 - i);
        i++;
    }
    if (!*at)
        *end = at;
}

/* Encode the first call and those that fit it as one command. 0; or -1: no batch, the first call is sent alone. */
static int encode_batch(struct dli_pipe *pipe, struct dli_call **list, struct dli_call ***end)
{
    struct dli_batch batch;
    int full = !(pipe->scripts_known & 1 << (*list)->batch);

    if (!(*list)->next || pipe->batchless)
        return -1;
    gather(*list, &batch);
    if (batch.count < DLI_BATCH_LEAST || dli_batch_encode(&pipe->conn->out, &batch, full))
        return -1;
    take_out(pipe, list, end, &batch);
    return 0;
}

/*
 * Put the calls of a list on the wire, while fewer than most are in flight. If memory runs out, the call and those behind
 * it stay in the list.
 */
static void encode_list(struct dli_pipe *pipe, struct dli_call **list, struct dli_call ***end, size_t most, int64_t now)
{
    while (*list && pipe->flying_count < most) {
        struct dli_call *call = *list;

        if (pipe->flying_count == 0)
            pipe->received_at = now;
        if (reserve_flight(pipe))
            return;
        if (encode_batch(pipe, list, end) == 0) {
            dli_conn_flush(pipe->conn);
            continue;
        }
        if ((call->asking && begin_asking(pipe)) ||
            dli_buffer_add(&pipe->conn->out, call->command.bytes, call->command.size))
            return;
        *list = call->next;
        if (!*list)
            *end = list;
        take_off(pipe, call, 0);
        if (pipe->flying_count % DLI_PIPE_GROUP == 0)
            dli_conn_flush(pipe->conn);
    }
}

/* Send a call again, alone: behind those that are to be sent again already, before all others. */
static void again(struct dli_pipe *pipe, struct dli_call *call)
{
    call->batch = 0;
    call->next = NULL;
    *pipe->again_end = call;
    pipe->again_end = &call->next;
}

/*
 * After NOSCRIPT send the call again: the server has done nothing yet. It gets the script's text, unless a call before it
 * has that. So all keep their order.
 */
static int again_in_full(struct dli_pipe *pipe, struct dli_call *call, const struct dli_reply *reply)
{
    if (!dli_call_unknown_script(call, reply))
        return 0;
    __atomic_add_fetch(pipe->reloads, 1, __ATOMIC_RELAXED);
    if (dli_unknown_coming(&pipe->unknown, call)) {
        again(pipe, call);
        return 1;
    }
    call->fallback = 1;
    call->command.size = 0;
    if (call->encode(call, 1)) {
        dli_pipe_complete(pipe, call, DLOCK_OUT_OF_MEMORY, 0, NULL);
        return 1;
    }
    again(pipe, call);
    return 1;
}

static void fail(struct dli_pipe *pipe, dlock_status status, const char *what)
{
    dli_fail(&pipe->conn->reason, status, "%s: %s", pipe->conn->target->text, what);
    pipe->conn->state = DLI_CONN_FAILED;
}

static void answer(struct dli_pipe *pipe, struct dli_call *call, const struct dli_reply *reply)
{
    if (call && !again_in_full(pipe, call, reply) && dli_pipe_complete(pipe, call, DLOCK_OK, 1, reply))
        fail(pipe, DLOCK_PROTOCOL_ERROR, "a reply was not one to its command");
}

/*
 * The reply to a batch of count calls: an array with one element for each, or an error, after which nothing was done
 * for any.
 */
static void answer_batch(struct dli_pipe *pipe, size_t count, const struct dli_reply *reply)
{
    int all = reply->type == DLI_REPLY_ARRAY, bit = 0;

    if (all ? reply->size != count : reply->type != DLI_REPLY_ERROR) {
        fail(pipe, DLOCK_PROTOCOL_ERROR, "a reply was not one to its command");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct dli_reply room[DLI_BATCH_ARGS];
        struct dli_call *call = pop_in_flight(pipe);

        bit |= call ? 1 << call->batch : 0; /* before again() clears it */
        if (call && (!all || reply->items[i].type == DLI_REPLY_NIL)) {
            call->repeated |= all;
            if (!again_in_full(pipe, call, reply))
                again(pipe, call);
        } else {
            answer(pipe, call, call ? dli_batch_reply(call, &reply->items[i], room) : NULL);
        }
    }
    pipe->batchless |= !all && dli_error_status(reply) == DLOCK_WRONG_SETUP;
    pipe->scripts_known = all ? pipe->scripts_known | bit : pipe->scripts_known & ~bit;
    if (dli_reply_unknown_script(reply))
        __atomic_add_fetch(pipe->reloads, 1, __ATOMIC_RELAXED);
}

/* A reply, or a part of one, that is to no command would shift all later ones, so the connection is dropped. */
static void refuse_unasked(struct dli_pipe *pipe)
{
    if (pipe->conn->state == DLI_CONN_READY && pipe->flying_count == 0 && dli_reader_left(pipe->conn->reader) > 0)
        fail(pipe, DLOCK_PROTOCOL_ERROR, "a reply came without a command");
}

static const char demotion[] = "it is not the primary any more";

/*
 * The server is not the primary. The call is sent again, once, on the next connection. Returns whether this one must be
 * left, when all in flight are answered: the server did nothing for any of them.
 */
static int turn(struct dli_pipe *pipe, struct dli_call *call, const struct dli_reply *reply, int64_t now)
{
    if (call && call->turned)
        dli_private_left_in_vain(pipe->spare, now);
    if (call && !call->turned && dli_private_leave(pipe->spare, now)) {
        call->turned = 1;
        again(pipe, call);
        return 1;
    }
    if (!pipe->conn->config->sentinels) {
        answer(pipe, call, reply);
        return 0;
    }
    dli_fail(&pipe->conn->reason, DLOCK_UNREACHABLE, "%s: %s", pipe->conn->target->text, demotion);
    if (call)
        dli_pipe_complete(pipe, call, DLOCK_UNREACHABLE, 0, NULL);
    return 1;
}

/* Process replies to the calls in flight, in order. */
static void take_replies(struct dli_pipe *pipe, int64_t now)
{
    const struct dli_reply *reply;

    while (pipe->conn->state == DLI_CONN_READY && dli_conn_next(pipe->conn, &reply) == 1) {
        struct dli_call *call;

        if (pipe->flying_count == 0) {
            fail(pipe, DLOCK_PROTOCOL_ERROR, "a reply came without a command");
            return;
        }
        if (pipe->flying[pipe->flying_first].more > 0) {
            answer_batch(pipe, 1 + (size_t)pipe->flying[pipe->flying_first].more, reply);
            continue;
        }
        call = pop_in_flight(pipe);
        if (dli_conn_demoted(pipe->conn, reply))
            pipe->leaving |= turn(pipe, call, reply, now);
        else
            answer(pipe, call, reply);
    }
    if (pipe->leaving && pipe->flying_count == 0 && pipe->conn->state == DLI_CONN_READY)
        fail(pipe, DLOCK_UNREACHABLE, demotion);
}

static void receive(struct dli_pipe *pipe, int64_t now)
{
    for (int round = 0; round < 4 && dli_conn_receive(pipe->conn) > 0; round++) {
        pipe->received_at = now;
        take_replies(pipe, now);
        if (pipe->conn->drained)
            break;
    }
    refuse_unasked(pipe);
    if (pipe->flying_count > 0 && pipe->conn->state == DLI_CONN_READY && now - pipe->received_at >= pipe->silence)
        fail(pipe, DLOCK_UNREACHABLE, "no answer in time");
}

static void exchange(struct dli_pipe *pipe, int64_t now)
{
    receive(pipe, now);
    if (pipe->conn->state == DLI_CONN_READY && !pipe->leaving) {
        encode_list(pipe, &pipe->again, &pipe->again_end, SIZE_MAX, now);
        encode_list(pipe, &pipe->urgent, &pipe->urgent_end, SIZE_MAX, now);
        encode_list(pipe, &pipe->waiting, &pipe->waiting_end, DLI_PIPE_FLYING, now);
        if (pipe->conn->out.size > 0)
            dli_conn_flush(pipe->conn);
    }
    if (pipe->conn->state == DLI_CONN_FAILED)
        connection_lost(pipe, now);
}

void dli_pipe_io(struct dli_pipe *pipe, int64_t now)
{
    enum dli_conn_state state = pipe->conn->state;
    int begun = (state == DLI_CONN_IDLE || state == DLI_CONN_FAILED) && begin_connect(pipe, now);

    if (begun || dli_conn_under_way(pipe->conn))
        go_on_connecting(pipe, now);
    if (pipe->conn->state == DLI_CONN_READY)
        exchange(pipe, now);
    __atomic_store_n(&pipe->ready, pipe->conn->state == DLI_CONN_READY, __ATOMIC_RELAXED);
}
