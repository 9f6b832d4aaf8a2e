/*
 * step.c: the steps of transactions on a lane, see txn.h. txn.c and exec.c interpret the replies. dli_redis_txn_lane.mutex
 * guards pushed and shut; the rest belongs to the lane's thread.
 */
#include "txn.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "redis/codec/codec.h"
#include "redis/link/link.h"
#include "sys/sys.h"

/* ---- the end of a step; both return 1: it is over */

static int fail(struct dli_redis_txn_step *step, const dlock_error *reason)
{
    step->reason = *reason;
    step->status = reason->code;
    return 1;
}

static int end(struct dli_redis_txn_step *step, dlock_status status)
{
    step->status = status;
    return 1;
}

/* End the round, and after a failure the connection, as the blocking calls do. */
static void leave(struct dli_redis_txn_step *step)
{
    struct dli_redis_txn *txn = step->txn;
    int good = step->status == DLOCK_OK;

    if (step->verb == DLI_TXN_GET) {
        if (txn->conn->state != DLI_CONN_READY || step->status == DLOCK_OUT_OF_MEMORY)
            dli_redis_txn_break(txn, step->status);
    } else if (step->verb == DLI_TXN_WATCH && good) {
        txn->base.watching = 1;
    } else if (good || (step->verb == DLI_TXN_COMMIT && step->status == DLOCK_CONFLICT)) {
        dli_redis_txn_end_round(txn);
    } else {
        dli_redis_txn_break(txn, step->status);
    }
    if (step->verb == DLI_TXN_ROLLBACK)
        step->status = DLOCK_OK;
}

/* ---- phases: 0: it continues later; 1: it is over; 2: it continues at once */

static int send_word(struct dli_redis_txn_step *step, int64_t now)
{
    static const char *const verbs[] = {"WATCH", "GET", "MULTI", "UNWATCH"};
    const char *const argv[] = {verbs[step->verb], step->key};
    const size_t sizes[] = {strlen(argv[0]), step->key_size};

    if (dli_conn_quiet(step->txn->conn) && dli_encode(&step->txn->conn->out, step->key ? 2 : 1, argv, sizes))
        return end(step, dli_fail(&step->reason, DLOCK_OUT_OF_MEMORY, "no memory for the command"));
    step->txn->base.commands++;
    step->phase = DLI_TXN_ANSWER;
    step->deadline = step->alarm = now + step->txn->patience;
    return 2;
}

/* Wait for the connect budget. */
static int seek_turn(struct dli_redis_txn_step *step, int64_t now)
{
    step->phase = DLI_TXN_REDIRECT;
    step->may_repeat = 0;
    step->deadline = now + step->txn->config->connect_timeout;
    return 2;
}

/* Find the server that has the key. */
static int seek_lead(struct dli_redis_txn_step *step, int64_t now)
{
    step->phase = DLI_TXN_LEAD;
    step->txn->redirect.kind = DLI_REDIRECT_NONE;
    step->deadline = now + step->txn->config->connect_timeout;
    return 2;
}

static int begin(struct dli_redis_txn_step *step, int64_t now)
{
    const struct dli_conn *conn;

    if (step->verb != DLI_TXN_WATCH || step->txn->base.watching)
        return send_word(step, now);
    if (step->txn->guide && step->phase != DLI_TXN_LEAD)
        return seek_lead(step, now);
    conn = step->txn->conn;
    if (!conn || conn->state != DLI_CONN_READY)
        return seek_turn(step, now);
    step->may_repeat = 1;
    return send_word(step, now);
}

static int take_lead(struct dli_redis_txn_step *step, int64_t now)
{
    struct dli_redis_txn *txn = step->txn;
    dlock_status status = txn->guide->lead(txn, step->key, step->key_size, &step->alarm, &step->reason);

    if (status == DLOCK_OK)
        return begin(step, now);
    if (status == DLOCK_WOULD_BLOCK && step->alarm < step->deadline)
        return 0;
    if (status == DLOCK_WOULD_BLOCK)
        status = dli_fail(&step->reason, DLOCK_UNREACHABLE, "no server said in time where the key is");
    return end(step, status);
}

