/*
 * job.c: the life of a request in the store: begun on lane 0, answered after one step of calls or several, and given
 * back to its asker.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

static void call_ended(struct dli_zk_call *call, int index);

static void first_ended(struct dli_zk_call *call)
{
    call_ended(call, 0);
}

static void second_ended(struct dli_zk_call *call)
{
    call_ended(call, 1);
}

static void third_ended(struct dli_zk_call *call)
{
    call_ended(call, 2);
}

static void fourth_ended(struct dli_zk_call *call)
{
    call_ended(call, 3);
}

struct dli_request *dli_zk_request_new(struct dli_store *store)
{
    struct dli_job *job = calloc(1, sizeof *job);

    (void)store;
    if (!job)
        return NULL;
    dli_list_init(&job->base.link);
    job->base.request = &job->request;
    job->call[0].ended = first_ended;
    job->call[1].ended = second_ended;
    job->call[2].ended = third_ended;
    job->call[3].ended = fourth_ended;
    return &job->request;
}

void dli_zk_request_free(struct dli_request *request)
{
    struct dli_job *job;

    if (!request)
        return;
    job = dli_zk_job_of(request);
    for (int i = 0; i < DLI_ZK_CALLS; i++)
        dli_zk_call_free(&job->call[i]);
    free(job);
}

/* ---- the end */

static void drop_answers(struct dli_job *job)
{
    for (int i = 0; i < DLI_ZK_CALLS; i++)
        dli_zk_call_drop(&job->call[i]);
}

void dli_zk_finish(struct dli_job *job)
{
    drop_answers(job);
    dli_lanes_finish(&job->base);
}

void dli_zk_finish_change(struct dli_job *job, dlock_status status, int64_t value)
{
    job->request.change.value = value;
    job->request.status = status;
    dli_zk_finish(job);
}

void dli_zk_fail(struct dli_job *job, dlock_status status, const char *sentence)
{
    drop_answers(job);
    dli_lanes_fail(&job->base, status, sentence);
}

/* What an error of a reply means. */
static const struct meaning {
    int32_t error;
    dlock_status status;
    const char *text;
} meanings[] = {
    {DLI_ZK_UNIMPLEMENTED, DLOCK_WRONG_SETUP, "is older than 3.5: replace it"},
    {DLI_ZK_BAD_ARGUMENTS, DLOCK_INVALID_NAME, "takes no such name for a node"},
    {DLI_ZK_NO_AUTH, DLOCK_DENIED,
     "gives no right to the nodes of this lock, or to dlock_gates: the ACL names other users"},
    {DLI_ZK_INVALID_ACL, DLOCK_DENIED, "does not know the user that the nodes are to belong to"},
    {DLI_ZK_AUTH_FAILED, DLOCK_DENIED, "refused the user name or password"},
    {DLI_ZK_NO_CHILDREN, DLOCK_WRONG_KIND, "has an ephemeral node where the name of the lock is"},
    {DLI_ZK_NOT_READ_ONLY, DLOCK_SERVER_READ_ONLY, "is out of touch with most of its cluster, and only reads"},
    {DLI_ZK_QUOTA, DLOCK_SERVER_OUT_OF_MEMORY, "has a quota for these nodes, which is used up"},
    {DLI_ZK_THROTTLED, DLOCK_SERVER_BUSY, "has too many requests now"},
};

void dli_zk_fail_error(struct dli_job *job, int32_t error)
{
    struct meaning other = {error, DLOCK_SERVER_ERROR, "answered with an error"};
    const struct meaning *meaning = &other;
    char sentence[DLI_FINDING_WHERE + 200];

    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].error == error)
            meaning = &meanings[i];
    snprintf(sentence, sizeof sentence, "The member %s %s (error %d of ZooKeeper).",
             job->session ? job->session->conn->target->text : dli_zk_at(job->base.lane)->text, meaning->text,
             (int)error);
    dli_zk_fail(job, meaning->status, sentence);
}

void dli_zk_fail_run_over(struct dli_job *job)
{
    dli_zk_fail(
        job, DLOCK_UNFIT,
        "a node below this name, or its bell below dlock_gates, was changed too often: remove it at a quiet time");
}

/* ---- steps */

void dli_zk_again(struct dli_job *job, void (*step)(struct dli_job *job))
{
    if (job->tries++ < DLI_ZK_TRIES)
        step(job);
    else
        dli_zk_fail(job, DLOCK_UNREACHABLE, "the lock changed too often while it was asked for");
}

