/*
 * inner.h: the store on etcd, shared by its files.
 *
 * A lock's keys are <name>/<owner id>, each with the lease of its session. The key with the lowest create revision has the
 * lock; the others stand in line behind it. So Go's clientv3/concurrency and others with this layout take part. Those of a
 * read-write lock are <name>/read-<owner id> and <name>/write-<owner id>; a reader only waits for the writers before it. A late
 * copy of an acquisition is made harmless by its session's mark, see session.c. A permit semaphore has <name>/permit-<owner id>,
 * see permit.c. A closed gate is dlock_gate/<name>, see gate.c.
 *
 * etcd looks at every key that a name ever had since its last compaction. So acquisitions use few keys, one after the other: the
 * owner id in a key is that of its slot. When a request that may change the key had no answer, a late copy of it may come. The
 * owner id is then never used again.
 *
 * All I/O is done by one thread at a time, that which has the turn of lanes/lanes.h. Everything here belongs to it.
 */
#ifndef DLI_ETCD_INNER_H
#define DLI_ETCD_INNER_H

#include <string.h>

#include "base/list.h"
#include "base/options.h"
#include "base/url.h"
#include "etcd/codec/codec.h"
#include "etcd/grpc/grpc.h"
#include "lanes/lanes.h"
#include "net/net.h"
#include "store/store.h"
#include "sys/sys.h"

enum { DLI_ETCD_TURNS = 128, DLI_ETCD_TRIES = 4 };
#define DLI_ETCD_FIT (INT64_C(1) << 46) /* tokens of revisions below are below 2^53 */
enum { DLI_ETCD_TXN_MOST = 4 * 1024 * 1024, DLI_ETCD_NEWS_MOST = 2 * 1024 * 1024 }; /* bytes of an answer */
enum { DLI_ETCD_KEY_MAX = 1024 + 16 + DLI_OWNER_MAX, DLI_ETCD_MARK_MAX = 48, DLI_ETCD_SECOND = 1000000 };

/* Where one lock is kept: below its name. */
struct dli_place {
    const struct dli_kind *kind;
    struct dli_etcd *etcd;
    uint16_t size;
    char name[]; /* and "/" */
};

/* A lease, and all that depends on it. Times are microseconds. */
struct dli_etcd_session {
    struct dli_link link;
    struct dli_etcd *etcd;
    int64_t seconds; /* what was asked for */
    int64_t id;      /* 0: not granted yet */
    int64_t ttl;     /* as the server has it */
    int64_t born;    /* the revision at its grant: its keys are younger */
    int64_t mark;    /* the revision of its mark; 0: it has none */
    int64_t since;   /* it lasts until ttl after this stamp at least */
    int64_t asked;   /* stamp of the keep-alive that does not count yet; 0: none */
    int64_t heard;   /* its answer came then, and has no proof yet; 0: there is none */
    int64_t heard_ttl, heard_term;
    int proving;            /* the proof under way began after that answer */
    int64_t ask_at;         /* the next keep-alive */
    int over;               /* lost: only its revocation is left to do */
    int users;              /* jobs whose session it is: see dli_etcd_bind */
    int tries;              /* of the grant, with another token */
    int64_t gone;           /* over: the server has forgotten it by then */
    struct dli_link parked; /* jobs that wait for the grant, or for an answered keep-alive */
    struct dli_grpc_call call;
};

/* One request on its way. */
struct dli_job {
    struct dli_request request; /* first */
    struct dli_lane_job base;   /* base.link: also in session.parked */
    int tries, at;
    int64_t created;                  /* of its key, as far as it is known */
    struct dli_etcd_session *session; /* of its key */
    struct dli_grpc_call call;
    void (*answered)(struct dli_job *job); /* the call has ended well */
    void (*resumed)(struct dli_job *job);  /* what it was parked for has come */
    const struct dli_etcd_number *number;  /* that it changes */

    /* NULL, or what is done once instead of ending the job with a failure. */
    void (*failed)(struct dli_job *job, dlock_status status, const char *sentence);
};

