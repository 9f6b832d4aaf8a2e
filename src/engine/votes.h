/*
 * votes.h: how servers that know nothing of each other decide together. Decisions without I/O, clock or threads.
 *
 * Of count servers, needed is more than half. A tally counts the answers to one question. An election is one attempt to get
 * a lock: who grants it votes for it, and with needed votes it is won.
 *
 * Tokens. Every server counts for itself; its vote says the first and the last token of a block behind all that it had reserved.
 * Of needed votes the highest first one is the token, and the highest last one the end of what is reserved with it: both lie above
 * all that any of them had reserved. That end is written back as the floor of those who voted, each of which refuses
 * when the lock is not ours any more or when it has reserved anything since its vote; with needed floors the election
 * is won. Two elections that are won have a server in common that has both floors, and voted in between: blocks do not
 * overlap, and who votes behind a floor names a higher token.
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
    DLI_VERDICT_OPEN, /* answers that are missing may decide */
    DLI_VERDICT_YES,  /* needed said so */
    DLI_VERDICT_NO,   /* so many said no that needed never will */
    DLI_VERDICT_NONE  /* neither any more */
};

enum dli_verdict dli_tally_verdict(const struct dli_tally *tally);

/* ---- one attempt */

enum dli_vote {
    DLI_VOTE_OPEN,
    DLI_VOTE_GRANTED,
    DLI_VOTE_WRITING, /* the floor is under way */
    DLI_VOTE_FLOORED,
    DLI_VOTE_HELD, /* refused: somebody else has it there */
    DLI_VOTE_GATE,
    DLI_VOTE_KIND,
    DLI_VOTE_QUARANTINE, /* refused: it may have lost its memory */
    DLI_VOTE_FAILED      /* no answer, or one that is of no use */
};

struct dli_voter {
    enum dli_vote vote;
    int asked;           /* in order: its turn came */
    int touched;         /* it may have granted */
    int64_t token, last; /* GRANTED and behind: its block */
    int64_t left;        /* HELD, QUIET: microseconds until it may be free; -1 unknown */
};

struct dli_election {
    int count, needed;
    int in_order;  /* one is asked after the other, and the first that refuses ends it */
    int64_t token; /* the token; 0: not chosen yet */
    int64_t last;  /* and the last that is reserved with it */
    struct dli_voter voter[DLI_VOTERS_MAX];
};

enum dli_outcome {
    DLI_OUTCOME_OPEN,
    DLI_OUTCOME_WON,
    DLI_OUTCOME_HELD, /* others have it, or votes are split */
    DLI_OUTCOME_GATE,
    DLI_OUTCOME_KIND,
    DLI_OUTCOME_QUARANTINE,
    DLI_OUTCOME_FAILED /* too few answer */
};

void dli_election_init(struct dli_election *e, int count, int needed, int in_order);

/* The next to be asked, or -1: nobody now. It counts as asked. */
int dli_election_ask(struct dli_election *e);

/* The answer of one that was asked. got is not DLI_TRY_NONE. tokens: how many it reserved from token on. */
void dli_election_voted(struct dli_election *e, int i, enum dli_try got, int64_t token, int64_t tokens, int64_t left);

/* One that was asked has no answer, or none of use. touched: it may have acted all the same. */
void dli_election_failed(struct dli_election *e, int i, int touched);

/* The next whose floor is to be written, or -1. Also once it is won: the more have it, the better. It counts as WRITING. */
int dli_election_write(struct dli_election *e);

/* What came of that: 1 it stands, 0 it was refused, -1 unknown. */
void dli_election_written(struct dli_election *e, int i, int result);

enum dli_outcome dli_election_outcome(const struct dli_election *e);

/* When not won: 1 when some server may have granted it; its id must be released everywhere and never be used again. */
int dli_election_spent(const struct dli_election *e);

/* HELD: whether some granted it and others did not. */
int dli_election_split(const struct dli_election *e);

/* HELD, QUIET: microseconds until enough servers may be free; -1 unknown. */
int64_t dli_election_left(const struct dli_election *e);

#endif
