/*
 * sim_kinds.c: worlds of other kinds than the mutex (--world): names, scripts and arguments. All machines of a process
 * (its sides) are of one name, and every owner's hold has one of its own, as in the library. For a read-write lock a
 * process has one for a reader and two for writers, of two owners. A grant goes from one to the other in memory, as
 * src/client/pass.c does it. See sim.h; the rules are in sim_kinds_check.c. "turns" is the fair lock with a machine for each
 * owner, see sim_turns.c; in "fair" a process has one.
 */
#include "sim.h"

#include <inttypes.h>
#include <string.h>

static const char *const worlds[SIM_WORLDS] = {"mutex", "fair", "rw", "semaphore", "permit", "turns"};

int sim_world_find(const char *name)
{
    for (int i = 0; i < SIM_WORLDS; i++)
        if (strcmp(worlds[i], name) == 0)
            return i;
    return -1;
}

int sim_shared(const struct sim *s)
{
    return s->world >= SIM_RW;
}

int sim_fair(const struct sim *s)
{
    return s->world == SIM_FAIR || s->world == SIM_TURNS;
}

int sim_writes(const struct sim *s, int lock)
{
    return s->world == SIM_RW && lock > 0;
}

/* The machine that the owner uses next. */
int sim_kinds_side(struct sim *s, const struct sim_owner *owner)
{
    if (s->world == SIM_RW)
        return owner->index ? 2 : (int)sim_below(s, 2);
    return sim_shared(s) ? owner->index : (int)sim_below(s, s->plan.locks);
}

/* Whether another one of the process waits for the same: it keeps the place in line. */
int sim_others_wait(const struct sim *s, const struct sim_peer *peer, int lock)
{
    for (int i = 0; i < s->plan.locks; i++)
        if (i != lock && sim_writes(s, i) == sim_writes(s, lock) && dli_mutex_waits(&peer->side[i].m))
            return 1;
    return 0;
}

/* Seeds choose a little differently here: no foreign clients, no force, no extends or moves. */
void sim_kinds_plan(struct sim *s)
{
    struct sim_plan *plan = &s->plan;

    plan->foreign = plan->fenced = plan->operations = 0;
    plan->owners = s->world == SIM_RW ? 2 : sim_shared(s) ? (int)sim_between(s, 1, SIM_SIDES) : 1;
    plan->locks = s->world == SIM_RW ? 3 : plan->owners + (s->world == SIM_TURNS);
    plan->procs = (int)sim_between(s, 3, SIM_PROCS);
    plan->chance[SIM_FORCE] = 0;
    plan->rules.handover_turns = sim_shared(s) ? plan->rules.handover_turns : 0;
    plan->rules.passes = s->world == SIM_TURNS ? DLI_PASS_NAMED : sim_shared(s) ? DLI_PASS_ANY : DLI_PASS_NONE;
    plan->rules.separate = 1;
    if (s->world == SIM_SEMAPHORE || s->world == SIM_PERMIT) {
        plan->rules.permits = sim_between(s, 1, 2);
        plan->total = plan->rules.permits * sim_between(s, 1, 3);
    }
    plan->rules.called = !sim_fair(s) && plan->rules.permits < 2;
    plan->rules.no_line = !sim_fair(s) && !plan->rules.called;
    if (s->world == SIM_SEMAPHORE) {
        plan->renew = 0;
        plan->rules.lives = plan->lease_max;
    }
}

