/*
 * fuzz_engine.c: the mutex machine (engine/mutex.h) under any sequence of requests, answers, messages and time. The
 * caller obeys the header; the server may reply anything. After every step:
 *
 *   one holder    at most one claim is HELD, and the machine knows it
 *   deadline      a holder's time ends before the end that the server promised with any grant or renewal it may have
 * made
 *   tokens        every turn has a higher token than the one before
 *   alarm         while a claim waits, holds or leaves, the machine wants to be called again, and then makes progress
 *   no claim lost every claim that was handed in is in the machine, or came out of it once; at the end all have come
 * out
 */
#include "engine/mutex.h"
#include "fuzz.h"

enum { CLAIMS = 16, OWNERS = 4, LOOKS = 64, STEPS = 300, MS = 1000, ROUNDS = 4 };

enum place { FREE, INSIDE, HOLDING, SEEN_LOST };

/* A probe that may have reached the server. */
struct look {
    int64_t seq, stamp, lease;
};

struct world {
    struct dli_mutex m;
    struct dli_mutex_rules rules;
    struct dli_claim claim[CLAIMS];
    struct dli_limits limits[CLAIMS];
    enum place place[CLAIMS];
    int64_t numbers, now, promised, last_token, renewing, renew_stamp, renew_lease;
    int64_t looks_of; /* the number they belong to */
    struct look look[LOOKS];
    int looks, adopting, over;
    enum dli_line line;
};

static int index_of(const struct world *w, const struct dli_claim *claim)
{
    return (int)(claim - w->claim);
}

/* ---- promises that the server may have made */

static int64_t most(const struct world *w, int64_t stamp, int64_t lease)
{
    return lease == DLI_NEVER ? DLI_NEVER : dli_later(stamp, lease - lease / 1000000 * w->rules.drift_ppm);
}

static void promise(struct world *w, int64_t until)
{
    w->promised = until > w->promised ? until : w->promised;
}

/* By a message that was sent when probe seq was known, or a later one. */
static void promise_pushed(struct world *w, int64_t seq)
{
    int64_t least = DLI_NEVER;

    for (int i = 0; i < w->looks; i++)
        if (w->look[i].seq >= seq)
            least = dli_earlier(least, most(w, w->look[i].stamp, w->look[i].lease));
    promise(w, least);
}

static void note_look(struct world *w, const struct dli_wish *wish, int64_t stamp)
{
    if (wish->want != w->looks_of)
        w->looks = 0;
    w->looks_of = wish->want;
    if (w->looks == LOOKS) {
        memmove(w->look, w->look + 1, sizeof w->look - sizeof w->look[0]);
        w->looks--;
    }
    w->look[w->looks++] = (struct look){wish->seq, stamp, wish->lease};
}

/* A probe did not reach the server, or the server has forgotten it. */
static void forget_look(struct world *w, int64_t seq)
{
    int left = 0;

    for (int i = 0; i < w->looks; i++)
        if (w->look[i].seq != seq)
            w->look[left++] = w->look[i];
    w->looks = left;
}

/* ---- results */

static void take_done(struct world *w)
{
    struct dli_link *link;

    while ((link = dli_ring_pop(&w->m.done))) {
        struct dli_claim *claim = DLI_OBJECT(link, struct dli_claim, link);
        int i = index_of(w, claim);

        REQUIRE(w->place[i] != FREE);
        if (claim->state == DLI_CLAIM_HELD) {
            REQUIRE(w->place[i] == INSIDE && claim->result == DLOCK_OK && claim->count >= 1);
            REQUIRE(claim->token > w->last_token);
            w->last_token = claim->token;
            w->place[i] = HOLDING;
        } else if (claim->state == DLI_CLAIM_LOST) { /* granted and lost before anybody checked */
            fuzz_broken("a lost claim is not done", __FILE__, __LINE__);
        } else {
            REQUIRE(claim->state == DLI_CLAIM_DONE);
            dli_ring_remove(&w->m.reports, &claim->report);
            w->place[i] = FREE;
        }
    }
    while ((link = dli_ring_pop(&w->m.reports)))
        DLI_OBJECT(link, struct dli_claim, report)->reports = 0;
}

