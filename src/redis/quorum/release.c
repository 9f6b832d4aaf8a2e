/*
 * release.c: rounds that release an id on all servers, on the lane's thread. A server that does not answer gets the request
 * again in the background, until it must have forgotten the id by itself. Times in microseconds.
 *
 * OK and released: enough servers had the id, or may have had it. OK and not released: so many did not have it that it
 * cannot have held the lock.
 */
#include "inner.h"

#include <string.h>

#include "sys/sys.h"

enum { PAUSE = 200000, UNDOING_MOST = 4096 };

static void send(struct dli_share *share, const char *id, int64_t deadline)
{
    struct dli_exchange *exchange = &share->request->exchange;
    enum dli_stage stage = share->stage;

    dli_share_copy(share, stage);
    exchange->wish.want = 0;
    exchange->wish.drop = 1;
    exchange->wish.listening = INT32_MAX; /* no foreign client gets a turn: our waiters subscribe there */
    memcpy(exchange->drop, id, DLI_OWNER_MAX);
    exchange->want[0] = exchange->under[0] = '\0';
    share->request->deadline = deadline;
    dli_share_send(share, 0);
}

void dli_release_round_undo(struct dli_share *share, int64_t now)
{
    struct dli_round *round = share->round;
    const struct dli_exchange *said = &round->said.exchange;

    share->stage = DLI_STAGE_UNDO;
    if (now >= round->until)
        return;
    send(share, said->wish.want ? said->want : said->drop, now + round->lane->quorum->patience);
}

void dli_release_round_later(struct dli_share *share, int64_t now)
{
    struct dli_round *round = share->round;
    dlock_status status = share->request->status;

    if (status != DLOCK_UNREACHABLE && status != DLOCK_SERVER_LOADING && status != DLOCK_SERVER_BUSY)
        return;
    if (now >= round->until || round->lane->undoing >= UNDOING_MOST)
        return;
    share->again_at = now + PAUSE + dli_lane_noise(round->lane, PAUSE);
    round->again++;
    round->lane->undoing++;
    dli_round_wake(round, share->again_at);
}

static void begin(struct dli_round *round, int64_t now)
{
    struct dli_quorum *quorum = round->lane->quorum;

    round->tally = (struct dli_tally){.count = quorum->count, .needed = quorum->needed};
    round->until = now + 2 * round->said.exchange.wish.lease;
    dli_election_round_dropped(round->lane, round->shared, round->said.exchange.drop);
    dli_renewal_round_dropped(round->lane, round->said.exchange.drop);
    for (int i = 0; i < quorum->count; i++) {
        round->share[i].stage = DLI_STAGE_REQUEST;
        send(&round->share[i], round->said.exchange.drop, round->said.deadline);
    }
}

static void answered(struct dli_round *round, struct dli_share *share, int64_t now)
{
    const struct dli_request *request = share->request;

    if (share->stage == DLI_STAGE_REQUEST) {
        int known = request->status == DLOCK_OK, released = known && request->exchange.answer.released;

        round->tally.yes += released;
        round->tally.no += known && !released;
        round->tally.unknown += !known;
    }
    share->stage = DLI_STAGE_UNDO;
    dli_release_round_later(share, now);
}

static void answer(struct dli_round *round, int released)
{
    round->ballot->request.exchange.answer = (struct dli_answer){.released = released};
    dli_round_answer(round, DLOCK_OK);
}

static void decide(struct dli_round *round, int must, int64_t now)
{
    const struct dli_tally *tally = &round->tally;
    enum dli_verdict verdict = dli_tally_verdict(tally);
    int answers = tally->yes + tally->no;

    if (verdict == DLI_VERDICT_YES || verdict == DLI_VERDICT_NO) {
        answer(round, verdict == DLI_VERDICT_YES);
    } else if (answers >= tally->needed && (must || dli_round_grace(round, now))) {
        answer(round, 1);
    } else if (must) {
        round->ballot->request.sent = 1;
        round->until = 0; /* the caller tries again */
        dli_round_fail(round, "answer", answers);
    }
}

const struct dli_round_ops dli_release_round_ops = {begin, answered, decide, NULL};
