/*
 * permit.c: permit semaphores. Belongs to lane 0's thread.
 *
 * The key <name>/total has the number of permits, without a lease, and the ids of its last changes. A claim is the key
 * <name>/permit-<owner id>, whose value is how many permits it asks for. Claims stand in line by create revision. A claim has
 * its permits when they and those of all claims before it are within the total, so nobody is passed. Who waits counts the
 * deletions of claims, and looks when it may be its turn, or when the total has changed.
 *
 * A claim that does not wait is put only while the total and the claims are as they were read, or fewer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/number.h"
#include "kinds.h"

/* The results of a reading. Behind a put stand only claims and total. */
enum { OWN, MARK, GATE, CLAIMS, TOTAL, READS, PUT_CLAIMS = 1, PUT_TOTAL };
enum { TRIES = 100 };

static void ask(struct dli_job *job);

/* ---- keys */

struct names {
    char own[DLI_ETCD_KEY_MAX], mark[DLI_ETCD_MARK_MAX], gate[DLI_ETCD_KEY_MAX], total[DLI_ETCD_KEY_MAX];
    struct dli_etcd_rivals claims;
};

static struct dli_etcd_bytes own_key(const struct dli_job *job, char room[DLI_ETCD_KEY_MAX])
{
    return dli_etcd_key(job->request.kind, job->request.place, job->request.exchange.want, room);
}

static struct dli_etcd_bytes total_key(const struct dli_job *job, char room[DLI_ETCD_KEY_MAX])
{
    static const char total[] = {'t', 'o', 't', 'a', 'l'};
    struct dli_etcd_bytes prefix = dli_etcd_prefix(job->request.place);

    memcpy(room, prefix.bytes, prefix.size);
    memcpy(room + prefix.size, total, sizeof total);
    return dli_etcd_text(room, prefix.size + sizeof total);
}

static void read_claims(const struct dli_job *job, struct dli_etcd_txn *txn, struct names *names, dli_etcd_add *add)
{
    struct dli_etcd_step *claims;

    dli_etcd_claims(job->request.kind, job->request.place, &names->claims);
    claims = add(txn, DLI_ETCD_RANGE, names->claims.key);
    claims->end = names->claims.end;
    claims->limit = -1;
    add(txn, DLI_ETCD_RANGE, total_key(job, names->total));
}

static void read_all(const struct dli_job *job, struct dli_etcd_txn *txn, struct names *names, dli_etcd_add *add)
{
    add(txn, DLI_ETCD_RANGE, own_key(job, names->own));
    add(txn, DLI_ETCD_RANGE, dli_etcd_mark(job->session, names->mark));
    add(txn, DLI_ETCD_RANGE, dli_etcd_gate_key(job->request.place, names->gate));
    read_claims(job, txn, names, add);
}

/* ---- sums */

struct sums {
    int64_t total, all, before; /* permits: that there are, of all claims, of those before its own */
    int64_t used;               /* of the claims that have theirs */
    int64_t most;               /* the largest claim */
};

static void add_claim(struct sums *sums, int64_t permits, int is_before)
{
    sums->all = dli_plus(sums->all, permits);
    if (is_before)
        sums->before = dli_plus(sums->before, permits);
    if (sums->all <= sums->total)
        sums->used = sums->all;
    if (permits > sums->most)
        sums->most = permits;
}

/* 0; -1: a value is no number of permits: another program has written it. The job has failed. */
static int add_up(struct dli_job *job, const struct dli_etcd_reply *reply, int claims, int total, struct sums *sums)
{
    struct dli_etcd_bytes keys = reply->result[claims].bytes;
    const struct dli_etcd_result *all = &reply->result[total];
    struct dli_etcd_found claim;
    int64_t permits;
    int failed;

    *sums = (struct sums){.most = 1};
    failed =
        all->keys && dli_etcd_read_number(all->found[0].value, -DLI_ETCD_NUMBER_MAX, DLI_ETCD_NUMBER_MAX, &sums->total);
    while (!failed && dli_etcd_next_key(&keys, &claim)) {
        failed = dli_etcd_read_number(claim.value, 1, INT32_MAX, &permits);
        if (!failed)
            add_claim(sums, permits, claim.created < job->created);
    }
    if (failed)
        dli_etcd_fail(job, DLOCK_WRONG_KIND, "another program has written a value of the semaphore that is no number");
    return failed ? -1 : 0;
}

