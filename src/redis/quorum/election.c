/*
 * election.c: rounds that acquire the lock, on the lane's thread. engine/votes.c counts votes and floors.
 *
 * A late grant to a loser is released when it arrives. Earlier grants are the caller's to release: the answer says that
 * the id is spent. After SPLITS attempts with split votes, every other attempt asks the servers one after the other, so
 * that the first server decides.
 */
#include "inner.h"

#include <string.h>

#include "sys/sys.h"

enum { SPLITS = 5, QUARANTINE_PAUSE = 200000 };

static void request_votes(struct dli_round *round)
{
    int64_t clock = dli_membership_clock(round->lane);
    int i;

    while ((i = dli_election_ask(&round->election)) >= 0) {
        struct dli_share *share = &round->share[i];
        struct dli_exchange *exchange = &share->request->exchange;

        dli_share_copy(share, DLI_STAGE_REQUEST);
        exchange->wish.drop = 0;
        exchange->wish.mode = DLI_MODE_TRY;
        exchange->wish.listening = 0;
        exchange->clock = clock > 0 ? clock : 1;
        dli_share_send(share, 0);
    }
}

/*
 * Too few servers have said who they are and what time it is: the attempt cannot win. Only those that have are asked, so
 * that the error says what each says. Their counters count from nothing, not from a clock that may be wrong.
 */
static void leave_out(struct dli_round *round)
{
    for (int i = 0; i < round->election.count; i++) {
        if (round->lane->membership[i].timed)
            continue;
        round->share[i].reason = round->lane->membership[i].reason;
        round->share[i].over = round->share[i].reason.code != DLOCK_OK;
        round->election.voter[i].requested = 1;
        dli_election_failed(&round->election, i, 0);
    }
}

static void begin(struct dli_round *round, int64_t now)
{
    const struct dli_quorum *quorum = round->lane->quorum;
    const struct dli_wish *wish = &round->said.exchange.wish;
    int splits = round->shared->splits;

    dli_membership_last(round->lane->quorum, wish->lease);
    dli_membership_query(round->lane, now);
    round->until = now + 2 * wish->lease;
    dli_election_init(&round->election, quorum->count, quorum->needed, splits >= SPLITS && (splits - SPLITS) % 2 == 0);
    round->waits = 1;
    round->busy++;
    dli_election_round_go(round, now);
}

void dli_election_round_go(struct dli_round *round, int64_t now)
{
    int64_t at;

    if (!dli_membership_met(round->lane, round->since, round->said.deadline, now, &at)) {
        dli_round_wake(round, at);
        return;
    }
    round->waits = 0;
    if (dli_quorum_fits(round->lane->quorum, NULL) == DLOCK_OK) {
        if (!dli_membership_clock(round->lane))
            leave_out(round);
        request_votes(round);
    }
    round->busy--;
}

/* ---- answers */

static void write_floors(struct dli_round *round)
{
    struct dli_election *e = &round->election;
    int i;

    while ((i = dli_election_write(e)) >= 0) {
        struct dli_share *share = &round->share[i];
        struct dli_request *request = share->request;

        dli_share_copy(share, DLI_STAGE_FLOOR);
        request->verb = DLI_VERB_FLOOR;
        request->own = &share->floor;
        memcpy(share->floor.owner, round->said.exchange.want, DLI_OWNER_MAX);
        share->floor.seen = e->voter[i].last;
        share->floor.last = e->last;
        share->floor.keep_ms = round->said.exchange.keep_ms;
        dli_share_send(share, 0);
    }
}

/* The vote counts if its server may vote. */
static void count_vote(struct dli_round *round, struct dli_share *share)
{
    const struct dli_membership *membership = &round->lane->membership[share->node];
    const struct dli_request *request = share->request;
    const struct dli_answer *answer = &request->exchange.answer;

    if (request->status != DLOCK_OK) {
        dli_election_failed(&round->election, share->node, request->sent && !request->refused);
    } else if (!dli_membership_votes(membership)) {
        share->reason = membership->reason;
        if (share->reason.code == DLOCK_OK)
            dli_fail(&share->reason, DLOCK_UNREACHABLE, "%s: it has not named its quorum yet",
                     round->lane->quorum->node[share->node].store->text);
        dli_election_failed(&round->election, share->node, answer->got == DLI_TRY_GRANTED);
    } else {
        dli_election_voted(&round->election, share->node, answer->got, answer->token, answer->tokens, answer->left);
    }
}

static void answered(struct dli_round *round, struct dli_share *share, int64_t now)
{
    const struct dli_request *request = share->request;
    const struct dli_membership *membership = &round->lane->membership[share->node];

    switch (share->stage) {
    case DLI_STAGE_REQUEST:
        if (request->status == DLOCK_OK && !dli_membership_votes(membership) && membership->querying) {
            share->unjudged = 1;
            round->busy++;
            return;
        }
        count_vote(round, share);
        if (round->ballot)
            request_votes(round);
        else if (!round->won && request->status == DLOCK_OK && request->exchange.answer.got == DLI_TRY_GRANTED)
            dli_release_round_undo(share, now);
        break;
    case DLI_STAGE_FLOOR:
        dli_election_written(&round->election, share->node, request->status == DLOCK_OK ? share->floor.stands : -1);
        break;
    default:
        dli_release_round_later(share, now);
        return;
    }
    if (round->ballot || round->won)
        write_floors(round);
}

