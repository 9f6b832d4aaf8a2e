/*
 * hostile_calls.c: calls of the library, chosen by the front of the input: see hostile.h.
 */
#include "hostile.h"

enum { GRANT = 512 };

static dlock_lock *locks[2][H_LOCKS];
static int tokens[2][H_LOCKS]; /* whether it has any */
static dlock_txn *txns[2];
static uint8_t grant[GRANT]; /* the last one that was exported */
static size_t grant_size;

void h_calls_begin(void)
{
    memset(locks, 0, sizeof locks);
    memset(txns, 0, sizeof txns);
    grant_size = 0;
}

void h_locks_free(const struct w_process *process)
{
    for (int i = H_LOCKS; i-- > 0;) {
        dlock_lock_free(locks[process->index][i]);
        locks[process->index][i] = NULL;
    }
    dlock_txn_free(txns[process->index]);
    txns[process->index] = NULL;
}

/* ---- handles */

static dlock_options *options_of(unsigned how)
{
    static const char *const set[][2] = {{"linger_ms", "50"},    {"lock_delay_ms", "100"}, {"permits", "2"},
                                         {"renew", "false"},     {"max_hold_ms", "4000"},  {"handover_turns", "1"},
                                         {"min_hold_ms", "100"}, {"namespace", "n"}};
    dlock_options *options = dlock_options_new();

    for (int i = 0; i < 8; i++)
        if (how & 1U << i)
            dlock_options_set(options, set[i][0], set[i][1], NULL);
    return options;
}

static dlock_lock *make(struct w_process *process, int slot)
{
    static const char *const names[] = {"a",  "b/c",         "\xff%s", "lock-0000000001",
                                        "..", "zookeeper/x", "",       "a name of forty bytes, and some more of it"};
    static const int32_t kinds[] = {
        DLOCK_KIND_MUTEX, DLOCK_KIND_FAIR,  DLOCK_KIND_READ,     DLOCK_KIND_WRITE, DLOCK_KIND_PERMIT_SEMAPHORE,
        DLOCK_KIND_LATCH, DLOCK_KIND_MUTEX, DLOCK_KIND_SEMAPHORE};
    unsigned what = h_call(), how = what >= 128 ? h_call() : 0;
    const char *name = names[what / 8 % 8];
    dlock_lock **mine = locks[process->index];
    dlock_options *options = options_of(how);

    tokens[process->index][slot] = kinds[what % 8] != DLOCK_KIND_LATCH && slot < H_LOCKS - 1;
    if (slot == H_LOCKS - 1 && mine[0] && mine[1])
        dlock_lock_new_multi(process->client, mine, 2, &mine[slot], NULL);
    else
        dlock_lock_new(process->client, kinds[what % 8], name, strlen(name), options, &mine[slot], NULL);
    dlock_options_free(options);
    return mine[slot];
}

static dlock_lock *lock_at(struct w_process *process, int slot)
{
    dlock_lock *lock = locks[process->index][slot];

    return lock ? lock : make(process, slot);
}

/* ---- calls */

static int64_t wait_of(unsigned how)
{
    static const int64_t waits[] = {-1, 0, 50, 5000};

    return waits[how % 4];
}

static void answered(int64_t tag, dlock_status status)
{
    if (status != DLOCK_OK)
        h_not_called(tag);
}

static void acquire(struct w_process *process, int slot, int64_t owner, unsigned how)
{
    dlock_lock *lock = locks[process->index][slot];
    int64_t tag = h_tag(process);

    if (tag && tokens[process->index][slot])
        h_makes_token(tag);
    if (tag)
        answered(tag, dlock_lock_submit_acquire(lock, owner, wait_of(how), tag, NULL));
}

static void begin_acquire(struct w_process *process, dlock_lock *lock, int64_t owner, unsigned how)
{
    int64_t tag = h_tag(process), token = 0;

    if (tag && dlock_lock_begin_acquire(lock, owner, wait_of(how), tag, &token, NULL) != DLOCK_WOULD_BLOCK)
        h_not_called(tag);
}

static void release(struct w_process *process, dlock_lock *lock, int64_t owner)
{
    int64_t tag = h_tag(process);

    if (tag)
        answered(tag, dlock_lock_submit_release(lock, owner, tag, NULL));
}