/* Things by number. A node is the first member of its thing; number 0: it is in no table. */
struct dli_etcd_node {
    int64_t number;
};

struct dli_etcd_table {
    void *root; /* of a tsearch tree */
};

/* A watch of the server. */
struct dli_etcd_watch {
    struct dli_etcd_node node;      /* its id; 0: there is none */
    struct dli_etcd_waiter *waiter; /* whose it is; NULL: that of all gates, or of a loose tie */
};

/* Watches of a waiter: of all that stand before it, of its own key, of the total of a semaphore. */
enum { DLI_ETCD_WATCHES = 3 };

/* A grant number in line or held, and its watches. */
struct dli_etcd_waiter {
    struct dli_etcd_node node; /* its number */
    int64_t created;
    int64_t from;  /* the revision from which its own key is watched */
    int64_t lease; /* held: the lease that its key has moved to, or was seen with; 0: that of its acquisition */
    int8_t held;
    int8_t gone;   /* held: its key was deleted */
    int8_t unsure; /* held: its key may have been deleted */
    int64_t more;  /* so many deletions before it are none of its business */
    struct dli_etcd_watch watch[DLI_ETCD_WATCHES];
    struct dli_etcd_tie *tie;
    const struct dli_etcd_watch *ready; /* with its begin all watches have begun; NULL: they have */
    int8_t crowd;                       /* it waits for several claims */
    int8_t stirred;                     /* something has happened since the last look was sent */
    int32_t family;
    size_t size;
    char name[];
};

struct dli_etcd {
    struct dli_store store; /* first */
    struct dli_lanes lanes;
    char text[DLI_FINDING_WHERE];
    const char *user, *password;
    int64_t patience, drift_ppm; /* for one call */
    struct dli_conn_config member[DLI_NODES_MAX];
    int members;
    struct dli_tls *tls;
    struct dli_budget budget;
    struct dli_grpc grpc; /* from here on lane 0's */
    char *token;
    struct dli_grpc_call login, alive, proof, watches;
    struct dli_link sessions, ended; /* those that are over stay until they are revoked and no job has them */
    struct dli_etcd_table waiters, watched, slots;
    struct dli_link spare; /* slots without a number; the one that was used last comes first */
    int spares;
    int64_t slot_ids;
    struct dli_link loose; /* ties; the one that was used last comes first */
    int loose_ties;
    int64_t watch_ids, watch_told; /* the last that was asked for, and answered: begun or refused */
    int64_t refused_at;            /* when a refusal made the stream old last; 0: never */
    int watches_old;               /* the stream begins anew with the next step */
    struct dli_link exams;
    int anonymous; /* the client has neither a user nor a certificate */
    struct dli_etcd_watch gates;
    int gates_refused;                /* until the next connection */
    uint32_t follows;                 /* atomic: somebody must hear of gates */
    int stale;                        /* their watches are gone: hint them when the connection is up */
    int64_t markers_last;             /* microseconds: the lease of transactions' markers */
    struct dli_link markers, resting; /* markers that are free; steps of transactions that begin anew later */
    int64_t commits, marker_numbers;
};

static inline struct dli_etcd *dli_etcd_of(struct dli_store *store)
{
    return DLI_OBJECT(store, struct dli_etcd, store);
}

static inline struct dli_job *dli_etcd_job_of(struct dli_request *request)
{
    return DLI_OBJECT(request, struct dli_job, request);
}

/* The job in a list by its base.link. */
static inline struct dli_job *dli_etcd_job_at(const struct dli_link *link)
{
    return DLI_OBJECT(link, struct dli_job, base.link);
}

static inline struct dli_etcd *dli_etcd_at(const struct dli_lane *lane)
{
    return DLI_OBJECT(lane->lanes, struct dli_etcd, lanes);
}

/* The job's session is another one, or NULL: none. */
static inline void dli_etcd_bind(struct dli_job *job, struct dli_etcd_session *session)
{
    if (job->session)
        job->session->users--;
    if (session)
        session->users++;
    job->session = session;
}