void dli_zk_note(struct dli_job *job, struct dli_zk_session *session, const struct dli_zk_call *call,
                 struct dli_zk_outcome *outcome)
{
    job->request.sent |= call->sent;
    outcome->over |= call->over;
    if (call->status != DLOCK_OK && !outcome->failed)
        outcome->failed = call;
    if (call->error == DLI_ZK_SESSION_MOVED) {
        outcome->moved = 1;
        if (session)
            dli_zk_leave(session, DLOCK_OK, "says that the session has moved to another member");
    }
    if (call->error == DLI_ZK_SESSION_EXPIRED)
        outcome->over = 1;
    if (call->error == DLI_ZK_SESSION_EXPIRED && session) {
        session->gone = 0;
        dli_zk_session_lost(session);
    }
}

int dli_zk_conclude(struct dli_job *job, const struct dli_zk_outcome *outcome)
{
    if (outcome->over)
        dli_zk_again(job, dli_zk_start);
    else if (outcome->failed)
        dli_zk_fail(job, outcome->failed->status, outcome->failed->reason.message);
    else if (outcome->moved)
        dli_zk_fail(job, DLOCK_UNREACHABLE, "The session has moved to another member.");
    else
        return 0;
    return -1;
}

/* All calls of the step are over. */
static void step_ended(struct dli_job *job)
{
    struct dli_zk_outcome outcome = {0};

    for (int i = 0; i < job->calls; i++)
        dli_zk_note(job, job->session, &job->call[i], &outcome);
    if (dli_zk_conclude(job, &outcome) == 0)
        job->answered(job);
}

static void call_ended(struct dli_zk_call *call, int index)
{
    struct dli_job *job = DLI_OBJECT(call - index, struct dli_job, call);

    if (--job->left == 0)
        step_ended(job);
}

/* Whether each path is there: one that did not fit is another node's. */
static int have_paths(const struct dli_zk_ask *ask, int count)
{
    for (int i = 0; i < count; i++) {
        if (ask[i].op == DLI_ZK_MULTI && !have_paths(ask[i].part, ask[i].parts))
            return 0;
        if (ask[i].op != DLI_ZK_MULTI && !ask[i].path.size)
            return 0;
    }
    return 1;
}

void dli_zk_ask(struct dli_job *job, const struct dli_zk_ask *ask, int count, void (*answered)(struct dli_job *job))
{
    if (!have_paths(ask, count)) {
        dli_zk_fail(job, DLOCK_INVALID_NAME, "the path of a node of this lock is too long");
        return;
    }
    drop_answers(job);
    job->answered = answered;
    job->calls = job->left = count;
    for (int i = 0; i < count; i++) {
        job->call[i].deadline = job->request.deadline;
        if (dli_zk_begin(job->session, &job->call[i], &ask[i]) == 0)
            continue;
        for (int j = 0; j < i; j++)
            dli_zk_cancel(&job->call[j]);
        job->session->bells = 0;
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for the command");
        return;
    }
}

/* ---- the begin */

void dli_zk_start(struct dli_job *job)
{
    static void (*const verbs[DLI_VERBS])(struct dli_job *) = {
        [DLI_VERB_EXCHANGE] = dli_zk_exchange,   [DLI_VERB_RENEW] = dli_zk_renew,
        [DLI_VERB_FORCE] = dli_zk_force,         [DLI_VERB_INSPECT] = dli_zk_inspect,
        [DLI_VERB_PING] = dli_zk_ping,           [DLI_VERB_CHECK] = dli_zk_check,
        [DLI_VERB_CHANGE] = dli_zk_latch_change, [DLI_VERB_GATE] = dli_zk_gate,
        [DLI_VERB_GATE_LEFT] = dli_zk_gate_left,
    };
    const struct dli_place *place = job->request.place;
    void (*begin)(struct dli_job *) = verbs[job->request.verb];

    if (job->request.verb == DLI_VERB_CHANGE && job->request.kind->slots)
        begin = dli_zk_permit_change;
    if (!begin)
        dli_zk_fail(job, DLOCK_UNSUPPORTED, "ZooKeeper has no such operation");
    else if (job->request.verb != DLI_VERB_RENEW && place && !place->fit)
        dli_zk_fail(job, DLOCK_INVALID_NAME,
                    "on ZooKeeper a lock name is a path: no part of it is empty, '.' or '..', it has no control "
                    "characters, and its first part is not 'zookeeper'");
    else
        begin(job);
}