/* ---- acquire */

/* Its claim stands, as of the reply. */
static void decide(struct dli_job *job, const struct dli_etcd_reply *reply, int claims, int total)
{
    struct names names;
    struct dli_etcd_crowd crowd;
    struct sums sums;
    int64_t missing;

    if (add_up(job, reply, claims, total, &sums))
        return;
    missing = dli_minus(dli_plus(sums.before, job->request.exchange.wish.permits), sums.total);
    if (job->session->over) {
        dli_etcd_again(job, dli_etcd_exchange);
    } else if (missing <= 0) {
        dli_etcd_granted(job, sums.total > sums.all ? dli_minus(sums.total, sums.all) : 0);
    } else {
        dli_etcd_claims(job->request.kind, job->request.place, &names.claims);
        crowd = (struct dli_etcd_crowd){.key = names.claims.key,
                                        .end = names.claims.end,
                                        .total = total_key(job, names.total),
                                        .leave = (missing - 1) / sums.most + 1,
                                        .revision = reply->revision};
        if (dli_etcd_wait_for_some(job, own_key(job, names.own), &crowd) && job->at++ < TRIES)
            ask(job);
        else
            dli_etcd_not_granted(job);
    }
}

static void put(struct dli_job *job, const struct dli_etcd_reply *seen);

static void judge(struct dli_job *job, const struct dli_etcd_reply *reply)
{
    const struct dli_etcd_result *own = &reply->result[OWN], *mark = &reply->result[MARK];
    struct sums sums;

    if (add_up(job, reply, CLAIMS, TOTAL, &sums))
        return;
    job->session->mark = mark->keys ? mark->found[0].modified : 0;
    if (reply->result[GATE].keys > 0) {
        dli_etcd_shut_out(job);
    } else if (own->keys > 0 && dli_etcd_lives(job, &own->found[0])) {
        job->created = own->found[0].created;
        decide(job, reply, CLAIMS, TOTAL);
    } else if (own->keys == 0 && !dli_etcd_stands(job) &&
               dli_plus(sums.all, job->request.exchange.wish.permits) > sums.total) {
        dli_etcd_not_granted(job);
    } else if (own->keys == 0 && job->at++ < TRIES) {
        dli_etcd_forget(dli_etcd_at(job->base.lane), job->request.exchange.wish.want);
        put(job, dli_etcd_stands(job) ? NULL : reply);
    } else if (own->keys == 0) {
        dli_etcd_fail(job, DLOCK_SERVER_BUSY, "the semaphore changes too often");
    }
}

static void put_answered(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    dli_etcd_slot_answered(job->request.place, job->request.exchange.wish.want);
    if (reply.succeeded) {
        job->created = reply.revision;
        decide(job, &reply, PUT_CLAIMS, PUT_TOTAL);
    } else {
        judge(job, &reply);
    }
}

/* seen: put the claim only if there are no more claims than these, and the same total. */
static void test_seen(struct dli_etcd_txn *txn, const struct names *names, const struct dli_etcd_reply *seen)
{
    const struct dli_etcd_result *total = &seen->result[TOTAL];
    struct dli_etcd_bytes key = txn->otherwise_step[TOTAL].key;

    dli_etcd_test(txn, DLI_ETCD_CREATED, names->claims.key, seen->revision + 1);
    txn->test[txn->tests - 1].end = names->claims.end;
    txn->test[txn->tests - 1].below = 1;
    dli_etcd_test(txn, DLI_ETCD_MODIFIED, key, total->keys ? total->found[0].modified : 0);
}

static void put(struct dli_job *job, const struct dli_etcd_reply *seen)
{
    struct names names, again;
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_step *claim;
    char value[24];

    dli_etcd_slot_take(job->request.place, job->request.exchange.wish.want);
    read_all(job, &txn, &names, dli_etcd_otherwise);
    claim = dli_etcd_then(&txn, DLI_ETCD_PUT, txn.otherwise_step[OWN].key);
    claim->lease = job->session->id;
    claim->value = dli_etcd_text(value, dli_decimal(value, job->request.exchange.wish.permits));
    read_claims(job, &txn, &again, dli_etcd_then);
    dli_etcd_test(&txn, DLI_ETCD_CREATED, txn.otherwise_step[OWN].key, 0);
    dli_etcd_test(&txn, DLI_ETCD_MODIFIED, txn.otherwise_step[MARK].key, job->session->mark);
    dli_etcd_test(&txn, DLI_ETCD_CREATED, txn.otherwise_step[GATE].key, 0);
    if (seen)
        test_seen(&txn, &names, seen);
    dli_etcd_call_txn(job, &txn, put_answered);
}

