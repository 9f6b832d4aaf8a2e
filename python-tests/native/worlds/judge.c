/*
 * judge.c: the rules.
 *
 *   exclusion   who is granted a lock is alone with it, by what all others believe at that moment; no more permits are held
 *               than there are
 *   tokens      grow for each name, readers and those who share permits among themselves excepted
 *   deadline    nobody believes in a claim that the server has dropped
 *   told        who cannot believe any more hears LOST soon, once
 *   operators   who lost a claim by an operator's hand stops believing within a lease
 *   time        a call ends when its time is over
 *   stuck       all calls end
 *   left        when all is over the server has nothing of ours
 */
#include "worlds.h"

enum { SOON = W_SECOND, SLACK = 2 * W_SECOND };

int w_believes(const struct w_owner *owner)
{
    struct w_process *before = w.current;
    int32_t state = DLOCK_STATE_NONE;

    if (owner->state != W_HOLDING || owner->process->crashed || owner->process->closing)
        return 0;
    w.current = owner->process;
    dlock_lock_state(owner->process->lock[owner->lock][owner->side], owner->number, &state, NULL);
    w.current = before;
    return state == DLOCK_STATE_HELD || state == DLOCK_STATE_AT_RISK;
}

static void each_owner(void (*visit)(struct w_owner *owner, void *context), void *context)
{
    for (int i = 0; i < w.plan.processes; i++)
        for (int k = 0; k < w.plan.owners; k++)
            visit(&w.process[i].owner[k], context);
}

/* ---- grants */

static int rivals(const struct w_owner *a, const struct w_owner *b)
{
    return a != b && a->lock == b->lock && (!w.plan.shared || a->side || b->side);
}

static void excludes(struct w_owner *owner, void *context)
{
    const struct w_owner *granted = context;

    if (!rivals(granted, owner) || !w_believes(owner) || owner->forced_at || granted->forced_at)
        return;
    w_violated("exclusion: %d.%lld and %d.%lld both have lock %d, tokens %lld and %lld", owner->process->index,
               (long long)owner->number, granted->process->index, (long long)granted->number, granted->lock,
               (long long)owner->token, (long long)granted->token);
}

struct taken {
    const struct w_owner *granted;
    int permits;
};

static void add_permits(struct w_owner *owner, void *context)
{
    struct taken *taken = context;
    const struct w_owner *granted = taken->granted;

    if (owner->lock != granted->lock || !w_believes(owner) || owner->forced_at)
        return;
    taken->permits += w_permits_of(owner->side);
    if (owner != granted && owner->token == granted->token)
        w_violated("tokens: %d.%lld and %d.%lld both have %lld", owner->process->index, (long long)owner->number,
                   granted->process->index, (long long)granted->number, (long long)owner->token);
}

static void check_permits(const struct w_owner *granted)
{
    struct taken taken = {granted, 0};

    each_owner(add_permits, &taken);
    if (taken.permits > w.plan.permits)
        w_violated("exclusion: %d permits of lock %d are held, and there are %d", taken.permits, granted->lock,
                   w.plan.permits);
}

/*
 * A reader's token must be above those of writers only: readers hear of their grants in any order. So do those who share
 * permits.
 */
static void check_token(const struct w_owner *owner)
{
    int64_t *highest = w.highest[owner->lock];
    int writes = w.plan.permits ? w.plan.permits == 1 : !w.plan.shared || owner->side;

    if (owner->forced_at)
        return; /* an operator took it while it was told of its grant */
    if (owner->token <= highest[1] || (writes && owner->token <= highest[0]))
        w_violated("tokens: %lld for lock %d after %lld and %lld", (long long)owner->token, owner->lock,
                   (long long)highest[0], (long long)highest[1]);
    if (owner->token > highest[writes])
        highest[writes] = owner->token;
}

void w_judge_granted(struct w_owner *owner)
{
    int64_t took = w.now - owner->process->paused_for - owner->asked_at;

    for (int i = 0; i < W_FORCED; i++)
        if (w.forced[i] == w.model->claim_of(owner))
            owner->forced_at = w.now - owner->process->paused_for;
    w.stats.grants++;
    if (!w_believes(owner))
        return; /* it was paused, or the answer was late: its deadline was over already */
    if (w.plan.permits)
        check_permits(owner);
    else
        each_owner(excludes, owner);
    check_token(owner);
    if (owner->wait >= 0 && took > owner->wait + SLACK)
        w_violated("time: a call for %lld ms took %lld", (long long)owner->wait / W_MS, (long long)took / W_MS);
}

/* ---- what the server drops */

struct dropped {
    int64_t claim;
    int forced, mark;
};

static void drop(struct w_owner *owner, void *context)
{
    const struct dropped *dropped = context;

    if (owner->state != W_HOLDING || w.model->claim_of(owner) != dropped->claim)
        return;
    if (dropped->mark)
        owner->forced_at = owner->forced_at ? owner->forced_at : w.now - owner->process->paused_for;
    else if (!dropped->forced && !owner->forced_at && w_believes(owner))
        w_violated("deadline: the server has dropped the claim of %d.%lld, token %lld, which believes in it",
                   owner->process->index, (long long)owner->number, (long long)owner->token);
}

void w_judge_freed(int64_t claim, int forced)
{
    each_owner(drop, &(struct dropped){.claim = claim, .forced = forced});
}

void w_judge_forced(int64_t claim)
{
    w.forced[w.forced_count++ % W_FORCED] = claim;
    each_owner(drop, &(struct dropped){.claim = claim, .mark = 1});
}

/* ---- after each turn */

static void check_told(struct w_owner *owner)
{
    int64_t now = w.now - owner->process->paused_for;

    if (owner->state != W_HOLDING)
        return;
    if (w_believes(owner)) {
        owner->doubted_at = 0;
        if (w.model->has && !owner->forced_at && !w.model->has(owner))
            w_violated("deadline: %d.%lld believes in token %lld, which the server does not have",
                       owner->process->index, (long long)owner->number, (long long)owner->token);
        if (owner->forced_at && now > owner->forced_at + w.plan.lease + SLACK)
            w_violated("operators: %d.%lld believes for more than a lease", owner->process->index,
                       (long long)owner->number);
    } else if (!owner->doubted_at) {
        owner->doubted_at = now;
    } else if (!owner->told && now > owner->doubted_at + SOON) {
        w_violated("told: %d.%lld lost token %lld and did not hear of it", owner->process->index,
                   (long long)owner->number, (long long)owner->token);
    }
}

void w_judge_turn(struct w_process *process)
{
    for (int i = 0; i < w.plan.owners && !process->closing && !process->crashed; i++)
        check_told(&process->owner[i]);
}

/* ---- the end */

static void check_end(struct w_owner *owner, void *context)
{
    (void)context;
    if (owner->state != W_IDLE)
        w_violated("stuck: owner %d.%lld is in state %d with lock %d, since %lld ms", owner->process->index,
                   (long long)owner->number, (int)owner->state, owner->lock,
                   (long long)(w.now - owner->asked_at) / W_MS);
}

void w_judge_end(void)
{
    char name[W_KEY] = "";
    int count;

    each_owner(check_end, NULL);
    for (int i = 0; i < w.plan.processes; i++)
        if (!w.process[i].crashed && !w.process[i].closed)
            w_violated("stuck: process %d does not end", i);
    if ((count = w.model->left(name)) > 0)
        w_violated("left: %d claims, one is %s", count, name);
}
