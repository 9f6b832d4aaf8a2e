/*
 * kinds.h: the verbs, and what kinds of locks share beside the line: gates, numbers that stay, permits.
 */
#ifndef DLI_ZOOKEEPER_KINDS_H
#define DLI_ZOOKEEPER_KINDS_H

#include "inner.h"

/* ---- job.c: what has become of the calls of a step */

struct dli_zk_outcome {
    const struct dli_zk_call *failed; /* the first one that had no reply */
    int over, moved;                  /* a session is over, or has moved */
};

/* Another call of the step has ended. session: NULL when it has gone meanwhile. */
void dli_zk_note(struct dli_job *job, struct dli_zk_session *session, const struct dli_zk_call *call,
                 struct dli_zk_outcome *outcome);

/* 0: all have a reply. -1: the job has begun anew, or has failed. */
int dli_zk_conclude(struct dli_job *job, const struct dli_zk_outcome *outcome);

/* ---- exchange.c, drop.c, renew.c, admin.c, latch.c, gate.c: the verbs */
void dli_zk_exchange(struct dli_job *job);
void dli_zk_drop(struct dli_job *job);
void dli_zk_renew(struct dli_job *job);
void dli_zk_force(struct dli_job *job);
void dli_zk_inspect(struct dli_job *job);
void dli_zk_ping(struct dli_job *job);
void dli_zk_check(struct dli_job *job);
void dli_zk_latch_wait(struct dli_job *job);
void dli_zk_latch_change(struct dli_job *job);
void dli_zk_gate(struct dli_job *job);
void dli_zk_gate_left(struct dli_job *job);

/* ---- check.c: the checks under way */
void dli_zk_checks_step(struct dli_zk *zk, int64_t now);
int64_t dli_zk_checks_alarm(const struct dli_zk *zk);
int dli_zk_checks_poll(const struct dli_zk *zk, struct pollfd *fds, int count);
void dli_zk_checks_end(struct dli_zk *zk);

/* ---- parents.c: make the node at the place, and those above it; then resumed runs. */
void dli_zk_make_parents(struct dli_job *job, const struct dli_place *place, void (*resumed)(struct dli_job *job));

/* ---- gate.c: gates */

struct dli_zk_text dli_zk_gate_path(const struct dli_place *place, char out[DLI_ZK_PATH_MAX]);

/* A node was seen where the gate is: job.gate as the reply of this call has it. */
void dli_zk_gate_read(struct dli_job *job, int call);

/*
 * The same, by a number that has a node: it is asked whether the gate was closed when that was made, or later. One that was
 * over is removed.
 */
void dli_zk_gate_meet(struct dli_job *job, void (*open)(struct dli_job *job), void (*shut)(struct dli_job *job));

/* The same, by a latch, which has none: the leader's clock is asked. */
void dli_zk_gate_try(struct dli_job *job, void (*open)(struct dli_job *job), void (*shut)(struct dli_job *job));

/* ---- bell.c: nodes of all clients */
struct dli_zk_text dli_zk_bell_path(const struct dli_job *job, char out[DLI_ZK_PATH_MAX]);

/* Make the bell of the name; then run made. */
void dli_zk_make_bell(struct dli_job *job, void (*made)(struct dli_job *job));
void dli_zk_ask_clock(struct dli_job *job, void (*timed)(struct dli_job *job, int64_t now));

/* Whether the session watches the bell of the name. Ask for that; and see the reply. */
int dli_zk_hears(const struct dli_job *job);
struct dli_zk_ask dli_zk_listen(struct dli_job *job, char room[DLI_ZK_PATH_MAX]);
void dli_zk_listened(struct dli_job *job, int call);

/* job.gate.rings, from the reply about the bell. */
void dli_zk_rings(struct dli_job *job, int call);

/* A bell was rung: 0: the path is none. */
int dli_zk_rung(struct dli_zk_session *session, struct dli_zk_text path);

/* What this process has heard of gates may be old: it asks again. */
void dli_zk_gates_doubt(struct dli_zk *zk);
void dli_zk_gates_step(struct dli_zk *zk);

/* ---- search.c: after a lost reply: find the node, or make another one */
void dli_zk_search(struct dli_job *job);

/* ---- exchange.c: results, and the line */
int dli_zk_stands(const struct dli_job *job);
void dli_zk_granted(struct dli_job *job, struct dli_zk_entry *entry, int64_t more);
void dli_zk_not_granted(struct dli_job *job, enum dli_try got);

/* Begin again: stand in line, or look. */
void dli_zk_acquire(struct dli_job *job);

/* Make a node. Or: it is there, or was. */
void dli_zk_create(struct dli_job *job);
void dli_zk_look(struct dli_job *job);

/* What it knew of the number is over: a new node, at the end of the line. */
void dli_zk_stand_anew(struct dli_job *job);

/* The number's node in line does not stay. got: the result then. */
void dli_zk_go_away(struct dli_job *job, enum dli_try got);

/* ---- permit.c: a permit semaphore */

/* An acquisition begins. */
void dli_zk_permit_acquire(struct dli_job *job);

/* It is the first in line. */
void dli_zk_permit_take(struct dli_job *job);

/* The children in a reply. NULL: the job has failed. NO_NODE is no error: nothing is there. */
const struct dli_zk_children *dli_zk_children_of(struct dli_job *job, int call);

/* Delete the nodes of so many permits by their exact names, in one transaction. */
void dli_zk_delete_leases(struct dli_job *job, const char *owner, int32_t from, int count,
                          void (*answered)(struct dli_job *job));

/* ---- permit_drop.c */
void dli_zk_permit_drop(struct dli_job *job);

/* ---- total.c: the number of permits */
void dli_zk_permit_change(struct dli_job *job);
struct dli_zk_text dli_zk_total_path(const struct dli_place *place, char out[DLI_ZK_PATH_MAX]);

/* The number in the data of a node. */
int64_t dli_zk_total(struct dli_zk_text data);

/* The same, from a reply; there may be no node. 0; -1: the job has failed. */
int dli_zk_total_of(struct dli_job *job, int call, int64_t *total);

#endif