static inline struct dli_etcd_bytes dli_etcd_text(const char *bytes, size_t size)
{
    return (struct dli_etcd_bytes){bytes, size};
}

static inline int dli_etcd_same(struct dli_etcd_bytes a, struct dli_etcd_bytes b)
{
    return a.size == b.size && memcmp(a.bytes, b.bytes, a.size) == 0;
}

/* ---- lane.c: the lanes of store/store.h */
struct dli_lane *dli_etcd_lane_new(struct dli_store *store, int index, int wake_fd);
void dli_etcd_lane_free(struct dli_lane *lane);
dlock_status dli_etcd_push(struct dli_lane *lane, struct dli_request *request);
void dli_etcd_execute(struct dli_lane *lane, struct dli_request *request);
extern const struct dli_lanes_ops dli_etcd_lanes_ops;
void dli_etcd_shut(struct dli_lane *lane);

/* ---- job.c */

struct dli_request *dli_etcd_request_new(struct dli_store *store);
void dli_etcd_request_free(struct dli_request *request);

/* Lane 0: begin a job that was pushed. */
void dli_etcd_start(struct dli_job *job);

/* The job's request is answered; its results are set. The job may be gone afterwards. */
void dli_etcd_finish(struct dli_job *job);

/* The same with a failure; NULL: the reason is that of its call. */
void dli_etcd_fail(struct dli_job *job, dlock_status status, const char *sentence);

/* The numbers that the request wants. */
void dli_etcd_each_number(const struct dli_job *job, void (*visit)(const struct dli_place *place, int64_t number));

/* Call a transaction; answered runs with its answer. */
void dli_etcd_call_txn(struct dli_job *job, const struct dli_etcd_txn *txn, void (*answered)(struct dli_job *job));

/* Any unary method whose message is in job->call.out. */
void dli_etcd_call(struct dli_job *job, const struct dli_grpc_method *method, void (*answered)(struct dli_job *job));

/* The method of a unary call of a job. */
extern const struct dli_grpc_method dli_etcd_txn_method;
void dli_etcd_job_ended(struct dli_grpc_call *call);

/* Whether the server does not accept the token any more, and there is another one to be had. It has done nothing. */
int dli_etcd_token_is_old(const struct dli_etcd *etcd, const struct dli_grpc_call *call);

/* The answer of a transaction. 0; -1: the server said what cannot be: the job has failed and is over. */
int dli_etcd_read(struct dli_job *job, struct dli_etcd_reply *reply);

/* The request of a call, and its answer; for the decoders of codec/. */
struct dli_etcd_talk dli_etcd_talk_of(const struct dli_grpc_call *call);

/* The job has failed: the server said what cannot be. And the sentence for that. */
void dli_etcd_senseless(struct dli_job *job);
const char *dli_etcd_senseless_text(struct dli_job *job);

/* ---- keys.c */

struct dli_place *dli_etcd_place_new(struct dli_store *store, const struct dli_kind *kind, const char *name,
                                     size_t size);
void dli_etcd_place_free(struct dli_place *place);
const char *dli_etcd_place_name(const struct dli_place *place);

/* The range of all keys of a lock; end is written to out. */
struct dli_etcd_bytes dli_etcd_prefix(const struct dli_place *place);
struct dli_etcd_bytes dli_etcd_prefix_end(const struct dli_place *place, char out[DLI_ETCD_KEY_MAX]);

/* The key of an owner: that of its slot, if its number has one. */
struct dli_etcd_bytes dli_etcd_key(const struct dli_kind *kind, const struct dli_place *place, const char *owner,
                                   char out[DLI_ETCD_KEY_MAX]);

/* A request that may put the number's key is sent: it has a slot from now on. Without memory it has none. */
void dli_etcd_slot_take(const struct dli_place *place, int64_t number);

/* Another request that may change it is sent; one was answered; one has put the key. */
void dli_etcd_slot_ask(const struct dli_place *place, int64_t number);
void dli_etcd_slot_answered(const struct dli_place *place, int64_t number);
void dli_etcd_slot_there(const struct dli_place *place, int64_t number);

