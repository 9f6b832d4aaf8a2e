/*
 * commands.c: encodes requests as commands. The head of each script describes its keys and arguments. Renewals are in
 * renewal_commands.c. No state.
 */
#include "commands.h"

#include <inttypes.h>
#include <string.h>

#include "args.h"
#include "base/text.h"
#include "list.h"

enum { MS = 1000, ABOUT = 3 };

/* ---- exchanges */

/* One exchange and its command under construction. */
struct encoder {
    const struct dli_wire *wire;
    const struct dli_request *request;
    const struct dli_wish *wish;
    char want[DLI_ID_MAX], drop[DLI_ID_MAX], key[DLI_HOLD_KEY_MAX], served[DLI_NEXT_TEXT], ticket[DLI_TICKET_MAX];
    char keep[48];
    struct dli_args args;
};

static void begin_owned(struct encoder *encoder, int script, int full, const char *id)
{
    const struct dli_place *place = encoder->request->place;
    int holds = encoder->wire->holds;

    dli_args_begin_lock(&encoder->args, script, full, encoder->request);
    if (holds) {
        encoder->args.size[3 + holds] = dli_hold_key(encoder->key, place, id);
        encoder->args.word[3 + holds] = encoder->key;
        encoder->args.place[3 + holds] = NULL;
    }
}

/*
 * A subscribed process is one subscriber; where channels are both plain and sharded it is two, one of each. Less four for each
 * client that polls, see foreigners() in common.lua.
 */
static void add_listening(struct dli_args *args, const struct dli_wish *wish)
{
    int64_t listening = args->form == DLI_FORM_BOTH ? INT64_C(2) * wish->listening : wish->listening;

    dli_args_number(args, listening - INT64_C(4) * wish->pollers);
}

static const char *keep_at(struct encoder *encoder, const struct dli_exchange *exchange)
{
    dli_print(encoder->keep, sizeof encoder->keep, "%" PRId64 "@%" PRId64, exchange->keep_ms, exchange->clock);
    return encoder->keep;
}

static void add_try(struct encoder *encoder)
{
    const struct dli_exchange *exchange = &encoder->request->exchange;
    const struct dli_wish *wish = encoder->wish;
    struct dli_args *args = &encoder->args;

    dli_args_text(args, encoder->want);
    dli_args_number(args, exchange->lives ? exchange->lives / MS : (wish->lease + exchange->delay) / MS);
    dli_args_number(args, wish->permits ? wish->permits : wish->block);
    dli_args_number(args, wish->mode);
    add_listening(args, wish);
    dli_args_number(args, wish->beat / MS);
    if (exchange->clock)
        dli_args_text(args, keep_at(encoder, exchange));
    else
        dli_args_number(args, exchange->keep_ms);
    if (wish->mode == DLI_MODE_TRY) /* it does not stand in line: no message can grant it anything */
        dli_args_number(args, wish->seq);
    else
        dli_args_text(args, dli_ticket_write(encoder->ticket, wish->seq, exchange->proof));
}

static void say_release(struct encoder *encoder, int full)
{
    const struct dli_next *served = &encoder->request->exchange.served;
    struct dli_args *args = &encoder->args;

    begin_owned(encoder, encoder->wire->release, full, encoder->drop);
    dli_args_text(args, encoder->drop);
    dli_args_channel(args, encoder->request->place);
    add_listening(args, encoder->wish);
    dli_args_number(args, (encoder->wish->rest + MS - 1) / MS);
    if (encoder->request->kind->slots || encoder->wish->doubt || served->count || encoder->request->exchange.stays)
        dli_args_number(args, encoder->wish->doubt);
    if (encoder->request->kind->slots)
        dli_args_number(args, encoder->wish->permits);
    if (served->count)
        dli_args_text(args, dli_next_write(encoder->served, served));
    else if (encoder->request->exchange.stays)
        dli_args_number(args, 1);
}

static void say_pass(struct encoder *encoder, int full)
{
    begin_owned(encoder, encoder->wire->pass, full, encoder->want);
    add_try(encoder);
    dli_args_text(&encoder->args, encoder->drop);
    dli_args_channel(&encoder->args, encoder->request->place);
    dli_args_number(&encoder->args, (encoder->wish->rest + MS - 1) / MS);
    if (encoder->wish->doubt)
        dli_args_number(&encoder->args, encoder->wish->doubt);
}

static void say_acquire(struct encoder *encoder, int full, const char *under)
{
    begin_owned(encoder, encoder->wire->acquire, full, encoder->want);
    add_try(encoder);
    if (encoder->wire->pass != DLI_NO_SCRIPT) {
        dli_args_number(&encoder->args, encoder->wish->seen.ends);
        dli_args_number(&encoder->args, encoder->wish->seen.token);
        dli_args_number(&encoder->args, encoder->wish->seen.left / MS + 1);
        return;
    }
    dli_args_channel(&encoder->args, encoder->request->place);
    dli_args_text(&encoder->args, under);
    if (encoder->wish->permits)
        dli_args_number(&encoder->args, encoder->wish->block);
}

