/*
 * failure.h: trouble with a shared connection, and its end, become lines of the store's log; each once, not per attempt.
 *
 * All of it belongs to the thread that steps the pipe.
 */
#ifndef DLI_REDIS_PIPE_FAILURE_H
#define DLI_REDIS_PIPE_FAILURE_H

#include <stdint.h>

struct dli_pipe;
struct dli_store;

struct dli_failure_log {
    int64_t seen; /* of the pipe's troubles */
    int told;     /* the last word in the log was of trouble */
};

/* After each step of the pipe. server: what the log calls the one it leads to. */
void dli_failure_report(struct dli_failure_log *failure, const struct dli_pipe *pipe, struct dli_store *store,
                        const char *server);

#endif
