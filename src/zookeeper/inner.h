/*
 * inner.h: the store on ZooKeeper, shared by its files.
 *
 * A name is a path below the chroot. A lock's nodes are ephemeral and sequential, <path>/_c_<owner id>-lock-<ten digits>, as those
 * of Java's Curator: the one with the lowest number has the lock, the others stand in line behind it. Those of a read-write
 * lock have __READ__ and __WRIT__ in place of lock-; a reader only waits for the writers before it. An owner id is one
 * acquisition and is never used again: after a lost reply its node is looked for before another one is made.
 *
 * The protocol is spoken here, over net/, and not by libzookeeper, because that one tells nobody when an answered ping was
 * sent, resolves names in a call that blocks, and ends the parent's session from a forked child. Its messages are few.
 *
 * All I/O is done by one thread at a time, that which has the turn of lanes/lanes.h. Everything here belongs to it.
 */
#ifndef DLI_ZOOKEEPER_INNER_H
#define DLI_ZOOKEEPER_INNER_H

#include <string.h>

#include "base/list.h"
#include "base/options.h"
#include "base/url.h"
#include "lanes/lanes.h"
#include "net/net.h"
#include "store/store.h"
#include "sys/sys.h"
#include "zookeeper/codec/codec.h"

enum { DLI_ZK_TRIES = 4, DLI_ZK_SESSIONS = 64, DLI_ZK_CALLS = 4 };
enum { DLI_ZK_MS = 1000, DLI_ZK_STAMPS = 16 };

/* A chroot, a name, a child of ours with what is below it, a child that stands in line. */
enum { DLI_ZK_PATH_MAX = 128 + 1 + 1024 + 8 + 1 + DLI_ZK_NAME_MAX + 1 };

struct dli_job;
struct dli_zk;
struct dli_zk_session;

/* Where one lock is kept. */
struct dli_place {
    const struct dli_kind *kind;
    int fit;         /* the name can be a path */
    uint16_t chroot; /* so many bytes of path */
    uint16_t size;   /* of path */
    struct dli_place *line,
        *leases; /* of a permit semaphore, below it: who takes permits now; permits that are taken */
    char path[]; /* absolute, terminated: chroot, "/", name */
};

/* One request on its way, and its reply. */
struct dli_zk_call {
    struct dli_zk_session *session; /* NULL: it is not on its way */
    struct dli_link link;           /* in session.waiting, then in session.flying */
    int64_t deadline, sent_at;
    int32_t xid;
    struct dli_buffer out;       /* the frame */
    dlock_status status;         /* results. Not DLOCK_OK: there was no reply */
    int32_t error;               /* of the reply, enum dli_zk_error */
    struct dli_zk_answer answer; /* and what it has; counted in zk.kept */
    struct dli_zk *zk;
    int sent;           /* the server may have got it */
    int over;           /* the session is over */
    dlock_error reason; /* not DLOCK_OK: a sentence that names the member */
    void (*ended)(struct dli_zk_call *call);
};

enum dli_zk_phase { DLI_ZK_DOWN, DLI_ZK_GREETING, DLI_ZK_UP };

/* A session, its connection, and all that depends on it. Times are microseconds. */
struct dli_zk_session {
    struct dli_link link; /* in zk.sessions, then in zk.ended */
    struct dli_zk *zk;
    int64_t number;              /* never used again */
    int64_t lease;               /* of its locks */
    struct dli_zk_ticket ticket; /* id 0: it has not begun */
    int64_t timeout;             /* as the server has it */
    int64_t stamp[DLI_ZK_STAMPS];
    int stamps;             /* sent then, and answered through the leader: the last ones, in order */
    int64_t since;          /* the leader has heard of its life since then */
    int64_t ask_at;         /* the next heartbeat */
    int over;               /* lost: only its end is left to do */
    int64_t gone;           /* over: the server has forgotten it by then */
    struct dli_link parked; /* jobs that wait for an answered heartbeat */
    struct dli_zk_call beat, bye;
    struct dli_conn *conn; /* from here on link.c's */
    int at;                /* the member */
    enum dli_zk_phase phase;
    int64_t greeted; /* stamp of the greeting */
    struct dli_buffer in;
    struct dli_link waiting, flying;
    int32_t xid,
        replied;  /* of the last request that was sent, and of the last one on this connection that has its reply */
    int64_t zxid; /* the last one seen: no member shows us less */
    int64_t heard, next_at;
    uint64_t bells, rung; /* bit n: bell n is watched; how often one has rung; bell.c */
    const char *leaves;   /* not NULL: why this member is given up */
    dlock_status refused; /* and with which status; DLOCK_OK: it is not reachable */
    dlock_error reason;   /* why it is down */
};

