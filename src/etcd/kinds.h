/*
 * kinds.h: what the kinds of locks on etcd share, and their operations. See inner.h.
 */
#ifndef DLI_ETCD_KINDS_H
#define DLI_ETCD_KINDS_H

#include "inner.h"

/* ---- exchange.c: what other kinds share */

/* want is in line, or not. */
void dli_etcd_not_granted(struct dli_job *job);

/* want has the lock; so many permits are left besides, -1: not known. */
void dli_etcd_granted(struct dli_job *job, int64_t more);

/* Try the step again, but not for ever. */
void dli_etcd_again(struct dli_job *job, void (*step)(struct dli_job *job));

/* Whether its own key has the lease of a session that lives. 0: it is being deleted, and the exchange begins anew. */
int dli_etcd_lives(struct dli_job *job, const struct dli_etcd_found *own);

/* The gate is closed: delete its own key, also when its put is still under way. */
void dli_etcd_shut_out(struct dli_job *job);

/* New marks for all sessions, by dli_etcd_then or dli_etcd_otherwise: puts that are under way fail whenever they arrive. */
enum { DLI_ETCD_MARKS = DLI_ETCD_STEPS - 1 };

struct dli_etcd_marks {
    char room[DLI_ETCD_MARKS][DLI_ETCD_MARK_MAX];
};

typedef struct dli_etcd_step *dli_etcd_add(struct dli_etcd_txn *txn, enum dli_etcd_step_kind kind,
                                           struct dli_etcd_bytes key);
void dli_etcd_mark_all(struct dli_etcd *etcd, struct dli_etcd_txn *txn, struct dli_etcd_marks *marks,
                       dli_etcd_add *add);

/* They have been written at this revision. */
void dli_etcd_marked(struct dli_etcd *etcd, int64_t revision);

/* Whether a number that waits puts its key. */
int dli_etcd_stands(const struct dli_job *job);

/* ---- permit.c */
void dli_etcd_permit_acquire(struct dli_job *job);
void dli_etcd_permit_change(struct dli_job *job);

/* ---- check.c: examinations that are under way. used: descriptors before theirs; returns how many there are then */
void dli_etcd_exams_step(struct dli_etcd *etcd, int64_t now);
int64_t dli_etcd_exams_alarm(const struct dli_etcd *etcd);
int dli_etcd_exams_poll(const struct dli_etcd *etcd, struct pollfd *fds, int used);
void dli_etcd_exams_end(struct dli_etcd *etcd);

/* ---- gate.c */
void dli_etcd_gate(struct dli_job *job);
void dli_etcd_gate_left(struct dli_job *job);

/* Follow the gates, if somebody has to. */
void dli_etcd_gates_step(struct dli_etcd *etcd);
void dli_etcd_gates_news(struct dli_etcd *etcd, struct dli_etcd_news *news);

/* ---- drop.c */

/* Release a number, or undo it. */
void dli_etcd_drop(struct dli_job *job);

/* 1: the job goes on; its call was refused for want of space, and its keys are deleted first. 0: no such job. */
int dli_etcd_take_back(struct dli_job *job);

/* A lease of at least this time in microseconds, which nobody keeps alive. answered asks dli_etcd_leased for its id; 0: the job has failed. */
void dli_etcd_lease_for(struct dli_job *job, int64_t time, void (*answered)(struct dli_job *job));
int64_t dli_etcd_leased(struct dli_job *job);

/* A released lock stays taken for a while: give its key a lease of its own. */
void dli_etcd_rest(struct dli_job *job);

/* ---- tie.c */

/* The waiter waits behind this key. It waits no more. */
void dli_etcd_tie(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter, struct dli_etcd_bytes before);
void dli_etcd_loosen(struct dli_etcd *etcd, struct dli_etcd_waiter *waiter);

/* Whether the watch of a waiter is a tie. One without a waiter ends. */
int dli_etcd_is_tie(const struct dli_etcd_watch *watch);
void dli_etcd_tie_end(struct dli_etcd *etcd, struct dli_etcd_watch *watch, int tell);
void dli_etcd_ties_free(struct dli_etcd *etcd);

/* ---- number.c: a number in the value of a key */
/* What changes a number of this sort needs. */
struct dli_etcd_number {
    struct dli_etcd_bytes (*key)(const struct dli_job *job, char room[DLI_ETCD_KEY_MAX]);
    void (*again)(struct dli_job *job);   /* somebody else has changed it: read it, and decide again */
    void (*refused)(struct dli_job *job); /* etcd is full: read whether the change was done all the same */
    int stays;                            /* 0: with 0 the key is deleted */
};

/* The value of the first key of a result; "" if there is none. Returns the key's revision, or 0. */
int64_t dli_etcd_value(const struct dli_etcd_result *result, char out[DLI_CHANGE_VALUE]);

void dli_etcd_number_begin(struct dli_job *job);

/* Whether an earlier try may have acted, and the value does not tell. */
int dli_etcd_number_unclear(const struct dli_job *job, int64_t modified, const char *value);

/* Write it, if the key is as it was read; created is the result of the job. */
void dli_etcd_number_change(struct dli_job *job, const struct dli_etcd_number *how, int64_t number, int64_t modified,
                            const char *before);
void dli_etcd_number_finish(struct dli_job *job, dlock_status status, int64_t value);

/* The end of a change that was refused, and is not in the value. */
void dli_etcd_number_full(struct dli_job *job, int64_t modified, const char *value);

#endif
