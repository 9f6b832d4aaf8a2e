/*
 * poll.c: rounds that ask each server once: force, gates, inspection, provision, ping. Enough answers decide; later
 * ones are ignored. The lane's thread.
 */
#include "inner.h"

#include <string.h>

static void begin(struct dli_round *round, int64_t now)
{
    const struct dli_quorum *quorum = round->lane->quorum;

    (void)now;
    round->tally = (struct dli_tally){.count = quorum->count, .needed = quorum->needed};
    for (int i = 0; i < quorum->count; i++) {
        dli_share_copy(&round->share[i], DLI_STAGE_REQUEST);
        dli_share_send(&round->share[i], 0);
    }
}

/* NOT_HELD, WRONG_KIND and statuses like UNCHANGED are answers. */
static int was_answered(const struct dli_share *share)
{
    dlock_status status = share->request->status;

    return share->over && (status >= DLOCK_OK || status == DLOCK_NOT_HELD || status == DLOCK_WRONG_KIND);
}

static void answered(struct dli_round *round, struct dli_share *share, int64_t now)
{
    (void)now;
    round->tally.yes += was_answered(share);
    round->tally.unknown += !was_answered(share);
}

/* ---- the sum of the answers */

/* DLOCK_OK if one server did it; else the most frequent status. */
static dlock_status sum_of_deeds(const struct dli_round *round)
{
    int count = round->lane->quorum->count, most = 0;
    dlock_status result = DLOCK_UNREACHABLE;

    for (int i = 0; i < count; i++) {
        int same = 0;

        if (!was_answered(&round->share[i]))
            continue;
        if (round->share[i].request->status == DLOCK_OK)
            return DLOCK_OK;
        for (int j = 0; j < count; j++)
            same +=
                was_answered(&round->share[j]) && round->share[j].request->status == round->share[i].request->status;
        if (same > most)
            result = round->share[i].request->status;
        most = same > most ? same : most;
    }
    return result;
}

/* The gate is closed if at least half of the answers say so, for the longest time that any says. */
static void sum_of_gates(const struct dli_round *round, struct dli_request *original)
{
    int closed = 0;
    int64_t most = -1;

    for (int i = 0; i < round->lane->quorum->count; i++) {
        const struct dli_request *request = round->share[i].request;

        if (!was_answered(&round->share[i]))
            continue;
        closed += request->gate_ms >= 0;
        most = request->gate_ms > most ? request->gate_ms : most;
    }
    original->gate_ms = 2 * closed >= round->tally.yes ? most : -1;
}

static int same_holder(const struct dli_round *round, int i, int64_t *least_ms)
{
    const struct dli_inspection *inspection = &round->share[i].request->inspection;
    int same = 0;

    *least_ms = inspection->left_ms;
    for (int j = 0; j < round->lane->quorum->count; j++) {
        const struct dli_inspection *other = &round->share[j].request->inspection;

        if (!was_answered(&round->share[j]) || strcmp(inspection->holder, other->holder) != 0)
            continue;
        same++;
        *least_ms = other->left_ms < *least_ms ? other->left_ms : *least_ms;
    }
    return same;
}

/*
 * The holder that most servers name; in a tie, a holder rather than nobody. The number of waiters is unknown (-1): they
 * stand in no line. A key of another kind names nobody.
 */
static dlock_status sum_of_inspections(const struct dli_round *round, struct dli_request *original)
{
    struct dli_inspection *sum = &original->inspection;
    int most = 0;

    *sum = (struct dli_inspection){.left_ms = -2, .waiters = -1};
    for (int i = 0; i < round->lane->quorum->count; i++) {
        const struct dli_inspection *inspection = &round->share[i].request->inspection;
        int64_t least_ms;
        int same;

        if (!was_answered(&round->share[i]))
            continue;
        same = same_holder(round, i, &least_ms);
        if (same > most || (same == most && !sum->holder[0])) {
            memcpy(sum->holder, inspection->holder, sizeof sum->holder);
            sum->left_ms = least_ms;
            most = same;
        }
        sum->token = inspection->token > sum->token ? inspection->token : sum->token;
        sum->now_us = inspection->now_us > sum->now_us ? inspection->now_us : sum->now_us;
    }
    return sum_of_deeds(round);
}

static void sum(struct dli_round *round)
{
    struct dli_request *original = &round->ballot->request;
    dlock_status status = DLOCK_OK;

    if (original->verb == DLI_VERB_INSPECT)
        status = sum_of_inspections(round, original);
    else if (original->verb == DLI_VERB_GATE_LEFT)
        sum_of_gates(round, original);
    else if (original->verb == DLI_VERB_FORCE || original->verb == DLI_VERB_GATE ||
             original->verb == DLI_VERB_PROVISION)
        status = sum_of_deeds(round);
    dli_round_answer(round, status);
}

static void decide(struct dli_round *round, int must, int64_t now)
{
    enum dli_verdict verdict = dli_tally_verdict(&round->tally);
    int all = round->tally.yes + round->tally.unknown == round->tally.count;

    if (verdict == DLI_VERDICT_YES) {
        if (all || must || round->said.verb == DLI_VERB_PING || dli_round_grace(round, now))
            sum(round);
    } else if (must || verdict == DLI_VERDICT_NONE) {
        round->ballot->request.sent = 1;
        dli_round_fail(round, "answer", round->tally.yes);
    }
}

const struct dli_round_ops dli_poll_ops = {begin, answered, decide, NULL};
