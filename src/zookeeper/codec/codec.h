/*
 * codec.h: the interface of codec/: ZooKeeper's messages as bytes. No I/O, no state.
 *
 * A message is a frame: four bytes of length, then numbers, big endian, and texts with their length before them. A request
 * begins with its number and its operation, a reply with that number, the transaction id and an error.
 */
#ifndef DLI_ZOOKEEPER_CODEC_CODEC_H
#define DLI_ZOOKEEPER_CODEC_CODEC_H

#include <stdint.h>

#include "base/buffer.h"

enum dli_zk_op {
    DLI_ZK_CREATED = 1, /* what a transaction makes of CREATE: its reply has no numbers */
    DLI_ZK_DELETE = 2,
    DLI_ZK_EXISTS = 3,
    DLI_ZK_GET_DATA = 4,
    DLI_ZK_SET_DATA = 5,
    DLI_ZK_GET_CHILDREN = 8,
    DLI_ZK_SYNC = 9,
    DLI_ZK_MULTI = 14,
    DLI_ZK_CREATE = 15,           /* create2: its reply has the node's numbers. Since 3.5 */
    DLI_ZK_CREATE_CONTAINER = 19, /* the same, for a container */
    DLI_ZK_AUTH = 100,
    DLI_ZK_CLOSE = -11
};

/* Numbers of replies that are none to a request. */
enum { DLI_ZK_XID_EVENT = -1, DLI_ZK_XID_AUTH = -4 };

enum dli_zk_flags { DLI_ZK_PERSISTENT = 0, DLI_ZK_EPHEMERAL_SEQUENTIAL = 3, DLI_ZK_CONTAINER = 4 };

enum dli_zk_error {
    DLI_ZK_OK = 0,
    DLI_ZK_NOT_TRIED = -2,
    DLI_ZK_UNIMPLEMENTED = -6,
    DLI_ZK_BAD_ARGUMENTS = -8,
    DLI_ZK_NO_NODE = -101,
    DLI_ZK_NO_AUTH = -102,
    DLI_ZK_BAD_VERSION = -103,
    DLI_ZK_NO_CHILDREN = -108,
    DLI_ZK_NODE_EXISTS = -110,
    DLI_ZK_NOT_EMPTY = -111,
    DLI_ZK_SESSION_EXPIRED = -112,
    DLI_ZK_INVALID_ACL = -114,
    DLI_ZK_AUTH_FAILED = -115,
    DLI_ZK_SESSION_MOVED = -118,
    DLI_ZK_NOT_READ_ONLY = -119,
    DLI_ZK_QUOTA = -125,
    DLI_ZK_THROTTLED = -127
};

enum dli_zk_event { DLI_ZK_EVENT_CREATED = 1, DLI_ZK_EVENT_DELETED = 2, DLI_ZK_EVENT_CHILDREN = 4 };

/* Bytes of somebody else. */
struct dli_zk_text {
    const char *bytes;
    size_t size;
};

enum { DLI_ZK_PASSWORD = 16, DLI_ZK_FRAME_MAX = 16 * 1024 * 1024 };

/* A session as the server has it. timeout 0 in an answer: it is over. */
struct dli_zk_ticket {
    int64_t id;
    int32_t timeout; /* ms */
    char password[DLI_ZK_PASSWORD];
};

/* What a node's numbers are to us. */
struct dli_zk_stat {
    int64_t czxid, ctime, mtime; /* times: ms, by the leader's clock when it was made, when its data was set */
    int32_t version;
    int64_t owner; /* the session of an ephemeral node */
};

/* A request. Each operation takes what it needs. */
struct dli_zk_ask {
    enum dli_zk_op op;
    struct dli_zk_text path, data;
    int32_t version; /* DELETE, SET_DATA: -1: any */
    int watch;
    enum dli_zk_flags flags;
    int mine; /* CREATE: only the client's user may do anything with the node; else everybody may */
    const struct dli_zk_ask *part; /* MULTI: CREATE, DELETE and SET_DATA, all or none */
    int parts;
};

/* What became of one part of a MULTI. path: of a CREATE. stat: of a SET_DATA. */
struct dli_zk_part {
    int32_t op, error;
    struct dli_zk_text path;
    struct dli_zk_stat stat;
};

/* A reply without its frame: error, and the rest of the bytes. */
struct dli_zk_reply {
    int32_t xid, error;
    int64_t zxid;
    struct dli_zk_text body;
};

/* ---- encode: append a frame. 0, or -1 without memory. */

int dli_zk_encode_connect(struct dli_buffer *out, const struct dli_zk_ticket *ticket, int64_t zxid);
int dli_zk_encode_auth(struct dli_buffer *out, const char *user, const char *password);
int dli_zk_encode_ask(struct dli_buffer *out, int32_t xid, const struct dli_zk_ask *ask);

/* ---- decode: 0, or -1: the bytes are no such thing. */

/* The length of the first frame with its head; 0: it is not all there; -1: it is none. */
int64_t dli_zk_frame(const char *bytes, size_t size);

/* frame begins behind the length. */
int dli_zk_decode_connect(struct dli_zk_text frame, struct dli_zk_ticket *ticket);
int dli_zk_decode_reply(struct dli_zk_text frame, struct dli_zk_reply *reply);
int dli_zk_decode_event(struct dli_zk_text body, int32_t *type, struct dli_zk_text *path);
int dli_zk_decode_created(struct dli_zk_text body, struct dli_zk_text *path, struct dli_zk_stat *stat);
int dli_zk_decode_stat(struct dli_zk_text body, struct dli_zk_stat *stat);
int dli_zk_decode_data(struct dli_zk_text body, struct dli_zk_text *data, struct dli_zk_stat *stat);

/*
 * The next part of a MULTI: *rest begins as the body. 1; 0: that was all. When one part fails, all have an error, and that of
 * those that are not to blame is 0 or DLI_ZK_NOT_TRIED.
 */
int dli_zk_decode_part(struct dli_zk_text *rest, struct dli_zk_part *part);

/* The error of a MULTI, or 0, and the path of its first CREATE. */
int dli_zk_decode_multi(struct dli_zk_text body, struct dli_zk_part *first);

/* The names of children one after the other: *rest begins as the body. *left is their number after the first call. */
int dli_zk_decode_count(struct dli_zk_text *rest, int32_t *left);
int dli_zk_decode_name(struct dli_zk_text *rest, struct dli_zk_text *name);

#endif
