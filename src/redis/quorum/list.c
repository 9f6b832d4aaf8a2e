/*
 * list.c: rounds that ask one server for names, on the lane's thread. Names belong to the share until the answer.
 */
#include <stdlib.h>

#include "inner.h"

static struct dli_share *asked(struct dli_round *round)
{
    return &round->share[round->said.list.server];
}

static void begin(struct dli_round *round, int64_t now)
{
    (void)now;
    round->tally = (struct dli_tally){.count = 1, .needed = 1};
    dli_share_copy(asked(round), DLI_STAGE_REQUEST);
    dli_share_send(asked(round), 0);
}

static void answered(struct dli_round *round, struct dli_share *share, int64_t now)
{
    (void)now;
    round->tally.yes += share->request->status == DLOCK_OK;
    round->tally.unknown += share->request->status != DLOCK_OK;
}

static void decide(struct dli_round *round, int must, int64_t now)
{
    struct dli_request *original = &round->ballot->request, *request = asked(round)->request;
    dlock_error *reason = &asked(round)->reason;
    dlock_status status = asked(round)->over ? request->status : DLOCK_UNREACHABLE;

    (void)now;
    if (!must && !asked(round)->over)
        return;
    if (status == DLOCK_OK) {
        original->list = request->list;
        request->list.names = NULL;
    } else if (asked(round)->over && reason->message[0]) {
        dli_fail(original->reason, status, "%s", reason->message);
    }
    dli_round_answer(round, status);
}

static void ended(struct dli_round *round)
{
    if (asked(round)->request)
        free(asked(round)->request->list.names);
}

int dli_list_next(struct dli_store *store, int server)
{
    return server + 1 < dli_quorum_of(store)->count ? server + 1 : -1;
}

const struct dli_round_ops dli_list_ops = {begin, answered, decide, ended};
