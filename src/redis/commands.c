/*
 * commands.c: commands of the lock protocol, as the heads of the scripts describe them.
 */
#include "commands.h"

#include <string.h>

#include "call.h"
#include "scripts/scripts.h"

enum { ARGS_MAX = 3 + 3 * DLI_RENEW_MAX, MS = 1000 };

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
    add(words, "4", 1);
    add(words, names->lock, names->lock_size);
    add(words, names->fence, names->fence_size);
    add(words, names->line, names->line_size);
    add(words, names->about, names->about_size);
}

static int finish(const struct words *words, struct dli_buffer *out)
{
    return dli_encode(out, words->count, words->word, words->size);
}

static void add_try(struct words *words, const struct dli_wish *wish, const char *want, int64_t keep_ms)
{
    add_text(words, want);
    add_number(words, wish->lease / MS);
    add_number(words, wish->block);
    add_number(words, wish->mode);
    add_number(words, wish->listening);
    add_number(words, wish->beat / MS);
    add_number(words, keep_ms);
    add_number(words, wish->seq);
}

int dli_encode_exchange(struct dli_buffer *out, int full, const struct dli_names *names, const struct dli_wish *wish,
                        const char *want, const char *drop, int64_t keep_ms)
{
    struct words words;

    if (!wish->want) {
        begin_lock(&words, DLI_SCRIPT_RELEASE, full, names);
        add_text(&words, drop);
        add(&words, names->channel, names->channel_size);
        add_number(&words, wish->listening);
        return finish(&words, out);
    }
    begin_lock(&words, wish->drop ? DLI_SCRIPT_PASS : DLI_SCRIPT_ACQUIRE, full, names);
    add_try(&words, wish, want, keep_ms);
    if (wish->drop) {
        add_text(&words, drop);
        add(&words, names->channel, names->channel_size);
    }
    return finish(&words, out);
}

int dli_encode_renew(struct dli_buffer *out, int full, const struct dli_renewal *rows, int count)
{
    struct words words;
    char leases[DLI_RENEW_MAX][24];

    begin(&words, DLI_SCRIPT_RENEW, full);
    add_number(&words, count);
    for (int i = 0; i < count; i++)
        add(&words, rows[i].names->lock, rows[i].names->lock_size);
    for (int i = 0; i < count; i++) {
        add_text(&words, rows[i].owner);
        add(&words, leases[i], dli_decimal(leases[i], rows[i].lease / MS));
    }
    return finish(&words, out);
}

int dli_encode_force(struct dli_buffer *out, int full, const struct dli_names *names)
{
    struct words words;

    begin_lock(&words, DLI_SCRIPT_FORCE, full, names);
    add(&words, names->channel, names->channel_size);
    return finish(&words, out);
}

int dli_encode_inspect(struct dli_buffer *out, int full, const struct dli_names *names)
{
    struct words words;

    begin_lock(&words, DLI_SCRIPT_INSPECT, full, names);
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