/* A claim that ended without the list. */
static void take_settled(struct world *w, struct dli_claim *claim)
{
    if (!claim || claim->state != DLI_CLAIM_DONE)
        return;
    dli_ring_remove(&w->m.reports, &claim->report);
    w->place[index_of(w, claim)] = FREE;
}

static void send(struct world *w)
{
    struct dli_wish wish;

    if (w->over || !dli_mutex_wish(&w->m, w->line, w->now, &wish))
        return;
    REQUIRE(!w->m.active->sent.in_flight && (wish.want || wish.drop) && wish.want != wish.drop && wish.lease >= 0);
    REQUIRE(!wish.want || (wish.want == w->m.want.number && wish.want <= w->numbers && wish.block >= 1));
    REQUIRE(!wish.drop || wish.drop == w->m.active->drop.number);
    REQUIRE(!(w->rules.separate && wish.want && wish.drop));
    if (wish.want)
        note_look(w, &wish, w->now);
    dli_mutex_sent(&w->m, &wish, w->now);
}

/* The steps of the entry after each call. */
static void pump(struct world *w)
{
    take_done(w);
    send(w);
    take_done(w);
    if (!w->renewing && dli_mutex_renewal(&w->m, w->now)) {
        w->renewing = dli_mutex_renewal(&w->m, w->now);
        w->renew_stamp = w->now;
        w->renew_lease = w->m.grant.lease;
        REQUIRE(w->renewing == w->m.want.number && dli_mutex_owned(&w->m));
        dli_mutex_renewing(&w->m);
    }
    dli_active_trim(&w->m);
}

/* ---- the rules */

static int in_list(const struct dli_link *list, const struct dli_claim *claim)
{
    int times = 0;

    for (const struct dli_link *link = list->next; link != list; link = link->next)
        times += DLI_OBJECT(link, struct dli_claim, link) == claim;
    return times;
}

static int in_ring(const struct dli_ring *ring, const struct dli_claim *claim)
{
    int times = 0;

    for (struct dli_link *link = dli_ring_first(ring); link; link = dli_ring_next(ring, link))
        times += DLI_OBJECT(link, struct dli_claim, link) == claim;
    return times;
}

static void check_claims(const struct world *w)
{
    const struct dli_mutex *m = &w->m;
    int held = 0, waiting = 0;

    for (int i = 0; i < CLAIMS; i++) {
        const struct dli_claim *claim = &w->claim[i];

        if (w->place[i] == FREE)
            continue;
        held += claim->state == DLI_CLAIM_HELD;
        waiting += claim->state == DLI_CLAIM_WAITING;
        REQUIRE(claim->state != DLI_CLAIM_HELD || (m->holder == claim && w->place[i] == HOLDING));
        REQUIRE(claim->state != DLI_CLAIM_WAITING || in_list(&m->active->waiting, claim) == 1);
        for (int j = 0; j < i && claim->state == DLI_CLAIM_WAITING; j++) /* an owner waits once */
            REQUIRE(w->place[j] == FREE || w->claim[j].state != DLI_CLAIM_WAITING || w->claim[j].owner != claim->owner);
        REQUIRE(claim->state != DLI_CLAIM_LEAVING || m->active->leaving == claim);
        REQUIRE(claim->state != DLI_CLAIM_LOST || in_ring(&m->lost, claim) == 1);
        REQUIRE(claim->state != DLI_CLAIM_IDLE && claim->state != DLI_CLAIM_DONE);
    }
    REQUIRE(held <= 1 && held == (m->holder != NULL) && waiting == m->waiters && m->active->loose <= m->waiters);
    REQUIRE(dli_mutex_owned(m) || !m->holder);
    REQUIRE((m->want.state == DLI_WANT_NONE) == (m->want.number == 0));
    REQUIRE(!m->want.doubt || dli_mutex_known(m));
    REQUIRE(!m->handover.linger_until || dli_mutex_owned(m));
    REQUIRE(!m->active->drop.lingered || !m->active->drop.first);
    REQUIRE(!m->want.number || m->want.number != m->active->drop.number);
}