/* What a job knows of the gate of its name; gate.c. */
struct dli_zk_gate {
    int64_t end;            /* of its time, by the leader's clock in ms; 0: the node is no gate */
    int32_t version, rings; /* rings: the version of its bell, before the node was read */
    int passed;             /* the node is no gate: go on beside it */
    int heard;              /* its bell was watched before the name was looked at */
    int bell;               /* what is made: it, or the clock */
    int open;               /* a latch: it is open */
    int closed;             /* its permits go because of the gate */
    void (*next)(struct dli_job *job), (*shut)(struct dli_job *job), (*again)(struct dli_job *job);
    void (*timed)(struct dli_job *job, int64_t now); /* the leader's clock was read */
};

/* One request of the client on its way. */
struct dli_job {
    struct dli_request request; /* first */
    struct dli_lane_job base;   /* base.link: also in session.parked */
    int tries, at;
    int refreshed, passes;        /* of a renewal: it has waited for a heartbeat; it has set watches so often */
    int64_t value;                /* the result of a change of a latch; of parents.c */
    const struct dli_place *line; /* where its number stands in line, as one of this kind */
    const struct dli_kind *kind;
    const struct dli_place *parents; /* the place that is made */
    struct dli_zk_gate gate;
    struct dli_zk_session *session;
    struct dli_zk_call call[DLI_ZK_CALLS];
    int calls, left; /* of this step; those without an answer */
    void (*answered)(struct dli_job *job);
    void (*resumed)(struct dli_job *job); /* what it was parked for has come; or: its parents are there */
};

/* A path that is watched. */
struct dli_zk_spot {
    struct dli_zk_text path; /* in room */
    struct dli_link watches;
    char room[];
};

/* A data watch, for one entry. */
struct dli_zk_watch {
    struct dli_zk_entry *entry;
    struct dli_zk_spot *spot; /* NULL: there is none */
    struct dli_link link;     /* in spot.watches */
};

enum dli_zk_state {
    DLI_ZK_SENT, /* its node may be there */
    DLI_ZK_KNOWN /* its node was there: seq and czxid are set */
};

/* What a number has of its permits: no nodes; nodes that may be there; nodes; nodes, and they are within the total. */
enum dli_zk_permits { DLI_ZK_PERMITS_NONE, DLI_ZK_PERMITS_SENT, DLI_ZK_PERMITS_KNOWN, DLI_ZK_PERMITS_TAKEN };

/* A grant number with a node in line or held. */
struct dli_zk_entry {
    int64_t number;  /* first */
    int64_t session; /* the number of its session */
    int64_t czxid, ctime;
    uint64_t rung; /* its session's, when the line was read */
    int32_t seq;
    int8_t state, held;
    int8_t gone;                  /* held: its node was deleted */
    int8_t leaving;               /* its node may have been deleted by us */
    int8_t waits;                 /* it has waited before, and looked again */
    int8_t next, first;           /* only one node is before its own; and that one has gone */
    int8_t permits;               /* of its permits: enum dli_zk_permits */
    int8_t outside;               /* it has nodes of permits, and its node in line was deleted */
    int32_t lease;                /* the number of the first one's node; the others follow */
    int32_t place;                /* TAKEN: the number of its node in line */
    int32_t sure;                 /* so many of its nodes, from the first one on, are there and watched */
    struct dli_zk_watch watch[2]; /* the node before, its own node */
    struct dli_zk_watch *rest;    /* held: of its other permits; NULL: it has none yet */
    int32_t rests;
    int32_t family;
    size_t size;
    char name[];
};

struct dli_zk {
    struct dli_store store; /* first */
    struct dli_lanes lanes;
    char text[DLI_FINDING_WHERE];
    char chroot[128]; /* "" or "/a/b" */
    const char *user, *password;
    int64_t patience, drift_ppm, lease; /* lease: of the client's options */
    struct dli_conn_config member[DLI_NODES_MAX];
    int members;
    struct dli_tls *tls;
    struct dli_budget budget;
    struct dli_link sessions, ended, checks; /* from here on lane 0's */
    int64_t numbers;                         /* of sessions, so far */
    void *entries, *spots;                   /* trees: by number, by path */
    size_t kept;                             /* bytes of answers */
    int ends;                                /* sessions in ended */
    struct dli_place *bells;                 /* the node that they are below; constant */
    uint32_t follows;                        /* atomic: somebody must hear of gates */
    int followed;                            /* and was told that it does */
};

