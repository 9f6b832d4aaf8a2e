/*
 * commands.c: commands of the lock protocol, as the heads of the scripts describe them. Renewals are in renewal_commands.c.
 */
#include "commands.h"

#include <string.h>

#include "args.h"

enum { MS = 1000, ID_MAX = DLI_ID_MAX, ABOUT = 3 };

/* ---- exchanges */

/* An exchange in args. */
struct speech {
    const struct dli_wire *wire;
    const struct dli_request *request;
    const struct dli_wish *wish;
    char want[ID_MAX], drop[ID_MAX], key[DLI_HOLD_KEY_MAX];
    struct dli_args args;
};

static void begin_owned(struct speech *speech, int script, int full, const char *id)
{
    const struct dli_place *place = speech->request->place;
    int holds = speech->wire->holds;

    dli_args_begin_lock(&speech->args, script, full, speech->request);
    if (holds) {
        speech->args.size[3 + holds] = dli_hold_key(speech->key, &place->key[holds], id);
        speech->args.word[3 + holds] = speech->key;
    }
}

/* A process that listens is one subscriber, or one of either sort. */
static void add_listening(struct dli_args *args, const struct dli_wish *wish)
{
    dli_args_number(args, args->form == DLI_FORM_BOTH ? INT64_C(2) * wish->listening : wish->listening);
}

static void add_try(struct speech *speech)
{
    const struct dli_exchange *exchange = &speech->request->exchange;
    const struct dli_wish *wish = speech->wish;
    struct dli_args *args = &speech->args;

    dli_args_text(args, speech->want);
    dli_args_number(args, exchange->lives ? exchange->lives / MS : (wish->lease + exchange->delay) / MS);
    dli_args_number(args, wish->block);
    dli_args_number(args, wish->mode);
    add_listening(args, wish);
    dli_args_number(args, wish->beat / MS);
    dli_args_number(args, exchange->keep_ms);
    dli_args_number(args, wish->seq);
}

static void say_release(struct speech *speech, int full)
{
    struct dli_args *args = &speech->args;

    begin_owned(speech, speech->wire->release, full, speech->drop);
    dli_args_text(args, speech->drop);
    dli_args_slice(args, &speech->request->place->channel);
    add_listening(args, speech->wish);
    dli_args_number(args, (speech->wish->rest + MS - 1) / MS);
    if (speech->request->kind->slots || speech->wish->doubt)
        dli_args_number(args, speech->wish->doubt);
    if (speech->request->kind->slots)
        dli_args_number(args, speech->wish->block);
}

static void say_pass(struct speech *speech, int full)
{
    begin_owned(speech, speech->wire->pass, full, speech->want);
    add_try(speech);
    dli_args_text(&speech->args, speech->drop);
    dli_args_slice(&speech->args, &speech->request->place->channel);
    dli_args_number(&speech->args, (speech->wish->rest + MS - 1) / MS);
    if (speech->wish->doubt)
        dli_args_number(&speech->args, speech->wish->doubt);
}

static void say_acquire(struct speech *speech, int full, const char *under)
{
    begin_owned(speech, speech->wire->acquire, full, speech->want);
    add_try(speech);
    if (speech->wire->pass != DLI_NO_SCRIPT) {
        dli_args_number(&speech->args, speech->wish->seen.ends);
        dli_args_number(&speech->args, speech->wish->seen.token);
        dli_args_number(&speech->args, speech->wish->seen.left / MS + 1);
        return;
    }
    dli_args_slice(&speech->args, &speech->request->place->channel);
    dli_args_text(&speech->args, under);
}

static void say_disown(struct speech *speech, int full)
{
    const struct dli_request *request = speech->request;
    struct dli_args *args = &speech->args;

    dli_args_begin(args, DLI_SCRIPT_DISOWN, full);
    dli_args_number(args, 2);
    dli_args_slice(args, &request->place->key[0]);
    dli_args_slice(args, &request->place->key[ABOUT]);
    dli_args_text(args, speech->drop);
    dli_args_text(args, request->exchange.back);
    dli_args_number(args, speech->wish->first);
}

static int encode_exchange(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_exchange *exchange = &request->exchange;
    struct speech speech; /* not zeroed: it is large, and one is made for each exchange */
    char under[ID_MAX] = "";

    speech.wire = dli_wire_of(request->kind);
    speech.request = request;
    speech.wish = &exchange->wish;
    dli_args_id(speech.want, speech.wire, exchange->want);
    dli_args_id(speech.drop, speech.wire, exchange->drop);
    if (exchange->under[0])
        dli_args_id(under, dli_wire_of(dli_kind_find(DLOCK_KIND_WRITE)), exchange->under);
    if (!speech.wish->want && speech.wish->first)
        say_disown(&speech, full);
    else if (!speech.wish->want)
        say_release(&speech, full);
    else if (speech.wish->drop)
        say_pass(&speech, full);
    else
        say_acquire(&speech, full, under);
    return dli_args_finish(&speech.args, out);
}

