/*
 * reply.c: the answers of transactions, checked against their requests, see codec.h. No state.
 *
 * A result must be that of the step at its place: of its kind, with keys of its range, not more than asked for, in the order that was
 * asked for, none younger than the server's own revision. And a transaction without a condition cannot have failed.
 */
#include <string.h>

#include "wire.h"

/* The numbers of etcd's fields, see etcd.proto. */
enum { HEADER = 1, HEADER_REVISION = 3, HEADER_TERM = 4 };
enum { TXN_SUCCEEDED = 2, TXN_RESULTS = 3, TXN_CONDITION = 1, TXN_THEN = 2, TXN_OTHERWISE = 3 };
enum { STEP_KEY = 1, STEP_END = 2, RANGE_LIMIT = 3, RANGE_ORDER = 5, RANGE_COUNT_ONLY = 9, RANGE_MOST = 13 };
enum { RESULT_KEYS = 2, RESULT_COUNT = 4, DELETED = 2 };
enum { KEY = 1, CREATED, MODIFIED, VERSION, VALUE, LEASE };
enum { DESCENDING = 2 };

int dli_etcd_read_header(const struct dli_etcd_field *field, int64_t *revision, int64_t *term)
{
    struct dli_etcd_wire wire = field->bytes;
    struct dli_etcd_field part;
    int more;

    if (!field->is_bytes)
        return -1;
    while ((more = dli_etcd_wire_next(&wire, &part)) > 0) {
        if (part.number == HEADER_REVISION && dli_etcd_wire_number(&part, 1, DLI_ETCD_REVISION_MAX, revision))
            return -1;
        if (part.number == HEADER_TERM && term && dli_etcd_wire_number(&part, 0, INT64_MAX, term))
            return -1;
    }
    return more;
}

/* ---- what was asked for */

struct step {
    enum dli_etcd_step_kind kind;
    struct dli_etcd_bytes key, end;
    int64_t limit, order, most; /* 0: none */
    int64_t counts;             /* only */
};

static int step_field(void *into, const struct dli_etcd_field *field)
{
    struct step *step = into;
    int is_range = step->kind == DLI_ETCD_RANGE;

    if (field->number == STEP_KEY)
        return dli_etcd_wire_text(field, &step->key);
    if (field->number == STEP_END && step->kind != DLI_ETCD_PUT)
        return dli_etcd_wire_text(field, &step->end);
    if (field->number == RANGE_LIMIT && is_range)
        return dli_etcd_wire_number(field, 0, INT64_MAX, &step->limit);
    if (field->number == RANGE_ORDER && is_range)
        return dli_etcd_wire_number(field, 0, DESCENDING, &step->order);
    if (field->number == RANGE_COUNT_ONLY && is_range)
        return dli_etcd_wire_number(field, 0, 1, &step->counts);
    if (field->number == RANGE_MOST && is_range)
        return dli_etcd_wire_number(field, 0, INT64_MAX, &step->most);
    return 0;
}

/* Both an operation and a result are one message in another, whose number is the kind. 0, or -1. */
static int unwrap(const struct dli_etcd_field *field, enum dli_etcd_step_kind *kind, struct dli_etcd_wire *inside)
{
    struct dli_etcd_wire wire = field->bytes;
    struct dli_etcd_field part;

    if (!field->is_bytes || dli_etcd_wire_next(&wire, &part) != 1 || !part.is_bytes || part.number < DLI_ETCD_RANGE ||
        part.number > DLI_ETCD_DELETE || wire.at != wire.end)
        return -1;
    *kind = (enum dli_etcd_step_kind)part.number;
    *inside = part.bytes;
    return 0;
}

/* The next step of a branch of the request. 1; 0: there is none; -1: it is no request. */
static int next_step(struct dli_etcd_wire *request, uint32_t branch, struct step *step)
{
    struct dli_etcd_field field;
    struct dli_etcd_wire inside;
    int more;

    while ((more = dli_etcd_wire_next(request, &field)) > 0) {
        if (field.number != branch)
            continue;
        memset(step, 0, sizeof *step);
        if (unwrap(&field, &step->kind, &inside) || dli_etcd_wire_each(inside, step_field, step))
            return -1;
        return 1;
    }
    return more;
}

static int has_condition(struct dli_etcd_wire request)
{
    struct dli_etcd_field field;

    while (dli_etcd_wire_next(&request, &field) > 0)
        if (field.number == TXN_CONDITION)
            return 1;
    return 0;
}

