/*
 * failure.h: logs the failure of a shared connection and its recovery, each once and not per attempt.
 *
 * All of it belongs to the thread that steps the pipe.
 */
#ifndef DLI_REDIS_PIPE_FAILURE_H
#define DLI_REDIS_PIPE_FAILURE_H

#include <stdint.h>

struct dli_pipe;
struct dli_store;

struct dli_failure_log {
    int64_t seen; /* the pipe's failures when it was last checked */
    int logged;   /* the last line in the log was a failure */
};

/* Call it after each step of the pipe. server is its name in the log. */
void dli_failure_report(struct dli_failure_log *failure, const struct dli_pipe *pipe, struct dli_store *store,
                        const char *server);

#endif
