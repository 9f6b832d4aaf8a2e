/*
 * round.c: the life of a round and of its shares. Everything here runs on the lane's thread.
 */
#include "inner.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sys/sys.h"

int64_t dli_lane_noise(struct dli_lane *lane, int64_t range)
{
    lane->noise ^= lane->noise << 13;
    lane->noise ^= lane->noise >> 7;
    lane->noise ^= lane->noise << 17;
    return range > 0 ? (int64_t)(lane->noise % (uint64_t)range) : 0;
}

/* ---- answers */

/* A sleeping caller may free the ballot as soon as done is set. */
void dli_ballot_answer(struct dli_lane *lane, struct dli_ballot *ballot, dlock_status status)
{
    uint32_t slot = ballot->slot, sleeps = ballot->sleeps;
    struct dli_request *request = &ballot->request;

    request->status = status;
    request->repeated = 0;
    if (request->verb == DLI_VERB_EXCHANGE) {
        struct dli_answer *answer = &request->exchange.answer;

        answer->status = status;
        answer->sent = status != DLOCK_OK && request->sent;
        answer->refused = request->refused;
        answer->repeated = 0;
    }
    if (request->done)
        request->done(request);
    if (!sleeps)
        return;
    __atomic_store_n(&ballot->done, 1, __ATOMIC_RELEASE);
    lane->woken |= UINT64_C(1) << slot;
}

void dli_lane_wake_sleepers(struct dli_lane *lane)
{
    while (lane->woken) {
        int slot = __builtin_ctzll(lane->woken);

        lane->woken &= lane->woken - 1;
        __atomic_add_fetch(&lane->words[slot], 1, __ATOMIC_RELEASE);
        dli_futex_wake(&lane->words[slot], INT_MAX);
    }
}

void dli_round_answer(struct dli_round *round, dlock_status status)
{
    struct dli_ballot *ballot = round->ballot;

    round->ballot = NULL;
    dli_ballot_answer(round->lane, ballot, status);
}

/* ---- what each server said */

static const char *word_for(dlock_status status)
{
    static const struct {
        dlock_status status;
        const char *word;
    } words[] = {
        {DLOCK_QUARANTINED, "in quarantine"},
        {DLOCK_LEASE_REFUSED, "another quarantine"},
        {DLOCK_UNREACHABLE, "unreachable"},
        {DLOCK_DENIED, "denied"},
        {DLOCK_SERVER_LOADING, "loading"},
        {DLOCK_SERVER_BUSY, "busy"},
        {DLOCK_SERVER_OUT_OF_MEMORY, "full"},
        {DLOCK_SERVER_READ_ONLY, "read-only"},
        {DLOCK_PROTOCOL_ERROR, "not Redis"},
        {DLOCK_TLS_FAILED, "TLS failed"},
        {DLOCK_CLOSED, "closed"},
        {DLOCK_WRONG_KIND, "another kind of key"},
    };

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (words[i].status == status)
            return words[i].word;
    return "error";
}

static const char *said_by(const struct dli_round *round, const struct dli_share *share)
{
    const struct dli_voter *voter = &round->election.voter[share->node];

    if (!share->over)
        return "no answer";
    if (share->reason.code != DLOCK_OK)
        return word_for(share->reason.code);
    if (share->request->status != DLOCK_OK)
        return word_for(share->request->status);
    if (round->ops != &dli_election_round_ops)
        return "yes";
    return voter->vote == DLI_VOTE_HELD      ? "in use"
           : voter->vote == DLI_VOTE_WRITING ? "no answer"
           : voter->vote == DLI_VOTE_GATE    ? "gate closed"
           : voter->vote == DLI_VOTE_KIND    ? "another kind of key"
                                             : "yes";
}

/* Whether the server still has to answer the request, or a floor. */
static int is_silent(const struct dli_round *round, const struct dli_share *share)
{
    return !share->over ||
           (round->ops == &dli_election_round_ops && round->election.voter[share->node].vote == DLI_VOTE_WRITING);
}

