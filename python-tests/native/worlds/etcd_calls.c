/*
 * etcd_calls.c: the calls of etcd's protocol on the model's data: transactions, leases. See etcd.h.
 */
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

enum { FOUND = 256, RESULTS = 48 };

static struct e_bytes bytes_of(ProtobufCBinaryData data)
{
    return (struct e_bytes){(const char *)data.data, data.len};
}

ProtobufCBinaryData e_data_of(const char *bytes, size_t size)
{
    return (ProtobufCBinaryData){size, (uint8_t *)(uintptr_t)bytes};
}

Etcd__Header e_header(void)
{
    Etcd__Header header = ETCD__HEADER__INIT;

    header.cluster_id = header.member_id = 1;
    header.revision = e.revision;
    return header;
}

/* ---- ranges */

static int by_created(const void *a, const void *b)
{
    int64_t x = (*(struct e_key *const *)a)->created, y = (*(struct e_key *const *)b)->created;

    return x < y ? -1 : x > y;
}

/* Those of a range, in order of their creation. Returns how many. */
static int in_range(ProtobufCBinaryData key, ProtobufCBinaryData end, struct e_key *found[FOUND])
{
    int count = 0;

    for (struct e_key *one = e.keys; one && count < FOUND; one = one->next)
        if (e_matches(one->name, one->size, bytes_of(key), bytes_of(end)))
            found[count++] = one;
    qsort(found, (size_t)count, sizeof found[0], by_created);
    return count;
}

/* An answer that is packed soon: what it points to lives as long as this. */
struct answer {
    Etcd__TxnResponse txn;
    Etcd__Header header;
    Etcd__Result result[RESULTS], *results[RESULTS];
    Etcd__RangeResponse range[RESULTS];
    Etcd__PutResponse put[RESULTS];
    Etcd__DeleteResponse deleted[RESULTS];
    Etcd__KeyValue kv[FOUND], *kvs[FOUND];
    struct e_key *copy[FOUND];
    int used;
};

static Etcd__KeyValue *add_kv(struct answer *answer, const struct e_key *key)
{
    int i = answer->used++;
    Etcd__KeyValue *kv = &answer->kv[i];

    if (!(answer->copy[i] = malloc(sizeof *key)))
        abort();
    *answer->copy[i] = *key;
    etcd__key_value__init(kv);
    kv->key = e_data_of(answer->copy[i]->name, key->size);
    kv->value = e_data_of(answer->copy[i]->value, key->value_size);
    kv->create_revision = key->created;
    kv->mod_revision = key->modified;
    kv->version = key->version;
    kv->lease = key->lease;
    answer->kvs[i] = kv;
    return kv;
}

static void range(struct answer *answer, const Etcd__RangeRequest *request, Etcd__RangeResponse *response)
{
    struct e_key *found[FOUND];
    int count = in_range(request->key, request->range_end, found), last = request->sort_order == 2;

    etcd__range_response__init(response);
    response->count = count;
    response->kvs = &answer->kvs[answer->used];
    for (int i = 0; i < count && !request->count_only && answer->used < FOUND; i++) {
        const struct e_key *key = found[last ? count - 1 - i : i];

        if (request->max_create_revision && key->created > request->max_create_revision)
            continue;
        if (request->limit > 0 && (int64_t)response->n_kvs == request->limit)
            break;
        add_kv(answer, key);
        response->n_kvs++;
    }
}

/* ---- transactions */

static int64_t side_of(const Etcd__Compare *compare, const struct e_key *key)
{
    int64_t is, wants;

    if (compare->target == 0) {
        is = key->version;
        wants = compare->version;
    } else if (compare->target == 1) {
        is = key->created;
        wants = compare->create_revision;
    } else {
        is = key->modified;
        wants = compare->mod_revision;
    }
    return is < wants ? -1 : is > wants;
}

static int holds_for(const Etcd__Compare *compare, const struct e_key *key)
{
    int64_t side = side_of(compare, key);

    return compare->result == 0   ? side == 0
           : compare->result == 1 ? side > 0
           : compare->result == 2 ? side < 0
                                  : side != 0;
}

static int holds(const Etcd__Compare *compare)
{
    struct e_key *found[FOUND], none = {.next = NULL};
    int count = in_range(compare->key, compare->range_end, found);

    for (int i = 0; i < count; i++)
        if (!holds_for(compare, found[i]))
            return 0;
    return count > 0 || holds_for(compare, &none);
}

