/*
 * server_commands.c: commands about a server itself, as the heads of check.lua and provision.lua describe them.
 */
#include <string.h>

#include "commands.h"
#include "redis/scripts/scripts.h"

enum { WORDS_MAX = 8 + DLI_KEYS_MAX };

struct line {
    int count;
    const char *word[WORDS_MAX];
    size_t size[WORDS_MAX];
};

static void add(struct line *line, const char *word, size_t size)
{
    line->word[line->count] = word;
    line->size[line->count++] = size;
}

static void begin(struct line *line, int script, int full)
{
    const struct dli_script *said = dli_script_in(full / DLI_SAY_FORM, script);
    int text = full & DLI_SAY_FULL;

    line->count = 0;
    add(line, text ? "EVAL" : "EVALSHA", text ? 4 : 7);
    add(line, text ? said->text : said->sha1, text ? said->size : 40);
}

int dli_encode_ping(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct line line = {.count = 0};

    (void)full;
    (void)request;
    add(&line, "PING", 4);
    return dli_encode(out, line.count, line.word, line.size);
}

/* Where the keys may be another server's they are arguments. */
int dli_encode_check(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_place *place = request->place;
    char keys[24];
    struct line line;

    begin(&line, DLI_SCRIPT_CHECK, full);
    add(&line, keys, dli_decimal(keys, request->check.keyless ? 0 : place->keys));
    for (int i = 0; i < place->keys && !request->check.keyless; i++)
        add(&line, place->key[i].text, place->key[i].size);
    add(&line, place->channel.text, place->channel.size);
    add(&line, request->quiet ? "1" : "0", 1);
    add(&line, request->check.replicated ? "1" : "0", 1);
    for (int i = 0; i < 4 && request->check.keyless; i++)
        add(&line, place->key[i].text, place->key[i].size);
    return dli_encode(out, line.count, line.word, line.size);
}

int dli_encode_provision(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_place *place = request->place;
    const char *marker = place && place->marker[0] ? place->marker : request->quiet->marker;
    char longest[24];
    struct line line;

    begin(&line, DLI_SCRIPT_PROVISION, full);
    add(&line, "1", 1);
    add(&line, marker, strlen(marker));
    add(&line, longest, dli_decimal(longest, request->quiet->longest_ms));
    return dli_encode(out, line.count, line.word, line.size);
}