/* The one status of all failed servers. DLOCK_UNREACHABLE if they differ, or are too few while others are silent. */
static dlock_status common_status(const struct dli_round *round)
{
    const struct dli_quorum *quorum = round->lane->quorum;
    dlock_status common = DLOCK_OK;
    int silent = 0, failed = 0;

    for (int i = 0; i < quorum->count; i++) {
        const struct dli_share *share = &round->share[i];
        dlock_status status = share->reason.code != DLOCK_OK ? share->reason.code : share->request->status;

        if (is_silent(round, share)) {
            silent++;
        } else if (status != DLOCK_OK && status != DLOCK_QUARANTINED) { /* those are answers */
            if (common != DLOCK_OK && status != common)
                return DLOCK_UNREACHABLE;
            common = status;
            failed++;
        }
    }
    if (common == DLOCK_OK || (silent > 0 && failed <= quorum->count - quorum->needed))
        return DLOCK_UNREACHABLE;
    return common;
}

void dli_round_fail(struct dli_round *round, const char *what, int agree)
{
    struct dli_quorum *quorum = round->lane->quorum;
    dlock_status status = common_status(round);
    char text[512];
    struct dli_text said = dli_text_in(text, sizeof text);

    dli_text_print(&said, "%d of %d servers %s, %d must:", agree, quorum->count, what, quorum->needed);
    for (int i = 0; i < quorum->count; i++)
        dli_text_print(&said, "%s %s %s", i ? "," : "", quorum->node[i].store->text, said_by(round, &round->share[i]));
    dli_fail(round->ballot->request.reason, status, "%s", text);
    dli_round_answer(round, status);
}

/* ---- life */

static void round_free(struct dli_round *round)
{
    struct dli_quorum *quorum = round->lane->quorum;

    if (round->ops->ended)
        round->ops->ended(round);
    dli_list_remove(&round->link);
    for (int i = 0; i < quorum->count; i++) {
        const struct dli_store_ops *ops = quorum->node[i].store->ops;

        ops->request_free(round->share[i].request);
        free(round->share[i].row);
        dli_findings_free(&round->share[i].found);
    }
    if (round->shared)
        dli_shared_place_unref(round->shared);
    free(round);
}

void dli_round_settle(struct dli_round *round, int64_t now)
{
    int must = round->busy == 0 || now >= round->said.deadline;

    if (round->ballot && round->begun)
        round->ops->decide(round, must, now);
    if (!round->ballot && round->busy == 0 && round->again == 0)
        round_free(round);
}

void dli_share_over(struct dli_share *share)
{
    struct dli_round *round = share->round;
    int64_t now = dli_now();

    share->over = 1;
    round->ops->answered(round, share, now);
    round->busy--;
    dli_round_settle(round, now);
}

static void share_done(struct dli_request *request)
{
    dli_share_over(request->context);
}

void dli_share_copy(struct dli_share *share, enum dli_stage stage)
{
    struct dli_round *round = share->round;

    const struct dli_quarantine *quarantine = share->request->quarantine; /* of that server's store */

    *share->request = round->said;
    share->request->quarantine = quarantine;
    share->stage = stage;
    share->request->place = round->shared ? round->shared->place : NULL;
}

void dli_share_send(struct dli_share *share, int urgent)
{
    struct dli_round *round = share->round;
    struct dli_store *store = round->lane->quorum->node[share->node].store;
    struct dli_lane *lane = round->lane->lane[share->node];
    struct dli_request *request = share->request;

    request->done = share_done;
    request->context = share;
    request->reason = &share->reason;
    request->repeatable = 1;
    share->reason.code = DLOCK_OK;
    share->reason.message[0] = '\0';
    round->busy++;
    round->lane->stirred = 1;
    request->status = urgent ? store->ops->push_urgent(lane, request) : store->ops->push(lane, request);
    if (request->status == DLOCK_OK)
        return;
    request->sent = request->refused = 0;
    share->over = 1;
    round->ops->answered(round, share, dli_now());
    round->busy--;
}

static int make_shares(struct dli_round *round)
{
    struct dli_quorum *quorum = round->lane->quorum;

    for (int i = 0; i < quorum->count; i++) {
        struct dli_store *store = quorum->node[i].store;
        struct dli_share *share = &round->share[i];

        share->round = round;
        share->node = i;
        if (!(share->request = store->ops->request_new(store)))
            return -1;
    }
    return round->said.verb == DLI_VERB_RENEW ? dli_renewal_round_init(round) : 0;
}

