/*
 * etcd.h: a model of etcd, shared by its files. Keys and leases are one state: etcd answers no read that is old.
 */
#ifndef WORLDS_ETCD_H
#define WORLDS_ETCD_H

#include "etcd/codec/etcd.pb-c.h"
#include "worlds.h"

enum { E_NOT_FOUND = 5, E_EXHAUSTED = 8, E_UNAVAILABLE = 14, E_VALUE = 1200 };

struct e_key {
    struct e_key *next;
    char name[W_KEY];
    char value[E_VALUE];
    size_t size, value_size;
    int64_t created, modified, version, lease;
};

struct e_lease {
    struct e_lease *next;
    int64_t id, ttl, expires;
};

/* What happened to a key. */
struct e_event {
    int64_t revision;
    int deleted;
    size_t size;
    char name[W_KEY];
};

struct e_data {
    struct e_key *keys;
    struct e_lease *leases;
    struct e_event *history;
    int64_t revision, compacted;
    int events, room;
    int64_t ids, rate;              /* rate: of the leader's clock */
    const struct w_process *caller; /* whose transaction this is; NULL: of nobody */
};

extern struct e_data e;

struct e_bytes {
    const char *bytes;
    size_t size;
};

/* ---- etcd_data.c. Changes belong to the revision that the caller has begun; e_commit tells those who watch. */
int e_matches(const char *name, size_t size, struct e_bytes key, struct e_bytes end);
struct e_key *e_find(struct e_bytes name);
struct e_lease *e_lease(int64_t id);
struct e_key *e_put(struct e_bytes name, int64_t lease, int64_t revision);
int e_delete(struct e_bytes key, struct e_bytes end, int64_t revision);
struct e_lease *e_grant(int64_t seconds);
void e_keep(struct e_lease *lease);
void e_revoke(struct e_lease *lease, int forced);
void e_commit(int64_t revision);

/* ---- etcd_calls.c */

/* A call of a client on its stream. */
struct e_call {
    struct w_wire *wire;
    struct e_call *next;
    int32_t stream;
    char path[64];
    struct dli_buffer in, out;
    int over, code; /* the answer is complete */
    int half;       /* so is the client's side */
    const char *text;
};

void e_serve(struct e_call *call, const uint8_t *bytes, size_t size);
ProtobufCBinaryData e_data_of(const char *bytes, size_t size);
Etcd__Header e_header(void);

/* ---- etcd_rest.c: whether it is a call of these */
int e_serve_rest(struct e_call *call, const uint8_t *bytes, size_t size);

/* ---- etcd_watch.c */
void e_watch_for(struct e_call *call, const Etcd__WatchCreateRequest *request);
void e_unwatch(const struct e_call *call, int64_t id);
void e_call_gone(const struct e_call *call);
void e_watches_end(void);
int e_watched(void); /* how many watches of latches there are, of clients that hear of them */

/* ---- etcd_http.c */
void e_answer(struct e_call *call, const ProtobufCMessage *message, int over);
void e_send(struct e_call *call, const void *bytes, size_t size, int over); /* as e_answer: one message, packed */
void e_refuse(struct e_call *call, int code, const char *text);
void e_http_opened(struct w_wire *wire);
void e_http_came(struct w_wire *wire, const char *bytes, size_t size);
void e_http_gone(struct w_wire *wire);
void e_http_elected(void);

#endif
