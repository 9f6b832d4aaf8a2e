/*
 * batch.h: calls of many callers in one script: which of them may go together, and their command on the wire.
 *
 * A script costs a server more than what it does for one lock. Where callers come in crowds, one script acquires or releases
 * for up to DLI_BATCH_MOST of them. Each gets what its own script would have said, of a grant the token alone, or nothing: then it
 * is to be sent alone, and it may have acted already. A server that refuses a key refuses the whole script: then each is sent alone
 * at once, and the one that is refused again goes in no crowd until it succeeds (place->apart). Everything here belongs to the thread of
 * the pipe.
 */
#ifndef DLI_REDIS_PIPE_BATCH_H
#define DLI_REDIS_PIPE_BATCH_H

#include "store/store.h"
#include "call.h"

/* Fewer than the least go alone. */
enum { DLI_BATCH_LEAST = 4, DLI_BATCH_MOST = 16, DLI_BATCH_PARTS = 4, DLI_BATCH_ARGS = 3 };

struct dli_batch {
    int count;
    struct dli_call *call[DLI_BATCH_MOST];
    const char *part[DLI_BATCH_MOST][DLI_BATCH_PARTS + 1]; /* of its command: where they begin, and the end */
};

/* What may be in one crowd has the same number; 0: the request goes alone. */
int dli_batch_of(const struct dli_request *request);

/* Take a call into the crowd, which is not full; call->crowd is not 0. 0: it does not go with those that are there. */
int dli_batch_add(struct dli_batch *batch, struct dli_call *call);

/* Append the one command of the crowd; full: with the script's text. 0, or -1 without memory, when nothing is appended. */
int dli_batch_encode(struct dli_buffer *out, const struct dli_batch *batch, int full);

/* What the call's own script would have said where the crowd's said this; room is for it. */
const struct dli_reply *dli_batch_reply(const struct dli_call *call, const struct dli_reply *said,
                                        struct dli_reply room[DLI_BATCH_ARGS]);

#endif
