/*
 * admin.c: several locks at once, release by force, inspection and ping. Belongs to lane 0's thread.
 */
#include <stdio.h>
#include <string.h>

#include "base/secret.h"
#include "kinds.h"

/* ---- several locks at once: all of them are free, or nothing happens */

enum { MARKS = 3 };

/* What the names of keys are written to. */
struct names {
    char own[DLI_MULTI_MAX][DLI_ETCD_KEY_MAX], end[DLI_MULTI_MAX][DLI_ETCD_KEY_MAX],
        gate[DLI_MULTI_MAX][DLI_ETCD_KEY_MAX], mark[MARKS][DLI_ETCD_MARK_MAX];
};

static void enter_all(struct dli_job *job);

static struct dli_multi_row *row_of(const struct dli_job *job, int i)
{
    return &job->request.multi.row[i];
}

/* Its members are mutexes. */
static struct dli_etcd_bytes key_of(const struct dli_multi_row *row, char room[DLI_ETCD_KEY_MAX])
{
    return dli_etcd_key(dli_kind_find(DLOCK_KIND_MUTEX), row->place, row->owner, room);
}

/* Its key has this lease. The session may be over, and another one have begun, since the request was sent. */
static void all_granted(struct dli_job *job, int i, int64_t created, int64_t lease)
{
    struct dli_multi_row *row = row_of(job, i);
    const struct dli_etcd_session *session = dli_etcd_session(dli_etcd_at(job->base.lane), row->lease);

    dli_etcd_slot_there(row->place, dli_etcd_number(row->owner));
    row->token = created * DLI_ETCD_TURNS;
    row->tokens = row->block < DLI_ETCD_TURNS ? row->block : DLI_ETCD_TURNS;
    row->since = session && session->id == lease ? dli_etcd_since(session, row->lease) : 1; /* 1: it has ended */
}

/*
 * The first keys of all names. Returns whether the request has them all already; if not, *which is the first name that another
 * owner has, -1 for none.
 */
static int has_all(struct dli_job *job, const struct dli_etcd_reply *reply, int *which)
{
    char key[DLI_ETCD_KEY_MAX];
    int all = 1;

    *which = -1;
    for (int i = 0; i < job->request.multi.count; i++) {
        const struct dli_etcd_result *first = &reply->result[i];
        int own = first->keys > 0 && dli_etcd_same(first->found[0].key, key_of(row_of(job, i), key));

        all &= own;
        if (first->keys > 0 && !own && *which < 0)
            *which = i;
        if (own)
            all_granted(job, i, first->found[0].created, first->found[0].lease);
    }
    return all;
}

/* The first name with a closed gate; -1: there is none. */
static int shut(const struct dli_job *job, const struct dli_etcd_reply *reply)
{
    int count = job->request.multi.count;

    for (int i = 0; i < count; i++)
        if (reply->result[count + i].keys > 0)
            return i;
    return -1;
}

/* The sessions of all members. Returns how many there are; -1: too many. */
static int sessions_of(const struct dli_job *job, struct dli_etcd_session *some[MARKS])
{
    int count = 0;

    for (int i = 0; i < job->request.multi.count; i++) {
        struct dli_etcd_session *session = dli_etcd_session(dli_etcd_at(job->base.lane), row_of(job, i)->lease);
        int known = 0;

        for (int j = 0; j < count; j++)
            known |= some[j] == session;
        if (known)
            continue;
        if (count == MARKS)
            return -1;
        some[count++] = session;
    }
    return count;
}

/* The marks are behind the first keys and the gates. A drop whose answer was lost has changed them. */
static void learn_marks(struct dli_job *job, const struct dli_etcd_reply *reply)
{
    struct dli_etcd_session *some[MARKS];
    int count = sessions_of(job, some), first = 2 * job->request.multi.count;

    for (int i = 0; i < count && first + i < reply->results; i++) {
        const struct dli_etcd_result *mark = &reply->result[first + i];

        if (some[i])
            some[i]->mark = mark->keys ? mark->found[0].modified : 0;
    }
}

