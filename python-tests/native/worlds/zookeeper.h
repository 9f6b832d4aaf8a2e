/*
 * zookeeper.h: a model of ZooKeeper, shared by its files.
 *
 * The leader has the truth: a tree of nodes and the sessions. Each change of it is a line of the log. A member applies the log
 * some time later, and answers reads from its own tree, which may be old. A write or a sync goes to the leader and back: it is
 * answered when the member has applied all that the leader had then. A member tells the leader twice a tick of which sessions
 * it has heard.
 */
#ifndef WORLDS_ZOOKEEPER_H
#define WORLDS_ZOOKEEPER_H

#include "worlds.h"

enum z_op {
    Z_HELLO = 0, /* the greeting has no number */
    Z_DELETE = 2,
    Z_EXISTS = 3,
    Z_GET_DATA = 4,
    Z_SET_DATA = 5,
    Z_GET_CHILDREN = 8,
    Z_SYNC = 9,
    Z_MULTI = 14,
    Z_CREATE = 15,
    Z_CREATE_CONTAINER = 19,
    Z_AUTH = 100,
    Z_CLOSE = -11
};

enum {
    Z_NOT_TRIED = -2,
    Z_NO_NODE = -101,
    Z_BAD_VERSION = -103,
    Z_NODE_EXISTS = -110,
    Z_NOT_EMPTY = -111,
    Z_EXPIRED = -112,
    Z_MOVED = -118
};

enum { Z_DATA = 1200, Z_PARTS = 2 };

struct z_bytes {
    int32_t size;
    char bytes[Z_DATA];
};

/* What a request wants of a node. A transaction has several. */
struct z_part {
    int32_t op, flags;
    int32_t version; /* of what is removed or changed; -1: any */
    char path[W_KEY];
    struct z_bytes data;
    int32_t error;
};

struct z_node {
    struct z_node *next;
    char path[W_KEY];
    struct z_bytes data;
    int64_t czxid, owner;
    int32_t made, children; /* so many, so far; now */
    int32_t version;
    int container;
};

struct z_tree {
    struct z_node *nodes;
    int64_t zxid; /* the last change in it */
    int applied;  /* so many lines of the log */
};

struct z_session {
    struct z_session *next;
    int64_t id, timeout, expires;
    int member;  /* where its client is */
    int touched; /* a bit for each member that has heard of it and not told yet */
};

enum z_change_kind { Z_MAKE, Z_SET, Z_REMOVE, Z_BEGIN_SESSION, Z_END_SESSION };

struct z_change {
    enum z_change_kind kind;
    int64_t zxid;
    int64_t owner; /* a session */
    int container;
    char path[W_KEY];
    struct z_bytes data;
};

/* A connection, as its member has it. */
struct z_conn {
    struct z_conn *next;
    struct w_wire *wire;
    int64_t session; /* 0: not greeted */
    struct dli_buffer in;
    struct z_request *first; /* without an answer, in order */
};

/* A request of a client. It goes to the leader if it is no read. */
struct z_request {
    struct z_request *next;   /* of its connection */
    struct z_request *behind; /* on its member's way to the leader */
    struct z_conn *conn;      /* NULL: it is gone */
    const struct w_process *process;
    int member, sent, done; /* sent: on that way; done: it has come back */
    int64_t at;             /* when the leader gets it */
    int64_t session, seen;  /* seen: of a greeting: the last change that the client has seen */
    int32_t xid, op, timeout;
    int watch, parts;
    struct z_part part[Z_PARTS]; /* the first one is the request itself if it is no transaction */
    int32_t error;               /* results. zxid: what the member must have applied */
    int64_t zxid, owner;
};

enum { Z_CREATED = 1, Z_DELETED = 2, Z_CHANGED = 3, Z_CHILDREN = 4 };

struct z_watch {
    struct z_watch *next;
    struct z_conn *conn;
    int children; /* it is of those below */
    char path[W_KEY];
};

struct z_data {
    struct z_tree truth, tree[W_MEMBERS];
    struct z_session *sessions;
    struct z_change *log;
    int changes, room;
    struct z_conn *conns;
    struct z_watch *watches;
    struct z_request *queue[W_MEMBERS]; /* on the way to the leader */
    int64_t up_at[W_MEMBERS], log_at[W_MEMBERS];
    int owes[W_MEMBERS];            /* it was asked of its sessions and has not answered */
    int64_t ids, tick, rate;        /* rate: of the leader's clock */
    const struct w_process *caller; /* whose request is decided; NULL: of nobody */
    int64_t together;               /* the number of the changes of a transaction; 0: there is none */
};

extern struct z_data z;

/* ---- zookeeper_data.c: the truth, the log, the members' trees */
struct z_node *z_find(const struct z_tree *tree, const char *path);
struct z_session *z_session(int64_t id);
struct z_session *z_session_begin(int32_t timeout);
void z_session_end(struct z_session *session, int forced);
void z_keep(struct z_session *session);
int32_t z_make(struct z_part *part, int64_t session);
int32_t z_may(const struct z_part *part); /* whether it can be made or removed: 0, or an error */
void z_together(int begin);               /* changes have one number, from its begin to its end */
int32_t z_set(const struct z_part *part);
int32_t z_remove(const char *path, int32_t version, int forced);
int z_leads(int member); /* there is a leader, and it is this one */
int64_t z_busy_until(int member);
void z_data_begin(void);
void z_data_end(void);
void z_follow(void); /* the members have all that the leader has */

/* ---- zookeeper_rest.c: which sessions the members have heard of; containers that are empty go; operators */
void z_ping_answer(int member);
void z_time_begin(void);

/* ---- zookeeper_calls.c: requests on their way */
void z_request_came(struct z_request *request);
void z_advance(int member); /* answer what can be answered */
void z_conn_gone(struct z_conn *conn);
void z_changed(int member, const struct z_change *change); /* a member has applied it */
void z_queues_end(void);                                   /* a new leader: what becomes of them is not known */
void z_calls_elected(void);

/* ---- zookeeper_wire.c: bytes */
int z_is_read(int32_t op); /* a member answers it from its own tree */
void z_opened(struct w_wire *wire);
void z_came(struct w_wire *wire, const char *bytes, size_t size);
void z_gone(struct w_wire *wire);
void z_welcome(struct z_conn *conn, const struct z_session *session);
void z_answer(const struct z_request *request, int64_t zxid, const struct z_tree *tree);
void z_tell(struct z_conn *conn, int32_t type, const char *path);

#endif
