/*
 * codec.h: the interface of codec/: the messages of etcd's client protocol as bytes, and what they mean. No I/O. Messages
 * are written and read by protobuf-c, from etcd.proto.
 *
 * Encoders append one message in gRPC's framing. Decoders get one message without it. All return 0, or -1: no memory, or,
 * for a decoder, bytes that are not the message.
 */
#ifndef DLI_ETCD_CODEC_CODEC_H
#define DLI_ETCD_CODEC_CODEC_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum { DLI_ETCD_FRAME = 5, DLI_ETCD_STEPS = 40, DLI_ETCD_KEYS = 2 };

/* Not terminated; it stays the caller's. */
struct dli_etcd_bytes {
    const char *bytes;
    size_t size;
};

/* ---- transactions */

enum dli_etcd_step_kind { DLI_ETCD_RANGE = 1, DLI_ETCD_PUT, DLI_ETCD_DELETE };

/* A step of a transaction. */
struct dli_etcd_step {
    enum dli_etcd_step_kind kind;
    struct dli_etcd_bytes key, end; /* end: not empty: all keys from key on and before end */
    struct dli_etcd_bytes value;    /* PUT */
    int64_t lease;                  /* PUT */
    int64_t limit;                  /* RANGE: at most so many, -1: all; ordered by create revision; 0: count them */
    int64_t before;                 /* RANGE: only keys with a lower create revision; 0: all */
    int8_t last;                    /* RANGE: the last ones first */
    int8_t keep_value;              /* PUT: change only the lease */
};

enum dli_etcd_target { DLI_ETCD_CREATED = 1, DLI_ETCD_MODIFIED };

/* A condition: the revision of a key, or of all keys of a range, is (is not, is below) this; 0: there is no such key. */
struct dli_etcd_test {
    enum dli_etcd_target target;
    int8_t differs, below;
    struct dli_etcd_bytes key, end;
    int64_t revision;
};

struct dli_etcd_txn {
    int tests, then, otherwise; /* how many */
    struct dli_etcd_test test[DLI_ETCD_STEPS];
    struct dli_etcd_step then_step[DLI_ETCD_STEPS], otherwise_step[DLI_ETCD_STEPS];
};

int dli_etcd_encode_txn(struct dli_buffer *out, const struct dli_etcd_txn *txn);

/* As many parts as wanted. */
struct dli_etcd_long_txn {
    size_t tests, then, otherwise; /* how many */
    const struct dli_etcd_test *test;
    const struct dli_etcd_step *then_step, *otherwise_step;
};

int dli_etcd_encode_long_txn(struct dli_buffer *out, const struct dli_etcd_long_txn *txn);

struct dli_etcd_found {
    struct dli_etcd_bytes key, value;
    int64_t created, modified, lease;
};

struct dli_etcd_result {
    int keys;   /* RANGE: how many of found are set */
    size_t all; /* RANGE: how many keys dli_etcd_found_at gives */
    struct dli_etcd_found found[DLI_ETCD_KEYS];
    int64_t count; /* RANGE: of all that match; DELETE: how many there were */
};

struct dli_etcd_reply {
    int64_t revision;
    int succeeded;
    int results;
    struct dli_etcd_result result[DLI_ETCD_STEPS];
    void *memory; /* what found points to */
};

int dli_etcd_decode_txn(const char *bytes, size_t size, struct dli_etcd_reply *reply);
void dli_etcd_reply_free(struct dli_etcd_reply *reply);

/* Delete one key, and nothing else; count: how many there were. */
int dli_etcd_encode_delete(struct dli_buffer *out, struct dli_etcd_bytes key);
int dli_etcd_decode_delete(const char *bytes, size_t size, int64_t *count);

/* A key of the result of a RANGE. */
struct dli_etcd_found dli_etcd_found_at(const struct dli_etcd_reply *reply, int result, size_t index);

/* The first key of the result of a RANGE, of any number. Zero: there is no key. -1: there is no such result. */
int dli_etcd_first_key(const struct dli_etcd_reply *reply, size_t result, struct dli_etcd_found *found);

/* ---- leases */

struct dli_etcd_lease {
    int64_t revision, id, ttl;
};

int dli_etcd_encode_lease_grant(struct dli_buffer *out, int64_t ttl);
int dli_etcd_encode_lease(struct dli_buffer *out, int64_t id); /* keep alive, revoke, time to live */
int dli_etcd_decode_lease(const char *bytes, size_t size, struct dli_etcd_lease *lease);
int dli_etcd_decode_lease_left(const char *bytes, size_t size, int64_t *seconds); /* time to live */

/* ---- watches */

struct dli_etcd_watching {
    int64_t id;
    struct dli_etcd_bytes key, end; /* end: as in a step */
    int64_t revision;               /* from this one on; 0: from now on */
    int puts;                       /* not only deletions */
};

int dli_etcd_encode_watch(struct dli_buffer *out, const struct dli_etcd_watching *watching);
int dli_etcd_encode_unwatch(struct dli_buffer *out, int64_t id);

struct dli_etcd_news {
    int64_t id;
    int64_t revision;   /* of the server */
    int created, ended; /* ended: the server has cancelled the watch */
    int events;         /* how many */
    void *memory;       /* what the events point to */
};

struct dli_etcd_event {
    int deleted;
    struct dli_etcd_bytes key, value;
};

int dli_etcd_decode_watch(const char *bytes, size_t size, struct dli_etcd_news *news);
struct dli_etcd_event dli_etcd_event_at(const struct dli_etcd_news *news, int index);
void dli_etcd_news_free(struct dli_etcd_news *news);

/* ---- the server */

int dli_etcd_encode_login(struct dli_buffer *out, const char *user, const char *password);

/* The token, terminated; it is freed by the caller, who wipes it. */
int dli_etcd_decode_login(const char *bytes, size_t size, char **token);

enum { DLI_ETCD_ALARMS = 128 };

struct dli_etcd_status {
    char version[32];
    uint64_t leader, member; /* leader 0: there is none */
    int64_t size;
    char errors[DLI_ETCD_ALARMS]; /* what the server complains of, or "" */
    int learner;
};

int dli_etcd_encode_status(struct dli_buffer *out);
int dli_etcd_decode_status(const char *bytes, size_t size, struct dli_etcd_status *status);

#endif