static void finish_all(struct dli_job *job, int result, int which)
{
    job->request.multi.result = result;
    job->request.multi.which = which;
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

static void were_there(struct dli_job *job, const struct dli_etcd_reply *reply)
{
    int which, all = has_all(job, reply, &which), gate = shut(job, reply);

    learn_marks(job, reply);
    if (gate >= 0)
        finish_all(job, DLI_MULTI_GATE, gate);
    else if (all)
        finish_all(job, DLI_MULTI_ALL, -1);
    else if (which >= 0)
        finish_all(job, DLI_MULTI_IN_USE, which);
    else
        dli_etcd_again(job, enter_all);
}

static void tried_all(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    dli_etcd_each_number(job, dli_etcd_slot_answered);
    if (reply.revision >= DLI_ETCD_FIT) {
        dli_etcd_fail(job, DLOCK_UNFIT, "the revision of etcd is too high for fencing tokens below 2^53");
    } else if (reply.succeeded) {
        for (int i = 0; i < job->request.multi.count; i++)
            all_granted(job, i, reply.revision, row_of(job, i)->bound);
        finish_all(job, DLI_MULTI_ALL, -1);
    } else {
        were_there(job, &reply);
    }
}

/* Every put depends on the mark of its session. */
static void test_marks(struct dli_etcd_session *const some[], int count, struct dli_etcd_txn *txn, struct names *names)
{
    for (int i = 0; i < count; i++) {
        struct dli_etcd_bytes mark = dli_etcd_mark(some[i], names->mark[i]);

        dli_etcd_test(txn, DLI_ETCD_MODIFIED, mark, some[i]->mark);
        dli_etcd_otherwise(txn, DLI_ETCD_RANGE, mark);
    }
}

static void try_all(struct dli_job *job)
{
    struct dli_etcd_session *some[MARKS];
    int count = sessions_of(job, some);
    struct dli_etcd_txn txn = {0};
    struct names names;

    if (count < 0) {
        dli_etcd_fail(job, DLOCK_UNSUPPORTED, "the members of a multi-lock have more than three different leases");
        return;
    }
    dli_etcd_each_number(job, dli_etcd_slot_take);
    for (int i = 0; i < job->request.multi.count; i++) {
        struct dli_multi_row *row = row_of(job, i);
        const struct dli_etcd_session *session = dli_etcd_session(dli_etcd_at(job->base.lane), row->lease);
        struct dli_etcd_bytes prefix = dli_etcd_prefix(row->place), end = dli_etcd_prefix_end(row->place, names.end[i]);

        row->bound = session->id;
        dli_etcd_test(&txn, DLI_ETCD_CREATED, prefix, 0);
        txn.test[txn.tests - 1].end = end;
        dli_etcd_then(&txn, DLI_ETCD_PUT, key_of(row, names.own[i]))->lease = session->id;
        dli_etcd_otherwise(&txn, DLI_ETCD_RANGE, prefix)->end = end;
        dli_etcd_test(&txn, DLI_ETCD_CREATED, dli_etcd_gate_key(row->place, names.gate[i]), 0);
    }
    for (int i = 0; i < job->request.multi.count; i++)
        dli_etcd_otherwise(&txn, DLI_ETCD_RANGE, dli_etcd_gate_key(row_of(job, i)->place, names.gate[i]));
    test_marks(some, count, &txn, &names);
    dli_etcd_call_txn(job, &txn, tried_all);
}

/* First a session for every lease. */
static void enter_all(struct dli_job *job)
{
    for (int i = 0; i < job->request.multi.count; i++)
        if (!dli_etcd_enter(job, row_of(job, i)->lease, enter_all))
            return;
    try_all(job);
}

void dli_etcd_acquire_all(struct dli_job *job)
{
    enter_all(job);
}

/* ---- release by force */

static void forced(struct dli_job *job)
{
    struct dli_etcd_reply reply;

    if (dli_etcd_read(job, &reply))
        return;
    job->request.status = reply.succeeded && reply.result[0].count > 0 ? DLOCK_OK : DLOCK_NOT_HELD;
    dli_etcd_finish(job);
}

static void holder_found(struct dli_job *job)
{
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_reply reply;
    int found;

    if (dli_etcd_read(job, &reply))
        return;
    found = reply.result[0].keys > 0;
    if (found) {
        const struct dli_etcd_found *first = &reply.result[0].found[0];

        dli_etcd_test(&txn, DLI_ETCD_CREATED, first->key, first->created);
        dli_etcd_then(&txn, DLI_ETCD_DELETE, first->key);
        dli_etcd_call_txn(job, &txn, forced);
    }
    if (found)
        return;
    job->request.status = DLOCK_NOT_HELD;
    dli_etcd_finish(job);
}

static void read_lock(struct dli_job *job, void (*answered)(struct dli_job *job))
{
    struct dli_etcd_rivals claims;
    struct dli_etcd_txn txn = {0};
    struct dli_etcd_step *all;

    dli_etcd_claims(job->request.kind, job->request.place, &claims);
    dli_etcd_then(&txn, DLI_ETCD_RANGE, claims.key)->end = claims.end;
    all = dli_etcd_then(&txn, DLI_ETCD_RANGE, claims.key);
    all->end = claims.end;
    all->limit = 0;
    dli_etcd_call_txn(job, &txn, answered);
}

void dli_etcd_force(struct dli_job *job)
{
    read_lock(job, holder_found);
}

/* ---- inspect */

int64_t dli_etcd_lease_read(struct dli_job *job)
{
    struct dli_etcd_talk talk = dli_etcd_talk_of(&job->call);
    int64_t seconds;

    return dli_etcd_decode_lease_left(&talk, &seconds) ? -1 : seconds;
}

static void holder_read(struct dli_job *job)
{
    int64_t seconds = dli_etcd_lease_read(job);

    job->request.inspection.left_ms = seconds > 0 ? seconds * 1000 : -1;
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

void dli_etcd_read_lease(struct dli_job *job, int64_t id, void (*answered)(struct dli_job *job))
{
    static const struct dli_grpc_method method = {.path = "/etcdserverpb.Lease/LeaseTimeToLive",
                                                  .ended = dli_etcd_job_ended};

    dli_buffer_drop(&job->call.out, job->call.out.size);
    if (dli_etcd_encode_lease(&job->call.out, id))
        dli_etcd_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    else
        dli_etcd_call(job, &method, answered);
}

/* The owner in a key, without what says read, write or permit. */
static struct dli_etcd_bytes owner_of(const struct dli_job *job, struct dli_etcd_bytes key)
{
    static const char *const sides[] = {"read-", "write-", "permit-"};
    size_t prefix = dli_etcd_prefix(job->request.place).size;
    struct dli_etcd_bytes owner = dli_etcd_text(key.bytes + prefix, key.size - prefix);

    for (size_t i = 0; i < 3 && (job->request.kind->family == DLOCK_KIND_WRITE || job->request.kind->slots); i++)
        if (owner.size > strlen(sides[i]) && memcmp(owner.bytes, sides[i], strlen(sides[i])) == 0)
            return dli_etcd_text(owner.bytes + strlen(sides[i]), owner.size - strlen(sides[i]));
    return owner;
}

/* A server may name what it likes. */
static void show_holder(struct dli_job *job, struct dli_etcd_bytes owner)
{
    const struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    const char *secrets[] = {etcd->password, etcd->token};
    struct dli_inspection *inspection = &job->request.inspection;

    dli_mask(inspection->holder, sizeof inspection->holder, &(struct dli_said){owner.bytes, owner.size, 0}, secrets, 2);
}

static void inspected(struct dli_job *job)
{
    struct dli_inspection *inspection = &job->request.inspection;
    struct dli_etcd_reply reply;
    int64_t lease = 0;

    if (dli_etcd_read(job, &reply))
        return;
    memset(inspection, 0, sizeof *inspection);
    inspection->left_ms = -2;
    if (reply.result[0].keys > 0) {
        const struct dli_etcd_found *first = &reply.result[0].found[0];

        struct dli_etcd_bytes owner = owner_of(job, first->key);

        show_holder(job, owner);
        inspection->left_ms = -1;
        inspection->token = first->created * DLI_ETCD_TURNS;
        inspection->waiters = reply.result[1].count - 1;
        lease = first->lease;
    }
    if (lease) {
        dli_etcd_read_lease(job, lease, holder_read);
        return;
    }
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

void dli_etcd_inspect(struct dli_job *job)
{
    read_lock(job, inspected);
}

/* ---- ping: the member that the client is connected to */

static int read_status(struct dli_job *job, struct dli_etcd_status *status)
{
    struct dli_etcd_talk talk = dli_etcd_talk_of(&job->call);

    if (dli_etcd_decode_status(&talk, status) == 0)
        return 0;
    dli_etcd_senseless(job);
    return -1;
}

static void call_status(struct dli_job *job, void (*answered)(struct dli_job *job))
{
    static const struct dli_grpc_method method = {.path = "/etcdserverpb.Maintenance/Status",
                                                  .ended = dli_etcd_job_ended};

    dli_buffer_drop(&job->call.out, job->call.out.size);
    if (dli_etcd_encode_status(&job->call.out))
        dli_etcd_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for the command");
    else
        dli_etcd_call(job, &method, answered);
}

static void pinged(struct dli_job *job)
{
    struct dli_etcd_status status;

    if (read_status(job, &status))
        return;
    if (!status.has_leader) {
        dli_etcd_fail(job, DLOCK_UNREACHABLE, "The member has no leader: most of its cluster is out of its reach.");
        return;
    }
    job->request.status = DLOCK_OK;
    dli_etcd_finish(job);
}

void dli_etcd_ping(struct dli_job *job)
{
    call_status(job, pinged);
}
