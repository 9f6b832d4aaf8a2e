/*
 * commit.c: the commit of a round: it is sent, and after a lost answer its marker is asked. See round.h; what comes before is in
 * prepare.c. Belongs to lane 0's thread.
 */
#include "round.h"

#include <stdlib.h>

enum { TURNS = 100 };

static const struct dli_etcd_phase asking, looking;

/* ---- the end */

static void end_terms(struct dli_etcd_round *round)
{
    for (size_t i = 0; i < round->terms; i++)
        dli_etcd_term_end(round->etcd, round->term[i].id);
    round->terms = 0;
}

/* The outcome is known. */
void dli_etcd_commit_over(struct dli_job *job, dlock_status status, const char *sentence)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);

    if (status != DLOCK_OK)
        end_terms(round);
    if (round->marker)
        dli_etcd_marker_give(round->etcd, round->marker);
    round->marker = NULL;
    dli_etcd_round_over(job, status, sentence);
}

void dli_etcd_nothing_written(struct dli_job *job, const dlock_error *why)
{
    dlock_error said = {.code = DLOCK_OK};

    dli_fail(&said, why->code, "nothing was written: %s", why->message);
    dli_etcd_commit_over(job, why->code, said.message);
}

/* Nobody knows what the server has in the marker: it is used no more. */
static void unknown(struct dli_job *job, const char *because)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    dlock_error said = {.code = DLOCK_OK};

    free(round->marker);
    round->marker = NULL;
    dli_fail(&said, DLOCK_UNKNOWN_OUTCOME, "all writes were done or none: %s", because);
    dli_etcd_round_over(job, DLOCK_UNKNOWN_OUTCOME, said.message);
}

int dli_etcd_round_decode(const struct dli_job *job, struct dli_etcd_reply *reply)
{
    struct dli_etcd_talk talk = dli_etcd_talk_of(&job->call);

    return dli_etcd_decode_txn(&talk, reply);
}

/* ---- sending */

/* The parts of the transaction. Returns how many tests there are. */
static size_t write_tests(const struct dli_etcd_round *round, struct dli_etcd_bytes marker, struct dli_etcd_test *test)
{
    size_t count = 0;

    if (round->marker)
        test[count++] =
            (struct dli_etcd_test){.target = DLI_ETCD_MODIFIED, .key = marker, .revision = round->marker->revision};
    for (size_t i = 0; i < round->seen_count; i++)
        test[count++] = (struct dli_etcd_test){.target = DLI_ETCD_MODIFIED,
                                               .key = dli_etcd_text(round->seen[i].key, round->seen[i].key_size),
                                               .revision = round->seen[i].modified};
    return count;
}

static void write_effects(const struct dli_etcd_round *round, struct dli_etcd_step *step)
{
    for (size_t i = 0; i < round->effects; i++) {
        const struct dli_etcd_effect *effect = &round->effect[i];

        step[i] = (struct dli_etcd_step){.kind = effect->deletes ? DLI_ETCD_DELETE : DLI_ETCD_PUT,
                                         .key = effect->key,
                                         .value = effect->value,
                                         .lease = effect->lease};
    }
}

static int encode_parts(struct dli_job *job, struct dli_etcd_test *test, struct dli_etcd_step *then,
                        struct dli_etcd_step *otherwise)
{
    const struct dli_etcd_round *round = dli_etcd_round_of(job);
    struct dli_etcd_long_txn txn = {.test = test, .then_step = then, .otherwise_step = otherwise};
    char room[DLI_ETCD_MARKER_MAX] = "", verdict[DLI_ETCD_VERDICT_MAX];
    struct dli_etcd_bytes marker = {0};

    if (round->marker) {
        marker = dli_etcd_marker_key(round->marker, room);
        write_effects(round, then);
        then[round->effects] = (struct dli_etcd_step){.kind = DLI_ETCD_PUT,
                                                      .key = marker,
                                                      .value = dli_etcd_verdict(round, 1, verdict),
                                                      .lease = round->marker->session};
        otherwise[0] = (struct dli_etcd_step){.kind = DLI_ETCD_RANGE, .key = marker, .limit = 1};
        txn.then = round->effects + 1;
        txn.otherwise = 1 + dli_etcd_bases_steps(round, otherwise + 1);
    }
    txn.tests = write_tests(round, marker, test);
    return dli_etcd_encode_long_txn(&job->call.out, &txn);
}

