/*
 * name.h: which names a lock can have.
 */
#ifndef DLI_BASE_NAME_H
#define DLI_BASE_NAME_H

#include <stdint.h>

#include "error.h"

enum { DLI_NAME_MAX = 1024 };

/* The name of a lock. Not terminated. space: so many bytes of it are its namespace with the colon; 0: it has none. */
struct dli_name {
    const char *text;
    uint32_t size, space;
};

/* DLOCK_INVALID_NAME when a lock cannot have this name. */
dlock_status dli_name_check(const char *name, size_t size, dlock_error *box);

/* Join a namespace ("": none), ":" and name. *size is the size of name, then of the result. DLOCK_INVALID_NAME. */
dlock_status dli_name_in(char full[DLI_NAME_MAX + 1], size_t *size, const char *space, const char *name,
                         dlock_error *box);

/* Compare by bytes; a prefix comes first. < 0, 0 or > 0. */
int dli_name_compare(const struct dli_name *a, const struct dli_name *b);

#endif
