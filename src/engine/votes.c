/*
 * votes.c: tallies and elections. See votes.h.
 */
#include "votes.h"

#include <string.h>

enum dli_verdict dli_tally_verdict(const struct dli_tally *tally)
{
    int open = tally->count - tally->yes - tally->no - tally->unknown, enough_against = tally->count - tally->needed;

    if (tally->yes >= tally->needed)
        return DLI_VERDICT_YES;
    if (tally->no > enough_against)
        return DLI_VERDICT_NO;
    if (tally->yes + open < tally->needed && tally->no + open <= enough_against)
        return DLI_VERDICT_NONE;
    return DLI_VERDICT_OPEN;
}

void dli_election_init(struct dli_election *e, int count, int needed, int in_order)
{
    memset(e, 0, sizeof *e);
    e->count = count;
    e->needed = needed;
    e->in_order = in_order;
}

static int refused(const struct dli_voter *voter)
{
    return voter->vote >= DLI_VOTE_HELD && voter->vote <= DLI_VOTE_QUARANTINE;
}

int dli_election_ask(struct dli_election *e)
{
    for (int i = 0; i < e->count; i++) {
        struct dli_voter *voter = &e->voter[i];

        if (!voter->requested) {
            voter->requested = 1;
            return i;
        }
        if (e->in_order && (voter->vote == DLI_VOTE_OPEN || refused(voter)))
            return -1;
    }
    return -1;
}

/* Votes that count. Once the token is chosen, a vote with a higher first token does not. */
static int counts(const struct dli_election *e, const struct dli_voter *voter)
{
    if (voter->vote == DLI_VOTE_GRANTED)
        return !e->token || voter->token <= e->token;
    return voter->vote == DLI_VOTE_WRITING || voter->vote == DLI_VOTE_FLOORED;
}

static int count_votes(const struct dli_election *e)
{
    int votes = 0;

    for (int i = 0; i < e->count; i++)
        votes += counts(e, &e->voter[i]);
    return votes;
}

/* Its vote reserved the whole block: it needs no floor. */
static int has_floor(const struct dli_election *e, const struct dli_voter *voter)
{
    return e->token && voter->token <= e->token && voter->last >= e->last;
}

/* Choose the highest first and the highest last token of all votes. */
static void choose_token(struct dli_election *e)
{
    for (int i = 0; i < e->count; i++) {
        const struct dli_voter *voter = &e->voter[i];

        if (voter->vote != DLI_VOTE_GRANTED)
            continue;
        e->token = voter->token > e->token ? voter->token : e->token;
        e->last = voter->last > e->last ? voter->last : e->last;
    }
    for (int i = 0; i < e->count; i++)
        if (e->voter[i].vote == DLI_VOTE_GRANTED && has_floor(e, &e->voter[i]))
            e->voter[i].vote = DLI_VOTE_FLOORED;
}

void dli_election_voted(struct dli_election *e, int i, enum dli_try got, int64_t token, int64_t tokens, int64_t left)
{
    struct dli_voter *voter = &e->voter[i];

    voter->left = left;
    if (got == DLI_TRY_HELD)
        voter->vote = DLI_VOTE_HELD;
    else if (got == DLI_TRY_GATE)
        voter->vote = DLI_VOTE_GATE;
    else if (got == DLI_TRY_WRONG_KIND)
        voter->vote = DLI_VOTE_KIND;
    else if (got == DLI_TRY_QUARANTINE)
        voter->vote = DLI_VOTE_QUARANTINE;
    if (got != DLI_TRY_GRANTED)
        return;
    voter->touched = 1;
    voter->token = token;
    voter->last = token + tokens - 1;
    voter->vote = has_floor(e, voter) ? DLI_VOTE_FLOORED : DLI_VOTE_GRANTED;
    if (!e->token && count_votes(e) >= e->needed)
        choose_token(e);
}

void dli_election_failed(struct dli_election *e, int i, int touched)
{
    e->voter[i].vote = DLI_VOTE_FAILED;
    e->voter[i].touched |= touched;
}

int dli_election_write(struct dli_election *e)
{
    for (int i = 0; e->token && i < e->count; i++) {
        struct dli_voter *voter = &e->voter[i];

        if (voter->vote == DLI_VOTE_GRANTED && voter->token <= e->token) {
            voter->vote = DLI_VOTE_WRITING;
            return i;
        }
    }
    return -1;
}

void dli_election_written(struct dli_election *e, int i, int result)
{
    struct dli_voter *voter = &e->voter[i];

    if (voter->vote == DLI_VOTE_WRITING)
        voter->vote = result == 1 ? DLI_VOTE_FLOORED : result == 0 ? DLI_VOTE_HELD : DLI_VOTE_FAILED;
    if (voter->vote == DLI_VOTE_HELD)
        voter->left = 0; /* the present owner and its time are unknown */
}

static int count_of(const struct dli_election *e, enum dli_vote vote)
{
    int found = 0;

    for (int i = 0; i < e->count; i++)
        found += e->voter[i].vote == vote;
    return found;
}

/* Servers that may still vote. In order, none is asked after a refusal. */
static int count_open(const struct dli_election *e)
{
    int open = 0, ended = 0;

    for (int i = 0; i < e->count; i++) {
        open += e->voter[i].vote == DLI_VOTE_OPEN && !(ended && !e->voter[i].requested);
        ended |= e->in_order && refused(&e->voter[i]);
    }
    return open;
}

enum dli_outcome dli_election_outcome(const struct dli_election *e)
{
    int held = count_of(e, DLI_VOTE_HELD), gate = count_of(e, DLI_VOTE_GATE), kind = count_of(e, DLI_VOTE_KIND);
    int quarantine = count_of(e, DLI_VOTE_QUARANTINE);

    if (e->token && count_of(e, DLI_VOTE_FLOORED) >= e->needed)
        return DLI_OUTCOME_WON;
    if (count_votes(e) + count_open(e) >= e->needed)
        return DLI_OUTCOME_OPEN;
    if (count_of(e, DLI_VOTE_FAILED) > e->count - e->needed)
        return DLI_OUTCOME_FAILED;
    if (quarantine > held && quarantine > gate && quarantine > kind)
        return DLI_OUTCOME_QUARANTINE;
    if (gate > held && gate >= kind)
        return DLI_OUTCOME_GATE;
    return kind > held ? DLI_OUTCOME_KIND : DLI_OUTCOME_HELD;
}

int dli_election_spent(const struct dli_election *e)
{
    for (int i = 0; i < e->count; i++)
        if (e->voter[i].touched || (e->voter[i].requested && e->voter[i].vote == DLI_VOTE_OPEN))
            return 1;
    return 0;
}

int dli_election_split(const struct dli_election *e)
{
    for (int i = 0; i < e->count; i++)
        if (e->voter[i].vote >= DLI_VOTE_GRANTED && e->voter[i].vote <= DLI_VOTE_FLOORED)
            return 1;
    return 0;
}

int64_t dli_election_left(const struct dli_election *e)
{
    int64_t left[DLI_VOTERS_MAX];
    int known = 0, more = e->needed - count_votes(e);

    for (int i = 0; i < e->count; i++) {
        int at = known;

        if ((e->voter[i].vote != DLI_VOTE_HELD && e->voter[i].vote != DLI_VOTE_QUARANTINE) || e->voter[i].left < 0)
            continue;
        for (; at > 0 && left[at - 1] > e->voter[i].left; at--)
            left[at] = left[at - 1];
        left[at] = e->voter[i].left;
        known++;
    }
    return more >= 1 && more <= known ? left[more - 1] : -1;
}