static int encode_commit(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    struct dli_etcd_test *test = calloc(round->seen_count + 1, sizeof *test);
    struct dli_etcd_step *then = calloc(round->effects + 1, sizeof *then);
    struct dli_etcd_step *otherwise = calloc(round->seen_count + 1, sizeof *otherwise);
    int failed;

    round->number = ++round->etcd->commits;
    failed = !test || !then || !otherwise || encode_parts(job, test, then, otherwise);
    free(test);
    free(then);
    free(otherwise);
    return failed ? -1 : 0;
}

/* Send it again, with what is known now. */
static void send_again(struct dli_job *job, void (*how)(struct dli_job *job))
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);

    job->request.deadline = round->due;
    if (++round->turns < TURNS && dli_now() < round->due)
        how(job);
    else if (round->why.code != DLOCK_OK)
        dli_etcd_nothing_written(job, &round->why);
    else
        dli_etcd_commit_over(job, DLOCK_CONFLICT, "a key that is added to changes too often; nothing was written");
}

/* A revision is another one: that of the marker, of a base, or of a watched key. */
static void refused_by_revision(struct dli_job *job, struct dli_etcd_reply *reply)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    struct dli_etcd_found found = {0};
    int changed, torn;

    if (!round->marker) {
        dli_etcd_commit_over(job, DLOCK_CONFLICT, "a watched key was changed; nothing was written");
        return;
    }
    torn = dli_etcd_first_key(reply, 0, &found);
    changed = torn ? -1 : dli_etcd_bases_take(round, reply, 1);
    if (changed < 0) {
        dli_etcd_commit_over(job, DLOCK_OUT_OF_MEMORY, "no memory for a value");
        return;
    }
    if (found.modified == round->marker->revision && changed == 0) {
        dli_etcd_commit_over(job, DLOCK_CONFLICT, "a watched key was changed; nothing was written");
        return;
    }
    round->marker->revision = found.modified;
    send_again(job, dli_etcd_plan);
}

/* Find out, by this phase, whether it was done. */
static void find_out(struct dli_job *job, const struct dli_etcd_phase *how)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);

    job->request.deadline = round->due + round->etcd->patience;
    dli_etcd_round_go(job, how);
}

static void answered(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    struct dli_etcd_reply reply;

    if (dli_etcd_round_decode(job, &reply)) {
        dli_fail(&round->why, DLOCK_PROTOCOL_ERROR, "%s", dli_etcd_senseless_text(job));
        round->loose = 0;
        if (round->marker)
            find_out(job, &asking);
        else
            dli_etcd_commit_over(job, DLOCK_PROTOCOL_ERROR, round->why.message);
        return;
    }
    if (reply.succeeded) {
        if (round->marker)
            round->marker->revision = reply.revision;
        dli_etcd_commit_over(job, DLOCK_OK, NULL);
    } else {
        refused_by_revision(job, &reply);
    }
}

/* A lease is gone: that of the marker, or one of a value. A keep-alive tells whether the session lives. */
static void lease_is_gone(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);

    dli_etcd_marker_give(round->etcd, round->marker);
    round->marker = NULL;
    end_terms(round);
    round->why = job->call.reason;
    round->why.code = DLOCK_UNREACHABLE;
    if (++round->turns > TURNS) {
        dli_etcd_nothing_written(job, &round->why);
        return;
    }
    dli_etcd_session_check(job);
}

static void refused(struct dli_job *job)
{
    dlock_error why = job->call.reason;

    if (dli_grpc_says(&job->call, "too many operations"))
        dli_fail(&why, DLOCK_SERVER_ERROR,
                 "%s One operation is the library's own; etcd's option --max-txn-ops allows 128 if it is not given.",
                 job->call.reason.message);
    else if (dli_grpc_says(&job->call, "too large") || dli_grpc_says(&job->call, "larger than max"))
        dli_fail(&why, DLOCK_SERVER_ERROR, "%s The option --max-request-bytes allows 1.5 MiB if it is not given.",
                 job->call.reason.message);
    dli_etcd_nothing_written(job, &why);
}

/* etcd has no space. It refuses to write, and the commit that filled it was done all the same. */
static int is_full(const struct dli_job *job)
{
    return job->call.code > 0 && job->call.status == DLOCK_SERVER_OUT_OF_MEMORY;
}