static void check_time(struct world *w)
{
    struct dli_mutex *m = &w->m;
    int64_t at;

    if (m->holder)
        REQUIRE(m->grant.limit <= w->promised && dli_mutex_sure_until(m) <= m->grant.limit);
    for (int i = 0; i < ROUNDS && (at = dli_mutex_alarm(m)) <= w->now && !w->over; i++) {
        REQUIRE(i < ROUNDS - 1); /* otherwise it would be called for ever */
        dli_mutex_tick(m, w->now);
        pump(w);
        if (w->renewing && w->renewing != m->want.number && m->holder && m->renewing.in_flight == 0)
            break; /* the thread has one renewal on the wire, which is another number's: it waits for that */
    }
    at = dli_mutex_alarm(m);
    if (m->holder && m->grant.limit != DLI_NEVER)
        REQUIRE(at <= m->grant.limit);
    if (m->active->leaving)
        REQUIRE(at <= m->active->leaving->until);
    if (m->waiters > 0 && !dli_mutex_owned(m) && !m->active->sent.in_flight && !m->adopting)
        REQUIRE(at != DLI_NEVER);
    if (m->active->drop.number && !m->active->sent.in_flight)
        REQUIRE(at != DLI_NEVER);
}

/* ---- steps: requests */

/* While a bound claim waits, nobody may make a request in its owner's name. */
static int may_ask(const struct world *w, int64_t owner)
{
    for (int i = 0; i < CLAIMS; i++)
        if (w->place[i] == INSIDE && w->claim[i].owner == owner && w->claim[i].bound &&
            w->claim[i].state == DLI_CLAIM_WAITING)
            return 0;
    return 1;
}

static struct dli_claim *fresh(struct world *w, struct fuzz *in, int64_t owner)
{
    static const int64_t leases[] = {500 * MS, 1000 * MS, 30000 * MS, 86400000LL * MS};
    int i = 0;

    while (i < CLAIMS && w->place[i] != FREE)
        i++;
    if (i == CLAIMS)
        return NULL;
    w->claim[i] = (struct dli_claim){.owner = owner, .lease = leases[fuzz_below(in, 4)]};
    w->limits[i] = (struct dli_limits){.max_hold = DLI_NEVER};
    w->claim[i].limits = &w->limits[i];
    dli_list_init(&w->claim[i].link);
    dli_list_init(&w->claim[i].report);
    return &w->claim[i];
}

static void acquire(struct world *w, struct fuzz *in, int64_t owner)
{
    struct dli_claim *claim = fresh(w, in, owner), *stands;
    struct dli_limits *limits;
    unsigned how = fuzz_byte(in);

    if (!claim || !may_ask(w, owner))
        return;
    limits = &w->limits[index_of(w, claim)];
    limits->max_hold = how & 1 ? DLI_NEVER : 1 + (int64_t)fuzz_byte(in) * 100 * MS;
    limits->min_hold = how & 2 ? (int64_t)fuzz_byte(in) * 10 * MS : 0;
    limits->linger = how & 4 ? (int64_t)fuzz_byte(in) * MS : 0;
    claim->renew = !(how & 8);
    claim->patient = !(how & 16);
    claim->bound = (how & 32) != 0 && !dli_mutex_find(&w->m, owner);
    claim->until = claim->patient ? w->now + 1 + (int64_t)fuzz_byte(in) * 50 * MS : w->now;
    w->place[index_of(w, claim)] = INSIDE;
    stands = dli_mutex_acquire(&w->m, claim, w->now);
    if (stands != claim) {
        REQUIRE(stands->owner == owner && w->place[index_of(w, stands)] != FREE);
        REQUIRE(stands->state == DLI_CLAIM_HELD || stands->state == DLI_CLAIM_WAITING);
        w->place[index_of(w, claim)] = FREE;
    }
}

