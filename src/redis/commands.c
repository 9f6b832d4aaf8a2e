/*
 * commands.c: commands of the lock protocol, as the heads of the scripts describe them.
 */
#include "commands.h"

#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "scripts/scripts.h"

enum { ARGS_MAX = 3 + 5 * DLI_RENEW_MAX, MS = 1000, KEY_MAX = 1024 + DLI_OWNER_MAX + 32 };

/* A command under construction. */
struct words {
    int count;
    const char *word[ARGS_MAX];
    size_t size[ARGS_MAX];
    char number[12][24];
    int numbers;
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
    words->count = words->numbers = 0;
    add_text(words, full ? "EVAL" : "EVALSHA");
    if (full)
        add(words, dli_scripts[script].text, dli_scripts[script].size);
    else
        add(words, dli_scripts[script].sha1, 40);
}

static void begin_lock(struct words *words, int script, int full, const struct dli_names *names)
{
    begin(words, script, full);
    add_number(words, names->keys);
    for (int i = 0; i < names->keys; i++)
        add_word(words, &names->key[i]);
}

static int finish(const struct words *words, struct dli_buffer *out)
{
    return dli_encode(out, words->count, words->word, words->size);
}

/* Redisson's key of one read hold: T(N):owner:rwlock_timeout:1; start is "T(N):". Returns its size. */
static size_t hold_key(char out[KEY_MAX], const struct dli_word *start, const char *owner)
{
    static const char end[] = ":rwlock_timeout:1";
    size_t size = start->size;

    memcpy(out, start->text, size);
    while (*owner)
        out[size++] = *owner++;
    memcpy(out + size, end, sizeof end);
    return size + sizeof end - 1;
}

/* The keys of an exchange that is about owner; room is for the one made of it. */
static void begin_owned(struct words *words, int script, int full, const struct dli_speech *speech, const char *owner,
                        char room[KEY_MAX])
{
    int holds = speech->kind->holds;

    begin_lock(words, script, full, speech->names);
    if (holds) {
        words->size[3 + holds] = hold_key(room, &speech->names->key[holds], owner);
        words->word[3 + holds] = room;
    }
}

static int64_t wire_lease(const struct dli_speech *speech)
{
    int64_t lease = speech->wish->lease;

    return speech->kind->lasting ? 0 : (lease + speech->delay) / MS;
}

static void add_try(struct words *words, const struct dli_speech *speech)
{
    const struct dli_wish *wish = speech->wish;

    add_text(words, speech->want);
    add_number(words, wire_lease(speech));
    add_number(words, wish->block);
    add_number(words, wish->mode);
    add_number(words, wish->listening);
    add_number(words, wish->beat / MS);
    add_number(words, speech->keep_ms);
    add_number(words, wish->seq);
}

static int encode_release(struct dli_buffer *out, int full, const struct dli_speech *speech)
{
    char room[KEY_MAX];
    struct words words;

    begin_owned(&words, speech->kind->release, full, speech, speech->drop, room);
    add_text(&words, speech->drop);
    add_word(&words, &speech->names->channel);
    add_number(&words, speech->wish->listening);
    add_number(&words, (speech->wish->rest + MS - 1) / MS);
    add_number(&words, speech->wish->doubt);
    add_number(&words, speech->wish->block);
    return finish(&words, out);
}

int dli_encode_exchange(struct dli_buffer *out, int full, const struct dli_speech *speech)
{
    const struct dli_wish *wish = speech->wish;
    char room[KEY_MAX];
    struct words words;

    if (!wish->want)
        return encode_release(out, full, speech);
    begin_owned(&words, wish->drop ? speech->kind->pass : speech->kind->acquire, full, speech, speech->want, room);
    add_try(&words, speech);
    if (wish->drop) {
        add_text(&words, speech->drop);
        add_word(&words, &speech->names->channel);
        add_number(&words, (wish->rest + MS - 1) / MS);
    } else if (speech->kind->pass == DLI_NO_SCRIPT) {
        add_word(&words, &speech->names->channel);
        add_text(&words, speech->under);
    }
    return finish(&words, out);
}

