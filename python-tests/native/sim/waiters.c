/*
 * waiters.c: many claims in one mutex machine (engine/mutex.h). What the machine finds by its table of owners and its
 * list of tries is what a walk over all claims finds, also when there is no memory for the table. And without memory for its
 * active part nobody comes to wait, a release is repeated later, and nobody gets the lock before.
 *
 *   waiters FIRST COUNT STEPS    so many seeds of so many steps each
 *
 * Then owners of many patterns queue up and leave. The longest run of used slots in the table bounds every search.
 *
 * The mutants build it alone, see test_waiters.py. calloc and malloc are wrapped: they may fail.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/mutex.h"
#include "require.h"

enum { CLAIMS = 3000, OWNERS = 4000, MANY = 100000, MANY_LOST = 100, LONGEST_RUN = 2000, FEW = 32, PHASE = 4000 };

static const int64_t lease = 30000 * DLI_MS;

static struct {
    uint64_t noise;
    struct dli_mutex m;
    struct dli_mutex_rules rules;
    struct dli_claim *claim; /* the machine has the ones that are not IDLE */
    int64_t numbers, now, token;
    int filling, failing;
    int64_t most, tables, freed, failures, tries, lost, adopted, kept, refused, overdue, dropped; /* what happened */
} w;

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static uint32_t draw(uint32_t below)
{
    w.noise = w.noise * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(w.noise >> 33) % below;
}

void *__wrap_calloc(size_t count, size_t size)
{
    if (w.failing) {
        w.failures++;
        return NULL;
    }
    return __real_calloc(count, size);
}

void *__wrap_malloc(size_t size)
{
    if (w.failing) {
        w.failures++;
        return NULL;
    }
    return __real_malloc(size);
}

/* ---- what a walk finds */

static struct dli_claim *walk(const struct dli_link *list, int64_t owner)
{
    for (const struct dli_link *link = list->next; link != list; link = link->next)
        if (DLI_OBJECT(link, struct dli_claim, link)->owner == owner)
            return DLI_OBJECT(link, struct dli_claim, link);
    return NULL;
}

static struct dli_claim *walk_lost(int64_t owner)
{
    for (struct dli_link *link = dli_ring_first(&w.m.lost); link; link = dli_ring_next(&w.m.lost, link))
        if (DLI_OBJECT(link, struct dli_claim, link)->owner == owner)
            return DLI_OBJECT(link, struct dli_claim, link);
    return NULL;
}

static void check_owner(int64_t owner)
{
    const struct dli_claim *waiting = walk(&w.m.active->waiting, owner), *lost = walk_lost(owner);

    REQUIRE(dli_owners_waiting(&w.m, owner) == waiting);
    REQUIRE(dli_owners_lost(&w.m, owner) == lost);
    if (w.m.holder && w.m.holder->owner == owner)
        REQUIRE(dli_mutex_find(&w.m, owner) == w.m.holder);
    else
        REQUIRE(dli_mutex_find(&w.m, owner) == (waiting ? waiting : lost));
}

static void check_table(int64_t claims)
{
    const struct dli_owners *owners = &w.m.active->owners;
    int64_t used = 0;

    REQUIRE(w.m.claims == claims);
    for (size_t i = 0; owners->slots && i < owners->size; i++)
        used += owners->slots[i].claim != NULL;
    if (owners->slots)
        REQUIRE(used == claims && claims > 0 && (size_t)claims <= owners->size / 4 * 3);
    else
        REQUIRE(claims <= FEW || w.failures > 0 || w.m.waiters == 0); /* a loss alone makes none */
}

static void check_all(void)
{
    const struct dli_link *tries = w.m.active->tries.next;
    int64_t waiters = 0, loose = 0, hasty = 0, lost = 0;

    for (const struct dli_link *link = w.m.active->waiting.next; link != &w.m.active->waiting; link = link->next) {
        const struct dli_claim *claim = DLI_OBJECT(link, struct dli_claim, link);

        REQUIRE(claim->state == DLI_CLAIM_WAITING);
        waiters++;
        loose += !claim->bound;
        hasty += !claim->patient;
        if (claim->patient)
            continue;
        REQUIRE(tries == &claim->report);
        tries = tries->next;
    }
    for (struct dli_link *link = dli_ring_first(&w.m.lost); link; link = dli_ring_next(&w.m.lost, link))
        lost++;
    REQUIRE(tries == &w.m.active->tries && w.m.waiters == waiters && w.m.active->loose == loose &&
            w.m.active->hasty == hasty);
    check_table(waiters + lost);
    w.most = waiters > w.most ? waiters : w.most;
    w.tables += w.m.active->owners.slots != NULL;
    w.freed += w.m.active->owners.slots == NULL && waiters + lost == 0;
}

