/*
 * resp.h: RESP2. Replies are read with hiredis's reader, commands are written by our own encoder straight into a
 * buffer. resp.c is the only file that uses hiredis.
 *
 * Replies live in an arena of the reader and are valid until the next dli_reader_next or dli_reader_reset. Limits are
 * checked before anything is allocated: depth, elements and bytes of one reply, see the enum.
 */
#ifndef DLI_REDIS_CODEC_RESP_H
#define DLI_REDIS_CODEC_RESP_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum {
    DLI_REPLY_DEPTH = 8,
    DLI_REPLY_ELEMENTS = 65536,
    DLI_REPLY_BULK = 1024 * 1024,
    DLI_REPLY_BYTES = 4 * 1024 * 1024,
    DLI_REPLY_OWN = 64 * 1024,           /* of each reader */
    DLI_REPLY_SHARED = 16 * 1024 * 1024, /* of the readers of a client together */
};

/* What readers share. used is an atomic. */
struct dli_reply_room {
    int64_t most, used; /* bytes beyond DLI_REPLY_OWN of each */
};

enum dli_reply_type { DLI_REPLY_NIL, DLI_REPLY_INTEGER, DLI_REPLY_TEXT, DLI_REPLY_ERROR, DLI_REPLY_ARRAY };

struct dli_reply {
    enum dli_reply_type type;
    int64_t integer;  /* INTEGER */
    const char *text; /* TEXT (bulk or status) and ERROR, terminated, may hold NUL */
    size_t size;      /* bytes of text; items of ARRAY */
    union {
        const struct dli_reply *items; /* ARRAY */
        const char *secret; /* TEXT, ERROR: what messages must not repeat, see dli_escape_error; NULL: none */
    };
};

struct dli_reader;

struct dli_reader *dli_reader_new(void);
void dli_reader_free(struct dli_reader *reader);

/* Set the text that errors of this server must not repeat. It stays the caller's and must outlive the replies. */
void dli_reader_hide(struct dli_reader *reader, const char *secret);

/* Let the reader share room, which outlives it. NULL: no bound but its own. Before the first byte. */
void dli_reader_share(struct dli_reader *reader, struct dli_reply_room *room);

/* Take in bytes from the server. 0, or -1: a limit was exceeded or memory is short; drop the connection. */
int dli_reader_feed(struct dli_reader *reader, const char *bytes, size_t size);

/*
 * 1: *reply is the next reply. 0: more bytes are needed. -1: not RESP2, or a limit was exceeded; drop the connection.
 */
int dli_reader_next(struct dli_reader *reader, const struct dli_reply **reply);

/* After a -1: 1 when memory was short, 0 when the bytes were bad. */
int dli_reader_starved(const struct dli_reader *reader);

/* Bytes taken in but not yet returned in replies. */
size_t dli_reader_left(const struct dli_reader *reader);

/* The reply is not used any more: give back the memory of a large one. dli_reader_next does it, too. */
void dli_reader_rest(struct dli_reader *reader);

/* Forget everything taken in, for a new connection. */
void dli_reader_reset(struct dli_reader *reader);

/* Append one command. 0 or -1 without memory (nothing appended then). */
int dli_encode(struct dli_buffer *out, int argc, const char *const *argv, const size_t *sizes);

/* Append a command of up to 8 terminated arguments. 0, or -1 without memory. */
int dli_encode_args(struct dli_buffer *out, int argc, const char *const *argv);

#endif