static void release(struct world *w, struct fuzz *in, int64_t owner)
{
    struct dli_claim *settled = NULL, *before = w->m.holder;
    int64_t count = before ? before->count : 0;
    int may_send = fuzz_below(in, 4) != 0;
    dlock_status status;

    if (!may_ask(w, owner))
        return;
    status = dli_mutex_release(&w->m, owner, w->now, w->now + (int64_t)fuzz_byte(in) * 20 * MS, may_send, &settled);
    REQUIRE(status == DLOCK_OK || status == DLOCK_WOULD_BLOCK || status == DLOCK_NOT_HELD || status == DLOCK_LOST);
    REQUIRE(status != DLOCK_NOT_HELD || !settled);
    if (status == DLOCK_WOULD_BLOCK && !may_send)
        REQUIRE(!settled && w->m.holder == before && before->count == count);
    take_settled(w, settled);
}

static void give_up(struct world *w, struct fuzz *in)
{
    struct dli_claim *claim = &w->claim[fuzz_below(in, CLAIMS)];

    if (w->place[index_of(w, claim)] != FREE)
        dli_mutex_give_up(&w->m, claim, DLOCK_TIMED_OUT, w->now);
}

static void let_go(struct world *w, int64_t owner)
{
    struct dli_claim *claim = w->m.holder;
    int32_t state;

    state = dli_mutex_state(&w->m, owner, w->now);
    take_done(w);
    if ((state != DLOCK_STATE_HELD && state != DLOCK_STATE_AT_RISK) || claim != w->m.holder || claim->count > 1 ||
        claim->owner != owner)
        return;
    REQUIRE(dli_mutex_let_go(&w->m, w->now) == 0);
    take_settled(w, claim);
}

/* A grant of another process: reserved, then adopted or not. */
static void adopt(struct world *w, struct fuzz *in, int64_t owner)
{
    struct dli_claim *claim;
    int64_t token;

    if (!w->adopting) {
        w->adopting = dli_mutex_idle(&w->m) && !w->m.closed && dli_mutex_begin_adopt(&w->m) == 0;
        return;
    }
    w->adopting = w->m.adopting = 0;
    if (fuzz_below(in, 4) == 0 || !(claim = fresh(w, in, owner)))
        return;
    claim->renew = fuzz_below(in, 2) != 0;
    w->place[index_of(w, claim)] = INSIDE;
    token = w->last_token + 1 + (int64_t)fuzz_byte(in);
    promise(w, most(w, w->now - 10 * MS, claim->lease));
    if (!dli_mutex_adopt(&w->m, claim, dli_mutex_mint(&w->m), token, w->now - 10 * MS, w->now))
        w->place[index_of(w, claim)] = FREE;
}

/* ---- steps: the server */

static int64_t some_token(const struct world *w, struct fuzz *in)
{
    int64_t number;

    if (fuzz_below(in, 4))
        return w->m.tokens.end + 1 + (int64_t)fuzz_byte(in);
    number = fuzz_number(in);
    return number > 0 && number < INT64_C(1) << 52 ? number : 1;
}