/* No good answer. Without a marker nothing was to be written. */
static void not_answered(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    int refusal = job->call.sent && dli_grpc_refused(&job->call);

    if (refusal && job->call.status == DLOCK_NOT_FOUND && round->marker) {
        lease_is_gone(job);
    } else if (refusal) {
        refused(job);
    } else if (!round->marker || !job->call.sent) {
        dli_etcd_not_begun(job);
    } else if (job->call.status == DLOCK_CLOSED) {
        unknown(job, "the client was closed before the answer came");
    } else {
        round->why = job->call.reason;
        round->loose = !is_full(job);
        find_out(job, round->loose ? &asking : &looking);
    }
}

const struct dli_etcd_phase dli_etcd_sending = {&dli_etcd_round_method, encode_commit, answered, not_answered};

/* ---- asking: was it done? */

static int encode_question(struct dli_job *job)
{
    const struct dli_etcd_round *round = dli_etcd_round_of(job);
    char key[DLI_ETCD_MARKER_MAX], verdict[DLI_ETCD_VERDICT_MAX];
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_step *step;

    dli_etcd_test(&txn, DLI_ETCD_MODIFIED, dli_etcd_marker_key(round->marker, key), round->marker->revision);
    step = dli_etcd_then(&txn, DLI_ETCD_PUT, txn.test[0].key);
    step->value = dli_etcd_verdict(round, 0, verdict);
    step->lease = round->marker->session;
    dli_etcd_otherwise(&txn, DLI_ETCD_RANGE, txn.test[0].key);
    return dli_etcd_encode_txn(&job->call.out, &txn);
}

/* The marker was read. */
static void judge(struct dli_job *job, struct dli_etcd_reply *reply)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    char done[DLI_ETCD_VERDICT_MAX], undone[DLI_ETCD_VERDICT_MAX];
    struct dli_etcd_found found;
    int there = dli_etcd_first_key(reply, 0, &found) == 0 && found.modified;

    if (there && dli_etcd_same(found.value, dli_etcd_verdict(round, 1, done))) {
        round->marker->revision = found.modified;
        dli_etcd_commit_over(job, DLOCK_OK, NULL);
    } else if (there && dli_etcd_same(found.value, dli_etcd_verdict(round, 0, undone))) {
        round->marker->revision = found.modified;
        send_again(job, dli_etcd_terms);
    } else if (round->loose) {
        unknown(job, "its marker does not say");
    } else {
        dli_etcd_nothing_written(job, &round->why);
    }
}

static void told(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    struct dli_etcd_reply reply;

    if (dli_etcd_round_decode(job, &reply)) {
        unknown(job, dli_etcd_senseless_text(job));
        return;
    }
    if (reply.succeeded && round->phase == &asking) {
        round->marker->revision = reply.revision;
        send_again(job, dli_etcd_terms);
    } else {
        judge(job, &reply);
    }
}

static void not_told(struct dli_job *job)
{
    int hopeless = job->call.status == DLOCK_CLOSED || dli_grpc_refused(&job->call);

    if (is_full(job))
        find_out(job, &looking);
    else if (hopeless || !dli_etcd_round_again(job))
        unknown(job, job->call.reason.message);
}

static const struct dli_etcd_phase asking = {&dli_etcd_round_method, encode_question, told, not_told};

/* ---- looking: etcd is full, and takes no question that writes */

static int encode_look(struct dli_job *job)
{
    char key[DLI_ETCD_MARKER_MAX];
    struct dli_etcd_txn txn = {0};

    dli_etcd_then(&txn, DLI_ETCD_RANGE, dli_etcd_marker_key(dli_etcd_round_of(job)->marker, key));
    return dli_etcd_encode_txn(&job->call.out, &txn);
}

static const struct dli_etcd_phase looking = {&dli_etcd_round_method, encode_look, told, not_told};

/* ---- the begin */

void dli_etcd_commit(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    size_t seen = round->seen_count;

    round->due = job->request.deadline;
    round->turns = 0;
    round->why.code = DLOCK_OK;
    if (round->base.count == 0)
        dli_etcd_round_go(job, &dli_etcd_sending);
    else if (dli_etcd_fold_needs(round))
        dli_etcd_commit_over(job, DLOCK_OUT_OF_MEMORY, "no memory for the writes");
    else
        dli_etcd_prepare(job, round->seen_count > seen);
}