/* The number has no key any more; or it has put none, which is found out here. */
void dli_etcd_slot_end(const struct dli_place *place, int64_t number);
void dli_etcd_slot_unused(const struct dli_place *place, int64_t number);
void dli_etcd_slots_free(struct dli_etcd *etcd);

/* The range of the keys that a hold of this kind waits for, if they are before its own: a reader waits for writers only. */
struct dli_etcd_rivals {
    struct dli_etcd_bytes key, end;
    char room[DLI_ETCD_KEY_MAX], end_room[DLI_ETCD_KEY_MAX];
};

void dli_etcd_rivals(const struct dli_kind *kind, const struct dli_place *place, struct dli_etcd_rivals *rivals);

/* All claims of a kind: the keys that stand in one line. */
void dli_etcd_claims(const struct dli_kind *kind, const struct dli_place *place, struct dli_etcd_rivals *claims);

/* The key of the gate of a name. */
#define DLI_ETCD_GATES "dlock_gate/"
struct dli_etcd_bytes dli_etcd_gate_key(const struct dli_place *place, char out[DLI_ETCD_KEY_MAX]);

/* The grant number of an owner id. */
int64_t dli_etcd_number(const char *owner);

/* The mark of a session. */
struct dli_etcd_bytes dli_etcd_mark(const struct dli_etcd_session *session, char out[DLI_ETCD_MARK_MAX]);

/* Steps and tests of a transaction. */
void dli_etcd_test(struct dli_etcd_txn *txn, enum dli_etcd_target target, struct dli_etcd_bytes key, int64_t revision);
struct dli_etcd_step *dli_etcd_then(struct dli_etcd_txn *txn, enum dli_etcd_step_kind kind, struct dli_etcd_bytes key);
struct dli_etcd_step *dli_etcd_otherwise(struct dli_etcd_txn *txn, enum dli_etcd_step_kind kind,
                                         struct dli_etcd_bytes key);

/* ---- exchange.c, renew.c, admin.c: the verbs */
void dli_etcd_exchange(struct dli_job *job);
void dli_etcd_renew(struct dli_job *job);
void dli_etcd_acquire_all(struct dli_job *job);
void dli_etcd_force(struct dli_job *job);
void dli_etcd_inspect(struct dli_job *job);
void dli_etcd_ping(struct dli_job *job);
void dli_etcd_check(struct dli_job *job);

/* How long a lease still lasts, in seconds; -1: it is over, or the answer was none. For the answer of read_lease. */
void dli_etcd_read_lease(struct dli_job *job, int64_t id, void (*answered)(struct dli_job *job));
int64_t dli_etcd_lease_read(struct dli_job *job);

/* ---- latch.c */
void dli_etcd_latch_wait(struct dli_job *job);
void dli_etcd_latch_change(struct dli_job *job);

/* ---- session.c */

/* The session for a lease in microseconds: one that lives, or NULL. */
struct dli_etcd_session *dli_etcd_session(struct dli_etcd *etcd, int64_t lease);

/*
 * The job needs a session for this lease. 1: job->session is set. 0: the job is parked, and resumed runs later, or it
 * fails.
 */
int dli_etcd_enter(struct dli_job *job, int64_t lease, void (*resumed)(struct dli_job *job));

/* A hold with this lease lasts as long as one that was confirmed then. */
int64_t dli_etcd_since(const struct dli_etcd_session *session, int64_t lease);

/* The session is over: the server says so, or it may be by our clock. */
void dli_etcd_session_lost(struct dli_etcd_session *session);

/* Let all parked jobs go on. */
void dli_etcd_resume(struct dli_etcd_session *session);

/* End the lease at the server. */
void dli_etcd_revoke(struct dli_etcd_session *session);

/* Those that are over: revoke them again, or forget them. */
void dli_etcd_ended_step(struct dli_etcd *etcd, int64_t now);

/* Revoke all, with the connection that there is, in a short time. */
void dli_etcd_sessions_end(struct dli_etcd *etcd);
void dli_etcd_sessions_free(struct dli_etcd *etcd);