void sim_kinds_name(struct sim *s, int index)
{
    struct sim_lock *lock = &s->lock[index];
    const char *tagged = "{stock}";

    snprintf(lock->name, sizeof lock->name, "stock");
    snprintf(lock->fence, sizeof lock->fence, "redisson_lock_token:%s", tagged);
    snprintf(lock->gate, sizeof lock->gate, "dlock_gate:%s", tagged);
    snprintf(lock->once, sizeof lock->once, "dlock_once:%s", tagged);
    snprintf(lock->turns, sizeof lock->turns, "dlock_turns:%s", tagged);
    snprintf(lock->channel, sizeof lock->channel, "redisson_%s:%s",
             sim_fair(s)          ? "lock__channel"
             : s->world == SIM_RW ? "rwlock"
                                  : "sc",
             tagged);
    if (sim_fair(s)) {
        snprintf(lock->line, sizeof lock->line, "redisson_lock_queue:%s", tagged);
        snprintf(lock->side, sizeof lock->side, "redisson_lock_timeout:%s", tagged);
        snprintf(lock->about, sizeof lock->about, "dlock_fair:%s", tagged);
    } else if (s->world == SIM_SEMAPHORE) {
        snprintf(lock->side, sizeof lock->side, "dlock_taken:%s", tagged);
        snprintf(lock->about, sizeof lock->about, "dlock_holders:%s", tagged);
    } else if (s->world == SIM_RW) {
        snprintf(lock->line, sizeof lock->line, "dlock_writer:%s", tagged);
        snprintf(lock->about, sizeof lock->about, "dlock_holds:%s", tagged);
    } else if (s->world == SIM_PERMIT) {
        snprintf(lock->side, sizeof lock->side, "%s:timeout", tagged);
    }
}

/* The semaphore has its permits from the start. */
void sim_kinds_open(struct sim *s)
{
    struct sim_reply reply;
    char total[24];

    if (!s->plan.total)
        return;
    snprintf(total, sizeof total, "%" PRId64, s->plan.total);
    s->store.now = sim_server_clock(s);
    s->store.oom = s->store.dirty = 0;
    sim_command(&s->store, (struct sim_word[]){sim_word("SET"), sim_word("stock"), sim_word(total)}, 3, &reply);
}

const char *sim_kinds_script(const struct sim *s, const struct sim_request *request)
{
    static const char *const acquire[] = {
        NULL, "fair_acquire", "read_acquire", "semaphore_acquire", "permit_acquire", "fair_acquire"};
    static const char *const release[] = {
        NULL, "fair_release", "read_release", "semaphore_release", "permit_release", "fair_release"};
    static const char *const renew[] = {NULL, "renew", "read_renew", "semaphore_renew", "permit_renew", "renew"};
    int writes = sim_writes(s, request->lock);

    if (request->kind == SIM_RECLAIM)
        return "semaphore_change";
    if (request->kind == SIM_RENEW)
        return renew[s->world];
    if (request->wish.want)
        return writes ? "write_acquire" : acquire[s->world];
    return writes ? "write_release" : release[s->world];
}

/* The wire id of a peer's number. Written by hand for speed: it is needed at every event. */
void sim_kinds_owner(const struct sim *s, int lock, int peer, int64_t number, char *text)
{
    const struct sim_peer *who = &s->peer[peer];
    char digits[24], *at = digits + sizeof digits;

    *--at = '\0';
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    text = stpcpy(stpcpy(stpcpy(text, who->uuid), ":"), at);
    strcpy(text, sim_writes(s, lock) ? ":write" : "");
}

static struct sim_word hold_key(struct sim *s, const struct sim_request *request, int64_t number)
{
    char *text = sim_alloc(s, 120), owner[80];

    sim_kinds_owner(s, request->lock, request->peer, number, owner);
    snprintf(text, 120, "{stock}:%s:rwlock_timeout:1", owner);
    return sim_word(text);
}