/* Calls of one lock, by its kind and the input. */
static dlock_status change(dlock_lock *lock, unsigned what, int64_t number, int64_t tag)
{
    switch (what % 8) {
    case 0:
        return dlock_semaphore_submit_set(lock, number, tag, NULL);
    case 1:
        return dlock_semaphore_submit_add(lock, number - 2, tag, NULL);
    case 2:
        return dlock_semaphore_submit_drain(lock, tag, NULL);
    case 3:
        return dlock_semaphore_submit_reclaim(lock, 10000, tag, NULL);
    case 4:
        return dlock_semaphore_submit_available(lock, tag, NULL);
    case 5:
        return dlock_latch_submit_set(lock, number, tag, NULL);
    case 6:
        return dlock_latch_submit_count_down(lock, number, tag, NULL);
    default:
        return dlock_latch_submit_count(lock, tag, NULL);
    }
}

static dlock_status ask(struct w_process *process, dlock_lock *lock, unsigned what, int64_t tag)
{
    switch (what % 8) {
    case 0:
        return dlock_lock_submit_inspect(lock, tag, NULL);
    case 1:
        return dlock_lock_submit_force_release(lock, tag, NULL);
    case 2:
        return dlock_lock_submit_close_gate(lock, what & 8 ? 60000 : 50, tag, NULL);
    case 3:
        return dlock_lock_submit_open_gate(lock, tag, NULL);
    case 4:
        return dlock_client_submit_list(process->client, what / 8, 1000, tag, NULL);
    case 5:
        return dlock_client_submit_check(process->client, 1000, tag, NULL);
    case 6:
        return dlock_client_submit_provision(process->client, 1000, tag, NULL);
    default:
        return dlock_client_submit_ping(process->client, what & 8 ? 50 : 1000, tag, NULL);
    }
}

/* What the input does to an exported grant. */
static dlock_status adopt(dlock_lock *lock, int64_t owner, unsigned how, int64_t tag)
{
    uint8_t copy[GRANT];
    size_t size = grant_size;

    memcpy(copy, grant, GRANT);
    if (how & 1 && size > 0)
        copy[h_call() % size] ^= (uint8_t)(1U << h_call() % 8);
    if (how & 2)
        size = size * h_call() / 256;
    return dlock_lock_submit_adopt_grant(lock, owner, copy, size, tag, NULL);
}

static dlock_status transact(struct w_process *process, unsigned what, int64_t tag)
{
    static const uint8_t value[] = "17";
    dlock_txn **txn = &txns[process->index];
    const char *key = what & 8 ? "k" : "key/2";

    if (!*txn && dlock_txn_new(process->client, txn, NULL) != DLOCK_OK)
        return DLOCK_UNSUPPORTED;
    switch (what % 8) {
    case 0:
        return dlock_txn_submit_watch(*txn, key, strlen(key), tag, NULL);
    case 1:
        return dlock_txn_submit_get(*txn, key, strlen(key), tag, NULL);
    case 2:
        dlock_txn_set(*txn, key, strlen(key), value, 2, what & 16 ? 3000 : -1, NULL);
        return DLOCK_BUSY;
    case 3:
        dlock_txn_incr(*txn, key, strlen(key), 3, NULL);
        return DLOCK_BUSY;
    case 4:
        dlock_txn_delete(*txn, key, strlen(key), NULL);
        return DLOCK_BUSY;
    case 5:
        return dlock_txn_submit_rollback(*txn, tag, NULL);
    case 6:
        dlock_txn_free(*txn);
        *txn = NULL;
        return DLOCK_BUSY;
    default:
        return dlock_txn_submit_commit(*txn, tag, NULL);
    }
}

