/*
 * votes.h: how servers that know nothing of each other decide together. Decisions without I/O, clock or threads.
 *
 * There are count servers; needed is more than half of them. A tally counts the answers to one question. An election is
 * one attempt to get a lock: a server that grants it votes for it. needed votes win.
 *
 * Tokens. Every server counts on its own. Its vote names the first and last token of a block above all that it
 * reserved. Among needed votes, the highest first token is the token, and the highest last one ends the block. Both lie
 * above all that these servers had reserved. That end is written back to the voters as their floor. A voter refuses the
 * floor when the lock is not ours any more, or when it has reserved anything since its vote. With needed floors the
 * election is won. Any two won elections share a server that has both floors, and its second vote came after its first
 * floor. A vote after a floor names a higher token, so blocks do not overlap.
 */
#ifndef DLI_ENGINE_VOTES_H
#define DLI_ENGINE_VOTES_H

#include <stdint.h>

#include "store/store.h"

enum { DLI_VOTERS_MAX = 15 };

/* ---- one question */

struct dli_tally {
    int count, needed;
    int yes, no, unknown; /* the rest have not answered */
};

enum dli_verdict {
    DLI_VERDICT_OPEN, /* missing answers may decide */
    DLI_VERDICT_YES,  /* needed said so */
    DLI_VERDICT_NO,   /* too many said no: needed cannot say yes any more */
    DLI_VERDICT_NONE  /* neither is possible any more */
};

enum dli_verdict dli_tally_verdict(const struct dli_tally *tally);

/* ---- one attempt */

enum dli_vote {
    DLI_VOTE_OPEN,
    DLI_VOTE_GRANTED,
    DLI_VOTE_WRITING, /* the floor is in flight */
    DLI_VOTE_FLOORED,
    DLI_VOTE_HELD, /* refused: another owner has it there */
    DLI_VOTE_GATE,
    DLI_VOTE_KIND,
    DLI_VOTE_QUARANTINE, /* refused: it may have lost its memory */
    DLI_VOTE_FAILED      /* no answer, or one that is of no use */
};

struct dli_voter {
    enum dli_vote vote;
    int requested;       /* in order: its turn came */
    int touched;         /* it may have granted */
    int64_t token, last; /* GRANTED, WRITING, FLOORED: its block */
    int64_t left;        /* HELD, QUARANTINE: microseconds until it may be free; -1 unknown */
};

struct dli_election {
    int count, needed;
    int in_order;  /* servers are asked one after the other; the first refusal ends it */
    int64_t token; /* the token; 0: not chosen yet */
    int64_t last;  /* the last one reserved with it */
    struct dli_voter voter[DLI_VOTERS_MAX];
};

enum dli_outcome {
    DLI_OUTCOME_OPEN,
    DLI_OUTCOME_WON,
    DLI_OUTCOME_HELD, /* other owners have it, or votes are split */
    DLI_OUTCOME_GATE,
    DLI_OUTCOME_KIND,
    DLI_OUTCOME_QUARANTINE,
    DLI_OUTCOME_FAILED /* too few answer */
};

void dli_election_init(struct dli_election *e, int count, int needed, int in_order);

/* The next server to ask, or -1: none now. It counts as asked. */
int dli_election_ask(struct dli_election *e);

/* The answer of one that was asked. got is not DLI_TRY_NONE. tokens: how many it reserved from token on. */
void dli_election_voted(struct dli_election *e, int i, enum dli_try got, int64_t token, int64_t tokens, int64_t left);

/* One that was asked has no answer, or none of use. touched: it may have acted all the same. */
void dli_election_failed(struct dli_election *e, int i, int touched);

/* The next server whose floor to write, or -1. Goes on after the election is won. The server counts as WRITING. */
int dli_election_write(struct dli_election *e);

/* The outcome of that write: 1 written, 0 refused, -1 unknown. */
void dli_election_written(struct dli_election *e, int i, int result);

enum dli_outcome dli_election_outcome(const struct dli_election *e);

/* When not won: 1 when some server may have granted it; its id must be released everywhere and never be used again. */
int dli_election_spent(const struct dli_election *e);

/* HELD: whether some servers granted it and others did not. */
int dli_election_split(const struct dli_election *e);

/* HELD, QUARANTINE: microseconds until enough servers may be free; -1 unknown. */
int64_t dli_election_left(const struct dli_election *e);

#endif
