/*
 * inner.h: shared by the files of grpc/, the only ones that use nghttp2.
 */
#ifndef DLI_ETCD_GRPC_INNER_H
#define DLI_ETCD_GRPC_INNER_H

#include <nghttp2/nghttp2.h>

#include "grpc.h"

enum { DLI_GRPC_FEW = 64 * 1024, DLI_GRPC_HEAD = 5 }; /* FEW: bytes of a message */
enum { DLI_GRPC_TAKEN_MAX = 8 * 1024 * 1024, DLI_GRPC_UNSENT_MAX = 256 * 1024 };
enum { DLI_PING_LIMIT = 200 * 1000 }; /* microseconds that a ping waits for its answer at most */

/* ---- http2.c: the session of a connection */

/* A new session; its first frames are queued. 0, or -1 without memory. */
int dli_http2_open(struct dli_grpc *grpc);

/* Begin the stream of a call. 0, or -1: no memory, or the member accepts no more streams. */
int dli_http2_submit(struct dli_grpc *grpc, struct dli_grpc_call *call, int64_t now);

/* Reset the stream of a call; the call is not known to the session any more. */
void dli_http2_reset(struct dli_grpc *grpc, struct dli_grpc_call *call);

/* There is something to be sent, and the member reads. */
int dli_http2_gives(const struct dli_grpc *grpc);

/* Take in bytes, move frames into conn->out. 0, or -1: the connection cannot be used any more. */
int dli_http2_take(struct dli_grpc *grpc, const char *bytes, size_t size);
int dli_http2_give(struct dli_grpc *grpc, int64_t now);

/* ---- status.c: fill in status and reason of a call from code and text. */
void dli_grpc_judge(struct dli_grpc_call *call, const char *member);

/* The status of a call as bytes. What is no number of gRPC is UNKNOWN. */
int dli_grpc_code(const char *text, size_t size);

/* The text of a call under way, from what the server said. */
const char *dli_grpc_shown(struct dli_grpc_call *call);

/* The member answers, but cannot serve: another one may. */
int dli_grpc_unfit(const struct dli_grpc_call *call);

/* There is no leader for the moment, or it hands its office over: nothing was proposed. */
int dli_grpc_dropped(const struct dli_grpc_call *call);

/* ---- channel.c: the call is out of the channel and has ended. */
void dli_grpc_ended(struct dli_grpc_call *call);

/* The member takes no more calls. It is left when those under way have ended, or soon. */
void dli_grpc_bid_farewell(struct dli_grpc *grpc);

#endif