static int take_turn(struct dli_redis_txn_step *step, int64_t now)
{
    struct dli_redis_txn *txn = step->txn;
    int64_t when;

    if (!txn->conn && !(txn->conn = dli_redis_txn_new_conn(txn->config)))
        return end(step, dli_fail(&step->reason, DLOCK_OUT_OF_MEMORY, "no memory for a connection"));
    if (dli_budget_refused(txn->budget, &step->reason, now))
        return end(step, step->reason.code);
    when = dli_budget_take(txn->budget, now);
    if (when >= step->deadline)
        return end(step, dli_fail(&step->reason, DLOCK_UNREACHABLE,
                                  "no connection in time: connects_per_second or a pause after failures"));
    step->alarm = when;
    if (when)
        return 0;
    step->phase = DLI_TXN_CONNECT;
    dli_conn_start(txn->conn, now);
    return 2;
}

static int go_on_connecting(struct dli_redis_txn_step *step, int64_t now)
{
    struct dli_conn *conn = step->txn->conn;

    if (dli_conn_under_way(conn))
        dli_conn_step(conn, now);
    step->alarm = conn->deadline;
    if (dli_conn_under_way(conn))
        return 0;
    if (conn->state == DLI_CONN_READY) {
        dli_budget_result(step->txn->budget, 1, now);
        return send_word(step, now);
    }
    dli_budget_failed(step->txn->budget, &conn->reason, now);
    return fail(step, &conn->reason);
}

static int judge(struct dli_redis_txn_step *step, const struct dli_reply *reply, int64_t now)
{
    struct dli_conn *conn = step->txn->conn;

    if (dli_reader_left(conn->reader) > 0) {
        dli_conn_fail(conn, DLOCK_PROTOCOL_ERROR, "sent more than it was asked for", NULL);
        return fail(step, &conn->reason);
    }
    step->txn->redirect = dli_redirect_of(reply);
    if (step->verb == DLI_TXN_WATCH && !step->txn->base.watching && reply->type == DLI_REPLY_ERROR &&
        dli_redis_txn_redirects(step->txn, &step->redirects))
        return seek_lead(step, now);
    if (reply->type == DLI_REPLY_ERROR)
        return end(step, dli_redis_txn_refused(step->txn, reply, &step->reason));
    if (reply->type != DLI_REPLY_TEXT && !(reply->type == DLI_REPLY_NIL && step->verb == DLI_TXN_GET)) {
        dli_conn_fail(conn, DLOCK_PROTOCOL_ERROR, "gave a reply that Redis does not give", NULL);
        return fail(step, &conn->reason);
    }
    if (step->verb == DLI_TXN_GET)
        return end(step, dli_redis_txn_value(reply, &step->value, &step->size, &step->reason));
    if (step->verb != DLI_TXN_COMMIT)
        return end(step, DLOCK_OK);
    step->phase = DLI_TXN_EXEC;
    step->deadline = step->alarm = now + step->txn->patience;
    return dli_redis_txn_exec_begin(&step->exec, step->txn, &step->reason) == DLOCK_OK ? 2
                                                                                       : end(step, step->reason.code);
}

static int await_answer(struct dli_redis_txn_step *step, int64_t now)
{
    struct dli_conn *conn = step->txn->conn;
    const struct dli_reply *reply;

    dli_conn_flush(conn);
    while (dli_conn_receive(conn) > 0)
        if (dli_conn_next(conn, &reply) == 1)
            return judge(step, reply, now);
    if (conn->state == DLI_CONN_READY && now < step->deadline)
        return 0;
    if (conn->state == DLI_CONN_READY)
        dli_conn_fail(conn, DLOCK_UNREACHABLE, "did not answer in time", NULL);
    if (!step->may_repeat || conn->reason.code != DLOCK_UNREACHABLE || now >= step->deadline)
        return fail(step, &conn->reason);
    dli_redis_txn_drop(step->txn);
    return seek_turn(step, now);
}

static int go_on(struct dli_redis_txn_step *step, int64_t now)
{
    switch (step->phase) {
    case DLI_TXN_BEGIN:
        return begin(step, now);
    case DLI_TXN_LEAD:
        return take_lead(step, now);
    case DLI_TXN_REDIRECT:
        return take_turn(step, now);
    case DLI_TXN_CONNECT:
        return go_on_connecting(step, now);
    case DLI_TXN_ANSWER:
        return await_answer(step, now);
    default:
        if (!dli_redis_txn_exec_step(&step->exec, now >= step->deadline))
            return 0;
        return end(step, step->exec.status);
    }
}

