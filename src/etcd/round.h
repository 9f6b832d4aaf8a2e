/*
 * round.h: optimistic transactions on etcd: a round of watches, reads and a commit. Keys are the user's own, as they are.
 *
 * A watch reads the key's value and its revision. The commit is one transaction of etcd: it compares the revisions, 0 where
 * there was no key, and does all writes, folded to one for each key. What is added to a key is computed here, from a value
 * whose revision is compared too; when only such a key has changed, it is read and computed again.
 *
 * Each commit that writes also writes a marker, a key of its own, and compares its revision: so no copy of the commit is done
 * twice. When no answer comes, a second transaction writes the marker if it is still as it was before. Then the commit was not
 * done, and never will be, whenever it arrives. Otherwise the marker says whose commit was done.
 *
 * A round belongs to its user between steps, and to lane 0's thread within one.
 */
#ifndef DLI_ETCD_ROUND_H
#define DLI_ETCD_ROUND_H

#include "inner.h"

/* A key that is watched, or that something is added to. */
struct dli_etcd_seen {
    char *key, *value; /* value: NULL without a key, or when it was not kept */
    size_t key_size, size;
    int64_t modified, lease; /* 0: there was no such key */
    int watched;
};

/* What the writes of a round do to one key. */
struct dli_etcd_effect {
    struct dli_etcd_bytes key, value;
    int deletes;
    int64_t ttl_ms; /* -1: none */
    int64_t lease;  /* with ttl_ms: 0 until it is granted */
    char number[24];
};

/* A lease for the values of a commit. */
struct dli_etcd_term {
    int64_t seconds, id;
};

/* The key by which a lost commit is told from one that was done. It serves one commit at a time. */
struct dli_etcd_marker {
    struct dli_link link;
    int64_t session, revision, number; /* session: the id of its lease; revision 0: not written yet */
};

enum { DLI_ETCD_MARKER_MAX = 64, DLI_ETCD_VERDICT_MAX = 32 };

/* One call of a step. */
struct dli_etcd_phase {
    const struct dli_grpc_method *method;
    int (*encode)(struct dli_job *job); /* -1 without memory */
    void (*answered)(struct dli_job *job);
    void (*failed)(struct dli_job *job); /* job->call says why; the server may have acted */
};

struct dli_etcd_round {
    struct dli_txn base; /* first */
    struct dli_etcd *etcd;
    struct dli_job *job;       /* its request */
    struct dli_txn_step *step; /* under way */
    const struct dli_etcd_phase *phase;
    struct dli_etcd_seen *seen;
    size_t seen_count, seen_room, kept; /* kept: bytes of values */
    struct dli_buffer writes;           /* see dli_txn_keep */

    /* the commit */
    int64_t due, again_at; /* due: it is not sent later; again_at: when the phase begins anew */
    struct dli_etcd_effect *effect;
    size_t effects;
    struct dli_etcd_term *term;
    size_t terms;
    struct dli_etcd_marker *marker;
    int64_t number;  /* of the commit */
    int turns;       /* how often it was sent */
    int loose;       /* no answer came: a copy of the commit may be under way */
    dlock_error why; /* that, or another reason not to know the outcome */
};

static inline struct dli_etcd_round *dli_etcd_round_of(const struct dli_job *job)
{
    return job->request.own;
}

/* ---- round.c */

struct dli_txn *dli_etcd_txn_new(struct dli_store *store);
void dli_etcd_round_begin(struct dli_job *job);

/* Begin a phase. */
void dli_etcd_round_go(struct dli_job *job, const struct dli_etcd_phase *phase);

/* The end of the method of every phase. */
void dli_etcd_round_ended(struct dli_grpc_call *call);
extern const struct dli_grpc_method dli_etcd_round_method;

/* The step is over. sentence NULL: that of the call. */
void dli_etcd_round_over(struct dli_job *job, dlock_status status, const char *sentence);

/* Begin the phase anew after a moment, until the deadline of the request: then 0. */
int dli_etcd_round_again(struct dli_job *job);

/* The key as it was read, or NULL. */
struct dli_etcd_seen *dli_etcd_seen_find(const struct dli_etcd_round *round, struct dli_etcd_bytes key);

/* It is to be read. NULL without memory. */
struct dli_etcd_seen *dli_etcd_seen_add(struct dli_etcd_round *round, struct dli_etcd_bytes key);

/* It was read; found is zero without a key. 0, or -1 without memory. */
int dli_etcd_seen_set(struct dli_etcd_round *round, struct dli_etcd_seen *seen, const struct dli_etcd_found *found);

void dli_etcd_rounds_step(struct dli_etcd *etcd, int64_t now);
int64_t dli_etcd_rounds_alarm(const struct dli_etcd *etcd);
void dli_etcd_rounds_end(struct dli_etcd *etcd);

/* ---- prepare.c */

/* Make all ready, then send. needs_bases: keys that something is added to were not read yet. */
void dli_etcd_prepare(struct dli_job *job, int needs_bases);

/* The same from the effects on; and from the leases of values on. */
void dli_etcd_plan(struct dli_job *job);
void dli_etcd_terms(struct dli_job *job);

/* The same when the session may be over. */
void dli_etcd_session_check(struct dli_job *job);

/* A call has failed before anything was sent that writes. */
void dli_etcd_not_begun(struct dli_job *job);

/* A step for each key that something is added to, and that is not watched. Returns how many there are. */
size_t dli_etcd_bases_steps(const struct dli_etcd_round *round, struct dli_etcd_step *step);

/* Take their results, from this one on. Returns how many have changed, or -1 without memory. */
int dli_etcd_bases_take(struct dli_etcd_round *round, struct dli_etcd_reply *reply, int from);

/* ---- commit.c */
void dli_etcd_commit(struct dli_job *job);
extern const struct dli_etcd_phase dli_etcd_sending;

/* The outcome is known. sentence as in dli_etcd_round_over. */
void dli_etcd_commit_over(struct dli_job *job, dlock_status status, const char *sentence);
void dli_etcd_nothing_written(struct dli_job *job, const dlock_error *why);

/* 0, or -1: it is no answer of a transaction. */
int dli_etcd_round_decode(const struct dli_job *job, struct dli_etcd_reply *reply);

/* ---- fold.c */

/* Note all keys that something is added to and that were not read. 0, or -1 without memory. */
int dli_etcd_fold_needs(struct dli_etcd_round *round);

/* Compute the effects. DLOCK_SERVER_ERROR: something is added to what is no number. DLOCK_OUT_OF_MEMORY. */
dlock_status dli_etcd_fold(struct dli_etcd_round *round, dlock_error *reason);

/* ---- marker.c */

/* A marker with this session's lease. NULL without memory. */
struct dli_etcd_marker *dli_etcd_marker_take(struct dli_etcd *etcd, const struct dli_etcd_session *session);

/* It is known what the server has. */
void dli_etcd_marker_give(struct dli_etcd *etcd, struct dli_etcd_marker *marker);

struct dli_etcd_bytes dli_etcd_marker_key(const struct dli_etcd_marker *marker, char out[DLI_ETCD_MARKER_MAX]);

/* What a commit writes into its marker, and what makes it fail. */
struct dli_etcd_bytes dli_etcd_verdict(const struct dli_etcd_round *round, int done, char out[DLI_ETCD_VERDICT_MAX]);

void dli_etcd_markers_free(struct dli_etcd *etcd);

/* Revoke a lease that no key has. Nobody waits for it: it ends by itself otherwise. */
void dli_etcd_term_end(struct dli_etcd *etcd, int64_t id);

#endif
