/*
 * gate.c: gates. Belongs to lane 0's thread.
 *
 * A closed gate is the key dlock_gate/<name>, with a lease of its own for its time; its value is that time in milliseconds.
 * No key is put while it is there: every acquisition tests it. Those who wait hear of it by one watch of all gates, which
 * begins when somebody waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "kinds.h"

enum { LONGEST = 1000000000, KINDS = 16 };

/* ---- close and open */

static void closed(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

static void leased(struct dli_job *job)
{
    int64_t lease = dli_etcd_leased(job);
    char key[DLI_ETCD_KEY_MAX], value[24];
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_step *step;

    if (!lease)
        return;
    step = dli_etcd_then(&txn, DLI_ETCD_PUT, dli_etcd_gate_key(job->request.place, key));
    step->lease = lease;
    step->value = dli_etcd_text(value, dli_decimal(value, job->request.gate_ms));
    dli_etcd_call_txn(job, &txn, closed);
}

static void opened(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    job->request.status = reply.result[0].count > 0 ? DLOCK_OK : DLOCK_UNCHANGED;
    dli_etcd_finish(job);
}

void dli_etcd_gate(struct dli_job *job)
{
    char key[DLI_ETCD_KEY_MAX];
    struct dli_etcd_txn txn = {0};

    if (job->request.gate_ms > 0) {
        dli_etcd_lease_for(job, job->request.gate_ms * 1000, leased);
        return;
    }
    dli_etcd_then(&txn, DLI_ETCD_DELETE, dli_etcd_gate_key(job->request.place, key));
    dli_etcd_call_txn(job, &txn, opened);
}

/* ---- for how long it is closed */

static void lease_read(struct dli_job *job)
{
    int64_t seconds = dli_etcd_lease_read(job);

    job->request.gate_ms = seconds > 0 ? seconds * 1000 : seconds == 0 ? 1 : -1;
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

static void found(struct dli_job *job)
{
    struct dli_etcd_reply reply;
    int64_t lease;
    int shut;

    if (dli_etcd_read(job, &reply))
        return;
    shut = reply.result[0].keys > 0;
    lease = shut ? reply.result[0].found[0].lease : 0;
    if (lease) {
        dli_etcd_read_lease(job, lease, lease_read);
        return;
    }
    job->request.gate_ms = shut ? (int64_t)LONGEST * 1000 : -1;
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

void dli_etcd_gate_left(struct dli_job *job)
{
    char key[DLI_ETCD_KEY_MAX];
    struct dli_etcd_txn txn = {0};

    dli_etcd_then(&txn, DLI_ETCD_RANGE, dli_etcd_gate_key(job->request.place, key));
    dli_etcd_call_txn(job, &txn, found);
}

/* ---- the watch */

void dli_etcd_gates_step(struct dli_etcd *etcd)
{
    static const struct dli_etcd_bytes key = {DLI_ETCD_GATES, sizeof DLI_ETCD_GATES - 1},
                                       end = {"dlock_gate0", sizeof "dlock_gate0" - 1};
    struct dli_etcd_watching what = {.key = key, .end = end, .puts = 1};

    if (etcd->gates.node.number || etcd->gates_refused || !etcd->grpc.session || etcd->grpc.hold ||
        !__atomic_load_n(&etcd->follows, __ATOMIC_ACQUIRE))
        return;
    dli_etcd_watch_begin(etcd, &etcd->gates, &what);
}

/* A gate has no kind: every kind of lock with its name hears of it. */
static void tell(struct dli_etcd *etcd, const struct dli_etcd_event *event)
{
    size_t prefix = sizeof DLI_ETCD_GATES - 1;
    int64_t most = (int64_t)LONGEST * 1000, ms = 0;

    if (!event->deleted && dli_etcd_read_number(event->value, 1, most, &ms))
        ms = most;
    for (int32_t id = 0; id < KINDS; id++) {
        const struct dli_kind *kind = dli_kind_find(id);
        struct dli_message_target target = {id, event->key.bytes + prefix, event->key.size - prefix, 0};

        if (kind && kind->family == id)
            etcd->store.hooks->gate(etcd->store.owner, &target, ms);
    }
}

void dli_etcd_gates_news(struct dli_etcd *etcd, struct dli_etcd_news *news)
{
    struct dli_etcd_event event;

    if (news->ended) {
        etcd->gates_refused = 1;
    } else if (news->created) {
        etcd->store.hooks->up(etcd->store.owner);
    } else {
        while (dli_etcd_next_event(news, &event))
            tell(etcd, &event);
    }
}
