/*
 * commands.h: the words of the lock protocol: names of keys and channels, commands, and what their replies mean.
 */
#ifndef DLI_REDIS_COMMANDS_H
#define DLI_REDIS_COMMANDS_H

#include "base/error.h"
#include "base/exchange.h"
#include "codec.h"
#include "kinds.h"

enum { DLI_NAME_MAX = 1024, DLI_UUID_SIZE = 36, DLI_OWNER_MAX = 128, DLI_RENEW_MAX = 128 };

struct dli_word {
    const char *text;
    size_t size;
};

/* The keys of one lock and Redisson's channel, all in one block of memory. */
struct dli_names {
    const char *lock; /* the name: the first key */
    size_t lock_size;
    struct dli_word key[DLI_KEYS_MAX];
    int keys;
    struct dli_word gate, channel;
};

/* An exchange in words. Owners are complete ids. */
struct dli_speech {
    const struct dli_kind *kind;
    const struct dli_names *names;
    const struct dli_wish *wish;
    char want[DLI_OWNER_MAX], drop[DLI_OWNER_MAX];
    char under[DLI_OWNER_MAX]; /* READ: the write hold of the same owner, or "" */
    int64_t keep_ms;
    int64_t delay; /* microseconds on top of the lease */
};

/* One row of a renewal. */
struct dli_renewal {
    const struct dli_names *names;
    char owner[DLI_OWNER_MAX]; /* its id on the wire */
    int64_t lease;             /* microseconds */
    int64_t permits;
};

/* What changes a semaphore or a latch: an operation of its change script. */
struct dli_change {
    const char *what;       /* "set", "add", ... */
    int64_t number;         /* its argument */
    char id[DLI_OWNER_MAX]; /* the same id sent twice acts once */
};

/* What an inspection says. */
struct dli_sight {
    char holder[256];
    int64_t left_ms; /* -1 no expiry, -2 free */
    int64_t token;   /* the highest reserved; 0 unknown */
    int64_t now_us;  /* the server's clock */
    int64_t waiters;
};

enum { DLI_MULTI_MAX = 16 };

/* A mutex that is to be taken together with others. */
struct dli_taking {
    const struct dli_names *names;
    char owner[DLI_OWNER_MAX];
    int64_t lease; /* microseconds */
    int64_t block;
};

/* What came of that. */
struct dli_taken {
    int64_t code; /* 1 taken, 0 one is in use, -1 of another kind, -2 its gate is closed */
    int which;    /* that one */
    int64_t token[DLI_MULTI_MAX];
};

/* A random UUID of version 8 as text with terminator. 0, or -1 when the system has no randomness. */
int dli_make_uuid(char out[DLI_UUID_SIZE + 1]);

/* DLOCK_INVALID_NAME with a sentence when a lock cannot have this name. */
dlock_status dli_name_check(const char *name, size_t size, dlock_error *box);

/* The name within a namespace ("": none): space, ":" and name. *size is the size of name, then of the result. */
dlock_status dli_name_in(char full[DLI_NAME_MAX + 1], size_t *size, const char *space, const char *name,
                         dlock_error *box);

/* Fill names; its memory goes back by free((void *)names->lock). 0 or -1. */
int dli_names_make(struct dli_names *names, const struct dli_kind *kind, const char *name, size_t size);

/* Encoders append one command; full: EVAL with the text instead of EVALSHA. 0, or -1 without memory. */
int dli_encode_exchange(struct dli_buffer *out, int full, const struct dli_speech *speech);
int dli_encode_renew(struct dli_buffer *out, int full, const struct dli_kind *kind, const struct dli_renewal *rows,
                     int count); /* rows whose kinds have the same renew script */
int dli_encode_force(struct dli_buffer *out, int full, const struct dli_kind *kind, const struct dli_names *names);
int dli_encode_inspect(struct dli_buffer *out, int full, const struct dli_names *names);
int dli_encode_gate(struct dli_buffer *out, int full, const struct dli_kind *kind, const struct dli_names *names,
                    int64_t ttl_ms); /* 0: open it */
int dli_encode_change(struct dli_buffer *out, int full, const struct dli_kind *kind, const struct dli_names *names,
                      const struct dli_change *change);
int dli_encode_words(struct dli_buffer *out, int argc, const char *const *argv); /* terminated words */

int dli_encode_multi(struct dli_buffer *out, int full, const struct dli_taking *const *rows, int count,
                     int64_t keep_ms);

/* What the reply to an exchange says; a server's refusal is answer->status with refused set, and a sentence in box. */
void dli_decode_exchange(const struct dli_reply *reply, const struct dli_wish *wish, struct dli_answer *answer,
                         dlock_error *box);

/* kept[i] is 1 or 0; a status other than DLOCK_OK means nothing is known. */
dlock_status dli_decode_renew(const struct dli_reply *reply, int *kept, int count, dlock_error *box);

/* DLOCK_OK with *taken, or the server's refusal. */
dlock_status dli_decode_multi(const struct dli_reply *reply, int count, struct dli_taken *taken, dlock_error *box);

/* DLOCK_OK, otherwise (when the script says 0), DLOCK_WRONG_KIND or the server's refusal. */
dlock_status dli_decode_done(const struct dli_reply *reply, dlock_status otherwise, dlock_error *box);

/* DLOCK_OK, DLOCK_UNCHANGED, DLOCK_WRONG_KIND or the server's refusal; *value is what the script says. */
dlock_status dli_decode_change(const struct dli_reply *reply, int64_t *value, dlock_error *box);

dlock_status dli_decode_inspect(const struct dli_reply *reply, struct dli_sight *sight, dlock_error *box);

/* DLOCK_OK for anything but an error reply. */
dlock_status dli_decode_word(const struct dli_reply *reply, dlock_error *box);

#endif