static inline struct dli_zk *dli_zk_of(struct dli_store *store)
{
    return DLI_OBJECT(store, struct dli_zk, store);
}

static inline struct dli_job *dli_zk_job_of(struct dli_request *request)
{
    return DLI_OBJECT(request, struct dli_job, request);
}

/* The job in a list by its base.link. */
static inline struct dli_job *dli_zk_job_at(const struct dli_link *link)
{
    return DLI_OBJECT(link, struct dli_job, base.link);
}

static inline struct dli_zk *dli_zk_at(const struct dli_lane *lane)
{
    return DLI_OBJECT(lane->lanes, struct dli_zk, lanes);
}

/* ---- lane.c: the lanes of store/store.h */
struct dli_lane *dli_zk_lane_new(struct dli_store *store, int index, int wake_fd);
dlock_status dli_zk_push(struct dli_lane *lane, struct dli_request *request);
void dli_zk_execute(struct dli_lane *lane, struct dli_request *request);
extern const struct dli_lanes_ops dli_zk_lanes_ops;
void dli_zk_shut(struct dli_lane *lane);

/* ---- job.c */

struct dli_request *dli_zk_request_new(struct dli_store *store);
void dli_zk_request_free(struct dli_request *request);

/* Lane 0: begin a job that was pushed. */
void dli_zk_start(struct dli_job *job);

/* The job's request is answered; its results are set. The job may be gone afterwards. */
void dli_zk_finish(struct dli_job *job);

/* The same with the result of a change. */
void dli_zk_finish_change(struct dli_job *job, dlock_status status, int64_t value);

/* The same with a failure and its sentence. */
void dli_zk_fail(struct dli_job *job, dlock_status status, const char *sentence);

/* The same for the error of a reply. */
void dli_zk_fail_error(struct dli_job *job, int32_t error);

/* The same when a change depends on a version, and there is none any more: DLI_ZK_RUN_OVER. */
void dli_zk_fail_run_over(struct dli_job *job);

/*
 * Ask these things, all at once: answered runs when all have a reply. A request without one, or a session that is over, is
 * dealt with here.
 */
void dli_zk_ask(struct dli_job *job, const struct dli_zk_ask *ask, int count, void (*answered)(struct dli_job *job));

/* Try from this step on anew, but not for ever. */
void dli_zk_again(struct dli_job *job, void (*step)(struct dli_job *job));

/* What a call of the step has got. It lasts until the job asks again, or is finished. */
static inline const struct dli_zk_answer *dli_zk_got(const struct dli_job *job, int call)
{
    return &job->call[call].answer;
}

/* ---- names.c */

struct dli_place *dli_zk_place_new(struct dli_store *store, const struct dli_kind *kind, const char *name, size_t size);
void dli_zk_place_free(struct dli_place *place);
const char *dli_zk_place_name(const struct dli_place *place);
struct dli_zk_text dli_zk_path(const struct dli_place *place);

/* Of a child whose name stands in line, or is ours: it fits. Another one that does not is empty, which nobody is asked about. */
struct dli_zk_text dli_zk_child_path(const struct dli_place *place, struct dli_zk_text child,
                                     char out[DLI_ZK_PATH_MAX]);

/* Where the node of a hold is. */
const struct dli_place *dli_zk_home(const struct dli_place *place);

/* The path of a new node of an owner, without its number; and with one. */
struct dli_zk_text dli_zk_node(const struct dli_kind *kind, const struct dli_place *place, const char *owner,
                               char out[DLI_ZK_PATH_MAX]);
struct dli_zk_text dli_zk_numbered(const struct dli_kind *kind, const struct dli_place *place, const char *owner,
                                   int64_t seq, char out[DLI_ZK_PATH_MAX]);

/* What kind of lock a node in line is of: 'l', 'r', 'w'. */
char dli_zk_side(const struct dli_kind *kind);

/* Whether a node is that of an owner, whatever its number. */
int dli_zk_is_owners(struct dli_zk_text name, const char *owner);

/* The grant number of an owner id. */
int64_t dli_zk_number(const char *owner);

/* ---- session.c */

/* The session for a lease in microseconds; 0: any session. It may not have begun yet. NULL: the job has failed. */
struct dli_zk_session *dli_zk_enter(struct dli_job *job, int64_t lease);

/* The session with this number, if it is not over. */
struct dli_zk_session *dli_zk_session(struct dli_zk *zk, int64_t number);

/* The session is over: the server says so, and gone is 0; or it may be by our clock. */
void dli_zk_session_lost(struct dli_zk_session *session);

