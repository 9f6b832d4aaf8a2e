/*
 * errors.h: what the error replies of a server mean.
 */
#ifndef DLI_REDIS_CODEC_ERRORS_H
#define DLI_REDIS_CODEC_ERRORS_H

#include "base/error.h"
#include "resp.h"

/*
 * What an error reply means: "NOAUTH", "WRONGPASS", "NOPERM" -> DLOCK_DENIED; "LOADING", "MASTERDOWN" -> DLOCK_SERVER_LOADING; "BUSY" ->
 * DLOCK_SERVER_BUSY; "OOM" -> DLOCK_SERVER_OUT_OF_MEMORY; "READONLY", "MISCONF" -> DLOCK_SERVER_READ_ONLY; "WRONGTYPE" -> DLOCK_WRONG_KIND; others ->
 * DLOCK_SERVER_ERROR. Looks also behind the "ERR Error running script ..." wrapping of older servers and at codes inside script errors.
 */
dlock_status dli_error_status(const struct dli_reply *error);

/* Whether a script was under way when the error came: what it had written until then stays. */
int dli_error_midway(const struct dli_reply *error);

/* The text of an ERROR as dli_escape has it, with stars in the place of the password. */
const char *dli_escape_error(char *out, size_t out_size, const struct dli_reply *error);

/* Whether the server has no such command: renamed, disabled, or not passed on by a proxy. */
int dli_error_unknown(const struct dli_reply *error);

/* Whether an error begins with a text, or has it anywhere. */
int dli_error_begins(const struct dli_reply *error, const char *text);
int dli_error_has(const struct dli_reply *error, const char *text);

#endif
