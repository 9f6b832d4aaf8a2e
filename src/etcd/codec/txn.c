/*
 * txn.c: the requests of transactions, see codec.h. No state.
 */
#include <stdlib.h>
#include <string.h>

#include "inner.h"

enum { ASCENDING = 1, DESCENDING = 2, BY_CREATE_REVISION = 2, EQUAL = 0, LESS = 2, NOT_EQUAL = 3 };

int dli_etcd_pack(struct dli_buffer *out, const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    uint8_t head[DLI_ETCD_FRAME] = {0, (uint8_t)(size >> 24), (uint8_t)(size >> 16), (uint8_t)(size >> 8),
                                    (uint8_t)size};

    if (size > INT32_MAX || dli_buffer_reserve(out, sizeof head + size) || dli_buffer_add(out, head, sizeof head))
        return -1;
    protobuf_c_message_pack(message, (uint8_t *)out->bytes + out->size);
    out->size += size;
    return 0;
}

/* ---- the request */

/* One step, and what it points to. */
struct step {
    Etcd__Operation operation;
    union {
        Etcd__RangeRequest range;
        Etcd__PutRequest put;
        Etcd__DeleteRequest delete_;
    };
};

static void fill_range(Etcd__RangeRequest *range, const struct dli_etcd_step *step)
{
    *range = (Etcd__RangeRequest)ETCD__RANGE_REQUEST__INIT;
    range->key = dli_etcd_data(step->key);
    range->range_end = dli_etcd_data(step->end);
    range->limit = step->limit > 0 ? step->limit : 0;
    range->count_only = step->limit == 0;
    range->max_create_revision = step->before > 0 ? step->before - 1 : 0;
    if (step->limit == 0 || step->end.size == 0)
        return;
    range->sort_order = step->last ? DESCENDING : ASCENDING;
    range->sort_target = BY_CREATE_REVISION;
}

static void fill_put(Etcd__PutRequest *put, const struct dli_etcd_step *step)
{
    *put = (Etcd__PutRequest)ETCD__PUT_REQUEST__INIT;
    put->key = dli_etcd_data(step->key);
    put->value = dli_etcd_data(step->value);
    put->lease = step->lease;
    put->ignore_value = step->keep_value;
}

static void fill_step(struct step *to, const struct dli_etcd_step *step)
{
    to->operation = (Etcd__Operation)ETCD__OPERATION__INIT;
    to->operation.request_case = (Etcd__Operation__RequestCase)step->kind;
    if (step->kind == DLI_ETCD_RANGE) {
        fill_range(&to->range, step);
        to->operation.range = &to->range;
    } else if (step->kind == DLI_ETCD_PUT) {
        fill_put(&to->put, step);
        to->operation.put = &to->put;
    } else {
        to->delete_ = (Etcd__DeleteRequest)ETCD__DELETE_REQUEST__INIT;
        to->delete_.key = dli_etcd_data(step->key);
        to->delete_.range_end = dli_etcd_data(step->end);
        to->operation.delete_ = &to->delete_;
    }
}

static void fill_test(Etcd__Compare *to, const struct dli_etcd_test *test)
{
    *to = (Etcd__Compare)ETCD__COMPARE__INIT;
    to->result = test->differs ? NOT_EQUAL : test->below ? LESS : EQUAL;
    to->target = (int32_t)test->target;
    to->key = dli_etcd_data(test->key);
    to->range_end = dli_etcd_data(test->end);
    if (test->target == DLI_ETCD_CREATED) {
        to->operand_case = ETCD__COMPARE__OPERAND_CREATE_REVISION;
        to->create_revision = test->revision;
    } else {
        to->operand_case = ETCD__COMPARE__OPERAND_MOD_REVISION;
        to->mod_revision = test->revision;
    }
}

/* Room for the parts of a request. */
struct parts {
    Etcd__Compare *test, **tests;
    struct step *step;
    Etcd__Operation **operation;
};

static void fill_steps(struct step *to, Etcd__Operation **list, const struct dli_etcd_step *from, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fill_step(&to[i], &from[i]);
        list[i] = &to[i].operation;
    }
}

static int encode(struct dli_buffer *out, const struct dli_etcd_long_txn *txn, const struct parts *parts)
{
    Etcd__TxnRequest request = ETCD__TXN_REQUEST__INIT;

    for (size_t i = 0; i < txn->tests; i++) {
        fill_test(&parts->test[i], &txn->test[i]);
        parts->tests[i] = &parts->test[i];
    }
    fill_steps(parts->step, parts->operation, txn->then_step, txn->then);
    fill_steps(parts->step + txn->then, parts->operation + txn->then, txn->otherwise_step, txn->otherwise);
    request.compare = parts->tests;
    request.n_compare = txn->tests;
    request.success = parts->operation;
    request.n_success = txn->then;
    request.failure = parts->operation + txn->then;
    request.n_failure = txn->otherwise;
    return dli_etcd_pack(out, &request.base);
}

int dli_etcd_encode_txn(struct dli_buffer *out, const struct dli_etcd_txn *txn)
{
    Etcd__Compare test[DLI_ETCD_STEPS], *tests[DLI_ETCD_STEPS];
    struct step step[2 * DLI_ETCD_STEPS];
    Etcd__Operation *operation[2 * DLI_ETCD_STEPS];
    const struct parts parts = {test, tests, step, operation};
    const struct dli_etcd_long_txn all = {(size_t)txn->tests, (size_t)txn->then, (size_t)txn->otherwise,
                                          txn->test,          txn->then_step,    txn->otherwise_step};

    return encode(out, &all, &parts);
}

int dli_etcd_encode_long_txn(struct dli_buffer *out, const struct dli_etcd_long_txn *txn)
{
    size_t steps = txn->then + txn->otherwise;
    struct parts parts = {calloc(txn->tests + 1, sizeof *parts.test), calloc(txn->tests + 1, sizeof(void *)),
                          calloc(steps + 1, sizeof *parts.step), calloc(steps + 1, sizeof(void *))};
    int failed = !parts.test || !parts.tests || !parts.step || !parts.operation || encode(out, txn, &parts);

    free(parts.test);
    free(parts.tests);
    free(parts.step);
    free(parts.operation);
    return failed ? -1 : 0;
}
