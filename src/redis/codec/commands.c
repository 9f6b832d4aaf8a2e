/*
 * commands.c: commands of the lock protocol, as the heads of the scripts describe them.
 */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

#include "redis/scripts/scripts.h"

enum { ARGS_MAX = 3 + 5 * DLI_RENEW_MAX, MS = 1000, ID_MAX = DLI_ID_MAX, ABOUT = 3 };

/* A command under construction. */
struct words {
    int count;
    const char *word[ARGS_MAX];
    size_t size[ARGS_MAX];
    char number[16][24];
    int numbers, form;
    const struct dli_quiet *quiet; /* not NULL: its words come behind the script's own */
};

static void add(struct words *words, const char *word, size_t size)
{
    words->word[words->count] = word;
    words->size[words->count++] = size;
}

static void add_text(struct words *words, const char *text)
{
    add(words, text, strlen(text));
}

static void add_word(struct words *words, const struct dli_word *word)
{
    add(words, word->text, word->size);
}

static void add_number(struct words *words, int64_t number)
{
    char *text = words->number[words->numbers++];

    add(words, text, dli_decimal(text, number));
}

static void begin(struct words *words, int script, int full)
{
    const struct dli_script *said = dli_script_in(full / DLI_SAY_FORM, script);

    words->count = words->numbers = 0;
    words->form = full / DLI_SAY_FORM;
    words->quiet = NULL;
    add_text(words, full & DLI_SAY_FULL ? "EVAL" : "EVALSHA");
    if (full & DLI_SAY_FULL)
        add(words, said->text, said->size);
    else
        add(words, said->sha1, 40);
}

/* What stands in for scripts that grant, see quiet.lua. */
static const int quiet_scripts[DLI_SCRIPT_COUNT] = {
    [DLI_SCRIPT_ACQUIRE] = DLI_SCRIPT_QUARANTINE_ACQUIRE,
    [DLI_SCRIPT_RELEASE] = DLI_SCRIPT_QUARANTINE_RELEASE,
    [DLI_SCRIPT_PASS] = DLI_SCRIPT_QUARANTINE_PASS,
    [DLI_SCRIPT_FORCE] = DLI_SCRIPT_QUARANTINE_FORCE,
    [DLI_SCRIPT_MULTI_ACQUIRE] = DLI_SCRIPT_QUARANTINE_MULTI_ACQUIRE,
    [DLI_SCRIPT_FAIR_ACQUIRE] = DLI_SCRIPT_QUARANTINE_FAIR_ACQUIRE,
    [DLI_SCRIPT_FAIR_RELEASE] = DLI_SCRIPT_QUARANTINE_FAIR_RELEASE,
    [DLI_SCRIPT_FAIR_FORCE] = DLI_SCRIPT_QUARANTINE_FAIR_FORCE,
    [DLI_SCRIPT_READ_ACQUIRE] = DLI_SCRIPT_QUARANTINE_READ_ACQUIRE,
    [DLI_SCRIPT_WRITE_ACQUIRE] = DLI_SCRIPT_QUARANTINE_WRITE_ACQUIRE,
    [DLI_SCRIPT_PERMIT_ACQUIRE] = DLI_SCRIPT_QUARANTINE_PERMIT_ACQUIRE,
};

/* The same; of so many keys, the marker is not among them. end_keys comes behind the last. */
static void begin_keys(struct words *words, int script, int full, const struct dli_request *request, int64_t keys)
{
    const struct dli_quiet *quiet = quiet_scripts[script] ? request->quiet : NULL;

    begin(words, quiet ? quiet_scripts[script] : script, full);
    words->quiet = quiet;
    add_number(words, keys + (quiet != NULL));
}

static void end_keys(struct words *words, const struct dli_place *place)
{
    if (words->quiet)
        add_text(words, place->marker[0] ? place->marker : words->quiet->marker);
}

static void begin_lock(struct words *words, int script, int full, const struct dli_request *request)
{
    const struct dli_place *place = request->place;

    begin_keys(words, script, full, request, place->keys);
    for (int i = 0; i < place->keys; i++)
        add_word(words, &place->key[i]);
    end_keys(words, place);
}

static int finish(struct words *words, struct dli_buffer *out)
{
    if (words->quiet) {
        add_number(words, words->quiet->longest_ms);
        add_number(words, words->quiet->lasts_ms);
    }
    return dli_encode(out, words->count, words->word, words->size);
}

/* ---- ids */

/* An owner as the kind writes it. */
static const char *id_of(char room[ID_MAX], const struct dli_wire *wire, const char *owner)
{
    stpcpy(stpcpy(room, owner), wire->suffix);
    return room;
}

/* ---- exchanges */

/* An exchange in words. */
struct speech {
    const struct dli_wire *wire;
    const struct dli_request *request;
    const struct dli_wish *wish;
    char want[ID_MAX], drop[ID_MAX], key[DLI_HOLD_KEY_MAX];
    struct words words;
};

