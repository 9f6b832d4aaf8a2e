/*
 * args.h: a command under construction: its arguments, which point to memory of the caller until dli_args_finish.
 */
#ifndef DLI_REDIS_CODEC_ARGS_H
#define DLI_REDIS_CODEC_ARGS_H

#include "commands.h"
#include "redis/scripts/scripts.h"

enum { DLI_ARGS_MAX = 3 + 5 * DLI_RENEW_MAX };

struct dli_args {
    int count;
    const char *word[DLI_ARGS_MAX];
    size_t size[DLI_ARGS_MAX];
    char number[16][24];
    int numbers, form;
    const struct dli_quarantine *quarantine; /* not NULL: its words come behind the script's own */
};

void dli_args_add(struct dli_args *args, const char *word, size_t size);
void dli_args_text(struct dli_args *args, const char *text);
void dli_args_slice(struct dli_args *args, const struct dli_slice *word);

/* At most 16 numbers, and as many as the caller has rooms for. */
void dli_args_number(struct dli_args *args, int64_t number);
void dli_args_number_in(struct dli_args *args, char room[24], int64_t number);

/* EVALSHA or EVAL with a script, in the form that full says. */
void dli_args_begin(struct dli_args *args, int script, int full);

/* The same with the number of keys. Where the request has a quarantine, it is the script that respects it, and dli_args_end_keys adds the marker. */
void dli_args_begin_keys(struct dli_args *args, int script, int full, const struct dli_request *request, int64_t keys);
void dli_args_end_keys(struct dli_args *args, const struct dli_place *place);

/* The same with all keys of the request's lock. */
void dli_args_begin_lock(struct dli_args *args, int script, int full, const struct dli_request *request);

/* Append the command to out. 0, or -1 without memory. */
int dli_args_finish(struct dli_args *args, struct dli_buffer *out);

/* An owner as the kind writes it; returns room. */
const char *dli_args_id(char room[DLI_ID_MAX], const struct dli_wire *wire, const char *owner);

#endif
