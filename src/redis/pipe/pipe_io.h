/*
 * pipe_io.h: shared by pipe.c and pipe_io.c.
 */
#ifndef DLI_REDIS_PIPE_PIPE_IO_H
#define DLI_REDIS_PIPE_PIPE_IO_H

#include "pipe.h"

/* The connection's part of dli_pipe_step. */
void dli_pipe_io(struct dli_pipe *pipe, int64_t now);

/* Complete a call and note the caller to wake. Returns what its complete returned. */
int dli_pipe_complete(struct dli_pipe *pipe, struct dli_call *call, dlock_status status, int sent,
                      const struct dli_reply *reply);

#endif
