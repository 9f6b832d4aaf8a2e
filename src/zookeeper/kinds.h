/*
 * kinds.h: what kinds of locks share beside the line: numbers that stay, permits.
 */
#ifndef DLI_ZOOKEEPER_KINDS_H
#define DLI_ZOOKEEPER_KINDS_H

#include "inner.h"

/* ---- latch.c: a number that stays, and the ids of its last changes */
enum {
    DLI_ZK_IDS = 16,
    DLI_ZK_FRONT = 32 + DLI_OWNER_MAX,
    DLI_ZK_VALUE = DLI_ZK_FRONT + DLI_ZK_IDS * (DLI_OWNER_MAX + 1)
};

int dli_zk_value_knows(const char *value, const char *id);

/* front, the id of this change, and as many ids of the value before as there is room for. */
void dli_zk_value_write(char out[DLI_ZK_VALUE], const char *front, const char *id, const char *before);

/* ---- exchange.c: results, and the line */
int dli_zk_stands(const struct dli_job *job);
void dli_zk_granted(struct dli_job *job, struct dli_zk_entry *entry, int64_t more);
void dli_zk_not_granted(struct dli_job *job, enum dli_try got);

/* Begin again: stand in line, or look. */
void dli_zk_acquire(struct dli_job *job);

/* What it knew of the number is over: a new node, at the end of the line. */
void dli_zk_stand_anew(struct dli_job *job);

/* The number's node in line does not stay. got: the result then. */
void dli_zk_go_away(struct dli_job *job, enum dli_try got);

/* ---- permit.c: a permit semaphore */

/* An acquisition begins. */
void dli_zk_permit_acquire(struct dli_job *job);

/* It is the first in line. */
void dli_zk_permit_take(struct dli_job *job);

/* The children in a reply. 0; -1: the job has failed. NO_NODE is no error: nothing is there. */
int dli_zk_children_of(struct dli_job *job, int call, struct dli_zk_children *all);

/* Delete the nodes of so many permits by their exact names, in one transaction. */
void dli_zk_delete_leases(struct dli_job *job, const char *owner, int32_t from, int count,
                          void (*answered)(struct dli_job *job));

/*
 * The error of so many changes in the first reply; path: of the first of several that were made. 0; -1: the job has failed.
 */
int dli_zk_transacted(struct dli_job *job, int count, int32_t *error, struct dli_zk_text *path);

/* ---- permit_drop.c */
void dli_zk_permit_drop(struct dli_job *job);

/* ---- total.c: the number of permits */
void dli_zk_permit_change(struct dli_job *job);
struct dli_zk_text dli_zk_total_path(const struct dli_place *place, char out[DLI_ZK_PATH_MAX]);

/* The number in the data of a node. */
int64_t dli_zk_total(struct dli_zk_text data);

#endif
