/*
 * share.h: constants that many objects have in common, stored once. Not thread safe.
 *
 * Most lists have a few. In a list of many only the newest are compared, so some may be stored more than once.
 */
#ifndef DLI_BASE_SHARE_H
#define DLI_BASE_SHARE_H

#include "list.h"

/*
 * The stored copy of these bytes, for one more user. They are compared as bytes: no padding. All in one list have the same
 * size. NULL without memory.
 */
const void *dli_share_get(struct dli_link *list, const void *bytes, size_t size);

/* One user less. The last one frees the copy. */
void dli_share_put(const void *copy);

#endif