static void answer(struct world *w, struct fuzz *in)
{
    static const dlock_status failures[] = {DLOCK_UNREACHABLE,   DLOCK_SERVER_LOADING, DLOCK_DENIED,
                                            DLOCK_SERVER_FORGOT, DLOCK_NOT_REPLICATED, DLOCK_LEASE_REFUSED,
                                            DLOCK_SERVER_ERROR,  DLOCK_WRONG_KIND};
    struct dli_answer said = {.status = DLOCK_OK};
    int64_t block = w->rules.handover_turns + 1;
    unsigned how = fuzz_byte(in);
    int stays;

    if (!w->m.active->sent.in_flight)
        return;
    said.repeated = (how & 1) != 0;
    said.released = (how & 2) != 0;
    if (how & 4) {
        said.status = failures[fuzz_below(in, 8)];
        said.sent = (int)fuzz_below(in, 2);
        said.refused = said.sent && fuzz_below(in, 2);
    } else if (w->m.active->sent.wish.want) {
        said.got = (enum dli_try)(1 + fuzz_below(in, 5));
        said.left = said.got == DLI_TRY_QUARANTINE || how & 8 ? (int64_t)fuzz_byte(in) * 100 * MS : -1;
        said.foreign = (how & 16) != 0;
        said.token = some_token(w, in);
        said.tokens = 1 + (int64_t)fuzz_below(in, (unsigned)(block > 255 ? 255 : block));
    }
    said.spent = said.got != DLI_TRY_GRANTED && fuzz_below(in, 8) == 0;
    if (said.got == DLI_TRY_GRANTED && w->m.active->sent.wish.want == w->m.want.number)
        promise(w, most(w, w->m.active->sent.stamp, w->m.active->sent.wish.lease));
    if (said.status != DLOCK_OK)
        stays = said.sent && !said.refused;
    else /* only who stands in line is remembered */
        stays = said.got == DLI_TRY_HELD && w->m.active->sent.wish.mode != DLI_MODE_TRY && !w->rules.no_line;
    if (!said.repeated && !stays)
        forget_look(w, w->m.active->sent.wish.seq);
    dli_mutex_answer(&w->m, &said, w->now);
}

static void push(struct world *w, struct fuzz *in)
{
    int64_t number = fuzz_below(in, 4) ? w->m.want.number : 1 + (int64_t)fuzz_byte(in);
    int64_t seq = fuzz_below(in, 4) ? w->m.probe_seq - (int64_t)fuzz_below(in, 4) : fuzz_number(in);
    int known = 0;

    for (int i = 0; i < w->looks; i++)
        known |= w->look[i].seq == seq;
    if (number == w->m.want.number && number == w->looks_of && w->looks > 0 &&
        (known || seq > w->m.probe_seq || seq < 1))
        promise_pushed(w, seq);
    else if (number == w->m.want.number) /* of a look that is not remembered here */
        return;
    dli_mutex_pushed(&w->m, number, seq, fuzz_below(in, 8) ? some_token(w, in) : fuzz_number(in),
                     1 + (int64_t)fuzz_byte(in), w->now);
}

static void renewed(struct world *w, struct fuzz *in)
{
    int kept = 1 - (int)fuzz_below(in, 4);
    int64_t number = w->renewing;

    if (!number)
        return;
    w->renewing = 0;
    if (kept == 1 && number == w->m.want.number)
        promise(w, most(w, w->renew_stamp, w->renew_lease));
    dli_mutex_renewed(&w->m, number, kept, w->renew_lease, w->renew_stamp, w->now);
}

static void extend(struct world *w, struct fuzz *in)
{
    int64_t lease = (500 + (int64_t)fuzz_byte(in) * 100) * MS, stamp = w->now, number, token;
    int kept = (int)fuzz_below(in, 3) - 1;

    if (!w->m.holder)
        return;
    number = w->m.want.number;
    token = fuzz_below(in, 4) ? w->m.holder->token : fuzz_number(in);
    dli_mutex_extending(&w->m, lease);
    w->now += (int64_t)fuzz_byte(in) * MS;
    if (kept == 1)
        promise(w, most(w, stamp, lease));
    dli_mutex_extended(&w->m, number, token, kept, lease, stamp, w->now);
}

/* ---- an input */

