/*
 * check.c: rounds that check every server, on the lane's thread. A round waits for all servers until its deadline. A
 * server that does not answer is a finding too. If too few answer, the check fails. Also, what the store can do.
 */
#include "store/store.h"
#include "inner.h"

static void begin(struct dli_round *round, int64_t now)
{
    const struct dli_quorum *quorum = round->lane->quorum;

    (void)now;
    round->tally = (struct dli_tally){.count = quorum->count, .needed = quorum->needed};
    for (int i = 0; i < quorum->count; i++) {
        struct dli_share *share = &round->share[i];

        dli_share_copy(share, DLI_STAGE_REQUEST);
        share->request->check.found = &share->found;
        dli_share_send(share, 0);
    }
}

static void answered(struct dli_round *round, struct dli_share *share, int64_t now)
{
    (void)now;
    round->tally.yes += share->request->status == DLOCK_OK;
}

static void sum(struct dli_round *round)
{
    struct dli_request *original = &round->ballot->request;
    dlock_status status = DLOCK_OK;

    original->check.found->count = 0;
    for (int i = 0; i < round->lane->quorum->count && status == DLOCK_OK; i++) {
        struct dli_share *share = &round->share[i];
        const char *where = round->lane->quorum->node[i].store->text;
        struct dli_request silent = {.status = DLOCK_UNREACHABLE};

        status = dli_check_sum(original, share->over ? share->request : &silent, &share->found, &share->reason, where);
    }
    dli_round_answer(round, status);
}

static void decide(struct dli_round *round, int must, int64_t now)
{
    (void)now;
    if (!must)
        return;
    if (round->tally.yes >= round->tally.needed) {
        sum(round);
        return;
    }
    round->ballot->request.sent = 1;
    dli_round_fail(round, "answer", round->tally.yes);
}

const struct dli_round_ops dli_check_ops = {begin, answered, decide, NULL};

/* ---- what the store can do */

const struct dli_store_traits dli_quorum_traits = {
    .where = "on a quorum of servers",
    .kinds_text = "mutexes",
    .kinds = 1U << DLOCK_KIND_MUTEX,
    .can = DLI_CAN_GATE | DLI_CAN_ADOPT,
};
