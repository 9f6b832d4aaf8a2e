/*
 * call.h: one command on its way to a server and back.
 *
 * Whoever made a call owns it. The transport holds it from dli_private_call or dli_pipe_push until complete has run,
 * exactly once. complete runs on the thread that read the reply: for a private connection the caller's, for the pipe
 * the loop's or that of a direct call. The reply is valid only inside complete.
 */
#ifndef DLI_REDIS_PIPE_CALL_H
#define DLI_REDIS_PIPE_CALL_H

#include "base/error.h"
#include "redis/codec/codec.h"

struct dli_call {
    struct dli_call *next;     /* the transport's */
    struct dli_buffer command; /* the encoded command */
    int64_t deadline;          /* the transport gives up then */
    int repeatable;            /* sending it twice does no harm */
    int repeated;              /* it was sent twice: the first may have acted */
    int turned;                /* it has left a server that was not the primary, once */
    int fallback;              /* the command was sent as EVAL after NOSCRIPT */
    int refused;               /* NOSCRIPT was answered once, while the text of the script was under way */
    int loads;                 /* the pipe only: not 0: it has the text of the script at that place, see unknown.h */
    uint32_t slot;             /* index of the futex word in the pipe that its sleeping caller waits on */
    uint32_t sleeps;           /* a caller sleeps until done is set */
    int counted;               /* it counts in the load of the pipe */
    int direct;                /* the pipe only: dli_pipe_push may wait a moment for the answer */
    int batch;     /* the pipe only: not 0: it may share a batch with calls of the same number, see batch.h */
    int asking;    /* the pipe only: send ASKING before it, because its slot is migrating */
    uint32_t done; /* atomic; set last, by the pipe */

    /* Encode the command into call->command (empty); full: EVAL with the script's text. 0 or -1 without memory. */
    int (*encode)(struct dli_call *call, int full);

    /*
     * status DLOCK_OK: reply is there (perhaps an error reply). Else status says why not, and sent whether the server
     * may have acted. Returns 0, or -1 if the reply does not belong to this command: the connection is dropped then.
     */
    int (*complete)(struct dli_call *call, dlock_status status, int sent, const struct dli_reply *reply);

    dlock_error *reason; /* NULL, or receives a sentence that names the server if status is not DLOCK_OK */
};

/* Whether the reply says that the server does not know the script: NOSCRIPT. It did nothing then. */
int dli_reply_unknown_script(const struct dli_reply *reply);

/* The same for the reply to a call, which may be NULL. 0 if the call had sent the script's text. */
int dli_call_unknown_script(const struct dli_call *call, const struct dli_reply *reply);

#endif
