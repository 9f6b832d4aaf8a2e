/*
 * commands.h: the words of the lock protocol: names of keys and channels, commands, and what their replies mean.
 */
#ifndef DLI_REDIS_CODEC_COMMANDS_H
#define DLI_REDIS_CODEC_COMMANDS_H

#include "base/name.h"
#include "store/store.h"
#include "resp.h"
#include "kinds.h"

struct dli_slice {
    const char *text;
    size_t size;
};

/* A quarantine, see quiet.lua. */
struct dli_quarantine {
    char marker[64];
    int64_t longest_ms, lasts_ms;
};

/* The keys of one lock and Redisson's channel, all in one block of memory. */
struct dli_place {
    struct dli_slice key[DLI_KEYS_MAX]; /* the first is the lock's name */
    int keys;
    struct dli_slice gate, channel;
    int slot; /* on a cluster: where the keys are; and whether the channel is not there */
    int plain;
    char marker[32]; /* on a cluster with a quarantine: that of the slot; else "" */
    uint32_t *apart; /* atomic: the server refused the lock's own request; it goes in no crowd until one succeeds */
};

/* ---- names.c */

struct dli_place *dli_place_new(const struct dli_kind *kind, const char *name, size_t size); /* NULL without memory */
void dli_place_free(struct dli_place *place);

/* Room for an owner as a kind writes it, and for the key of one read hold. */
enum { DLI_ID_MAX = DLI_OWNER_MAX + 16, DLI_HOLD_KEY_MAX = DLI_NAME_MAX + DLI_ID_MAX + 32 };

/* Redisson's key of one read hold: T(N):id:rwlock_timeout:1; start is "T(N):". Returns its size. */
size_t dli_hold_key(char out[DLI_HOLD_KEY_MAX], const struct dli_slice *start, const char *id);

/* Room for the channel on which a lock, or with an owner its waiter, is listened to. */
enum { DLI_CHANNEL_MAX = DLI_NAME_MAX + DLI_OWNER_MAX + 64 };

/* That channel; returns its size. */
size_t dli_channel_of(char out[DLI_CHANNEL_MAX], const struct dli_kind *kind, const struct dli_place *place,
                      const char *owner);

/* ---- commands.c */

/* How a script is said: EVAL with the text instead of EVALSHA; and so many times its form, DLI_FORM_... */
enum { DLI_ENCODE_FULL = 1, DLI_ENCODE_FORM = 2 };

/* Append the command of a request, as DLI_SAY_ bits say. 0, or -1 without memory. */
int dli_encode_request(struct dli_buffer *out, int full, const struct dli_request *request);

/* ---- renewal_commands.c */
int dli_encode_renew(struct dli_buffer *out, int full, const struct dli_request *request);
int dli_encode_adopt(struct dli_buffer *out, int full, const struct dli_renewal *row);

/* The marker of a store on one server, and what options say of the quarantine. */
void dli_quarantine_init(struct dli_quarantine *quarantine, int64_t longest_ms, int64_t drift_ppm);

/* ---- slot_markers.c: on a cluster each slot has a marker of its own. The first call takes some milliseconds. */
void dli_slot_marker(char out[32], int slot);

/* ---- server_commands.c: what servers are asked about themselves */
int dli_encode_ping(struct dli_buffer *out, int full, const struct dli_request *request);
int dli_encode_check(struct dli_buffer *out, int full, const struct dli_request *request);
int dli_encode_provision(struct dli_buffer *out, int full, const struct dli_request *request);

/* ---- quorum_commands.c: what servers that vote are asked beside */
int dli_encode_again(struct dli_buffer *out, int full, const struct dli_request *request);
int dli_encode_floor(struct dli_buffer *out, int full, const struct dli_request *request);
int dli_encode_join(struct dli_buffer *out, int full, const struct dli_request *request);

/* ---- replies.c */

/* DLOCK_OK for anything but an error reply. */
dlock_status dli_decode_word(const struct dli_reply *reply, dlock_error *box);

/* What the reply says, into the request's results. */
void dli_decode_request(const struct dli_reply *reply, struct dli_request *request);

#endif