/* ---- keys */

static int compare(struct dli_etcd_bytes a, struct dli_etcd_bytes b)
{
    int order = memcmp(a.bytes, b.bytes, a.size < b.size ? a.size : b.size);

    return order ? order : (a.size > b.size) - (a.size < b.size);
}

static int is_of(const struct step *step, struct dli_etcd_bytes key)
{
    if (!step->end.size)
        return compare(key, step->key) == 0;
    return compare(key, step->key) >= 0 && compare(key, step->end) < 0;
}

static int key_field(void *into, const struct dli_etcd_field *field)
{
    struct dli_etcd_found *found = into;
    int64_t version;

    switch (field->number) {
    case KEY:
        return dli_etcd_wire_text(field, &found->key);
    case CREATED:
        return dli_etcd_wire_number(field, 1, DLI_ETCD_REVISION_MAX, &found->created);
    case MODIFIED:
        return dli_etcd_wire_number(field, 1, DLI_ETCD_REVISION_MAX, &found->modified);
    case VERSION:
        return dli_etcd_wire_number(field, 1, DLI_ETCD_REVISION_MAX, &version);
    case VALUE:
        return dli_etcd_wire_text(field, &found->value);
    case LEASE: /* a name that a client may have chosen, not a number */
        return dli_etcd_wire_number(field, INT64_MIN, INT64_MAX, &found->lease);
    default:
        return 0;
    }
}

static int read_key(const struct dli_etcd_field *field, struct dli_etcd_found *found)
{
    memset(found, 0, sizeof *found);
    if (!field->is_bytes || dli_etcd_wire_each(field->bytes, key_field, found))
        return -1;
    return found->key.size > 0 && found->created > 0 && found->modified >= found->created ? 0 : -1;
}

/* ---- results */

/* A result of a range that is being read. */
struct range {
    const struct step *step;
    struct dli_etcd_result *result;
    int64_t revision, last; /* of the server; of the key before */
};

static int is_in_order(const struct range *range, int64_t created)
{
    if (!range->step->order || !range->last)
        return 1;
    return range->step->order == DESCENDING ? created <= range->last : created >= range->last;
}

static int range_field(void *into, const struct dli_etcd_field *field)
{
    struct range *range = into;
    struct dli_etcd_result *result = range->result;
    const struct step *step = range->step;
    struct dli_etcd_found found;

    if (field->number == RESULT_COUNT)
        return dli_etcd_wire_number(field, 0, DLI_ETCD_COUNT_MAX, &result->count);
    if (field->number != RESULT_KEYS)
        return 0;
    if (step->counts || (step->limit && (int64_t)result->all >= step->limit) || (!step->end.size && result->all) ||
        read_key(field, &found) || !is_of(step, found.key) || found.modified > range->revision ||
        (step->most && found.created > step->most) || !is_in_order(range, found.created))
        return -1;
    range->last = found.created;
    if (result->all++ < DLI_ETCD_KEYS)
        result->found[result->keys++] = found;
    return 0;
}

static int read_range(struct dli_etcd_wire wire, const struct step *step, int64_t revision,
                      struct dli_etcd_result *result)
{
    struct range range = {step, result, revision, 0};

    result->bytes = dli_etcd_wire_bytes(wire);
    if (dli_etcd_wire_each(wire, range_field, &range))
        return -1;
    return result->count >= (int64_t)result->all ? 0 : -1;
}

static int deleted_field(void *into, const struct dli_etcd_field *field)
{
    return field->number == DELETED ? dli_etcd_wire_number(field, 0, DLI_ETCD_COUNT_MAX, into) : 0;
}

static int read_deleted(struct dli_etcd_wire wire, int many, int64_t *count)
{
    *count = 0;
    return dli_etcd_wire_each(wire, deleted_field, count) || (*count > 1 && !many) ? -1 : 0;
}

static int nothing(void *into, const struct dli_etcd_field *field)
{
    (void)into, (void)field;
    return 0;
}

static int read_result(const struct dli_etcd_field *field, const struct step *step, int64_t revision,
                       struct dli_etcd_result *result)
{
    enum dli_etcd_step_kind kind;
    struct dli_etcd_wire inside;

    memset(result, 0, sizeof *result);
    if (unwrap(field, &kind, &inside) || kind != step->kind)
        return -1;
    if (kind == DLI_ETCD_RANGE)
        return read_range(inside, step, revision, result);
    if (kind == DLI_ETCD_DELETE)
        return read_deleted(inside, step->end.size > 0, &result->count);
    return dli_etcd_wire_each(inside, nothing, NULL);
}

