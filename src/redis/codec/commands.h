/*
 * commands.h: the lock protocol on the wire: names of keys and channels, commands, and the meaning of their replies. No
 * I/O.
 */
#ifndef DLI_REDIS_CODEC_COMMANDS_H
#define DLI_REDIS_CODEC_COMMANDS_H

#include "base/name.h"
#include "redis/voter/voter.h"
#include "store/store.h"
#include "resp.h"
#include "kinds.h"

/*
 * The quarantine of a server, see quarantine.lua: the longest lease, and how long it lasts. Each namespace has a marker key of its
 * own, so that rights can end there. space: the client's, without its colon, which an operator confirms; "": none.
 */
struct dli_quarantine {
    const char *space;
    int64_t longest_ms, lasts_ms;
};

/*
 * Where one lock is kept: its name, from which its keys and Redisson's channel are written when a command needs them. The
 * name is behind the struct. Constant, save apart. Every held lock has one, so it has only what cannot be computed.
 */
struct dli_place {
    uint8_t wire : 4;    /* index of its row: dli_wire_at */
    uint8_t keys : 4;    /* of the scripts */
    uint8_t apart;       /* atomic: a request of this lock was refused; it joins no batch until one succeeds */
    uint16_t size : 11;  /* of the name */
    uint16_t braced : 1; /* the name contains "{" */
    uint16_t plain : 1;  /* on a cluster: the channel is in another slot than the keys */
    uint16_t marked : 1; /* on a cluster with a quarantine: the slot has a marker of its own */
    uint16_t space;      /* so many bytes of the name are its namespace with the colon */
    int16_t slot;        /* on a cluster: the slot of the keys */
};

/* Besides the name. The whole of a held lock is measured in test_memory.py. */
_Static_assert(sizeof(struct dli_place) <= 8, "a held lock has a place: keys are written when needed");

static inline const char *dli_place_name(const struct dli_place *place)
{
    return (const char *)(place + 1);
}

/* ---- names.c */

struct dli_place *dli_place_new(const struct dli_kind *kind, const char *name, size_t size); /* NULL without memory */
void dli_place_in(struct dli_place *place, size_t space);
uint32_t dli_place_space(const struct dli_place *place); /* a hash of the namespace; 0: it has none */
void dli_place_free(struct dli_place *place);

/* Room for an owner as a kind writes it, and for the key of one read hold. */
enum { DLI_ID_MAX = DLI_OWNER_MAX + 16, DLI_HOLD_KEY_MAX = DLI_NAME_MAX + DLI_ID_MAX + 32 };

/* The most that a pattern of kinds.h takes for a place, and what is written for it. Not terminated. */
size_t dli_pattern_most(const char *pattern, const struct dli_place *place);
size_t dli_pattern(char *out, const char *pattern, const struct dli_place *place);

/* Write Redisson's key of one read hold: T(N):id:rwlock_timeout:1. Returns its size. */
size_t dli_hold_key(char out[DLI_HOLD_KEY_MAX], const struct dli_place *place, const char *id);

/*
 * Numbers in a line as text, "7,9,12,". Write: returns out. Read: at most DLI_NEXT_MAX; the last comma may be missing.
 * 0: not such a text, and next is empty.
 */
enum { DLI_NEXT_TEXT = 21 * DLI_NEXT_MAX + 1 };

const char *dli_next_write(char out[DLI_NEXT_TEXT], const struct dli_next *next);
int dli_next_read(struct dli_next *next, const char *text, size_t size);

/* Those that are next in a reply: they come behind the tokens, and one token is reserved for each. 0: the reply is wrong. */
int dli_next_decode(const struct dli_reply *reply, const struct dli_answer *answer, struct dli_next *next);

/*
 * A ticket as text: see ticket.c. Write: returns out. Read: what is at *at, with the space behind it; *at then stands behind that.
 * 0: there is none.
 */
enum { DLI_TICKET_MAX = 40 };

