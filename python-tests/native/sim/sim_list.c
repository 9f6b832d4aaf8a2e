/*
 * sim_list.c: the commands on lists, and commands on keys that only other kinds than the mutex use. See sim_store.h. A
 * list is stored as fields with names only; names may repeat.
 */
#include "sim_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim_reply name_of(const struct sim_field *field)
{
    return (struct sim_reply){.type = SIM_BULK, .text = {field->name.at, field->name.size}};
}

static void llen(struct sim_call *call, struct sim_key *key)
{
    sim_reply_integer(call, key ? key->count : 0);
}

static int bad_number(struct sim_call *call, int first, int last)
{
    int64_t value;

    for (int i = first; i <= last; i++) {
        if (sim_word_integer(call->argv[i], &value))
            continue;
        sim_reply_error(call, "ERR value is not an integer or out of range");
        return 1;
    }
    return 0;
}

static void lindex(struct sim_call *call, struct sim_key *key)
{
    int64_t at;

    if (bad_number(call, 2, 2))
        return;
    sim_word_integer(call->argv[2], &at);
    at = at < 0 && key ? at + key->count : at;
    if (key && at >= 0 && at < key->count)
        *call->reply = name_of(&key->fields[at]);
}

static void lrange(struct sim_call *call, struct sim_key *key)
{
    int64_t first, last, count = key ? key->count : 0;
    struct sim_reply *items;

    if (bad_number(call, 2, 3))
        return;
    sim_word_integer(call->argv[2], &first);
    sim_word_integer(call->argv[3], &last);
    first = first < 0 ? first + count : first;
    last = last < 0 ? last + count : last;
    first = first < 0 ? 0 : first;
    last = last >= count ? count - 1 : last;
    items = sim_reply_array(call, first > last ? 0 : (int)(last - first + 1));
    for (int64_t i = first; i <= last; i++)
        *items++ = name_of(&key->fields[i]);
}

static void push(struct sim_call *call, struct sim_key *key)
{
    if (!key)
        key = sim_make_key(call->store, call->argv[1], SIM_LIST);
    for (int i = 2; i < call->argc; i++)
        sim_insert_field(key, key->count, call->argv[i]);
    sim_reply_integer(call, key->count);
}

static void lrem(struct sim_call *call, struct sim_key *key)
{
    int64_t most;
    int gone = 0, i = 0;

    if (bad_number(call, 2, 2))
        return;
    sim_word_integer(call->argv[2], &most);
    if (most < 0) {
        fprintf(stderr, "sim_list: LREM from the end is not in the model\n");
        exit(2);
    }
    while (key && i < key->count && (most == 0 || gone < most)) {
        int last = key->count == 1;

        if (!sim_same(&key->fields[i].name, call->argv[3])) {
            i++;
            continue;
        }
        sim_drop_field(call->store, key, &key->fields[i]);
        gone++;
        if (last)
            break;
    }
    sim_reply_integer(call, gone);
}

static void linsert(struct sim_call *call, struct sim_key *key)
{
    int after = sim_word_is(call->argv[2], "AFTER"), at = 0;

    if (!after && !sim_word_is(call->argv[2], "BEFORE")) {
        sim_reply_error(call, "ERR syntax error");
        return;
    }
    if (sim_wrong_type(call, key, SIM_LIST))
        return;
    if (!key) {
        sim_reply_integer(call, 0);
        return;
    }
    while (at < key->count && !sim_same(&key->fields[at].name, call->argv[3]))
        at++;
    if (at == key->count) {
        sim_reply_integer(call, -1);
        return;
    }
    sim_insert_field(key, at + after, call->argv[4]);
    sim_reply_integer(call, key->count);
}

/* Only from the head, as our scripts do. */
static void ltrim(struct sim_call *call, struct sim_key *key)
{
    int64_t first;

    if (bad_number(call, 2, 3))
        return;
    sim_word_integer(call->argv[2], &first);
    if (first < 0 || !sim_word_is(call->argv[3], "-1")) {
        fprintf(stderr, "sim_list: that LTRIM is not in the model\n");
        exit(2);
    }
    for (; key && first > 0; first--) {
        int last = key->count == 1;

        sim_drop_field(call->store, key, &key->fields[0]);
        if (last)
            break;
    }
    *call->reply = (struct sim_reply){.type = SIM_STATUS, .text = sim_word("OK")};
}

/* ---- keys */

static void type(struct sim_call *call, struct sim_key *key)
{
    static const char *const names[] = {
        [SIM_STRING] = "string", [SIM_HASH] = "hash", [SIM_ZSET] = "zset", [SIM_LIST] = "list"};

    call->reply->type = SIM_STATUS;
    call->reply->text = sim_word(key ? names[key->type] : "none");
}

static void persist(struct sim_call *call, struct sim_key *key)
{
    sim_reply_integer(call, key && key->expires >= 0);
    if (key)
        key->expires = -1;
}

static void pexpiretime(struct sim_call *call, struct sim_key *key)
{
    sim_reply_integer(call, key ? key->expires : -2);
}

static void string_length(struct sim_call *call, struct sim_key *key)
{
    sim_reply_integer(call, key ? key->value.size : 0);
}