static void begin_owned(struct speech *speech, int script, int full, const char *id)
{
    const struct dli_place *place = speech->request->place;
    int holds = speech->wire->holds;

    begin_lock(&speech->words, script, full, speech->request);
    if (holds) {
        speech->words.size[3 + holds] = dli_hold_key(speech->key, &place->key[holds], id);
        speech->words.word[3 + holds] = speech->key;
    }
}

/* A process that listens is one subscriber, or one of either sort. */
static void add_listening(struct words *words, const struct dli_wish *wish)
{
    add_number(words, words->form == DLI_FORM_BOTH ? INT64_C(2) * wish->listening : wish->listening);
}

static void add_try(struct speech *speech)
{
    const struct dli_exchange *exchange = &speech->request->exchange;
    const struct dli_wish *wish = speech->wish;
    struct words *words = &speech->words;

    add_text(words, speech->want);
    add_number(words, exchange->lives ? exchange->lives / MS : (wish->lease + exchange->delay) / MS);
    add_number(words, wish->block);
    add_number(words, wish->mode);
    add_listening(words, wish);
    add_number(words, wish->beat / MS);
    add_number(words, exchange->keep_ms);
    add_number(words, wish->seq);
}

static void say_release(struct speech *speech, int full)
{
    struct words *words = &speech->words;

    begin_owned(speech, speech->wire->release, full, speech->drop);
    add_text(words, speech->drop);
    add_word(words, &speech->request->place->channel);
    add_listening(words, speech->wish);
    add_number(words, (speech->wish->rest + MS - 1) / MS);
    if (speech->request->kind->slots || speech->wish->doubt)
        add_number(words, speech->wish->doubt);
    if (speech->request->kind->slots)
        add_number(words, speech->wish->block);
}

static void say_pass(struct speech *speech, int full)
{
    begin_owned(speech, speech->wire->pass, full, speech->want);
    add_try(speech);
    add_text(&speech->words, speech->drop);
    add_word(&speech->words, &speech->request->place->channel);
    add_number(&speech->words, (speech->wish->rest + MS - 1) / MS);
    if (speech->wish->doubt)
        add_number(&speech->words, speech->wish->doubt);
}

static void say_acquire(struct speech *speech, int full, const char *under)
{
    begin_owned(speech, speech->wire->acquire, full, speech->want);
    add_try(speech);
    if (speech->wire->pass != DLI_NO_SCRIPT) {
        add_number(&speech->words, speech->wish->seen.ends);
        add_number(&speech->words, speech->wish->seen.token);
        add_number(&speech->words, speech->wish->seen.left / MS + 1);
        return;
    }
    add_word(&speech->words, &speech->request->place->channel);
    add_text(&speech->words, under);
}

static void say_disown(struct speech *speech, int full)
{
    const struct dli_request *request = speech->request;
    struct words *words = &speech->words;

    begin(words, DLI_SCRIPT_DISOWN, full);
    add_number(words, 2);
    add_word(words, &request->place->key[0]);
    add_word(words, &request->place->key[ABOUT]);
    add_text(words, speech->drop);
    add_text(words, request->exchange.back);
    add_number(words, speech->wish->first);
}

static int encode_exchange(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_exchange *exchange = &request->exchange;
    struct speech speech; /* not zeroed: it is large, and one is made for each exchange */
    char under[ID_MAX] = "";

    speech.wire = dli_wire_of(request->kind);
    speech.request = request;
    speech.wish = &exchange->wish;
    id_of(speech.want, speech.wire, exchange->want);
    id_of(speech.drop, speech.wire, exchange->drop);
    if (exchange->under[0])
        id_of(under, dli_wire_of(dli_kind_find(DLOCK_KIND_WRITE)), exchange->under);
    if (!speech.wish->want && speech.wish->first)
        say_disown(&speech, full);
    else if (!speech.wish->want)
        say_release(&speech, full);
    else if (speech.wish->drop)
        say_pass(&speech, full);
    else
        say_acquire(&speech, full, under);
    return finish(&speech.words, out);
}

/* ---- several locks at once */

/* What one row of a renewal is made of. */
struct renewal_room {
    char id[ID_MAX], lease[24], permits[24];
};

static void add_renewal_keys(struct words *words, const struct dli_wire *wire, const struct dli_renewal *row,
                             const char *id, char *room)
{
    add_word(words, &row->place->key[0]);
    if (room)
        add(words, room, dli_hold_key(room, &row->place->key[wire->holds], id));
    else if (wire->renew_key)
        add_word(words, &row->place->key[wire->renew_key]);
}

/* Whether the lease of one stands for all; only renew.lua understands that. */
static int one_lease(const struct dli_wire *wire, const struct dli_renewal *row, int count)
{
    for (int i = 1; i < count; i++)
        if (row[i].lease != row[0].lease)
            return 0;
    return wire->renew == DLI_SCRIPT_RENEW;
}