static void say_disown(struct encoder *encoder, int full)
{
    const struct dli_request *request = encoder->request;
    struct dli_args *args = &encoder->args;

    dli_args_begin(args, DLI_SCRIPT_DISOWN, full);
    dli_args_number(args, 2);
    dli_args_key(args, request->place, 0);
    dli_args_key(args, request->place, ABOUT);
    dli_args_text(args, encoder->drop);
    dli_args_text(args, request->exchange.back);
    dli_args_number(args, encoder->wish->first);
}

static int encode_exchange(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_exchange *exchange = &request->exchange;
    struct encoder encoder; /* not zeroed: it is large, and one is made for each exchange */
    char under[DLI_ID_MAX] = "";

    encoder.wire = dli_wire_of(request->kind);
    encoder.request = request;
    encoder.wish = &exchange->wish;
    dli_args_id(encoder.want, encoder.wire, exchange->want);
    dli_args_id(encoder.drop, encoder.wire, exchange->drop);
    if (exchange->under[0])
        dli_args_id(under, dli_wire_of(dli_kind_find(DLOCK_KIND_WRITE)), exchange->under);
    if (!encoder.wish->want && encoder.wish->first)
        say_disown(&encoder, full);
    else if (!encoder.wish->want)
        say_release(&encoder, full);
    else if (encoder.wish->drop)
        say_pass(&encoder, full);
    else
        say_acquire(&encoder, full, under);
    return dli_args_finish(&encoder.args, out);
}

/* ---- other requests */

static int encode_multi(struct dli_buffer *out, int full, const struct dli_request *request)
{
    char leases[DLI_MULTI_MAX][24], blocks[DLI_MULTI_MAX][24];
    const struct dli_multi_row *row = request->multi.row;
    int count = request->multi.count;
    struct dli_args args;

    dli_args_begin_keys(&args, DLI_SCRIPT_MULTI_ACQUIRE, full, request, row[0].place->keys * (int64_t)count);
    for (int i = 0; i < count; i++)
        for (int key = 0; key < row[i].place->keys; key++)
            dli_args_key(&args, row[i].place, key);
    dli_args_end_keys(&args, row[0].place);
    dli_args_number(&args, request->multi.keep_ms);
    for (int i = 0; i < count; i++) {
        dli_args_text(&args, row[i].owner);
        dli_args_number_in(&args, leases[i], row[i].lease / MS);
        dli_args_number_in(&args, blocks[i], row[i].block);
    }
    return dli_args_finish(&args, out);
}

static int encode_force(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct dli_args args;

    dli_args_begin_lock(&args, dli_wire_of(request->kind)->force, full, request);
    dli_args_channel(&args, request->place);
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
    int keys = family == DLOCK_KIND_MUTEX  ? 4
               : family == DLOCK_KIND_FAIR ? 5
                                           : 2,
        turns = dli_kind_find(family)->called;
    struct dli_args args;

    dli_args_begin(&args, DLI_SCRIPT_GATE, full);
    dli_args_number(&args, keys + turns);
    dli_args_key(&args, place, 0);
    dli_args_pattern(&args, place, DLI_GATE_PATTERN);
    for (int i = 2; i < keys; i++)
        dli_args_key(&args, place, i);
    if (turns)
        dli_args_pattern(&args, place, DLI_TURNS_PATTERN);
    dli_args_number(&args, request->gate_ms);
    dli_args_text(&args, request->kind->name);
    dli_args_channel(&args, place);
    dli_args_text(&args, request->gate_rest);
    return dli_args_finish(&args, out);
}

static int encode_gate_left(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct dli_args args;

    (void)full;
    dli_args_clear(&args);
    dli_args_text(&args, "PTTL");
    dli_args_pattern(&args, request->place, DLI_GATE_PATTERN);
    return dli_args_finish(&args, out);
}

static int encode_change(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct dli_args args;

    dli_args_begin_lock(&args, dli_wire_of(request->kind)->change, full, request);
    dli_args_text(&args, request->change.what);
    dli_args_number(&args, request->change.number);
    dli_args_text(&args, request->change.id);
    dli_args_channel(&args, request->place);
    return dli_args_finish(&args, out);
}

int dli_encode_request(struct dli_buffer *out, int full, const struct dli_request *request)
{
    static int (*const encode[])(struct dli_buffer *, int, const struct dli_request *) = {
        [DLI_VERB_EXCHANGE] = encode_exchange,   [DLI_VERB_RENEW] = dli_encode_renew,
        [DLI_VERB_ACQUIRE_ALL] = encode_multi,   [DLI_VERB_FORCE] = encode_force,
        [DLI_VERB_INSPECT] = encode_inspect,     [DLI_VERB_GATE] = encode_gate,
        [DLI_VERB_GATE_LEFT] = encode_gate_left, [DLI_VERB_CHANGE] = encode_change,
        [DLI_VERB_PING] = dli_encode_ping,       [DLI_VERB_PROVISION] = dli_encode_provision,
        [DLI_VERB_CHECK] = dli_encode_check,     [DLI_VERB_FLOOR] = dli_encode_floor,
        [DLI_VERB_JOIN] = dli_encode_join,       [DLI_VERB_LIST] = dli_encode_list,
    };

    if (request->verb == DLI_VERB_RENEW && request->renew.again)
        return dli_encode_again(out, full, request);
    if (request->verb == DLI_VERB_RENEW && request->renew.row[0].transfer)
        return dli_encode_transfer(out, full, request->renew.row);
    return encode[request->verb](out, full, request);
}