/* What the caller sees without a call of the server. */
static void look(struct w_process *process, dlock_lock *lock, int64_t owner)
{
    char text[4096];
    int64_t number = 0, all[64];
    int32_t state = 0;
    size_t size = 0;

    dlock_lock_state(lock, owner, &state, NULL);
    dlock_lock_remaining_ms(lock, owner, &number, NULL);
    REQUIRE(number >= -1); /* -1: it does not end */
    dlock_lock_token(lock, owner, &number, NULL);
    dlock_lock_hold_count(lock, owner, &number, NULL);
    dlock_client_stats(process->client, all, 64, &size, NULL);
    dlock_client_metrics(process->client, text, sizeof text, &size, NULL);
    for (size_t i = 0; i < 4; i++)
        dlock_client_finding(process->client, i, process->event, NULL);
    dlock_semaphore_permit(lock, owner, 0, text, sizeof text, NULL);
}

static void cut_mine(struct w_wire *wire)
{
    if (wire->process->index == 0)
        w_cut(wire);
}

static void world(struct w_process *process, unsigned what)
{
    struct w_wire *wire = w.wires;

    for (unsigned i = what / 8 % 4; wire && i > 0; i--)
        wire = wire->next;
    switch (what % 8) {
    case 0:
        w.model->expire();
        break;
    case 1:
        w.model->remove();
        break;
    case 2:
        w.model->forget();
        break;
    case 3:
        w.model->elected();
        break;
    case 4:
        w_wires_of(-1, cut_mine);
        break;
    case 5:
        w.member_down_until[what / 8 % 3] = w.now + W_SECOND;
        break;
    case 6:
        if (wire && wire->open)
            hostile->unasked(wire);
        break;
    default:
        w.random = what; /* other delays */
        w_process_pause(process, (int64_t)what * 20 * W_MS);
    }
}

static void start_or_end(struct w_process *process, unsigned how)
{
    if (!process->client) {
        struct w_process fresh = {.index = process->index, .offset = process->offset, .alarm = process->alarm + 1};

        *process = fresh;
        h_start(process);
    } else if (how & 1) {
        h_end(process, how & 2);
    } else if (!process->closing) {
        process->closing = 1;
        REQUIRE(dlock_client_submit_close(process->client, how & 2 ? 100 : 2000, NULL) == DLOCK_OK);
    }
}

static void with_tag(struct w_process *process, dlock_lock *lock, unsigned what, int64_t owner)
{
    int64_t tag = h_tag(process);
    unsigned how = h_call();

    if (!tag)
        return;
    if (what == 6)
        answered(tag, dlock_lock_submit_extend(lock, owner, how & 1 ? 1000 : (int64_t)how * 100, tag, NULL));
    else if (what == 7)
        answered(tag, change(lock, how, how / 8 % 8, tag));
    else if (what == 8 || what == 9)
        answered(tag, ask(process, lock, how, tag));
    else if (what == 10)
        answered(tag, adopt(lock, owner, how, tag));
    else
        answered(tag, transact(process, how, tag));
}

static void one(struct w_process *process, unsigned what, unsigned who)
{
    int64_t owner = 1 + who / 8 % 3;
    dlock_lock *lock = lock_at(process, (int)(who % H_LOCKS));
    size_t size;

    if (!lock)
        return;
    if (what < 2) {
        acquire(process, (int)(who % H_LOCKS), owner, who / 64);
    } else if (what == 2) {
        begin_acquire(process, lock, owner, who / 64);
    } else if (what < 5) {
        release(process, lock, owner);
    } else if (what == 5) {
        dlock_lock_cancel(lock, owner, NULL);
    } else if (what < 12) {
        with_tag(process, lock, what, owner);
    } else if (what == 12) {
        if (!hostile->exports && dlock_lock_export_grant(lock, owner, grant, GRANT, &size, NULL) == DLOCK_OK)
            grant_size = size;
    } else if (what == 13) {
        look(process, lock, owner);
    } else {
        dlock_lock_free(lock);
        locks[process->index][who % H_LOCKS] = NULL;
    }
}

void h_call_library(struct w_process *process)
{
    unsigned what = h_call() % 20, who = h_call();

    if (what == 18) {
        hostile->tenant();
        return;
    }
    if ((what == 19 && !(who & 16)) || (what != 19 && !process->client))
        return;
    w.current = process;
    if (what == 19)
        start_or_end(process, who);
    else if (what >= 15)
        world(process, who);
    else
        one(process, what, who);
    w.current = process;
    if (process->client)
        w_process_turn(process);
    w.current = NULL;
}