/* ---- the rest */

static int encode_take(struct dli_buffer *out, int full, const struct dli_request *request)
{
    char leases[DLI_MULTI_MAX][24], blocks[DLI_MULTI_MAX][24];
    const struct dli_taking *row = request->take.row;
    int count = request->take.count;
    struct dli_args args;

    dli_args_begin_keys(&args, DLI_SCRIPT_MULTI_ACQUIRE, full, request, row[0].place->keys * (int64_t)count);
    for (int i = 0; i < count; i++)
        for (int key = 0; key < row[i].place->keys; key++)
            dli_args_slice(&args, &row[i].place->key[key]);
    dli_args_end_keys(&args, row[0].place);
    dli_args_number(&args, request->take.keep_ms);
    for (int i = 0; i < count; i++) {
        dli_args_text(&args, row[i].owner);
        dli_args_add(&args, leases[i], dli_decimal(leases[i], row[i].lease / MS));
        dli_args_add(&args, blocks[i], dli_decimal(blocks[i], row[i].block));
    }
    return dli_args_finish(&args, out);
}

static int encode_force(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct dli_args args;

    dli_args_begin_lock(&args, dli_wire_of(request->kind)->force, full, request);
    dli_args_slice(&args, &request->place->channel);
    return dli_args_finish(&args, out);
}

static int encode_inspect(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct dli_args args;

    dli_args_begin_lock(&args, DLI_SCRIPT_INSPECT, full, request);
    dli_args_text(&args, request->kind->name);
    return dli_args_finish(&args, out);
}

static int encode_gate(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_place *place = request->place;
    int32_t family = request->kind->family;
    int keys = family == DLOCK_KIND_MUTEX ? 4 : family == DLOCK_KIND_FAIR ? 5 : 2;
    struct dli_args args;

    dli_args_begin(&args, DLI_SCRIPT_GATE, full);
    dli_args_number(&args, keys);
    dli_args_slice(&args, &place->key[0]);
    dli_args_slice(&args, &place->gate);
    for (int i = 2; i < keys; i++)
        dli_args_slice(&args, &place->key[i]);
    dli_args_number(&args, request->gate_ms);
    dli_args_text(&args, request->kind->name);
    dli_args_slice(&args, &place->channel);
    return dli_args_finish(&args, out);
}

static int encode_gate_left(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct dli_args args = {.count = 0};

    (void)full;
    dli_args_text(&args, "PTTL");
    dli_args_slice(&args, &request->place->gate);
    return dli_args_finish(&args, out);
}

static int encode_change(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct dli_args args;

    dli_args_begin_lock(&args, dli_wire_of(request->kind)->change, full, request);
    dli_args_text(&args, request->change.what);
    dli_args_number(&args, request->change.number);
    dli_args_text(&args, request->change.id);
    dli_args_slice(&args, &request->place->channel);
    return dli_args_finish(&args, out);
}

int dli_encode_request(struct dli_buffer *out, int full, const struct dli_request *request)
{
    static int (*const encode[])(struct dli_buffer *, int, const struct dli_request *) = {
        [DLI_VERB_EXCHANGE] = encode_exchange,   [DLI_VERB_RENEW] = dli_encode_renew,
        [DLI_VERB_TAKE] = encode_take,           [DLI_VERB_FORCE] = encode_force,
        [DLI_VERB_INSPECT] = encode_inspect,     [DLI_VERB_GATE] = encode_gate,
        [DLI_VERB_GATE_LEFT] = encode_gate_left, [DLI_VERB_CHANGE] = encode_change,
        [DLI_VERB_PING] = dli_encode_ping,       [DLI_VERB_PROVISION] = dli_encode_provision,
        [DLI_VERB_CHECK] = dli_encode_check,     [DLI_VERB_FLOOR] = dli_encode_floor,
        [DLI_VERB_JOIN] = dli_encode_join,
    };

    if (request->verb == DLI_VERB_RENEW && request->renew.again)
        return dli_encode_again(out, full, request);
    if (request->verb == DLI_VERB_RENEW && request->renew.row[0].heir[0])
        return dli_encode_adopt(out, full, request->renew.row);
    return encode[request->verb](out, full, request);
}