int dli_encode_renew(struct dli_buffer *out, int full, const struct dli_kind *kind, const struct dli_renewal *rows,
                     int count)
{
    struct words words;
    char leases[DLI_RENEW_MAX][24], permits[DLI_RENEW_MAX][24], *rooms = NULL;
    int holds = kind->renew_key && kind->renew_key == kind->holds, status = -1;

    if (holds && !(rooms = malloc((size_t)count * KEY_MAX)))
        return -1;
    begin(&words, kind->renew, full);
    add_number(&words, kind->renew_key ? 2 * count : count);
    for (int i = 0; i < count; i++) {
        char *room = rooms + (holds ? i * KEY_MAX : 0);

        add(&words, rows[i].names->lock, rows[i].names->lock_size);
        if (holds)
            add(&words, room, hold_key(room, &rows[i].names->key[kind->holds], rows[i].owner));
        else if (kind->renew_key)
            add_word(&words, &rows[i].names->key[kind->renew_key]);
    }
    for (int i = 0; i < count; i++) {
        add_text(&words, rows[i].owner);
        add(&words, leases[i], dli_decimal(leases[i], rows[i].lease / MS));
        if (kind->slots)
            add(&words, permits[i], dli_decimal(permits[i], rows[i].permits));
    }
    status = finish(&words, out);
    free(rooms);
    return status;
}

int dli_encode_force(struct dli_buffer *out, int full, const struct dli_kind *kind, const struct dli_names *names)
{
    struct words words;

    begin_lock(&words, kind->force, full, names);
    add_word(&words, &names->channel);
    return finish(&words, out);
}

int dli_encode_inspect(struct dli_buffer *out, int full, const struct dli_names *names)
{
    struct words words;

    begin_lock(&words, DLI_SCRIPT_INSPECT, full, names);
    return finish(&words, out);
}

int dli_encode_gate(struct dli_buffer *out, int full, const struct dli_kind *kind, const struct dli_names *names,
                    int64_t ttl_ms)
{
    int more = kind->family == DLOCK_KIND_MUTEX ? 4 : kind->family == DLOCK_KIND_FAIR ? 5 : 2;
    struct words words;

    begin(&words, DLI_SCRIPT_GATE, full);
    add_number(&words, more > 2 ? more : 2);
    add_word(&words, &names->key[0]);
    add_word(&words, &names->gate);
    for (int i = 2; i < more; i++)
        add_word(&words, &names->key[i]);
    add_number(&words, ttl_ms);
    add_text(&words, kind->name);
    add_word(&words, &names->channel);
    return finish(&words, out);
}

int dli_encode_change(struct dli_buffer *out, int full, const struct dli_kind *kind, const struct dli_names *names,
                      const struct dli_change *change)
{
    struct words words;

    begin_lock(&words, kind->change, full, names);
    add_text(&words, change->what);
    add_number(&words, change->number);
    add_text(&words, change->id);
    add_word(&words, &names->channel);
    return finish(&words, out);
}

int dli_encode_multi(struct dli_buffer *out, int full, const struct dli_taking *const *rows, int count, int64_t keep_ms)
{
    char leases[DLI_MULTI_MAX][24], blocks[DLI_MULTI_MAX][24];
    struct words words;

    begin(&words, DLI_SCRIPT_MULTI_ACQUIRE, full);
    add_number(&words, rows[0]->names->keys * (int64_t)count);
    for (int i = 0; i < count; i++)
        for (int key = 0; key < rows[i]->names->keys; key++)
            add_word(&words, &rows[i]->names->key[key]);
    add_number(&words, keep_ms);
    for (int i = 0; i < count; i++) {
        add_text(&words, rows[i]->owner);
        add(&words, leases[i], dli_decimal(leases[i], rows[i]->lease / MS));
        add(&words, blocks[i], dli_decimal(blocks[i], rows[i]->block));
    }
    return finish(&words, out);
}

int dli_encode_words(struct dli_buffer *out, int argc, const char *const *argv)
{
    size_t sizes[8];

    for (int i = 0; i < argc && i < 8; i++)
        sizes[i] = strlen(argv[i]);
    return dli_encode(out, argc, argv, sizes);
}

int dli_call_unknown_script(const struct dli_call *call, const struct dli_reply *reply)
{
    return !call->fallback && reply && reply->type == DLI_REPLY_ERROR && reply->size >= 8 &&
           memcmp(reply->text, "NOSCRIPT", 8) == 0;
}
