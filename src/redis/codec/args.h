/*
 * args.h: one command under construction. Arguments are not copied: they point to the caller's memory, which must stay
 * valid until dli_args_finish. Keys and channels are patterns until then.
 */
#ifndef DLI_REDIS_CODEC_ARGS_H
#define DLI_REDIS_CODEC_ARGS_H

#include "commands.h"
#include "redis/scripts/scripts.h"

enum { DLI_ARGS_MAX = 4 + 5 * DLI_RENEW_MAX };

struct dli_args {
    int count;
    const char *word[DLI_ARGS_MAX];
    size_t size[DLI_ARGS_MAX];
    const struct dli_place
        *place[DLI_ARGS_MAX]; /* not NULL: word is a pattern of its keys, and size the most it takes */
    size_t most;              /* the sum of these sizes */
    char number[16][24], marker[DLI_MARKER_MAX];
    int numbers, form;
    char *asking; /* the text of a script that is sent with ASKING; dli_args_finish frees it */
    int asks;     /* only the first key is declared, see asking.lua */
    const struct dli_quarantine *quarantine; /* not NULL: dli_args_finish appends its two arguments */
};

void dli_args_add(struct dli_args *args, const char *word, size_t size);
void dli_args_text(struct dli_args *args, const char *text);

/* Add a key of a place, its gate, or Redisson's channel. */
void dli_args_pattern(struct dli_args *args, const struct dli_place *place, const char *pattern);
void dli_args_key(struct dli_args *args, const struct dli_place *place, int key);
void dli_args_channel(struct dli_args *args, const struct dli_place *place);

/*
 * Add a number as decimal text. dli_args_number keeps the text in args: at most 16 in a command, the number of keys
 * included. dli_args_number_in keeps it in the caller's room.
 */
void dli_args_number(struct dli_args *args, int64_t number);
void dli_args_number_in(struct dli_args *args, char room[24], int64_t number);

/* Begin a command that runs no script. */
void dli_args_clear(struct dli_args *args);

/* Begin EVALSHA or EVAL with a script. full: DLI_ENCODE_ bits, see commands.h. */
void dli_args_begin(struct dli_args *args, int script, int full);

/*
 * The same, and add the number of keys. If the request has a quarantine and the script has a variant for it, the
 * command uses the variant, and dli_args_end_keys adds the marker as the last key.
 */
void dli_args_begin_keys(struct dli_args *args, int script, int full, const struct dli_request *request, int64_t keys);
void dli_args_end_keys(struct dli_args *args, const struct dli_place *place);

/* The same with all keys of the request's lock, the marker included. */
void dli_args_begin_lock(struct dli_args *args, int script, int full, const struct dli_request *request);

/* Append the command to out. 0, or -1 without memory. */
int dli_args_finish(struct dli_args *args, struct dli_buffer *out);

/* Write an owner's id as the kind has it on the wire, with its suffix. Returns room. */
const char *dli_args_id(char room[DLI_ID_MAX], const struct dli_wire *wire, const char *owner);

#endif
