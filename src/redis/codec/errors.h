/*
 * errors.h: what the error replies of a server mean.
 */
#ifndef DLI_REDIS_CODEC_ERRORS_H
#define DLI_REDIS_CODEC_ERRORS_H

#include "base/error.h"
#include "resp.h"

/*
 * The status for an error reply: that of its code in the table of errors.c, or DLOCK_SERVER_ERROR. Codes are also found
 * inside script errors, and behind the "ERR Error running script ..." of older servers.
 */
dlock_status dli_error_status(const struct dli_reply *error);

/* Whether the script was already running when the error came: what it wrote before then stays. */
int dli_error_midway(const struct dli_reply *error);

/* Escape the text of an ERROR, or of a TEXT that people see, as dli_escape does, with stars in place of the password. Returns out. */
const char *dli_escape_error(char *out, size_t out_size, const struct dli_reply *error);

/* Whether the server does not know the command: it was renamed or disabled, or a proxy does not pass it on. */
int dli_error_unknown(const struct dli_reply *error);

/* Whether an error begins with a text, or contains it. */
int dli_error_begins(const struct dli_reply *error, const char *text);
int dli_error_has(const struct dli_reply *error, const char *text);

#endif
