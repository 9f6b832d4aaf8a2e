/*
 * change.h: changes of a number that stays: the count of a latch, the total of a semaphore. Included by store.h. The functions
 * are for stores that compare and set.
 *
 * The value begins with the number. Behind it stand the ids of the last changes, so that a change that is sent twice acts
 * once. Old ids give way to new ones. So a change whose answer was lost is made again only where it is certain that it has
 * not acted: its own id would be there, too.
 */
#ifndef DLI_STORE_CHANGE_H
#define DLI_STORE_CHANGE_H

#include <stdint.h>

#include "base/id.h"

/* A request to read or change the number. */
struct dli_change {
    const char *what;       /* "set", "add", ... */
    int64_t number;         /* its argument */
    char id[DLI_OWNER_MAX]; /* a request sent twice with one id acts once */
    int64_t value;          /* the result */
    int more;               /* the result: 1: some of the work is left, send it again with another id */

    /* The store's own. */
    int8_t writes, doubt;     /* it is being written; an earlier try may have acted */
    char seen[DLI_OWNER_MAX]; /* the id of the change before it */
    int64_t version;          /* of the value that it changes */
};

enum {
    DLI_CHANGE_IDS = 16,
    DLI_CHANGE_FRONT = 32 + DLI_OWNER_MAX,
    DLI_CHANGE_VALUE = DLI_CHANGE_FRONT + DLI_CHANGE_IDS * (DLI_OWNER_MAX + 1),
    DLI_CHANGE_TRIES = 100 /* changes of others that one gives way to */
};

/* A try begins. sent: the last request of the one before was. If that wrote, and had no answer, it may have acted. */
void dli_change_begin(struct dli_change *change, int sent);

/*
 * The value to write: front, the id of this change, and as many ids of the value before as there is room for. version: that
 * of the value before. From here on the change is being written; writes becomes 0 with the answer.
 */
void dli_change_write(struct dli_change *change, int64_t version, const char *front, const char *before,
                      char out[DLI_CHANGE_VALUE]);

/* Whether the change has acted, as the value shows. */
int dli_change_acted(const struct dli_change *change, const char *value);

/*
 * Whether an earlier try may have acted, and nothing shows it: neither the version nor the number of ids, which the caller
 * compares, nor the change before it, which is remembered no more. certain: the caller knows that it has not.
 */
int dli_change_unclear(const struct dli_change *change, const char *value, int certain);

/* How many ids are in a value. */
int dli_change_ids(const char *value);

#endif