static void put(const Etcd__PutRequest *request, int64_t revision)
{
    struct e_key *key = e_put(bytes_of(request->key), request->lease, revision);

    if (request->ignore_value)
        return;
    key->value_size = request->value.len < E_VALUE ? request->value.len : E_VALUE;
    for (size_t i = 0; i < key->value_size; i++)
        key->value[i] = (char)request->value.data[i];
    if (w_latch_of(key->name, key->size) >= 0)
        w_judge_counted(e.caller, w_latch_of(key->name, key->size), strtoll(key->value, NULL, 10),
                        w_latch_number(key->value, key->value_size));
}

static void run_step(struct answer *answer, int i, const Etcd__Operation *step, int64_t revision)
{
    Etcd__Result *result = &answer->result[i];

    etcd__result__init(result);
    answer->results[i] = result;
    if (step->request_case == ETCD__OPERATION__REQUEST_RANGE) {
        range(answer, step->range, &answer->range[i]);
        result->response_case = ETCD__RESULT__RESPONSE_RANGE;
        result->range = &answer->range[i];
    } else if (step->request_case == ETCD__OPERATION__REQUEST_PUT) {
        put(step->put, revision);
        etcd__put_response__init(&answer->put[i]);
        result->response_case = ETCD__RESULT__RESPONSE_PUT;
        result->put = &answer->put[i];
    } else {
        etcd__delete_response__init(&answer->deleted[i]);
        answer->deleted[i].deleted =
            e_delete(bytes_of(step->delete_->key), bytes_of(step->delete_->range_end), revision);
        result->response_case = ETCD__RESULT__RESPONSE_DELETE;
        result->delete_ = &answer->deleted[i];
    }
}

static int no_lease(Etcd__Operation *const *step, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (step[i]->request_case == ETCD__OPERATION__REQUEST_PUT && step[i]->put->lease &&
            !e_lease(step[i]->put->lease))
            return 1;
    return 0;
}

static int has_long_key(Etcd__Operation *const *step, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (step[i]->request_case == ETCD__OPERATION__REQUEST_PUT && step[i]->put->key.len >= W_KEY)
            return 1;
    return 0;
}

/* After a failure of the leader nobody may know what became of a request. */
static int unsure(struct e_call *call)
{
    if (!w_fault(W_UNSURE))
        return 0;
    e_refuse(call, E_UNAVAILABLE, "etcdserver: request timed out, possibly due to previous leader failure");
    return 1;
}

static void delete_range(struct e_call *call, const uint8_t *bytes, size_t size)
{
    Etcd__DeleteRequest *request = etcd__delete_request__unpack(NULL, size, bytes);
    Etcd__DeleteResponse response = ETCD__DELETE_RESPONSE__INIT;
    int64_t revision = e.revision + 1;
    Etcd__Header header;

    if (!request)
        abort();
    e.caller = call->wire->process;
    response.deleted = e_delete(bytes_of(request->key), bytes_of(request->range_end), revision);
    e.caller = NULL;
    e_commit(revision);
    header = e_header();
    response.header = &header;
    if (!unsure(call))
        e_answer(call, &response.base, 1);
    etcd__delete_request__free_unpacked(request, NULL);
}

/* The write that fills the space is done, and refused all the same. */
static int is_full(Etcd__Operation *const *step, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (step[i]->request_case == ETCD__OPERATION__REQUEST_PUT)
            return w_fault(W_FULL);
    return 0;
}

static void refuse_full(struct e_call *call)
{
    e_refuse(call, E_EXHAUSTED, "etcdserver: mvcc: database space exceeded");
}

static void txn(struct e_call *call, const Etcd__TxnRequest *request)
{
    struct answer *answer = calloc(1, sizeof *answer);
    int64_t revision = e.revision + 1;
    Etcd__Operation **step = request->success;
    size_t count = request->n_success;
    int full = 0;

    if (!answer)
        abort();
    etcd__txn_response__init(&answer->txn);
    answer->txn.succeeded = 1;
    for (size_t i = 0; i < request->n_compare; i++)
        answer->txn.succeeded &= holds(request->compare[i]);
    if (!answer->txn.succeeded) {
        step = request->failure;
        count = request->n_failure;
    }
    if (count > RESULTS || has_long_key(step, count)) {
        w_violated("wire: a transaction with %d steps", (int)count);
        e_refuse(call, E_EXHAUSTED, "etcdserver: too many operations in txn request");
        free(answer);
        return;
    }
    if (no_lease(step, count)) {
        e_refuse(call, E_NOT_FOUND, "etcdserver: requested lease not found");
        free(answer);
        return;
    }
    if (w.latches && is_full(step, count)) {
        full = 1 + w_percent(50);
        count = full == 1 ? count : 0;
    }
    e.caller = call->wire->process;
    for (size_t i = 0; i < count; i++)
        run_step(answer, (int)i, step[i], revision);
    e.caller = NULL;
    e_commit(revision);
    answer->header = e_header();
    answer->txn.header = &answer->header;
    answer->txn.responses = answer->results;
    answer->txn.n_responses = count;
    if (full)
        refuse_full(call);
    else if (!unsure(call))
        e_answer(call, &answer->txn.base, 1);
    for (int i = 0; i < answer->used; i++)
        free(answer->copy[i]);
    free(answer);
}