/* ---- the answer */

static struct dli_etcd_wire request_of(const struct dli_etcd_talk *talk)
{
    struct dli_etcd_bytes asked = talk->asked;

    if (asked.size <= DLI_ETCD_FRAME)
        return (struct dli_etcd_wire){NULL, NULL};
    return dli_etcd_wire_of((struct dli_etcd_bytes){asked.bytes + DLI_ETCD_FRAME, asked.size - DLI_ETCD_FRAME});
}

static int frame_field(void *into, const struct dli_etcd_field *field)
{
    struct dli_etcd_reply *reply = into;
    int64_t succeeded;

    if (field->number == HEADER)
        return dli_etcd_read_header(field, &reply->revision, &reply->term);
    if (field->number != TXN_SUCCEEDED)
        return 0;
    if (dli_etcd_wire_number(field, 0, 1, &succeeded))
        return -1;
    reply->succeeded = (int)succeeded;
    return 0;
}

/* The results, each beside its step. */
static int read_results(struct dli_etcd_wire wire, struct dli_etcd_wire request, struct dli_etcd_reply *reply)
{
    uint32_t branch = reply->succeeded ? TXN_THEN : TXN_OTHERWISE;
    struct dli_etcd_result spare;
    struct dli_etcd_field field;
    struct step step;
    int more;

    while ((more = dli_etcd_wire_next(&wire, &field)) > 0) {
        if (field.number != TXN_RESULTS)
            continue;
        if (next_step(&request, branch, &step) != 1 ||
            read_result(&field, &step, reply->revision,
                        reply->results < DLI_ETCD_STEPS ? &reply->result[reply->results] : &spare))
            return -1;
        reply->results++;
    }
    return more || next_step(&request, branch, &step) ? -1 : 0;
}

int dli_etcd_decode_txn(const struct dli_etcd_talk *talk, struct dli_etcd_reply *reply)
{
    struct dli_etcd_wire wire = dli_etcd_wire_of(talk->answer);

    memset(reply, 0, sizeof *reply);
    reply->bytes = talk->answer;
    reply->rest = talk->answer;
    if (!talk->answer.bytes || dli_etcd_wire_each(wire, frame_field, reply) || !reply->revision)
        return -1;
    if (!reply->succeeded && !has_condition(request_of(talk)))
        return -1;
    return read_results(wire, request_of(talk), reply);
}

int dli_etcd_decode_delete(const struct dli_etcd_talk *talk, int64_t *count)
{
    return talk->answer.bytes ? read_deleted(dli_etcd_wire_of(talk->answer), 0, count) : -1;
}

/* ---- parts of an answer that was checked */

int dli_etcd_next_key(struct dli_etcd_bytes *keys, struct dli_etcd_found *found)
{
    struct dli_etcd_wire wire = dli_etcd_wire_of(*keys);
    struct dli_etcd_field field;

    while (dli_etcd_wire_next(&wire, &field) > 0) {
        *keys = dli_etcd_wire_bytes(wire);
        if (field.number == RESULT_KEYS)
            return read_key(&field, found) == 0;
    }
    return 0;
}

/* The result of this number; results are asked for in their order, or from the first one on again. */
static int find_result(struct dli_etcd_reply *reply, int number, struct dli_etcd_field *field)
{
    struct dli_etcd_wire wire;

    if (number < reply->at) {
        reply->at = 0;
        reply->rest = reply->bytes;
    }
    wire = dli_etcd_wire_of(reply->rest);
    while (dli_etcd_wire_next(&wire, field) > 0) {
        reply->rest = dli_etcd_wire_bytes(wire);
        if (field->number == TXN_RESULTS && reply->at++ == number)
            return 0;
    }
    return -1;
}

int dli_etcd_first_key(struct dli_etcd_reply *reply, int result, struct dli_etcd_found *found)
{
    enum dli_etcd_step_kind kind;
    struct dli_etcd_bytes keys;
    struct dli_etcd_wire inside;
    struct dli_etcd_field field;

    memset(found, 0, sizeof *found);
    if (result >= reply->results || find_result(reply, result, &field) || unwrap(&field, &kind, &inside) ||
        kind != DLI_ETCD_RANGE)
        return -1;
    keys = dli_etcd_wire_bytes(inside);
    if (!dli_etcd_next_key(&keys, found))
        memset(found, 0, sizeof *found);
    return 0;
}