void dli_election_round_judge(struct dli_lane *lane, int node)
{
    struct dli_link *link = lane->rounds.next;

    while (link != &lane->rounds) {
        struct dli_round *round = DLI_OBJECT(link, struct dli_round, link);
        struct dli_share *share = &round->share[node];
        int64_t now = dli_now();

        link = link->next;
        if (round->waits) {
            dli_election_round_go(round, now);
            dli_round_settle(round, now);
        } else if (share->unjudged) {
            share->unjudged = 0;
            dli_share_over(share);
        }
    }
}

void dli_election_round_dropped(struct dli_lane *lane, const struct dli_shared_place *shared, const char *id)
{
    for (struct dli_link *link = lane->rounds.next; link != &lane->rounds; link = link->next) {
        struct dli_round *round = DLI_OBJECT(link, struct dli_round, link);

        if (round->shared == shared && round->won && strcmp(round->said.exchange.want, id) == 0)
            round->won = 0;
    }
}

/* ---- the outcome */

static void won(struct dli_round *round)
{
    struct dli_request *original = &round->ballot->request;

    round->won = 1;
    round->shared->splits = round->shared->contended = 0;
    original->exchange.answer = (struct dli_answer){.got = DLI_TRY_GRANTED,
                                                    .token = round->election.token,
                                                    .tokens = round->election.last - round->election.token + 1};
    dli_round_answer(round, DLOCK_OK);
}

static enum dli_try try_of(enum dli_outcome outcome)
{
    return outcome == DLI_OUTCOME_QUARANTINE ? DLI_TRY_QUARANTINE
           : outcome == DLI_OUTCOME_GATE     ? DLI_TRY_GATE
           : outcome == DLI_OUTCOME_KIND     ? DLI_TRY_WRONG_KIND
                                             : DLI_TRY_HELD;
}

/* Report what a server in quarantine says. */
static void explain_quarantine(struct dli_round *round)
{
    dlock_error *reason = round->ballot->request.reason;

    for (int i = 0; reason && i < round->election.count; i++)
        if (round->election.voter[i].vote == DLI_VOTE_QUARANTINE)
            dli_fail(reason, DLOCK_QUARANTINED, "%s: %.300s", round->lane->quorum->node[i].store->text,
                     round->share[i].reason.message);
}

/* The lock is held, or the votes are split, which ends soon. left says when to probe again. */
static void refused(struct dli_round *round, enum dli_try got)
{
    const struct dli_election *e = &round->election;
    struct dli_answer *answer = &round->ballot->request.exchange.answer;
    int split = got == DLI_TRY_HELD && dli_election_split(e);

    round->shared->splits = split ? round->shared->splits + 1 : 0;
    round->shared->contended = 1;
    *answer = (struct dli_answer){.got = got, .spent = dli_election_spent(e)};
    answer->left = split ? 0 : dli_election_left(e);
    if (got == DLI_TRY_QUARANTINE) {
        answer->left = answer->left < 0 ? QUARANTINE_PAUSE : answer->left;
        explain_quarantine(round);
    }
    answer->foreign = got == DLI_TRY_HELD; /* the waiter is to subscribe where foreign clients do */
    dli_round_answer(round, DLOCK_OK);
}

/* The number of servers that vote for it or, once there is a token, have confirmed the token. */
static int votes(const struct dli_round *round)
{
    int found = 0;

    for (int i = 0; i < round->election.count; i++) {
        enum dli_vote vote = round->election.voter[i].vote;

        found += vote >= (round->election.token ? DLI_VOTE_FLOORED : DLI_VOTE_GRANTED) && vote <= DLI_VOTE_FLOORED;
    }
    return found;
}

/* The next attempt after one that asked in order asks all servers at once: a silent server then stops nobody. */
static void fail(struct dli_round *round)
{
    struct dli_request *original = &round->ballot->request;

    round->shared->splits += round->election.in_order;
    original->exchange.answer = (struct dli_answer){.spent = dli_election_spent(&round->election)};
    original->sent = original->exchange.answer.spent;
    dli_round_fail(round, round->election.token ? "confirm the token" : "grant it", votes(round));
}

static int bad_quorum(struct dli_round *round)
{
    struct dli_request *original = &round->ballot->request;

    if (dli_quorum_fits(round->lane->quorum, original->reason) == DLOCK_OK)
        return 0;
    original->exchange.answer = (struct dli_answer){.spent = dli_election_spent(&round->election)};
    original->sent = original->exchange.answer.spent;
    dli_round_answer(round, DLOCK_INVALID_QUORUM);
    return 1;
}

static void decide(struct dli_round *round, int must, int64_t now)
{
    enum dli_outcome outcome = dli_election_outcome(&round->election);

    if (bad_quorum(round))
        return;
    if (outcome == DLI_OUTCOME_WON) {
        won(round);
        return;
    }
    if (!must && (outcome == DLI_OUTCOME_OPEN || outcome == DLI_OUTCOME_FAILED || !dli_round_grace(round, now)))
        return; /* a failure waits for all servers, to name what each says */
    if (outcome == DLI_OUTCOME_OPEN || outcome == DLI_OUTCOME_FAILED)
        fail(round);
    else
        refused(round, try_of(outcome));
}

const struct dli_round_ops dli_election_round_ops = {begin, answered, decide, NULL};