/* ---- steps */

static void free_claim(struct dli_claim *claim)
{
    dli_ring_remove(&w.m.reports, &claim->report);
    claim->state = DLI_CLAIM_IDLE;
}

static void deliver(void)
{
    struct dli_link *link;

    while ((link = dli_ring_pop(&w.m.done)))
        if (DLI_OBJECT(link, struct dli_claim, link)->state == DLI_CLAIM_DONE)
            free_claim(DLI_OBJECT(link, struct dli_claim, link));
    while ((link = dli_ring_pop(&w.m.reports)))
        DLI_OBJECT(link, struct dli_claim, report)->reports = 0;
}

static struct dli_claim *fresh(int64_t owner, int patient)
{
    struct dli_claim *claim = &w.claim[draw(CLAIMS)];

    if (claim->state != DLI_CLAIM_IDLE)
        return NULL;
    *claim = (struct dli_claim){.owner = owner, .lease = lease, .renew = 1};
    claim->patient = patient != 0;
    claim->until = DLI_NEVER;
    if (draw(8) == 0) { /* a caller's own: nobody else uses that owner */
        claim->bound = 1;
        claim->owner = -1 - (claim - w.claim);
    }
    dli_list_init(&claim->link);
    dli_list_init(&claim->report);
    return claim;
}

static void acquire(void)
{
    struct dli_claim *claim = fresh(draw(OWNERS) * INT64_C(4096), draw(w.rules.momentary ? 4 : 8) > 0), *stands;

    if (!claim)
        return;
    stands = dli_mutex_acquire(&w.m, claim, w.now);
    w.refused += claim->state == DLI_CLAIM_DONE && claim->result == DLOCK_OUT_OF_MEMORY;
    REQUIRE(stands == claim || (stands->owner == claim->owner && stands->state != DLI_CLAIM_IDLE));
    if (stands != claim)
        claim->state = DLI_CLAIM_IDLE;
}

static void give_up(void)
{
    struct dli_claim *claim = &w.claim[draw(CLAIMS)];

    if (claim->state == DLI_CLAIM_WAITING)
        dli_mutex_give_up(&w.m, claim, DLOCK_CANCELLED, w.now);
}

static void release(int64_t owner)
{
    struct dli_claim *settled;
    dlock_status status = dli_mutex_release(&w.m, owner, w.now, w.now + DLI_MS, 1, &settled);

    if (settled && settled->state == DLI_CLAIM_DONE)
        free_claim(settled);
    REQUIRE(status != DLOCK_NOT_HELD || !settled);
}

/* A claim that was lost, or any owner. */
static int64_t some_lost(void)
{
    if (!w.m.lost.last)
        return draw(OWNERS) * INT64_C(4096);
    return DLI_OBJECT(w.m.lost.last, struct dli_claim, link)->owner;
}

static void adopt(void)
{
    struct dli_claim *claim;

    if (!w.m.adopting) {
        if (dli_mutex_may_adopt(&w.m) && dli_mutex_begin_adopt(&w.m))
            w.refused++;
        return;
    }
    w.m.adopting = 0;
    if (!(claim = fresh(draw(OWNERS) * INT64_C(4096), 0)))
        return;
    w.token += 100;
    w.adopted += dli_mutex_adopt(&w.m, claim, dli_mutex_mint(&w.m), w.token, w.now, w.now);
}

/* The answer "held" ends the tries that came before the probe was sent, and no other claim. */
static void answer_held(const struct dli_answer *held)
{
    static enum dli_claim_state expected[CLAIMS];

    for (int i = 0; i < CLAIMS; i++) {
        const struct dli_claim *claim = &w.claim[i];
        int ends = claim->state == DLI_CLAIM_WAITING && !claim->patient && claim->after < w.m.active->sent.wish.seq;

        w.tries += ends;
        w.kept += claim->state == DLI_CLAIM_WAITING && !claim->patient && !ends;
        expected[i] = ends ? DLI_CLAIM_DONE : claim->state;
    }
    dli_mutex_answer(&w.m, held, w.now);
    for (int i = 0; i < CLAIMS; i++)
        REQUIRE(w.claim[i].state == (int8_t)expected[i]);
}

