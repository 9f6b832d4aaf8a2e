/*
 * prepare.c: what a commit needs before it is sent: the values that something is added to, a session for its marker, leases for
 * values with a time to live. Belongs to lane 0's thread. See round.h.
 */
#include "round.h"

#include <stdlib.h>

enum { MOST = 1000000000 };

static void find_session(struct dli_job *job);
static void session_failed(struct dli_job *job, dlock_status status, const char *sentence);

/* Nothing was sent that writes. */
void dli_etcd_not_begun(struct dli_job *job)
{
    if (job->call.status != DLOCK_UNREACHABLE || !dli_etcd_round_again(job))
        dli_etcd_nothing_written(job, &job->call.reason);
}

/* ---- bases: the values that something is added to */

static int is_base(const struct dli_etcd_seen *seen)
{
    return !seen->watched;
}

/* A step for each base. Returns how many there are. */
size_t dli_etcd_bases_steps(const struct dli_etcd_round *round, struct dli_etcd_step *step)
{
    size_t count = 0;

    for (size_t i = 0; i < round->seen_count; i++)
        if (is_base(&round->seen[i]))
            step[count++] = (struct dli_etcd_step){
                .kind = DLI_ETCD_RANGE, .key = dli_etcd_text(round->seen[i].key, round->seen[i].key_size), .limit = 1};
    return count;
}

/* Take the bases from results, from this one on. Returns how many have changed, or -1 without memory. */
int dli_etcd_bases_take(struct dli_etcd_round *round, struct dli_etcd_reply *reply, int from)
{
    struct dli_etcd_found found;
    int changed = 0;

    for (size_t i = 0; i < round->seen_count; i++) {
        struct dli_etcd_seen *seen = &round->seen[i];

        if (!is_base(seen))
            continue;
        if (dli_etcd_first_key(reply, from++, &found))
            return -1;
        changed += found.modified != seen->modified;
        if (dli_etcd_seen_set(round, seen, &found))
            return -1;
    }
    return changed;
}

static int encode_bases(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    struct dli_etcd_step *step = calloc(round->seen_count + 1, sizeof *step);
    struct dli_etcd_long_txn txn = {.then_step = step};
    int failed;

    if (!step)
        return -1;
    txn.then = dli_etcd_bases_steps(round, step);
    failed = dli_etcd_encode_long_txn(&job->call.out, &txn);
    free(step);
    return failed;
}

static void bases_read(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    struct dli_etcd_reply reply;

    if (dli_etcd_round_decode(job, &reply))
        dli_etcd_commit_over(job, DLOCK_PROTOCOL_ERROR, dli_etcd_senseless_text(job));
    else if (dli_etcd_bases_take(round, &reply, 0) < 0)
        dli_etcd_commit_over(job, DLOCK_OUT_OF_MEMORY, "no memory for a value");
    else
        find_session(job);
}

static const struct dli_etcd_phase bases = {&dli_etcd_round_method, encode_bases, bases_read, dli_etcd_not_begun};

/* ---- a session for the marker */

void dli_etcd_plan(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    dlock_error reason = {.code = DLOCK_OK};

    if (dli_etcd_fold(round, &reason) != DLOCK_OK)
        dli_etcd_commit_over(job, reason.code, reason.message);
    else
        dli_etcd_terms(job);
}

static void have_session(struct dli_job *job)
{
    job->failed = NULL;
    if (job->session->over)
        find_session(job);
    else
        dli_etcd_plan(job);
}

static void find_session(struct dli_job *job)
{
    job->failed = session_failed;
    if (dli_etcd_enter(job, dli_etcd_round_of(job)->etcd->markers_last, have_session))
        have_session(job);
}

/* As a phase, so that it can be begun anew. */
static int no_call(struct dli_job *job)
{
    (void)job;
    return -1;
}

static void find_again(struct dli_job *job)
{
    if (job->call.status == DLOCK_CLOSED)
        dli_etcd_commit_over(job, DLOCK_CLOSED, NULL);
    else
        find_session(job);
}

void dli_etcd_session_check(struct dli_job *job)
{
    job->failed = session_failed;
    if (job->session->over)
        find_session(job);
    else
        dli_etcd_refresh(job, job->session, have_session);
}

static const struct dli_etcd_phase finding = {&dli_etcd_round_method, no_call, NULL, find_again};

static void session_failed(struct dli_job *job, dlock_status status, const char *sentence)
{
    dlock_error why = {.code = DLOCK_OK};

    dli_etcd_round_of(job)->phase = &finding;
    dli_fail(&why, status, "%s", sentence);
    if (status != DLOCK_UNREACHABLE || !dli_etcd_round_again(job))
        dli_etcd_nothing_written(job, &why);
}

/* ---- terms: leases for values with a time to live, one for each length */

static int64_t seconds_of(int64_t ttl_ms)
{
    int64_t seconds = ttl_ms / 1000 + (ttl_ms % 1000 > 0);

    return seconds < MOST ? seconds : MOST;
}

/* The lease for an effect; 0: it is not granted yet. */
static int64_t term_of(const struct dli_etcd_round *round, int64_t seconds)
{
    for (size_t i = 0; i < round->terms; i++)
        if (round->term[i].seconds == seconds)
            return round->term[i].id;
    return 0;
}

/* The next effect whose lease is not granted. NULL: there is none. */
static struct dli_etcd_effect *without_term(struct dli_etcd_round *round)
{
    for (size_t i = 0; i < round->effects; i++) {
        struct dli_etcd_effect *effect = &round->effect[i];

        if (effect->ttl_ms > 0 && !(effect->lease = term_of(round, seconds_of(effect->ttl_ms))))
            return effect;
    }
    return NULL;
}

/* There is room for the lease before it is granted. */
static int encode_term(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    struct dli_etcd_term *more = realloc(round->term, (round->terms + 1) * sizeof *more);

    if (!more)
        return -1;
    round->term = more;
    return dli_etcd_encode_lease_grant(&job->call.out, seconds_of(without_term(round)->ttl_ms));
}

static void term_granted(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);
    struct dli_etcd_talk talk = dli_etcd_talk_of(&job->call);
    const struct dli_etcd_effect *waits;
    struct dli_etcd_lease lease;

    if (dli_etcd_decode_grant(&talk, &lease)) {
        dli_etcd_commit_over(job, DLOCK_PROTOCOL_ERROR, "The server granted no lease.");
        return;
    }
    waits = without_term(round);
    round->term[round->terms] = (struct dli_etcd_term){seconds_of(waits->ttl_ms), lease.id};
    round->terms++;
    dli_etcd_terms(job);
}

static const struct dli_grpc_method grant_method = {.path = "/etcdserverpb.Lease/LeaseGrant",
                                                    .ended = dli_etcd_round_ended};
static const struct dli_etcd_phase terms = {&grant_method, encode_term, term_granted, dli_etcd_not_begun};

void dli_etcd_terms(struct dli_job *job)
{
    struct dli_etcd_round *round = dli_etcd_round_of(job);

    if (without_term(round))
        dli_etcd_round_go(job, &terms);
    else if (!round->marker && !(round->marker = dli_etcd_marker_take(round->etcd, job->session)))
        dli_etcd_commit_over(job, DLOCK_OUT_OF_MEMORY, "no memory for the commit");
    else
        dli_etcd_round_go(job, &dli_etcd_sending);
}

void dli_etcd_prepare(struct dli_job *job, int needs_bases)
{
    if (needs_bases)
        dli_etcd_round_go(job, &bases);
    else
        find_session(job);
}
