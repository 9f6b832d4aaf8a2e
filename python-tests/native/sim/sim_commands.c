/*
 * sim_commands.c: the commands on strings, hashes and keys, and common rules of all commands. See sim_store.h.
 */
#include "sim_store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void sim_reply_integer(struct sim_call *call, int64_t value)
{
    call->reply->type = SIM_INTEGER;
    call->reply->integer = value;
}

void sim_reply_text(struct sim_call *call, const char *at, size_t size)
{
    call->reply->type = SIM_BULK;
    call->reply->text = (struct sim_word){at, size};
}

void sim_reply_error(struct sim_call *call, const char *text)
{
    call->reply->type = SIM_ERROR;
    call->reply->text = sim_word(text);
}

struct sim_reply *sim_reply_array(struct sim_call *call, int count)
{
    struct sim_store *store = call->store;

    if (count > store->items_room) {
        store->items_room = 2 * count;
        store->items = realloc(store->items, (size_t)store->items_room * sizeof *store->items);
        if (!store->items)
            exit(2);
    }
    call->reply->type = SIM_ARRAY;
    call->reply->items = store->items;
    call->reply->count = count;
    return store->items;
}

int sim_word_is(struct sim_word word, const char *text)
{
    return strlen(text) == word.size && strncasecmp(word.at, text, word.size) == 0;
}

/* As in Redis: no blanks, no plus sign, no leading zeros. */
int sim_word_integer(struct sim_word word, int64_t *value)
{
    char text[24], back[24];

    if (word.size == 0 || word.size >= sizeof text)
        return 0;
    memcpy(text, word.at, word.size);
    text[word.size] = '\0';
    *value = strtoll(text, NULL, 10);
    snprintf(back, sizeof back, "%" PRId64, *value);
    return strcmp(text, back) == 0;
}

int sim_wrong_type(struct sim_call *call, const struct sim_key *key, enum sim_type type)
{
    if (!key || key->type == type)
        return 0;
    sim_reply_error(call, "WRONGTYPE Operation against a key holding the wrong kind of value");
    return 1;
}

static struct sim_reply bulk(const struct sim_text *text)
{
    return (struct sim_reply){.type = SIM_BULK, .text = {text->at, text->size}};
}

static void reply_fields(struct sim_call *call, struct sim_key *key, int values)
{
    struct sim_reply *items = sim_reply_array(call, key ? key->count : 0);

    for (int i = 0; key && i < key->count; i++)
        items[i] = bulk(values ? &key->fields[i].value : &key->fields[i].name);
}

static void hkeys(struct sim_call *call, struct sim_key *key)
{
    reply_fields(call, key, 0);
}

static void hvals(struct sim_call *call, struct sim_key *key)
{
    reply_fields(call, key, 1);
}

static void hlen(struct sim_call *call, struct sim_key *key)
{
    sim_reply_integer(call, key ? key->count : 0);
}

static void hexists(struct sim_call *call, struct sim_key *key)
{
    sim_reply_integer(call, key && sim_find_field(key, call->argv[2]));
}

static void hget(struct sim_call *call, struct sim_key *key)
{
    const struct sim_field *field = key ? sim_find_field(key, call->argv[2]) : NULL;

    if (field)
        *call->reply = bulk(&field->value);
}

static void hset(struct sim_call *call, struct sim_key *key)
{
    int added = 0;

    if (call->argc % 2) {
        sim_reply_error(call, "ERR wrong number of arguments for 'hset' command");
        return;
    }
    if (sim_wrong_type(call, key, SIM_HASH))
        return;
    if (!key)
        key = sim_make_key(call->store, call->argv[1], SIM_HASH);
    for (int i = 2; i < call->argc; i += 2) {
        struct sim_field *field = sim_find_field(key, call->argv[i]);

        if (!field) {
            field = sim_insert_field(key, key->count, call->argv[i]);
            added++;
        }
        sim_set_text(&field->value, call->argv[i + 1]);
    }
    sim_reply_integer(call, added);
}

static void hdel(struct sim_call *call, struct sim_key *key)
{
    int gone = 0;

    for (int i = 2; key && i < call->argc; i++) {
        struct sim_field *field = sim_find_field(key, call->argv[i]);
        int last = key->count == 1;

        if (!field)
            continue;
        sim_drop_field(call->store, key, field);
        gone++;
        if (last)
            break;
    }
    sim_reply_integer(call, gone);
}

/* Add by to the number in text; returns the new value, or an error in the reply. */
static int add_to(struct sim_call *call, struct sim_text *text, int64_t by, const char *error)
{
    int64_t value = 0;
    char shown[24];

    if (text->size > 0 && !sim_word_integer((struct sim_word){text->at, text->size}, &value)) {
        sim_reply_error(call, error);
        return 0;
    }
    value += by;
    snprintf(shown, sizeof shown, "%" PRId64, value);
    sim_set_text(text, sim_word(shown));
    sim_reply_integer(call, value);
    return 1;
}

