/*
 * error.h: the status table and the error box.
 *
 * dli_fail fills the box (when there is one) and returns its status, so that a failing function ends in one line. It
 * escapes all that is not printable (printable.h), wherever that came from. Text from a server goes through dli_escape
 * first, which also cuts at 256 bytes. To escape twice is to escape once.
 */
#ifndef DLI_BASE_ERROR_H
#define DLI_BASE_ERROR_H

#include <stddef.h>

#include "dlock.h"

struct dlock_error {
    dlock_status code;
    char message[512];
};

/* One row of the exported table. */
struct dli_status_row {
    dlock_status status;
    int32_t retryable;
    const char *name;
    const char *text;
};

extern const struct dli_status_row dli_status_table[];
extern const size_t dli_status_rows;

/* The row of a status, or NULL. */
const struct dli_status_row *dli_status_find(dlock_status status);

/* Fill box (may be NULL) and return status. */
dlock_status dli_fail(dlock_error *box, dlock_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* DLOCK_SERVER_FORGOT: the server granted a lower fencing token than before. */
dlock_status dli_fail_forgot(dlock_error *box, int64_t token, int64_t before);

/* Copy untrusted bytes into out as printable text, "..." when cut. Returns out. */
const char *dli_escape(char *out, size_t out_size, const char *bytes, size_t size);

#endif
