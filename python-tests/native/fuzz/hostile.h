/*
 * hostile.h: the whole library over a hostile cluster, in one thread and virtual time: what fuzz_over_etcd.c,
 * fuzz_over_redis.c and fuzz_over_zookeeper.c share. The models of the clusters, the connections and the clock are those of ../worlds.
 *
 * An input is read from both ends. From the front it chooses calls of the library and what happens between them. From the
 * back it chooses for each answer of the model how it is changed; 0, and all behind the end, leave it as it is. So a short
 * input is a well-behaved run, and each byte more spoils it in one place.
 *
 *   hostile.c         one run: processes, events, rules      hostile_calls.c   calls of the library
 *   hostile_bytes.c   what becomes of bytes on their way
 */
#ifndef FUZZ_HOSTILE_H
#define FUZZ_HOSTILE_H

#include "../worlds/worlds.h"
#include "fuzz.h"
#include "fuzz_words.h"

enum { H_TAGS = 96 };

/* What is special about one kind of cluster. */
struct hostile_server {
    const struct w_model *model;
    const char *const *urls; /* four */
    void (*begin)(void);
    void (*tenant)(void); /* another client changes something; reads from the back */
    void (*spoil)(struct w_wire *wire, struct dli_buffer *bytes); /* changes what is on its way */
    void (*unasked)(struct w_wire *wire);                         /* says something that nobody asked for */
    int (*granted)(int64_t token);                                /* whether it has made a token of this number */
    int exports; /* a grant can be exported, which waits for the server: so it is not tried */
};

extern const struct hostile_server *hostile;

int hostile_run(const struct hostile_server *server, const uint8_t *data, size_t size);

struct h_text {
    const char *bytes;
    size_t size;
};

/* ---- the input */
unsigned h_call(void);  /* the next byte at the front; 0 after the end */
unsigned h_spoil(void); /* at the back */
unsigned h_spoil_below(unsigned limit);
int h_over(void);              /* nothing is left */
int64_t h_number(void);        /* from the back: a number of any size, or one that the server has said */
struct h_text h_text(void);    /* from the back: a text that may stand anywhere in an answer */
void h_said(int64_t number);   /* the server has said this number */
void h_forged(int64_t number); /* it has made it up */
int h_was_forged(int64_t number);
void h_garbled(void); /* it is not known any more which numbers it has made up */

/* ---- hostile.c */
int64_t h_tag(struct w_process *process); /* of a new call; 0: there are enough calls */
void h_not_called(int64_t tag);           /* it was refused: no event follows */
void h_makes_token(int64_t tag);          /* if it succeeds */
void h_end(struct w_process *process, int locks_first);
void h_start(struct w_process *process);

/* ---- hostile_bytes.c */
void h_put(struct dli_buffer *bytes, const void *more, size_t size);
void h_hang_up(struct w_wire *wire); /* soon */

/* ---- hostile_calls.c */
enum { H_LOCKS = 6 };
void h_calls_begin(void);
void h_call_library(struct w_process *process);
void h_locks_free(const struct w_process *process);

#endif