static void hincrby(struct sim_call *call, struct sim_key *key)
{
    struct sim_field *field;
    int64_t by;

    if (!sim_word_integer(call->argv[3], &by)) {
        sim_reply_error(call, "ERR value is not an integer or out of range");
        return;
    }
    if (sim_wrong_type(call, key, SIM_HASH))
        return;
    if (!key)
        key = sim_make_key(call->store, call->argv[1], SIM_HASH);
    field = sim_find_field(key, call->argv[2]);
    if (!field)
        field = sim_insert_field(key, key->count, call->argv[2]);
    add_to(call, &field->value, by, "ERR hash value is not an integer");
}

static void get(struct sim_call *call, struct sim_key *key)
{
    if (key)
        *call->reply = bulk(&key->value);
}

static void incr(struct sim_call *call, struct sim_key *key)
{
    if (!key) {
        key = sim_make_key(call->store, call->argv[1], SIM_STRING);
        key->value.size = 0;
    }
    add_to(call, &key->value, 1, "ERR value is not an integer or out of range");
}

static void set(struct sim_call *call, struct sim_key *key)
{
    int64_t ms = -1;

    if (call->argc != 3 && !(call->argc == 5 && sim_word_is(call->argv[3], "PX"))) {
        sim_reply_error(call, "ERR syntax error");
        return;
    }
    if (call->argc == 5 && !sim_word_integer(call->argv[4], &ms)) {
        sim_reply_error(call, "ERR value is not an integer or out of range");
        return;
    }
    if (call->argc == 5 && ms <= 0) {
        sim_reply_error(call, "ERR invalid expire time in 'set' command");
        return;
    }
    if (!key)
        key = sim_make_key(call->store, call->argv[1], SIM_STRING);
    key->type = SIM_STRING;
    key->count = 0;
    key->expires = ms < 0 ? -1 : call->store->now / 1000 + ms;
    sim_set_text(&key->value, call->argv[2]);
    call->reply->type = SIM_STATUS;
    call->reply->text = sim_word("OK");
}

static void del(struct sim_call *call, struct sim_key *key)
{
    int gone = 0;

    for (int i = 1; i < call->argc; i++) {
        key = sim_find_key(call->store, call->argv[i]);
        if (key)
            sim_drop_key(call->store, key);
        gone += key != NULL;
    }
    sim_reply_integer(call, gone);
}

static void exists(struct sim_call *call, struct sim_key *key)
{
    int there = 0;

    (void)key;
    for (int i = 1; i < call->argc; i++)
        there += sim_find_key(call->store, call->argv[i]) != NULL;
    sim_reply_integer(call, there);
}

static void pttl(struct sim_call *call, struct sim_key *key)
{
    if (!key)
        sim_reply_integer(call, -2);
    else
        sim_reply_integer(call, key->expires < 0 ? -1 : key->expires - call->store->now / 1000);
}

static void expire_after(struct sim_call *call, struct sim_key *key, int64_t since)
{
    int longer = call->argc == 4;
    int64_t now = call->store->now / 1000, at;

    if (longer && !sim_word_is(call->argv[3], "GT")) {
        sim_reply_error(call, "ERR Unsupported option");
        return;
    }
    if (!sim_word_integer(call->argv[2], &at)) {
        sim_reply_error(call, "ERR value is not an integer or out of range");
        return;
    }
    at += since;
    if (longer && key && (key->expires < 0 || at <= key->expires))
        key = NULL;
    if (key && at <= now)
        sim_drop_key(call->store, key);
    else if (key)
        key->expires = at;
    sim_reply_integer(call, key != NULL);
}

static void pexpire(struct sim_call *call, struct sim_key *key)
{
    expire_after(call, key, call->store->now / 1000);
}

static void pexpireat(struct sim_call *call, struct sim_key *key)
{
    expire_after(call, key, 0);
}

static void time_now(struct sim_call *call, struct sim_key *key)
{
    struct sim_reply *items = sim_reply_array(call, 2);
    char *text = call->store->text;
    int size = snprintf(text, 32, "%" PRId64, call->store->now / 1000000);
    int more = snprintf(text + 32, 32, "%" PRId64, call->store->now % 1000000);

    (void)key;
    items[0] = (struct sim_reply){.type = SIM_BULK, .text = {text, (size_t)size}};
    items[1] = (struct sim_reply){.type = SIM_BULK, .text = {text + 32, (size_t)more}};
}