/* ---- keepalive.c */

/* Park the job until a keep-alive of the session is answered and proven. */
void dli_etcd_refresh(struct dli_job *job, struct dli_etcd_session *session, void (*resumed)(struct dli_job *job));

/* One of them may be over: ask all now. */
void dli_etcd_sessions_doubt(struct dli_etcd *etcd);

/* A new connection: keep-alives that were never sent go out on it, and are not late before. Those that were sent have ended. */
void dli_etcd_sessions_up(struct dli_etcd *etcd);

void dli_etcd_sessions_step(struct dli_etcd *etcd, int64_t now);
int64_t dli_etcd_sessions_alarm(const struct dli_etcd *etcd);

/* ---- table.c */

/* NULL: there is none. */
struct dli_etcd_node *dli_etcd_find(const struct dli_etcd_table *table, int64_t number);

/* 0, or -1 without memory. The number is the node's from now on. */
int dli_etcd_enlist(struct dli_etcd_table *table, struct dli_etcd_node *node, int64_t number);
void dli_etcd_delist(struct dli_etcd_table *table, struct dli_etcd_node *node);
struct dli_etcd_node *dli_etcd_any(const struct dli_etcd_table *table); /* NULL: it is empty */

/* ---- watch.c */

struct dli_etcd_waiter *dli_etcd_waiter(struct dli_etcd *etcd, int64_t number);

/* The number stands in line behind the key before, as of revision: watch both keys. Without memory its probes must do. */
void dli_etcd_wait(struct dli_job *job, struct dli_etcd_bytes own, struct dli_etcd_bytes before, int64_t revision);

/* What the number waits for: so many of the claims have to go, or the total has to change. All as of revision. */
struct dli_etcd_crowd {
    struct dli_etcd_bytes key, end, total;
    int64_t leave, revision;
};

/* The same for these. 1: something has happened meanwhile: look again. */
int dli_etcd_wait_for_some(struct dli_job *job, struct dli_etcd_bytes own, const struct dli_etcd_crowd *crowd);

/* The number's look is about to be sent. */
void dli_etcd_looks(struct dli_job *job);

/* Begin a watch, or begin it anew; end it. tell: the server, too. */
void dli_etcd_watch_stop(struct dli_etcd *etcd, struct dli_etcd_watch *watch, int tell);
void dli_etcd_watch_begin(struct dli_etcd *etcd, struct dli_etcd_watch *watch, struct dli_etcd_watching *what);

/* Forget all watches, without a word to the server. */
void dli_etcd_watches_end(struct dli_etcd *etcd);

/* Watch only this key, for all who wait for it by one negative number. */
void dli_etcd_watch_for(struct dli_job *job, int64_t number, struct dli_etcd_bytes key, int64_t revision);

/* The number has come to its turn: from here on only its own key is watched. */
void dli_etcd_hold(struct dli_etcd *etcd, int64_t number, int64_t revision);

/*
 * A number that is held is renewed: watch its key from now on, if that is not so yet. NULL without memory: then deletion is
 * noticed by nobody.
 */
struct dli_etcd_waiter *dli_etcd_watch_hold(struct dli_etcd *etcd, const struct dli_renewal *row);

/* The number is in line or held no more. */
void dli_etcd_forget(struct dli_etcd *etcd, int64_t number);
void dli_etcd_forget_all(struct dli_etcd *etcd);

/* Every number in line looks again; if their watches were lost. */
void dli_etcd_hint_all(struct dli_etcd *etcd);
void dli_etcd_hint_stale(struct dli_etcd *etcd);

/* Begin the stream anew, if it is old. */
void dli_etcd_watches_step(struct dli_etcd *etcd);

/* ---- login.c */

/* The connection is up or down. */
void dli_etcd_up(void *etcd);
void dli_etcd_down(void *etcd);

/* The token is not good any more: log in anew. Calls wait meanwhile. */
void dli_etcd_login(struct dli_etcd *etcd);
void dli_etcd_logout(struct dli_etcd *etcd);

#endif