static void server(void)
{
    struct dli_answer answer = {.status = DLOCK_OK, .left = -1, .released = 1, .tokens = 9, .token = w.token += 100};
    struct dli_wish wish;
    int patient = 0;

    if (!w.m.active->sent.in_flight) {
        if (!dli_mutex_wish(&w.m, DLI_LINE_READY, w.now, &wish))
            return;
        for (const struct dli_link *link = w.m.active->waiting.next; link != &w.m.active->waiting; link = link->next)
            patient |= DLI_OBJECT(link, struct dli_claim, link)->patient;
        REQUIRE(!wish.want || wish.patient == patient);
        dli_mutex_sent(&w.m, &wish, w.now);
        return;
    }
    answer.got = draw(3) ? DLI_TRY_HELD : DLI_TRY_GRANTED;
    if (answer.got == DLI_TRY_HELD && !w.m.active->leaving && w.m.active->sent.wish.want == w.m.want.number &&
        !dli_mutex_owned(&w.m))
        answer_held(&answer);
    else
        dli_mutex_answer(&w.m, &answer, w.now);
}

/* A drop that there was no memory for is repeated. Until then nobody has the lock, and nobody gets it. */
static void check_overdue(void)
{
    if (!w.m.overdue)
        return;
    w.overdue++;
    REQUIRE(dli_mutex_owned(&w.m) && !w.m.holder && w.m.handover.linger_until && w.m.waiters == 0);
    REQUIRE(dli_mutex_alarm(&w.m) != DLI_NEVER);
    dli_mutex_tick(&w.m, w.now);
    if (w.m.overdue)
        return;
    w.dropped++;
    REQUIRE(w.m.want.state == DLI_WANT_NONE && (w.m.active->drop.number || w.rules.unheard));
}

static void step(void)
{
    switch (draw(16)) {
    case 0:
    case 1:
        server();
        break;
    case 2:
        if (w.m.holder)
            release(w.m.holder->owner);
        break;
    case 3:
        release(some_lost());
        break;
    case 4:
        if (w.m.holder && draw(2)) {
            dli_mutex_lose(&w.m, DLOCK_CAUSE_TAKEN, w.now);
            w.lost++;
        }
        break;
    case 5:
        adopt();
        break;
    default:
        if (w.filling)
            acquire();
        else
            give_up();
    }
    w.now += draw(20 * DLI_MS);
    deliver();
    check_overdue();
    dli_active_trim(&w.m);
}

/* ---- runs */

static void begin(uint64_t seed)
{
    w.noise = seed;
    w.now = 1000 * lease;
    w.rules = (struct dli_mutex_rules){.numbers = &w.numbers,
                                       .safety = 1000 * DLI_MS,
                                       .handover_turns = 8,
                                       .handover_time = lease,
                                       .attempt = 1000 * DLI_MS,
                                       .momentary = seed % 3 == 0,
                                       .unheard = seed % 6 == 0};
    dli_mutex_init(&w.m, &w.rules, seed);
}

static void end(void)
{
    w.failing = 0;
    dli_mutex_close(&w.m, w.now);
    w.now += lease;
    dli_mutex_tick(&w.m, w.now); /* a release on the wire is not waited for any more */
    dli_mutex_forget_lost(&w.m);
    deliver();
    check_all();
    REQUIRE(w.m.waiters == 0 && w.m.claims == 0 && !w.m.active->owners.slots);
    dli_active_fini(&w.m);
}

static void run(uint64_t seed, int64_t steps)
{
    w.claim = __real_calloc(CLAIMS, sizeof *w.claim);
    begin(seed);
    w.failures = 0;
    for (int64_t i = 0; i < steps; i++) {
        w.filling = i / PHASE % 2 == 0;
        w.failing = seed % 2 == 0 && i / 500 % 2;
        step();
        check_owner(draw(OWNERS) * INT64_C(4096));
        check_owner(w.claim[draw(CLAIMS)].owner);
        if (i % 100 == 0)
            check_all();
    }
    end();
    for (int i = 0; i < CLAIMS; i++) /* all have come out */
        REQUIRE(w.claim[i].state == DLI_CLAIM_IDLE);
    free(w.claim);
}