static void publish(struct sim_call *call, struct sim_key *key)
{
    struct sim_store *store = call->store;

    (void)key;
    sim_reply_integer(call, store->publish ? store->publish(store->world, call->argv[1], call->argv[2]) : 0);
}

static void pubsub(struct sim_call *call, struct sim_key *key)
{
    struct sim_store *store = call->store;
    struct sim_reply *items = sim_reply_array(call, 2 * (call->argc - 2));

    (void)key;
    if (!sim_word_is(call->argv[1], "NUMSUB")) {
        sim_reply_error(call, "ERR unknown subcommand");
        return;
    }
    for (int i = 2; i < call->argc; i++) {
        int64_t count = store->subscribers ? store->subscribers(store->world, call->argv[i]) : 0;

        items[2 * i - 4] = (struct sim_reply){.type = SIM_BULK, .text = call->argv[i]};
        items[2 * i - 3] = (struct sim_reply){.type = SIM_INTEGER, .integer = count};
    }
}

static void flushall(struct sim_call *call, struct sim_key *key)
{
    (void)key;
    sim_store_reset(call->store);
    call->reply->type = SIM_STATUS;
    call->reply->text = sim_word("OK");
}

const struct sim_command_row sim_plain_commands[] = {
    {"HKEYS", 2, 2, 0, SIM_HASH, 1, hkeys},
    {"HVALS", 2, 2, 0, SIM_HASH, 1, hvals},
    {"HLEN", 2, 2, 0, SIM_HASH, 1, hlen},
    {"HEXISTS", 3, 3, 0, SIM_HASH, 1, hexists},
    {"HGET", 3, 3, 0, SIM_HASH, 1, hget},
    {"HSET", 4, -1, SIM_WRITES | SIM_NEEDS_MEMORY, SIM_HASH, 0, hset},
    {"HDEL", 3, -1, SIM_WRITES, SIM_HASH, 1, hdel},
    {"HINCRBY", 4, 4, SIM_WRITES | SIM_NEEDS_MEMORY, SIM_HASH, 0, hincrby},
    {"GET", 2, 2, 0, SIM_STRING, 1, get},
    {"SET", 3, -1, SIM_WRITES | SIM_NEEDS_MEMORY, SIM_STRING, 0, set},
    {"INCR", 2, 2, SIM_WRITES | SIM_NEEDS_MEMORY, SIM_STRING, 1, incr},
    {"DEL", 2, -1, SIM_WRITES, SIM_STRING, 0, del},
    {"UNLINK", 2, -1, SIM_WRITES, SIM_STRING, 0, del},
    {"EXISTS", 2, -1, 0, SIM_STRING, 0, exists},
    {"PTTL", 2, 2, 0, SIM_STRING, 0, pttl},
    {"PEXPIRE", 3, 4, SIM_WRITES, SIM_STRING, 0, pexpire},
    {"PEXPIREAT", 3, 4, SIM_WRITES, SIM_STRING, 0, pexpireat},
    {"TIME", 1, 1, 0, SIM_STRING, 0, time_now},
    {"PUBLISH", 3, 3, 0, SIM_STRING, 0, publish},
    {"PUBSUB", 2, -1, 0, SIM_STRING, 0, pubsub},
    {"FLUSHALL", 1, 1, SIM_WRITES, SIM_STRING, 0, flushall},
    {NULL, 0, 0, 0, SIM_STRING, 0, NULL},
};

static const struct sim_command_row *look_up(const struct sim_command_row *row, struct sim_word name)
{
    while (row->name && !sim_word_is(name, row->name))
        row++;
    return row->name ? row : NULL;
}

void sim_command(struct sim_store *store, const struct sim_word *argv, int argc, struct sim_reply *reply)
{
    struct sim_call call = {store, argv, argc, reply};
    const struct sim_command_row *row = look_up(sim_plain_commands, argv[0]);
    struct sim_key *key;

    *reply = (struct sim_reply){.type = SIM_NIL};
    if (!row)
        row = look_up(sim_zset_commands, argv[0]);
    if (!row)
        row = look_up(sim_list_commands, argv[0]);
    if (!row) {
        sim_reply_error(&call, "ERR Unknown Redis command called from script");
        return;
    }
    if (argc < row->least || (row->most >= 0 && argc > row->most)) {
        sim_reply_error(&call, "ERR Wrong number of args calling Redis command from script");
        return;
    }
    if (store->oom && !store->dirty && (row->flags & SIM_NEEDS_MEMORY)) {
        sim_reply_error(&call, "OOM command not allowed when used memory > 'maxmemory'.");
        return;
    }
    if (row->flags & SIM_WRITES)
        store->dirty = 1;
    key = argc > 1 ? sim_find_key(store, argv[1]) : NULL;
    if (row->typed && sim_wrong_type(&call, key, row->type))
        return;
    row->run(&call, key);
}
