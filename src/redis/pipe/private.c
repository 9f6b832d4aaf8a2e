/*
 * private.c: calls executed on their callers' threads, see private.h. free, slow_until, grown, shut, left_at and vain_at are
 * atomics; there is no mutex.
 */
#include "private.h"

#include <string.h>

#include "sys/sys.h"

enum { SLOW_FOR = 60 * 1000 * 1000, REFUSED_FOR = 1000 * 1000, VAIN_FOR = 1000 * 1000 };

void dli_private_init(struct dli_private *pool, const struct dli_conn_config *config, struct dli_budget *budget,
                      int count)
{
    memset(pool, 0, sizeof *pool);
    pool->config = config;
    pool->budget = budget;
    pool->wake_fd = -1;
    pool->vain_at = -VAIN_FOR;
    pool->count = count < DLI_PRIVATE_MAX ? count : DLI_PRIVATE_MAX;
    pool->free = count >= DLI_PRIVATE_MAX ? ~UINT64_C(0) : (UINT64_C(1) << count) - 1;
}

void dli_private_fini(struct dli_private *pool)
{
    for (int i = 0; i < pool->count; i++)
        dli_conn_free(pool->conns[i]);
}

/* The lowest free connection, so that few stay open; -1 when all are taken. */
static int take(struct dli_private *pool)
{
    uint64_t seen = __atomic_load_n(&pool->free, __ATOMIC_RELAXED);

    while (seen) {
        uint64_t bit = seen & -seen;

        if (__atomic_compare_exchange_n(&pool->free, &seen, seen & ~bit, 1, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return __builtin_ctzll(bit);
    }
    return -1;
}

/* Close the connection of this bit, if it is free. */
static void close_free(struct dli_private *pool, uint64_t bit)
{
    if (!(__atomic_fetch_and(&pool->free, ~bit, __ATOMIC_ACQ_REL) & bit))
        return;
    if (pool->conns[__builtin_ctzll(bit)])
        dli_conn_close(pool->conns[__builtin_ctzll(bit)]);
    __atomic_or_fetch(&pool->free, bit, __ATOMIC_SEQ_CST);
}

static void put(struct dli_private *pool, int index)
{
    __atomic_or_fetch(&pool->free, UINT64_C(1) << index, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&pool->shut, __ATOMIC_SEQ_CST))
        close_free(pool, UINT64_C(1) << index);
}

static void grow(struct dli_private *pool)
{
    dli_budget_result(pool->budget, 1, dli_now());
    if (!__atomic_exchange_n(&pool->grown, 1, __ATOMIC_ACQ_REL))
        dli_wake_set(pool->wake_fd);
}

static dlock_status connect_now(struct dli_private *pool, struct dli_conn *conn, int64_t deadline)
{
    dlock_status status = dli_conn_open(conn, deadline);

    if (status == DLOCK_OK)
        grow(pool);
    else
        dli_budget_failed(pool->budget, &conn->reason, dli_now());
    return status;
}

/*
 * One round trip. If the server does not know the script, the call is sent again with the text, within the same
 * deadline.
 */
static dlock_status round_trip(struct dli_conn *conn, struct dli_call *call, const struct dli_reply **reply, int *sent)
{
    dlock_status status;

    *sent = 0;
    if (dli_buffer_add(&conn->out, call->command.bytes, call->command.size))
        return dli_fail(&conn->reason, DLOCK_OUT_OF_MEMORY, "out of memory");
    status = dli_conn_call(conn, call->deadline, reply, sent);
    if (status != DLOCK_OK || !dli_call_unknown_script(call, *reply))
        return status;
    call->fallback = 1;
    call->command.size = 0;
    *sent = 0;
    if (call->encode(call, 1) || dli_buffer_add(&conn->out, call->command.bytes, call->command.size))
        return dli_fail(&conn->reason, DLOCK_OUT_OF_MEMORY, "out of memory");
    return dli_conn_call(conn, call->deadline, reply, sent);
}

/*
 * The same on a new connection. If connecting used up most of the call's time, and more time would have helped, the
 * next calls would fail in the same way: then slow_until sends them to the shared connection.
 */
static dlock_status call_on_new(struct dli_private *pool, struct dli_conn *conn, struct dli_call *call,
                                const struct dli_reply **reply, int *sent)
{
    int64_t began = dli_now(), time = call->deadline - began;
    dlock_status status = connect_now(pool, conn, call->deadline);
    int in_vain = 2 * (dli_now() - began) > time && (status == DLOCK_OK || 2 * time <= pool->config->connect_timeout);

    if (status == DLOCK_OK)
        status = round_trip(conn, call, reply, sent);
    if (status == DLOCK_UNREACHABLE && in_vain && dli_now() >= call->deadline)
        __atomic_store_n(&pool->slow_until, dli_now() + SLOW_FOR, __ATOMIC_RELAXED);
    return status;
}

/*
 * An idle connection may have been closed meanwhile. Such a call is sent once more, on a new connection, if none of it
 * was sent or sending it twice does no harm.
 */
static dlock_status execute(struct dli_private *pool, struct dli_conn *conn, struct dli_call *call,
                            const struct dli_reply **reply, int *sent)
{
    dlock_status status;

    if (conn->state != DLI_CONN_READY)
        return call_on_new(pool, conn, call, reply, sent);
    status = round_trip(conn, call, reply, sent);
    if (status != DLOCK_UNREACHABLE || (*sent && !call->repeatable) || dli_now() >= call->deadline ||
        dli_budget_take(pool->budget, dli_now()))
        return status;
    dli_conn_close(conn);
    call->repeated = *sent;
    return call_on_new(pool, conn, call, reply, sent);
}

/*
 * Connect while the shared connection works: not for longer than half of the call's time, and not again for a while when
 * it was in vain. 0, or -1: closed.
 */
static int try_connect(struct dli_private *pool, struct dli_conn *conn, int64_t deadline)
{
    int64_t began = dli_now(), until = began + (deadline - began) / 2, pause;

    if (connect_now(pool, conn, until) == DLOCK_OK)
        return 0;
    pause = dli_now() >= until ? SLOW_FOR : REFUSED_FOR;
    __atomic_store_n(&pool->slow_until, dli_now() + pause, __ATOMIC_RELAXED);
    dli_conn_close(conn);
    return -1;
}

int dli_private_leave(struct dli_private *pool, int64_t now)
{
    if (now - __atomic_load_n(&pool->vain_at, __ATOMIC_RELAXED) < VAIN_FOR)
        return 0;
    __atomic_store_n(&pool->left_at, now, __ATOMIC_RELEASE);
    dli_budget_leave(pool->budget);
    for (int i = 0; i < pool->count; i++)
        close_free(pool, UINT64_C(1) << i);
    dli_wake_set(pool->wake_fd);
    return 1;
}

void dli_private_left_in_vain(struct dli_private *pool, int64_t now)
{
    __atomic_store_n(&pool->vain_at, now, __ATOMIC_RELAXED);
}

/*
 * This server is not the primary: the name, the service or the proxy may lead to another one by now. Send the call there,
 * within its deadline. What sentinels name must be the primary; elsewhere a second refusal is the answer.
 */
static dlock_status leave(struct dli_private *pool, struct dli_conn *conn, struct dli_call *call,
                          const struct dli_reply **reply, int *sent)
{
    dlock_status status;

    if (dli_private_leave(pool, dli_now()) && dli_budget_take(pool->budget, dli_now()) == 0) {
        dli_conn_close(conn);
        *sent = 0; /* the server that refused it did nothing */
        status = call_on_new(pool, conn, call, reply, sent);
        if (status != DLOCK_OK || !dli_conn_demoted(conn, *reply))
            return status;
        dli_private_left_in_vain(pool, dli_now());
    }
    if (!conn->config->sentinels)
        return DLOCK_OK;
    *sent = 0;
    return dli_fail(&conn->reason, DLOCK_UNREACHABLE, "%s: it is not the primary any more", conn->target->text);
}

/* Whether a connection may be opened now. 1: yes, and the attempt is counted. */
static int may_connect(struct dli_private *pool)
{
    int64_t now = dli_now();

    return now >= __atomic_load_n(&pool->slow_until, __ATOMIC_RELAXED) && dli_budget_take(pool->budget, now) == 0;
}

int dli_private_call(struct dli_private *pool, struct dli_call *call, int shared)
{
    int index = take(pool), sent = 0;
    const struct dli_reply *reply = NULL;
    struct dli_conn *conn;
    dlock_status status;

    if (index < 0)
        return 0;
    if (__atomic_load_n(&pool->shut, __ATOMIC_RELAXED)) {
        put(pool, index);
        return 0;
    }
    conn = pool->conns[index];
    if (!conn)
        conn = pool->conns[index] = dli_conn_new(pool->config);
    if (!conn || (conn->state != DLI_CONN_READY &&
                  (!may_connect(pool) || (shared && try_connect(pool, conn, call->deadline))))) {
        put(pool, index);
        return 0;
    }
    status = execute(pool, conn, call, &reply, &sent);
    if (status == DLOCK_OK && dli_conn_demoted(conn, reply))
        status = leave(pool, conn, call, &reply, &sent);
    if (status != DLOCK_OK) {
        if (call->reason)
            *call->reason = conn->reason;
        dli_conn_close(conn);
    }
    if (call->complete(call, status, sent || call->repeated, reply))
        dli_conn_close(conn);
    dli_reader_rest(conn->reader);
    pool->used_at[index] = dli_now();
    put(pool, index);
    return 1;
}

struct dli_conn *dli_private_yield(struct dli_private *pool, int64_t since)
{
    struct dli_conn *conn, *found = NULL;

    for (int i = 0; i < pool->count && !found; i++) {
        uint64_t bit = UINT64_C(1) << i;

        if (!(__atomic_fetch_and(&pool->free, ~bit, __ATOMIC_ACQUIRE) & bit))
            continue;
        conn = pool->conns[i];
        if (conn && conn->state == DLI_CONN_READY && pool->used_at[i] > since) {
            pool->conns[i] = NULL;
            found = dli_conn_quiet(conn) ? conn : NULL;
            if (!found)
                dli_conn_free(conn);
        }
        put(pool, i);
    }
    return found;
}

void dli_private_trim(struct dli_private *pool, int64_t since, int spared)
{
    int left = 0;

    __atomic_store_n(&pool->grown, 0, __ATOMIC_SEQ_CST);
    for (int i = 0; i < pool->count; i++) {
        uint64_t bit = UINT64_C(1) << i;

        if (!(__atomic_fetch_and(&pool->free, ~bit, __ATOMIC_ACQUIRE) & bit)) {
            left++;
            continue;
        }
        if (!pool->conns[i] || pool->conns[i]->state != DLI_CONN_READY) {
            put(pool, i);
            continue;
        }
        if (pool->used_at[i] >= since)
            left++;
        else if (!spared)
            dli_conn_close(pool->conns[i]);
        else
            spared = 0;
        put(pool, i);
    }
    if (left > 0)
        __atomic_store_n(&pool->grown, 1, __ATOMIC_RELEASE);
}

int64_t dli_private_alarm(const struct dli_private *pool, int64_t last)
{
    return __atomic_load_n(&pool->grown, __ATOMIC_ACQUIRE) ? last + DLI_PRIVATE_TRIM + 1 : INT64_MAX;
}

void dli_private_shut(struct dli_private *pool)
{
    __atomic_store_n(&pool->shut, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < pool->count; i++)
        close_free(pool, UINT64_C(1) << i);
}