/* The server has accepted the session, with these numbers. */
void dli_zk_session_up(struct dli_zk_session *session, const struct dli_zk_ticket *ticket);
void dli_zk_session_down(struct dli_zk_session *session);

/* End all at the server, with the connections that there are, in a short time. */
void dli_zk_sessions_end(struct dli_zk *zk);
void dli_zk_sessions_free(struct dli_zk *zk);

/* End it at the server: to be called until gone. */
void dli_zk_say_bye(struct dli_zk_session *session);
void dli_zk_session_free(struct dli_zk_session *session);

/* ---- heartbeat.c */

/* A hold with this lease lasts as long as one that was confirmed then. */
int64_t dli_zk_since(const struct dli_zk_session *session, int64_t lease);

/* The leader, or one that was, has heard of the session since this stamp. fresh: it has begun, which takes a majority. */
void dli_zk_begun(struct dli_zk_session *session, int64_t stamp, int fresh);

/* Park the job until a heartbeat of the session is answered. */
void dli_zk_refresh(struct dli_job *job, struct dli_zk_session *session, void (*resumed)(struct dli_job *job));

/* Let all parked jobs go on. */
void dli_zk_resume(struct dli_zk_session *session);
void dli_zk_beat_ended(struct dli_zk_call *call);
void dli_zk_sessions_step(struct dli_zk *zk, int64_t now);
int64_t dli_zk_sessions_alarm(const struct dli_zk *zk);

/* ---- call.c, link.c: the connection of a session */

extern const struct dli_protocol dli_zk_protocol;

/* 0, or -1 without memory. */
int dli_zk_link_init(struct dli_zk_session *session, int at);
void dli_zk_link_fini(struct dli_zk_session *session);

/* Begin a call: ended runs when it is over, never within this function. 0, or -1 without memory. */
int dli_zk_begin(struct dli_zk_session *session, struct dli_zk_call *call, const struct dli_zk_ask *ask);

/* The call ends now, and its ended does not run. */
void dli_zk_cancel(struct dli_zk_call *call);
void dli_zk_call_drop(struct dli_zk_call *call); /* its answer is not needed any more */
void dli_zk_call_free(struct dli_zk_call *call);

/* Give up this member with the next step. why is constant. refused: DLOCK_OK, or a status for its calls. */
void dli_zk_leave(struct dli_zk_session *session, dlock_status refused, const char *why);

void dli_zk_link_step(struct dli_zk_session *session, int64_t now);
int64_t dli_zk_link_alarm(const struct dli_zk_session *session);

/* The call is over. Or it has failed, for this reason; or all of a list. */
void dli_zk_call_end(struct dli_zk_call *call);
void dli_zk_call_fail(struct dli_zk_call *call, const dlock_error *reason);
void dli_zk_calls_fail(struct dli_link *list, const dlock_error *reason, int over);

/* All its calls end with this reason. over: because the session is. */
void dli_zk_link_fail(struct dli_zk_session *session, const dlock_error *reason, int over);

/* ---- table.c */

/* NULL: there is none. */
struct dli_zk_entry *dli_zk_entry(const struct dli_zk *zk, int64_t number);
struct dli_zk_entry *dli_zk_entry_new(struct dli_zk *zk, const struct dli_place *place, int64_t number);
void dli_zk_forget(struct dli_zk *zk, int64_t number);
void dli_zk_forget_all(struct dli_zk *zk);

/* The request for a watch of this path is about to be sent. 0, or -1 without memory. */
int dli_zk_watch(struct dli_zk *zk, struct dli_zk_watch *watch, struct dli_zk_text path);
void dli_zk_unwatch(struct dli_zk *zk, struct dli_zk_watch *watch);
void dli_zk_unwatch_all(struct dli_zk *zk, struct dli_zk_entry *entry);

/* Room for the watches of a hold with so many permits: 0, or -1 without memory. Then that of permit i, from 0. */
int dli_zk_watches(struct dli_zk_entry *entry, int permits);
struct dli_zk_watch *dli_zk_watch_of(struct dli_zk_entry *entry, int i);
struct dli_zk_spot *dli_zk_spot(const struct dli_zk *zk, struct dli_zk_text path); /* NULL: nobody watches it */

/* ---- watch.c */

/* Something happened to a node that is watched. */
void dli_zk_event(struct dli_zk_session *session, int32_t type, struct dli_zk_text path);

/* The connection of a session was lost, and with it its watches: all of its entries look again. */
void dli_zk_entries_doubt(struct dli_zk_session *session);

/* Every number in line that has no session looks again. */
void dli_zk_hint_orphans(struct dli_zk *zk);

#endif