static void check_runs(void)
{
    const struct dli_owners *owners = &w.m.active->owners;
    size_t length = 0;

    REQUIRE(owners->slots);
    for (size_t i = 0; i < 2 * owners->size; i++) {
        length = owners->slots[i & (owners->size - 1)].claim ? length + 1 : 0;
        REQUIRE(length <= LONGEST_RUN);
    }
}

/* MANY owners, each stride above the one before, come and leave in this order. */
static void pattern(uint64_t stride)
{
    w.claim = __real_calloc(MANY, sizeof *w.claim);
    begin(1);
    for (int i = 0; i < MANY; i++) {
        w.claim[i] = (struct dli_claim){.owner = (int64_t)(stride * (uint64_t)i), .patient = 1, .until = DLI_NEVER};
        dli_list_init(&w.claim[i].link);
        dli_list_init(&w.claim[i].report);
        REQUIRE(dli_mutex_acquire(&w.m, &w.claim[i], w.now) == &w.claim[i]);
        if (i % 10000 == 9999)
            check_runs();
    }
    for (int i = 0; i < MANY; i++) {
        REQUIRE(dli_mutex_find(&w.m, w.claim[i].owner) == &w.claim[i]);
        dli_mutex_give_up(&w.m, &w.claim[i], DLOCK_CANCELLED, w.now);
        REQUIRE(!w.m.active->owners.slots || w.m.active->owners.size <= 128 ||
                w.m.active->owners.size <= 16 * (size_t)w.m.claims);
        if (i % 10000 == 4999)
            check_runs();
    }
    deliver();
    end();
    free(w.claim);
}

/* MANY_LOST owners lose the lock one after the other, and nobody waits: there is no active part, so no table. */
static void losses(void)
{
    const struct dli_answer released = {.status = DLOCK_OK, .left = -1, .released = 1};
    struct dli_wish wish;

    w.claim = __real_calloc(MANY_LOST, sizeof *w.claim);
    begin(1);
    for (int i = 0; i < MANY_LOST; i++) {
        w.claim[i] = (struct dli_claim){.owner = i + 1, .lease = lease, .renew = 1};
        dli_list_init(&w.claim[i].link);
        dli_list_init(&w.claim[i].report);
        REQUIRE(dli_mutex_begin_adopt(&w.m) == 0);
        w.m.adopting = 0;
        REQUIRE(dli_mutex_adopt(&w.m, &w.claim[i], dli_mutex_mint(&w.m), w.token += 100, w.now, w.now));
        deliver();
        dli_active_trim(&w.m);
        REQUIRE(!dli_active_own(&w.m));
        dli_mutex_lose(&w.m, DLOCK_CAUSE_TAKEN, w.now);
        REQUIRE(dli_mutex_wish(&w.m, DLI_LINE_READY, w.now, &wish) && wish.drop);
        dli_mutex_sent(&w.m, &wish, w.now);
        dli_mutex_answer(&w.m, &released, w.now);
        deliver();
        dli_active_trim(&w.m);
    }
    for (int i = 0; i < MANY_LOST; i++)
        REQUIRE(dli_owners_lost(&w.m, i + 1) == &w.claim[i]);
    REQUIRE(!w.m.active->owners.slots);
    end();
    free(w.claim);
}

int main(int argc, char **argv)
{
    static const uint64_t strides[] = {
        1, 2, 7, 64, 4096, UINT64_C(1) << 20, UINT64_C(1) << 32, UINT64_C(1) << 40, -UINT64_C(1)};

    if (argc != 4)
        return 2;
    for (uint64_t seed = strtoull(argv[1], NULL, 10), left = strtoull(argv[2], NULL, 10); left > 0; seed++, left--)
        run(seed, strtoll(argv[3], NULL, 10));
    printf("most %" PRId64 " tables %" PRId64 " freed %" PRId64 " failures %" PRId64 " tries %" PRId64 " kept %" PRId64
           " lost %" PRId64 " adopted %" PRId64 " refused %" PRId64 " overdue %" PRId64 " dropped %" PRId64 "\n",
           w.most, w.tables, w.freed, w.failures, w.tries, w.kept, w.lost, w.adopted, w.refused, w.overdue, w.dropped);
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++)
        pattern(strides[i]);
    losses();
    return 0;
}