static void pass_time(struct world *w, struct fuzz *in)
{
    unsigned how = fuzz_byte(in);
    int64_t at = dli_mutex_alarm(&w->m);

    if (how < 128 && at != DLI_NEVER && at > w->now)
        w->now = at;
    else
        w->now += (int64_t)(how % 64) * (how < 192 ? MS : 1000 * MS);
    dli_mutex_tick(&w->m, w->now);
}

static void step(struct world *w, struct fuzz *in)
{
    unsigned what = fuzz_byte(in);
    int64_t owner = 1 + what / 16 % OWNERS;

    switch (what % 16) {
    case 0:
    case 1:
    case 2:
        acquire(w, in, owner);
        break;
    case 3:
    case 4:
        release(w, in, owner);
        break;
    case 5:
    case 6:
    case 7:
        answer(w, in);
        break;
    case 8:
        push(w, in);
        break;
    case 9:
        renewed(w, in);
        break;
    case 10:
        pass_time(w, in);
        break;
    case 11:
        give_up(w, in);
        break;
    case 12:
        dli_mutex_gate(&w->m, fuzz_below(in, 2) ? 0 : w->now + (int64_t)fuzz_byte(in) * 100 * MS, w->now);
        break;
    case 13:
        extend(w, in);
        break;
    case 14:
        if (owner == 1)
            let_go(w, 1 + (int64_t)fuzz_below(in, OWNERS));
        else if (owner == 2)
            adopt(w, in, 1 + (int64_t)fuzz_below(in, OWNERS));
        else
            w->line = (enum dli_line)fuzz_below(in, 3);
        break;
    default:
        if (owner < 3)
            dli_mutex_probe(&w->m, w->now + (int64_t)fuzz_byte(in) * MS);
        else if (fuzz_below(in, 16) == 0)
            dli_mutex_close(&w->m, w->now);
    }
}

static void begin(struct world *w, struct fuzz *in)
{
    unsigned how = fuzz_byte(in);

    memset(w, 0, sizeof *w);
    w->now = 1000000;
    w->rules = (struct dli_mutex_rules){.numbers = &w->numbers,
                                        .drift_ppm = how & 1 ? 10000 : 0,
                                        .safety = how & 2 ? 50 * MS : 1000 * MS,
                                        .handover_turns = how & 4 ? 64 : 1,
                                        .handover_time = how & 4 ? 50 * MS : 2 * MS,
                                        .attempt = 1000 * MS,
                                        .keep_ms = 60000,
                                        .delay = how & 8 ? 100 * MS : 0,
                                        .separate = (how & 16) != 0,
                                        .no_line = (how & 32) != 0,
                                        .doubtful = (how & 64) != 0};
    dli_mutex_init(&w->m, &w->rules, how);
    w->line = DLI_LINE_READY;
}

/* Closed, and no more answers come: time alone ends everything. */
static void end(struct world *w)
{
    struct dli_answer lost = {.status = DLOCK_CLOSED};

    dli_mutex_close(&w->m, w->now);
    take_done(w);
    w->over = 1;
    w->m.adopting = 0;
    if (w->m.active->sent.in_flight)
        dli_mutex_answer(&w->m, &lost, w->now);
    w->now += 4 * 86400000LL * MS;
    dli_mutex_tick(&w->m, w->now);
    dli_mutex_forget_lost(&w->m);
    take_done(w);
    for (int i = 0; i < CLAIMS; i++)
        REQUIRE(w->place[i] == FREE);
    REQUIRE(!w->m.holder && !w->m.active->leaving && w->m.waiters == 0);
    dli_active_fini(&w->m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    struct fuzz in = {data, size};

    begin(&world, &in);
    for (int steps = 0; in.left > 0 && steps < STEPS; steps++) {
        step(&world, &in);
        pump(&world);
        check_claims(&world);
        check_time(&world);
    }
    end(&world);
    return 0;
}