/* ---- leases */

static void answer_lease(struct e_call *call, int64_t id, int64_t ttl, int over)
{
    Etcd__LeaseGrantResponse response = ETCD__LEASE_GRANT_RESPONSE__INIT;
    Etcd__Header head = e_header();

    response.header = &head;
    response.id = id;
    response.ttl = ttl;
    e_answer(call, &response.base, over);
}

static void grant(struct e_call *call, const Etcd__LeaseGrantRequest *request)
{
    const struct e_lease *lease = e_grant(request->ttl);

    if (!unsure(call))
        answer_lease(call, lease->id, lease->ttl, 1);
}

static void keep_alive(struct e_call *call, int64_t id)
{
    struct e_lease *lease = e_lease(id);

    if (lease)
        e_keep(lease);
    answer_lease(call, id, lease ? lease->ttl : 0, 0);
}

static void revoke(struct e_call *call, int64_t id)
{
    struct e_lease *lease = e_lease(id);

    if (!lease) {
        e_refuse(call, E_NOT_FOUND, "etcdserver: requested lease not found");
        return;
    }
    e_revoke(lease, 0);
    if (!unsure(call))
        answer_lease(call, id, 0, 1);
}

/* ---- the calls by their names */

static void serve_txn(struct e_call *call, const uint8_t *bytes, size_t size)
{
    Etcd__TxnRequest *request = etcd__txn_request__unpack(NULL, size, bytes);

    if (request)
        txn(call, request);
    etcd__txn_request__free_unpacked(request, NULL);
}

static void serve_lease(struct e_call *call, const uint8_t *bytes, size_t size)
{
    Etcd__LeaseKeepAliveRequest *request = etcd__lease_keep_alive_request__unpack(NULL, size, bytes);
    int64_t id = request ? request->id : 0;

    etcd__lease_keep_alive_request__free_unpacked(request, NULL);
    if (strstr(call->path, "KeepAlive"))
        keep_alive(call, id);
    else
        revoke(call, id);
}

static void serve_grant(struct e_call *call, const uint8_t *bytes, size_t size)
{
    Etcd__LeaseGrantRequest *request = etcd__lease_grant_request__unpack(NULL, size, bytes);

    if (request)
        grant(call, request);
    etcd__lease_grant_request__free_unpacked(request, NULL);
}

static void serve_watch(struct e_call *call, const uint8_t *bytes, size_t size)
{
    Etcd__WatchRequest *request = etcd__watch_request__unpack(NULL, size, bytes);

    if (request && request->request_case == ETCD__WATCH_REQUEST__REQUEST_CREATE)
        e_watch_for(call, request->create);
    else if (request)
        e_unwatch(call, request->cancel->watch_id);
    etcd__watch_request__free_unpacked(request, NULL);
}

void e_serve(struct e_call *call, const uint8_t *bytes, size_t size)
{
    w_trace("process %d calls %s at member %d", call->wire->process->index, strrchr(call->path, '/') + 1,
            call->wire->member);
    if (strcmp(call->path, "/etcdserverpb.KV/Txn") == 0)
        serve_txn(call, bytes, size);
    else if (strcmp(call->path, "/etcdserverpb.KV/DeleteRange") == 0)
        delete_range(call, bytes, size);
    else if (strcmp(call->path, "/etcdserverpb.Lease/LeaseGrant") == 0)
        serve_grant(call, bytes, size);
    else if (e_serve_rest(call, bytes, size))
        return;
    else if (strstr(call->path, "/etcdserverpb.Lease/"))
        serve_lease(call, bytes, size);
    else if (strcmp(call->path, "/etcdserverpb.Watch/Watch") == 0)
        serve_watch(call, bytes, size);
    else
        w_violated("wire: a call of %s", call->path);
}
