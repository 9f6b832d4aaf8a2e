/*
 * renewal.c: rounds that renew holds, on the lane's thread. A hold is kept when enough servers confirm it. It is lost
 * when so many servers lack it that enough can never confirm it. After the answer, servers that lack a kept hold get it
 * again, unless it is being released or somebody else has the lock there.
 */
#include "inner.h"

#include <stdlib.h>
#include <string.h>

static int rows(const struct dli_round *round)
{
    return round->said.renew.count;
}

/* Copy the rows for one server, and with them the transfer, which has a result of its own. NULL without memory. */
static struct dli_renewal *copy_rows(const struct dli_renewal *row, size_t count)
{
    const struct dli_transfer *transfer = row[0].transfer;
    struct dli_renewal *own = malloc(count * sizeof *own + (transfer ? sizeof *transfer : 0));

    if (!own)
        return NULL;
    memcpy(own, row, count * sizeof *own);
    if (transfer)
        own[0].transfer = memcpy(own + count, transfer, sizeof *transfer);
    return own;
}

/* The places in the caller's rows may be freed after the answer. The round refers to the servers' places instead. */
int dli_renewal_round_init(struct dli_round *round)
{
    const struct dli_renewal *row = round->said.renew.row;
    size_t count = (size_t)rows(round);

    if (!(round->kept = calloc(count, sizeof *round->kept)))
        return -1;
    for (size_t i = 0; i < count; i++) {
        round->kept[i].shared = dli_shared_place_ref(row[i].place->shared);
        memcpy(round->kept[i].id, dli_renewal_id(&row[i]), DLI_OWNER_MAX);
    }
    for (int node = 0; node < round->lane->quorum->count; node++) {
        struct dli_renewal *own = round->share[node].row = copy_rows(row, count);

        if (!own)
            return -1;
        for (size_t i = 0; i < count; i++)
            own[i].place = round->kept[i].shared->place;
    }
    return 0;
}

static void ended(struct dli_round *round)
{
    for (int i = 0; round->kept && i < rows(round); i++)
        dli_shared_place_unref(round->kept[i].shared);
    free(round->kept);
}

void dli_renewal_round_dropped(struct dli_lane *lane, const char *id)
{
    for (struct dli_link *link = lane->rounds.next; link != &lane->rounds; link = link->next) {
        struct dli_round *round = DLI_OBJECT(link, struct dli_round, link);

        for (int i = 0; round->kept && i < rows(round); i++)
            round->kept[i].dropped |= strcmp(round->kept[i].id, id) == 0;
    }
}

static void begin(struct dli_round *round, int64_t now)
{
    const struct dli_quorum *quorum = round->lane->quorum;

    dli_membership_query(round->lane, now);
    for (int i = 0; i < rows(round); i++)
        round->kept[i].tally = (struct dli_tally){.count = quorum->count, .needed = quorum->needed};
    for (int i = 0; i < quorum->count; i++) {
        struct dli_share *share = &round->share[i];

        dli_share_copy(share, DLI_STAGE_REQUEST);
        share->request->renew.row = share->row;
        dli_share_send(share, 1);
    }
}

/* Move the kept holds that the server lacks to the front of its rows. Returns how many there are. */
static int lacking(const struct dli_round *round, struct dli_share *share)
{
    int found = 0;

    for (int i = 0; i < rows(round); i++) {
        struct dli_renewal row = share->row[i];

        if (row.kept || round->kept[i].dropped || dli_tally_verdict(&round->kept[i].tally) != DLI_VERDICT_YES)
            continue;
        share->row[i] = share->row[found];
        share->row[found++] = row;
    }
    return found;
}

static void give_again(struct dli_share *share)
{
    struct dli_round *round = share->round;
    int count = lacking(round, share);

    if (count == 0)
        return;
    dli_share_copy(share, DLI_STAGE_AGAIN);
    share->request->renew.row = share->row;
    share->request->renew.count = count;
    share->request->renew.again = 1;
    dli_share_send(share, 0);
}