/* Do what can be done now. 1: the step is over. */
static int drive(struct dli_redis_txn_step *step, int64_t now)
{
    int what;

    do
        what = go_on(step, now);
    while (what == 2);
    return what;
}

static void finish(struct dli_redis_txn_step *step)
{
    leave(step);
    step->done(step);
}

/* ---- the lane */

void dli_redis_txn_lane_init(struct dli_redis_txn_lane *lane, struct dli_redis_txns *txns, int index, int wake_fd)
{
    memset(lane, 0, sizeof *lane);
    pthread_mutex_init(&lane->mutex, NULL);
    lane->pushed_end = &lane->pushed;
    lane->waiting_end = &lane->waiting;
    lane->wake_fd = wake_fd;
    lane->txns = txns;
    txns->lane[index] = lane;
}

void dli_redis_txn_lane_fini(struct dli_redis_txn_lane *lane)
{
    pthread_mutex_destroy(&lane->mutex);
}

int dli_redis_txn_lane_push(struct dli_redis_txn_lane *lane, struct dli_redis_txn_step *step)
{
    int shut;

    step->next = NULL;
    pthread_mutex_lock(&lane->mutex);
    shut = lane->shut;
    if (!shut) {
        *lane->pushed_end = step;
        lane->pushed_end = &step->next;
    }
    pthread_mutex_unlock(&lane->mutex);
    if (shut)
        return -1;
    dli_wake_set(lane->wake_fd);
    return 0;
}

/* Move pushed steps behind the waiting ones. */
static void collect(struct dli_redis_txn_lane *lane, int shut)
{
    pthread_mutex_lock(&lane->mutex);
    lane->shut |= shut;
    if (lane->pushed) {
        *lane->waiting_end = lane->pushed;
        lane->waiting_end = lane->pushed_end;
        lane->pushed = NULL;
        lane->pushed_end = &lane->pushed;
    }
    pthread_mutex_unlock(&lane->mutex);
}

static struct dli_redis_txn_step *next_waiting(struct dli_redis_txn_lane *lane)
{
    struct dli_redis_txn_step *step = lane->waiting;

    if (step && !(lane->waiting = step->next))
        lane->waiting_end = &lane->waiting;
    return step;
}

void dli_redis_txn_lane_step(struct dli_redis_txn_lane *lane, int64_t now)
{
    struct dli_redis_txn_step **link = &lane->active, *step;

    collect(lane, 0);
    while ((step = *link)) {
        if (!drive(step, now)) {
            link = &step->next;
            continue;
        }
        *link = step->next;
        lane->count--;
        finish(step);
    }
    while (lane->count < DLI_TXN_LANE_FDS && (step = next_waiting(lane))) {
        if (drive(step, now)) {
            finish(step);
            continue;
        }
        step->next = lane->active;
        lane->active = step;
        lane->count++;
    }
}

int64_t dli_redis_txn_lane_alarm(const struct dli_redis_txn_lane *lane)
{
    int64_t at = INT64_MAX;

    for (const struct dli_redis_txn_step *step = lane->active; step; step = step->next)
        at = step->alarm < at ? step->alarm : at;
    return at;
}

int dli_redis_txn_lane_fds(const struct dli_redis_txn_lane *lane, struct pollfd *fds)
{
    int count = 0;

    for (const struct dli_redis_txn_step *step = lane->active; step; step = step->next)
        if (step->phase != DLI_TXN_REDIRECT && step->phase != DLI_TXN_LEAD)
            fds[count++] = dli_conn_poll(step->txn->conn);
    return count;
}

void dli_redis_txn_lane_shut(struct dli_redis_txn_lane *lane)
{
    struct dli_redis_txn_step *step;

    collect(lane, 1);
    dli_redis_txns_end(lane->txns);
    while ((step = lane->active) || (step = next_waiting(lane))) {
        if (step == lane->active)
            lane->active = step->next;
        step->status = dli_fail(&step->reason, DLOCK_CLOSED, "the client was closed");
        if (step->phase == DLI_TXN_EXEC && step->exec.sent)
            step->status =
                dli_fail(&step->reason, DLOCK_UNKNOWN_OUTCOME, "the client was closed before the answer came");
        if (step->txn->conn)
            dli_redis_txn_drop(step->txn);
        step->done(step);
    }
    lane->count = 0;
}