const char *dli_ticket_write(char out[DLI_TICKET_MAX], int64_t seq, uint64_t proof);
int dli_ticket_read(const char **at, const char *end, int64_t *seq, uint64_t *proof);

/* Room for the channel of a lock, or of one waiter. */
enum { DLI_CHANNEL_MAX = DLI_NAME_MAX + DLI_OWNER_MAX + 64 };

/*
 * Write the channel to subscribe to for a lock. If the kind has one for each waiter, it is owner's. Returns its size.
 */
size_t dli_channel_of(char out[DLI_CHANNEL_MAX], const struct dli_kind *kind, const struct dli_place *place,
                      const char *owner);

/* ---- commands.c */

/*
 * Bits of full. DLI_ENCODE_FULL: EVAL with the text instead of EVALSHA. DLI_ENCODE_FORM times a DLI_FORM_ value: the
 * script in that form. DLI_ENCODE_ASKING: the command is sent with ASKING, see asking.lua. DLI_ENCODE_ALL: it
 * declares the tombstones of a fair lock, too, so that a server that gives its slot away says whether it has them.
 */
enum { DLI_ENCODE_FULL = 1, DLI_ENCODE_FORM = 2, DLI_ENCODE_ASKING = 8, DLI_ENCODE_ALL = 16 };

/* Append the command of a request; full: DLI_ENCODE_ bits. 0, or -1 without memory. */
int dli_encode_request(struct dli_buffer *out, int full, const struct dli_request *request);

/* ---- renewal_commands.c */
int dli_encode_renew(struct dli_buffer *out, int full, const struct dli_request *request);
int dli_encode_transfer(struct dli_buffer *out, int full, const struct dli_renewal *row);

/*
 * ---- move_commands.c: the keys of a request's locks move to another server, see cluster/move.c. probe asks for a key that nobody makes.
 * look asks which keys the server has. migrate moves those to a server, which gets the password. 0, or -1 without memory.
 */
struct dli_new_home {
    const char *host, *username, *password; /* password NULL: the server does not log in */
    int port;
};

int dli_encode_move_probe(struct dli_buffer *out, const struct dli_request *request);
int dli_encode_move_look(struct dli_buffer *out, const struct dli_request *request);
int dli_encode_migrate(struct dli_buffer *out, const struct dli_reply *keys, const struct dli_new_home *home);

/*
 * Fill in the quarantine of a store on one server. It lasts as long as the longest lease, and a little longer for the
 * drift of clocks.
 */
void dli_quarantine_init(struct dli_quarantine *quarantine, const char *space, int64_t longest_ms, int64_t drift_ppm);

/*
 * ---- slot_markers.c: the marker of a namespace. On a cluster each slot has its own: the first call takes some milliseconds then.
 * slot -1: it is no cluster. Returns out.
 */
enum { DLI_MARKER_MAX = 32 + DLI_NAME_MAX };
const char *dli_slot_marker(char out[DLI_MARKER_MAX], int slot, const char *space, size_t space_size);

/* ---- server_commands.c: commands about a server itself */
int dli_encode_ping(struct dli_buffer *out, int full, const struct dli_request *request);
int dli_encode_check(struct dli_buffer *out, int full, const struct dli_request *request);
int dli_encode_provision(struct dli_buffer *out, int full, const struct dli_request *request);

/* ---- quorum_commands.c: more commands for the servers of a quorum */
int dli_encode_again(struct dli_buffer *out, int full, const struct dli_request *request);
int dli_encode_floor(struct dli_buffer *out, int full, const struct dli_request *request);
int dli_encode_join(struct dli_buffer *out, int full, const struct dli_request *request);

/* ---- replies.c */

/* The number of replicas in an answer to WAIT; -1: it is none. */
int dli_decode_replicas(const struct dli_reply *reply);

/* DLOCK_OK for any reply but an error; else its status, and box gets a sentence. */
dlock_status dli_decode_word(const struct dli_reply *reply, dlock_error *box);

/* Fill in the request's results from its reply. */
void dli_decode_request(const struct dli_reply *reply, struct dli_request *request);

#endif
