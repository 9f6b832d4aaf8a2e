/*
 * codec.h: the interface of codec/: the messages of etcd's client protocol as bytes, and what they mean. No I/O. Requests are
 * written by protobuf-c, from etcd.proto. Answers are read by wire.h.
 *
 * This is the border to the server. A decoder compares an answer with its request, and gives out only what may be true: keys of the
 * range that was asked for, numbers within the limits below, as many results as there were steps. Behind it nobody looks at the
 * bytes of an answer.
 *
 * Encoders append one message in gRPC's framing. They return 0, or -1 without memory. Decoders return 0, or -1: the server said
 * what cannot be. They own nothing: what they give points into the answer, and is good until the next call begins.
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

/* A request, with gRPC's head, and the message of its answer; bytes NULL: it has none. */
struct dli_etcd_talk {
    struct dli_etcd_bytes asked, answer;
};

/*
 * The most that is believed. A fencing token is a revision times 128. No lease of etcd lasts longer. Numbers stand in values.
 * So sums of a few of these need no check.
 */
#define DLI_ETCD_REVISION_MAX (INT64_C(1) << 55)
#define DLI_ETCD_TTL_MAX      INT64_C(9000000000)
#define DLI_ETCD_COUNT_MAX    (INT64_C(1) << 53)
#define DLI_ETCD_NUMBER_MAX   (INT64_C(1) << 53)

/*
 * The number that a text begins with; behind it the text is over, or a space follows. 0, or -1: there is none from least to most.
 * Neither is beyond DLI_ETCD_NUMBER_MAX.
 */
int dli_etcd_read_number(struct dli_etcd_bytes text, int64_t least, int64_t most, int64_t *number);

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

/* Revisions are 1 or more, and modified is not before created. */
struct dli_etcd_found {
    struct dli_etcd_bytes key, value;
    int64_t created, modified, lease; /* lease: a name that its owner chose; 0: none */
};

struct dli_etcd_result {
    int keys;   /* RANGE: how many of found are set */
    size_t all; /* RANGE: how many keys there are */
    struct dli_etcd_found found[DLI_ETCD_KEYS];
    int64_t count;               /* RANGE: of all that match, at least all; DELETE: how many there were */
    struct dli_etcd_bytes bytes; /* RANGE: for dli_etcd_next_key */
};

/* As many results as the branch has steps, each of the kind of its step. */
struct dli_etcd_reply {
    int64_t revision; /* 1 or more */
    int64_t term;     /* of the member; 0: it does not say */
    int succeeded;
    int results; /* may be more than result has */
    struct dli_etcd_result result[DLI_ETCD_STEPS];
    struct dli_etcd_bytes bytes, rest; /* of the answer; private */
    int at;
};

int dli_etcd_decode_txn(const struct dli_etcd_talk *talk, struct dli_etcd_reply *reply);

/* Delete one key, and nothing else; count: how many there were. */
int dli_etcd_encode_delete(struct dli_buffer *out, struct dli_etcd_bytes key);
int dli_etcd_decode_delete(const struct dli_etcd_talk *talk, int64_t *count); /* 0 or 1 */

/* The next key of a RANGE; keys begins as a copy of its bytes. 1; 0: there is none. */
int dli_etcd_next_key(struct dli_etcd_bytes *keys, struct dli_etcd_found *found);

/* The first key of the result of a RANGE, of any number. Zero: there is no key. -1: there is no such result. */
int dli_etcd_first_key(struct dli_etcd_reply *reply, int result, struct dli_etcd_found *found);

/* ---- leases */

struct dli_etcd_lease {
    int64_t revision, term, id, ttl; /* term: of the member, 0: it does not say; id: positive; ttl: seconds */
};

int dli_etcd_encode_lease_grant(struct dli_buffer *out, int64_t ttl);
int dli_etcd_encode_lease(struct dli_buffer *out, int64_t id); /* keep alive, revoke, time to live */

/* A grant: for as long as was asked for, at least, and at a revision. A keep-alive: ttl 0: the lease is over. */
int dli_etcd_decode_grant(const struct dli_etcd_talk *talk, struct dli_etcd_lease *lease);
int dli_etcd_decode_alive(struct dli_etcd_bytes answer, struct dli_etcd_lease *lease);

/* The time to live of the lease that was asked for; -1: it is over. */
int dli_etcd_decode_lease_left(const struct dli_etcd_talk *talk, int64_t *seconds);

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
    int64_t id;         /* to be looked up; it may be nobody's */
    int64_t revision;   /* of the server; 0: it does not say */
    int created, ended; /* ended: the server has cancelled the watch */
    int events;         /* how many */
    struct dli_etcd_bytes rest;
};

struct dli_etcd_event {
    int deleted;
    struct dli_etcd_bytes key, value; /* key: never empty */
};

int dli_etcd_decode_watch(struct dli_etcd_bytes answer, struct dli_etcd_news *news);

/* Whether the keys of all events begin with this name and '/', and go on behind it; an empty name: any. */
int dli_etcd_news_below(const struct dli_etcd_news *news, struct dli_etcd_bytes name);

/* The next event. 1; 0: there is none. */
int dli_etcd_next_event(struct dli_etcd_news *news, struct dli_etcd_event *event);

/* ---- the server */

int dli_etcd_encode_login(struct dli_buffer *out, const char *user, const char *password);

/* The token, terminated, of visible characters; it is freed by the caller, who wipes it. */
int dli_etcd_decode_login(const struct dli_etcd_talk *talk, char **token);

enum { DLI_ETCD_ALARMS = 128 };

struct dli_etcd_status {
    char version[32];
    int part[3], parts; /* of the version, as numbers; parts: how many there are */
    int has_leader;
    char errors[DLI_ETCD_ALARMS]; /* what the server complains of, escaped, or "" */
};

int dli_etcd_encode_status(struct dli_buffer *out);
int dli_etcd_decode_status(const struct dli_etcd_talk *talk, struct dli_etcd_status *status);

#endif