static void add_number(struct sim_call *call, struct sim_key *key, int sign)
{
    int64_t by, value = 0;
    char shown[24];

    if (bad_number(call, 2, 2))
        return;
    if (sim_wrong_type(call, key, SIM_STRING))
        return;
    sim_word_integer(call->argv[2], &by);
    if (key && !sim_word_integer((struct sim_word){key->value.at, key->value.size}, &value)) {
        sim_reply_error(call, "ERR value is not an integer or out of range");
        return;
    }
    if (!key)
        key = sim_make_key(call->store, call->argv[1], SIM_STRING);
    value += sign * by;
    snprintf(shown, sizeof shown, "%" PRId64, value);
    sim_set_text(&key->value, sim_word(shown));
    sim_reply_integer(call, value);
}

static void incrby(struct sim_call *call, struct sim_key *key)
{
    add_number(call, key, 1);
}

static void decrby(struct sim_call *call, struct sim_key *key)
{
    add_number(call, key, -1);
}

static void hmget(struct sim_call *call, struct sim_key *key)
{
    struct sim_reply *items = sim_reply_array(call, call->argc - 2);

    for (int i = 2; i < call->argc; i++) {
        const struct sim_field *field = key ? sim_find_field(key, call->argv[i]) : NULL;

        items[i - 2] = (struct sim_reply){.type = SIM_NIL};
        if (field)
            items[i - 2] = (struct sim_reply){.type = SIM_BULK, .text = {field->value.at, field->value.size}};
    }
}

static void fill_pairs(struct sim_reply *items, const struct sim_key *key)
{
    for (int i = 0; key && i < key->count; i++) {
        items[2 * i] = name_of(&key->fields[i]);
        items[2 * i + 1] =
            (struct sim_reply){.type = SIM_BULK, .text = {key->fields[i].value.at, key->fields[i].value.size}};
    }
}

static void hgetall(struct sim_call *call, struct sim_key *key)
{
    fill_pairs(sim_reply_array(call, key ? 2 * key->count : 0), key);
}

/* A small hash is returned as a whole. */
static void hscan(struct sim_call *call, struct sim_key *key)
{
    int count = key ? 2 * key->count : 0;
    struct sim_reply *items = sim_reply_array(call, 2 + count);

    items[0] = (struct sim_reply){.type = SIM_BULK, .text = sim_word("0")};
    items[1] = (struct sim_reply){.type = SIM_ARRAY, .items = &items[2], .count = count};
    call->reply->count = 2;
    fill_pairs(&items[2], key);
}

/* Redis chooses random fields: here they follow one another from a start that the time gives. */
static void hrandfield(struct sim_call *call, struct sim_key *key)
{
    int64_t count = 0;
    struct sim_reply *items;

    if (bad_number(call, 2, 2))
        return;
    sim_word_integer(call->argv[2], &count);
    if (count <= 0 || !sim_word_is(call->argv[3], "WITHVALUES")) {
        fprintf(stderr, "sim_list: that HRANDFIELD is not in the model\n");
        exit(2);
    }
    count = !key ? 0 : count < key->count ? count : key->count;
    items = sim_reply_array(call, (int)(2 * count));
    for (int64_t i = 0; i < count; i++) {
        const struct sim_field *field = &key->fields[(call->store->now + i) % key->count];

        *items++ = name_of(field);
        *items++ = (struct sim_reply){.type = SIM_BULK, .text = {field->value.at, field->value.size}};
    }
}

const struct sim_command_row sim_list_commands[] = {
    {"LLEN", 2, 2, 0, SIM_LIST, 1, llen},
    {"LINDEX", 3, 3, 0, SIM_LIST, 1, lindex},
    {"LRANGE", 4, 4, 0, SIM_LIST, 1, lrange},
    {"RPUSH", 3, -1, SIM_WRITES | SIM_NEEDS_MEMORY, SIM_LIST, 1, push},
    {"LREM", 4, 4, SIM_WRITES, SIM_LIST, 1, lrem},
    {"LTRIM", 4, 4, SIM_WRITES, SIM_LIST, 1, ltrim},
    {"LINSERT", 5, 5, SIM_WRITES | SIM_NEEDS_MEMORY, SIM_LIST, 0, linsert},
    {"TYPE", 2, 2, 0, SIM_STRING, 0, type},
    {"PEXPIRETIME", 2, 2, 0, SIM_STRING, 0, pexpiretime},
    {"PERSIST", 2, 2, SIM_WRITES, SIM_STRING, 0, persist},
    {"STRLEN", 2, 2, 0, SIM_STRING, 1, string_length},
    {"INCRBY", 3, 3, SIM_WRITES | SIM_NEEDS_MEMORY, SIM_STRING, 0, incrby},
    {"DECRBY", 3, 3, SIM_WRITES | SIM_NEEDS_MEMORY, SIM_STRING, 0, decrby},
    {"HMGET", 3, -1, 0, SIM_HASH, 1, hmget},
    {"HGETALL", 2, 2, 0, SIM_HASH, 1, hgetall},
    {"HSCAN", 5, 5, 0, SIM_HASH, 0, hscan},
    {"HRANDFIELD", 4, 4, 0, SIM_HASH, 1, hrandfield},
    {NULL, 0, 0, 0, SIM_STRING, 0, NULL},
};