static int encode_renewals(struct dli_buffer *out, int full, const struct dli_renewal *row, int count,
                           struct renewal_room *room, char *keys)
{
    const struct dli_wire *wire = dli_wire_of(row[0].kind);
    int one = one_lease(wire, row, count);
    struct words words;

    begin(&words, wire->renew, full);
    add_number(&words, wire->renew_key ? 2 * count : count);
    for (int i = 0; i < count; i++) {
        id_of(room[i].id, dli_wire_of(row[i].kind), row[i].owner);
        add_renewal_keys(&words, wire, &row[i], room[i].id, keys ? keys + (size_t)i * DLI_HOLD_KEY_MAX : NULL);
    }
    for (int i = 0; i < count; i++) {
        add_text(&words, room[i].id);
        if (!one || i == count - 1)
            add(&words, room[i].lease, dli_decimal(room[i].lease, row[i].lease / MS));
        if (row[i].kind->slots)
            add(&words, room[i].permits, dli_decimal(room[i].permits, row[i].permits));
    }
    return finish(&words, out);
}

static int encode_adopt(struct dli_buffer *out, int full, const struct dli_renewal *row)
{
    struct words words;
    char lease[24];

    begin(&words, DLI_SCRIPT_ADOPT, full);
    add_number(&words, 2);
    add_word(&words, &row->place->key[0]);
    add_word(&words, &row->place->key[ABOUT]);
    add_text(&words, row->owner);
    add_text(&words, row->heir);
    add(&words, lease, dli_decimal(lease, row->lease / MS));
    add_number(&words, row->first);
    return finish(&words, out);
}

static int encode_renew(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_wire *wire = dli_wire_of(request->renew.row[0].kind);
    size_t count = (size_t)request->renew.count;
    int holds = wire->renew_key && wire->renew_key == wire->holds, status = -1;
    struct renewal_room *room = malloc(count * sizeof *room);
    char *keys = holds ? malloc(count * DLI_HOLD_KEY_MAX) : NULL;

    if (room && (keys || !holds))
        status = encode_renewals(out, full, request->renew.row, (int)count, room, keys);
    free(keys);
    free(room);
    return status;
}

static int encode_take(struct dli_buffer *out, int full, const struct dli_request *request)
{
    char leases[DLI_MULTI_MAX][24], blocks[DLI_MULTI_MAX][24];
    const struct dli_taking *row = request->take.row;
    int count = request->take.count;
    struct words words;

    begin_keys(&words, DLI_SCRIPT_MULTI_ACQUIRE, full, request, row[0].place->keys * (int64_t)count);
    for (int i = 0; i < count; i++)
        for (int key = 0; key < row[i].place->keys; key++)
            add_word(&words, &row[i].place->key[key]);
    end_keys(&words, row[0].place);
    add_number(&words, request->take.keep_ms);
    for (int i = 0; i < count; i++) {
        add_text(&words, row[i].owner);
        add(&words, leases[i], dli_decimal(leases[i], row[i].lease / MS));
        add(&words, blocks[i], dli_decimal(blocks[i], row[i].block));
    }
    return finish(&words, out);
}

/* ---- the rest */

static int encode_force(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct words words;

    begin_lock(&words, dli_wire_of(request->kind)->force, full, request);
    add_word(&words, &request->place->channel);
    return finish(&words, out);
}

static int encode_inspect(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct words words;

    begin_lock(&words, DLI_SCRIPT_INSPECT, full, request);
    add_text(&words, request->kind->name);
    return finish(&words, out);
}

static int encode_gate(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_place *place = request->place;
    int32_t family = request->kind->family;
    int keys = family == DLOCK_KIND_MUTEX ? 4 : family == DLOCK_KIND_FAIR ? 5 : 2;
    struct words words;

    begin(&words, DLI_SCRIPT_GATE, full);
    add_number(&words, keys);
    add_word(&words, &place->key[0]);
    add_word(&words, &place->gate);
    for (int i = 2; i < keys; i++)
        add_word(&words, &place->key[i]);
    add_number(&words, request->gate_ms);
    add_text(&words, request->kind->name);
    add_word(&words, &place->channel);
    return finish(&words, out);
}

static int encode_gate_left(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct words words = {.count = 0};

    (void)full;
    add_text(&words, "PTTL");
    add_word(&words, &request->place->gate);
    return finish(&words, out);
}

static int encode_change(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct words words;

    begin_lock(&words, dli_wire_of(request->kind)->change, full, request);
    add_text(&words, request->change.what);
    add_number(&words, request->change.number);
    add_text(&words, request->change.id);
    add_word(&words, &request->place->channel);
    return finish(&words, out);
}

int dli_encode_request(struct dli_buffer *out, int full, const struct dli_request *request)
{
    static int (*const encode[])(struct dli_buffer *, int, const struct dli_request *) = {
        [DLI_VERB_EXCHANGE] = encode_exchange,   [DLI_VERB_RENEW] = encode_renew,
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
        return encode_adopt(out, full, request->renew.row);
    return encode[request->verb](out, full, request);
}