static const struct dli_round_ops *ops_for(const struct dli_request *request)
{
    if (request->verb == DLI_VERB_EXCHANGE)
        return request->exchange.wish.want ? &dli_election_round_ops : &dli_release_round_ops;
    if (request->verb == DLI_VERB_CHECK)
        return &dli_check_ops;
    if (request->verb == DLI_VERB_LIST)
        return &dli_list_ops;
    return request->verb == DLI_VERB_RENEW ? &dli_renewal_round_ops : &dli_poll_ops;
}

static void begin(struct dli_round *round, int64_t now)
{
    round->begun = 1;
    round->busy++; /* keeps the round while it begins */
    dli_round_wake(round, round->said.deadline);
    round->ops->begin(round, now);
    round->busy--;
    dli_round_settle(round, now);
}

/* A random pause before a contended lock: waiters that try again must not meet. */
static int64_t pause_before(struct dli_round *round, int64_t now)
{
    const struct dli_shared_place *shared = round->shared;
    int64_t range = 2000;

    if (round->ops != &dli_election_round_ops || !shared->contended || !round->said.exchange.wish.patient)
        return 0;
    for (int i = 0; i < shared->splits && i < 5; i++)
        range *= 2;
    if (range > (round->said.deadline - now) / 8)
        range = (round->said.deadline - now) / 8;
    return dli_lane_noise(round->lane, range);
}

void dli_round_start(struct dli_lane *lane, struct dli_ballot *ballot, int64_t now)
{
    int count = lane->quorum->count;
    struct dli_round *round = calloc(1, sizeof *round + (size_t)count * sizeof round->share[0]);
    int64_t pause;

    if (!round) {
        dli_ballot_answer(lane, ballot, DLOCK_OUT_OF_MEMORY);
        return;
    }
    round->lane = lane;
    round->ballot = ballot;
    round->said = ballot->request;
    round->ops = ops_for(&round->said);
    round->since = now;
    round->wake_at = INT64_MAX;
    dli_list_append(&lane->rounds, &round->link);
    ballot->request.sent = ballot->request.refused = 0;
    if (round->said.place)
        round->shared = dli_shared_place_ref(round->said.place->shared);
    if (make_shares(round)) {
        dli_round_answer(round, DLOCK_OUT_OF_MEMORY);
        round_free(round);
        return;
    }
    pause = pause_before(round, now);
    if (pause > 0)
        dli_round_wake(round, now + pause);
    else
        begin(round, now);
}

/* ---- time */

void dli_round_wake(struct dli_round *round, int64_t at)
{
    if (at < round->wake_at)
        round->wake_at = at;
    if (at < round->lane->wake_at)
        round->lane->wake_at = at;
}

int dli_round_grace(struct dli_round *round, int64_t now)
{
    int64_t until;

    if (!round->decided_at)
        round->decided_at = now;
    until = round->decided_at + (round->decided_at - round->since) + 1000;
    if (now >= until)
        return 1;
    dli_round_wake(round, until);
    return 0;
}

/* Repeat the releases that are due; with all, give them up. */
static void undo_again(struct dli_round *round, int64_t now, int all)
{
    for (int i = 0; i < round->lane->quorum->count; i++) {
        struct dli_share *share = &round->share[i];

        if (share->again_at && !all && now < share->again_at) {
            dli_round_wake(round, share->again_at);
        } else if (share->again_at) {
            share->again_at = 0;
            round->again--;
            round->lane->undoing--;
            if (!all)
                dli_release_round_undo(share, now);
        }
    }
}

static void woken(struct dli_round *round, int64_t now, int all)
{
    round->wake_at = INT64_MAX;
    if (!round->begun) {
        begin(round, now);
        return;
    }
    if (round->ballot && now < round->said.deadline)
        dli_round_wake(round, round->said.deadline);
    round->busy++;
    if (round->waits)
        dli_election_round_go(round, now);
    undo_again(round, now, all);
    round->busy--;
    dli_round_settle(round, all && now < round->said.deadline ? round->said.deadline : now);
}

void dli_round_wake_all(struct dli_lane *lane, int64_t now, int all)
{
    struct dli_link *link = lane->rounds.next;

    if (!all && now < lane->wake_at)
        return;
    lane->wake_at = INT64_MAX;
    while (link != &lane->rounds) {
        struct dli_round *round = DLI_OBJECT(link, struct dli_round, link);

        link = link->next;
        if (all || now >= round->wake_at)
            woken(round, now, all);
        else if (round->wake_at < lane->wake_at)
            lane->wake_at = round->wake_at;
    }
}