static void asked(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    judge(job, &reply);
}

static void ask(struct dli_job *job)
{
    struct names names;
    struct dli_etcd_txn txn = {0};

    dli_etcd_looks(job);
    read_all(job, &txn, &names, dli_etcd_then);
    dli_etcd_call_txn(job, &txn, asked);
}

static void entered(struct dli_job *job)
{
    const struct dli_etcd_waiter *waiter =
        dli_etcd_waiter(dli_etcd_at(job->base.lane), job->request.exchange.wish.want);

    job->at = 0;
    if (dli_etcd_stands(job) && !waiter)
        put(job, NULL);
    else
        ask(job);
}

void dli_etcd_permit_acquire(struct dli_job *job)
{
    if (dli_etcd_enter(job, job->request.exchange.wish.lease + job->request.exchange.delay, entered))
        entered(job);
}

/* ---- the number of permits */

static void read_number(struct dli_job *job);
static void read_refused(struct dli_job *job);

static const struct dli_etcd_number total_number = {
    .key = total_key, .again = read_number, .refused = read_refused, .stays = 1};

/* The total as it was read, and the sums of the claims. 0, or -1: the job has failed. */
static int read_total(struct dli_job *job, int64_t *modified, char value[DLI_CHANGE_VALUE], struct sums *sums)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return -1;
    if (add_up(job, &reply, 0, 1, sums))
        return -1;
    *modified = dli_etcd_value(&reply.result[1], value);
    return 0;
}

/* Nobody deletes the key: while there is room for more ids, all are there. */
static int is_unclear(const struct dli_job *job, int64_t modified, const char *value)
{
    return dli_change_ids(value) >= DLI_CHANGE_IDS && dli_etcd_number_unclear(job, modified, value);
}

static void decide_number(struct dli_job *job)
{
    const char *what = job->request.change.what;
    char value[DLI_CHANGE_VALUE];
    int64_t modified, number = job->request.change.number;
    struct sums sums;

    if (read_total(job, &modified, value, &sums))
        return;
    if (strcmp(what, "count") == 0 || dli_change_acted(&job->request.change, value)) {
        dli_etcd_number_finish(job, DLOCK_OK, dli_minus(sums.total, sums.used));
    } else if (is_unclear(job, modified, value)) {
        dli_etcd_fail(job, DLOCK_UNKNOWN_OUTCOME, "the answer was lost, and the number of permits has changed since");
    } else if (strcmp(what, "set") == 0 && modified) {
        dli_etcd_number_finish(job, DLOCK_UNCHANGED, dli_minus(sums.total, sums.used));
    } else {
        number = dli_plus(sums.total, number);
        job->created = dli_minus(number, sums.used);
        dli_etcd_number_change(job, &total_number, number, modified, value);
    }
}

static void settle(struct dli_job *job)
{
    char value[DLI_CHANGE_VALUE];
    int64_t modified;
    struct sums sums;

    if (read_total(job, &modified, value, &sums))
        return;
    if (dli_change_acted(&job->request.change, value))
        dli_etcd_number_finish(job, DLOCK_OK, dli_minus(sums.total, sums.used));
    else
        dli_etcd_number_full(job, modified, value);
}

static void read_then(struct dli_job *job, void (*answered)(struct dli_job *job))
{
    struct names names;
    struct dli_etcd_txn txn = {0};

    read_claims(job, &txn, &names, dli_etcd_then);
    dli_etcd_call_txn(job, &txn, answered);
}

static void read_number(struct dli_job *job)
{
    read_then(job, decide_number);
}

static void read_refused(struct dli_job *job)
{
    read_then(job, settle);
}

void dli_etcd_permit_change(struct dli_job *job)
{
    dli_etcd_number_begin(job);
    read_number(job);
}