static int was_answered(const struct dli_share *share)
{
    return share->stage == DLI_STAGE_REQUEST && share->over && share->request->status == DLOCK_OK;
}

/* Whether two servers say the same of a hold that moves. */
static int agree(const struct dli_share *one, const struct dli_share *other)
{
    const struct dli_transfer *a = one->row[0].transfer, *b = other->row[0].transfer;

    return was_answered(other) && other->row[0].kept && a->token == b->token && a->lease == b->lease;
}

/*
 * Count for a hold that moves. A server that says another token or lease than most others does not count for it. The caller
 * gets what most say.
 */
static void count_transfer(struct dli_round *round)
{
    struct dli_tally *tally = &round->kept[0].tally;
    int count = round->lane->quorum->count, known = 0;

    tally->yes = 0;
    for (int i = 0; i < count; i++) {
        const struct dli_share *share = &round->share[i];
        int with = 0;

        known += was_answered(share);
        for (int other = 0; was_answered(share) && share->row[0].kept && other < count; other++)
            with += agree(share, &round->share[other]);
        if (with <= tally->yes)
            continue;
        tally->yes = with;
        round->kept[0].speaker = i;
    }
    tally->no = known - tally->yes;
}

static void answered(struct dli_round *round, struct dli_share *share, int64_t now)
{
    int known = share->request->status == DLOCK_OK;

    (void)now;
    for (int i = 0; share->stage == DLI_STAGE_REQUEST && i < rows(round); i++) {
        round->kept[i].tally.yes += known && share->row[i].kept;
        round->kept[i].tally.no += known && !share->row[i].kept;
        round->kept[i].tally.unknown += !known;
    }
    if (share->stage == DLI_STAGE_REQUEST && share->row[0].transfer)
        count_transfer(round);
    if (!round->ballot && was_answered(share))
        give_again(share);
}

/* What the servers say of a hold that moves. When most have done it, one that refused the proof does not count. */
static void write_transfer(const struct dli_round *round, struct dli_renewal *row)
{
    const struct dli_transfer *said = round->share[round->kept[0].speaker].row[0].transfer;
    struct dli_transfer *transfer = row->transfer;

    if (row->kept == 1) {
        transfer->token = said->token;
        transfer->lease = said->lease;
    }
    transfer->forged = 0;
    for (int i = 0; row->kept != 1 && i < round->lane->quorum->count; i++)
        transfer->forged |= was_answered(&round->share[i]) && round->share[i].row[0].transfer->forged;
}

/* Write the results into the caller's rows. Returns how many are known. */
static int write_results(struct dli_round *round)
{
    struct dli_renewal *row = round->ballot->request.renew.row;
    int known = 0;

    for (int i = 0; i < rows(round); i++) {
        enum dli_verdict verdict = dli_tally_verdict(&round->kept[i].tally);

        row[i].kept = verdict == DLI_VERDICT_YES ? 1 : verdict == DLI_VERDICT_NO ? 0 : -1;
        known += row[i].kept >= 0;
    }
    if (row[0].transfer)
        write_transfer(round, &row[0]);
    return known;
}

static int all_decided(const struct dli_round *round)
{
    for (int i = 0; i < rows(round); i++)
        if (dli_tally_verdict(&round->kept[i].tally) == DLI_VERDICT_OPEN)
            return 0;
    return 1;
}

static void decide(struct dli_round *round, int must, int64_t now)
{
    (void)now;
    if (!must && !all_decided(round))
        return;
    if (write_results(round) > 0) {
        dli_round_answer(round, DLOCK_OK);
    } else {
        round->ballot->request.sent = 1;
        dli_round_fail(round, "confirm it", round->kept[0].tally.yes);
        return;
    }
    for (int i = 0; i < round->lane->quorum->count; i++)
        if (was_answered(&round->share[i]))
            give_again(&round->share[i]);
}

const struct dli_round_ops dli_renewal_round_ops = {begin, answered, decide, ended};
