/*
 * list.h: the request LIST and its reply, for commands.c and replies.c.
 */
#ifndef DLI_REDIS_CODEC_LIST_H
#define DLI_REDIS_CODEC_LIST_H

#include "commands.h"

int dli_encode_list(struct dli_buffer *out, int full, const struct dli_request *request);
dlock_status dli_decode_list(const struct dli_reply *reply, struct dli_request *request);

#endif