int sim_kinds_keys(struct sim *s, const struct sim_request *request, struct sim_word *keys)
{
    const struct sim_lock *lock = &s->lock[request->lock];
    int count = 0;

    keys[count++] = sim_word(lock->name);
    if (request->kind == SIM_RENEW) {
        if (s->world == SIM_RW)
            keys[count++] = hold_key(s, request, request->row[0].number);
        if (s->world == SIM_PERMIT)
            keys[count++] = sim_word(lock->side);
        else if (s->world == SIM_RW || s->world == SIM_SEMAPHORE)
            keys[count++] = sim_word(lock->about);
        return count;
    }
    keys[count++] = sim_word(lock->fence);
    if (sim_fair(s)) {
        keys[count++] = sim_word(lock->line);
        keys[count++] = sim_word(lock->side);
        keys[count++] = sim_word(lock->about);
        keys[count++] = sim_word(lock->gate);
        return count;
    }
    keys[count++] = sim_word(lock->gate);
    if (s->world == SIM_RW) {
        keys[count++] = hold_key(s, request, request->wish.want ? request->wish.want : request->wish.drop);
        keys[count++] = sim_word(lock->line);
    } else {
        keys[count++] = sim_word(lock->side);
        if (s->world == SIM_SEMAPHORE)
            keys[count++] = sim_word(lock->about);
    }
    keys[count++] = sim_word(lock->turns);
    keys[count++] = sim_word(s->world == SIM_RW ? lock->about : lock->once);
    return count;
}

/*
 * ---- turns in memory. A token was reserved by its process, and nobody else has it. In a process the tokens of turns only
 * go up.
 */

static int pass_to(struct sim *s, struct sim_peer *peer, int from, int to)
{
    struct dli_mutex *giver = &peer->side[from].m, *heir = &peer->side[to].m;
    int64_t now = sim_clock(s, peer), number = giver->want.number;

    if (to == from || sim_writes(s, to) != sim_writes(s, from) ||
        (s->world == SIM_TURNS && !sim_turns_next(s, peer, from, to)) || !dli_mutex_may_receive(heir, giver, now) ||
        !dli_spare_left(&peer->spare, peer->highest))
        return 0;
    sim_trace(s, "peer %d passes %" PRId64 " on from side %d to side %d", peer->index, number, from, to);
    if (s->world == SIM_TURNS)
        sim_turns_move(s, peer, from, to);
    dli_mutex_pass(giver, heir, dli_spare_take(&peer->spare), now);
    sim_number(s, peer, number)->lock = to;
    sim_service(s, peer, to);
    return 1;
}

int sim_pass(struct sim *s, const struct sim_owner *owner)
{
    struct sim_peer *peer = &s->peer[owner->peer];
    struct dli_mutex *m = &peer->side[owner->lock].m;
    int64_t now = sim_clock(s, peer);

    dli_mutex_tick(m, now);
    if (!sim_shared(s) || (s->world == SIM_RW && !sim_writes(s, owner->lock)) ||
        !dli_mutex_may_pass(m, owner->claim->c.owner, now))
        return 0;
    for (int i = 1, first = owner->lock; i < s->plan.locks; i++)
        if (pass_to(s, peer, first, (first + i) % s->plan.locks))
            return 1;
    return 0;
}

static int was_reserved(struct sim *s, struct sim_peer *peer, int64_t token)
{
    for (int64_t which = peer->numbers; which > 0; which--) {
        const struct sim_number *number = sim_number(s, peer, which);

        if (number->first && number->first <= token && token <= number->last)
            return 1;
    }
    return 0;
}

void sim_check_passed(struct sim *s, const struct sim_claim *claim)
{
    if (!was_reserved(s, &s->peer[claim->peer], claim->token))
        sim_violated(s, "fencing: token %" PRId64 " was not reserved by peer %d", claim->token, claim->peer);
    for (const struct sim_claim *other = s->claims; other; other = other->next) {
        if (other == claim)
            continue;
        if (other->token == claim->token)
            sim_violated(s, "fencing: token %" PRId64 " of peer %d and of peer %d", claim->token, claim->peer,
                         other->peer);
        if (claim->c.handed && other->peer == claim->peer && other->token > claim->token)
            sim_violated(s, "fencing: peer %d hands over token %" PRId64 " after %" PRId64, claim->peer, claim->token,
                         other->token);
    }
}
