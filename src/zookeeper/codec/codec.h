/*
 * codec.h: the interface of codec/: ZooKeeper's messages as bytes. No I/O, no state.
 *
 * A message is a frame: four bytes of length, then numbers, big endian, and texts with their length before them. A request
 * begins with its number and its operation, a reply with that number, the transaction id and an error.
 *
 * This is the border: a server may send anything, and what comes out of here is checked. A text lies inside its frame, or in the
 * room of its answer, and is no longer than is said here; a number is in the range that its meaning has; an answer is one to the
 * request. What a decoder refuses leaves nothing behind: what it fills is empty then, and owns no memory. Only link.c calls the
 * decoders (./dev lint).
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

enum dli_zk_event {
    DLI_ZK_EVENT_CREATED = 1,
    DLI_ZK_EVENT_DELETED = 2,
    DLI_ZK_EVENT_DATA = 3,
    DLI_ZK_EVENT_CHILDREN = 4
};

/* Bytes of somebody else. */
struct dli_zk_text {
    const char *bytes;
    size_t size;
};

enum {
    DLI_ZK_PASSWORD = 16,
    DLI_ZK_FRAME_MAX = 4 * 1024 * 1024 - 64 * 1024, /* servers send about a million bytes: jute.maxbuffer */
    DLI_ZK_DATA_MAX = 4096, /* what is kept of a node's data: ours are shorter, and of others we read the begin */
    DLI_ZK_NAME_MAX = 255,  /* of a node that stands in line: Curator's have 55 bytes, ours 85 at most */
    DLI_ZK_TIMEOUT_MAX = 2 * 86400 * 1000
};

/* A session as the server has it. timeout, in ms, is 0 in an answer when it is over, else 1 to DLI_ZK_TIMEOUT_MAX. */
struct dli_zk_ticket {
    int64_t id; /* 0: none yet */
    int32_t timeout;
    char password[DLI_ZK_PASSWORD];
};

/*
 * RUN_OVER: the version of a node whose data was set 2^31 times: ZooKeeper counts on, below zero. It is no condition for a change: -1
 * means any version there. NO_VERSION: there is no node.
 */
enum { DLI_ZK_RUN_OVER = -1, DLI_ZK_NO_VERSION = -2 };

/* What a node's numbers are to us: none is below zero, but the owner. */
struct dli_zk_stat {
    int64_t czxid, ctime,
        mtime;       /* times: ms, below 2^53, by the leader's clock when it was made, when its data was set */
    int32_t version; /* or DLI_ZK_RUN_OVER */
    int64_t owner;   /* the session of an ephemeral node; any number */
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

/* Names of children that stand in line. */
struct dli_zk_child {
    int32_t seq;
    char side; /* 'l': lock-, 'r': __READ__, 'w': __WRIT__, 'p': lease- */
    struct dli_zk_text name;
};

struct dli_zk_children {
    const struct dli_zk_child *child; /* in order */
    int count;
    int odd;     /* a number is below zero: it has run over */
    int foreign; /* a name that stands in line has more than DLI_ZK_NAME_MAX bytes; it is not among them */
    int gate;    /* the name has a gate, which may be over */
};

/* What a request got. Zeroes: nothing. What its operation does not ask for is zero. */
struct dli_zk_answer {
    int32_t error;           /* of a MULTI: that of its first part that has one */
    int32_t part_error[2];   /* of the first parts of a MULTI; 0 also when it was not tried */
    int32_t seq;             /* CREATE, the first one of a MULTI: the number of its node. -1: none that can be used */
    struct dli_zk_stat stat; /* of a MULTI: that of its last SET_DATA */
    struct dli_zk_text data; /* GET_DATA: its begin, DLI_ZK_DATA_MAX bytes at most; then a NUL byte */
    struct dli_zk_children children;
    void *room; /* what they are in */
    size_t room_size;
};

/* Free what an answer owns, and empty it. */
void dli_zk_answer_drop(struct dli_zk_answer *answer);

/* The name of the node that closes a gate, and what stands before the number of a node in line, by its side. */
#define DLI_ZK_GATE "dlock_gate"
const char *dli_zk_side_text(char side);

/* ---- encode: append a frame. 0, or -1 without memory. */

int dli_zk_encode_connect(struct dli_buffer *out, const struct dli_zk_ticket *ticket, int64_t zxid);
int dli_zk_encode_auth(struct dli_buffer *out, const char *user, const char *password);
int dli_zk_encode_ask(struct dli_buffer *out, int32_t xid, const struct dli_zk_ask *ask);

/* ---- decode: 0; -1: the bytes are no such thing; -2: no memory */

/* A reply without its frame: its number, its error, and the rest of the bytes. */
struct dli_zk_reply {
    int32_t xid, error;
    int64_t zxid;
    struct dli_zk_text body;
};

/* The length of the first frame with its head; 0: it is not all there; -1: it is none. */
int64_t dli_zk_decode_frame(const char *bytes, size_t size);

/* frame begins behind the length. *ticket is the session that was asked for, then the one that was given. */
int dli_zk_decode_connect(struct dli_zk_text frame, struct dli_zk_ticket *ticket);
int dli_zk_decode_reply(struct dli_zk_text frame, struct dli_zk_reply *reply);

/* *type: enum dli_zk_event, or 0 for another one, which means nothing to us. */
int dli_zk_decode_event(struct dli_zk_text body, int32_t *type, struct dli_zk_text *path);

/* asked: the frame of the request, as dli_zk_encode_ask has made it. *answer is empty before. */
int dli_zk_decode_answer(const struct dli_buffer *asked, const struct dli_zk_reply *reply,
                         struct dli_zk_answer *answer);

#endif
