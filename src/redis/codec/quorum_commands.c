/*
 * quorum_commands.c: commands for servers that vote, as the heads of again.lua, floor.lua and join.lua describe them.
 */
#include <string.h>

#include "commands.h"
#include "redis/scripts/scripts.h"

enum { MS = 1000, WORDS_MAX = 3 + 5 * DLI_RENEW_MAX };

/* A command under construction. */
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

static void add_text(struct line *line, const char *text)
{
    add(line, text, strlen(text));
}

static void add_key(struct line *line, const struct dli_place *place, int key)
{
    add(line, place->key[key].text, place->key[key].size);
}

static void add_number(struct line *line, char room[24], int64_t number)
{
    add(line, room, dli_decimal(room, number));
}

static void begin(struct line *line, int script, int full)
{
    line->count = 0;
    add_text(line, full ? "EVAL" : "EVALSHA");
    add(line, full ? dli_scripts[script].text : dli_scripts[script].sha1, full ? dli_scripts[script].size : 40);
}

int dli_encode_again(struct dli_buffer *out, int full, const struct dli_request *request)
{
    char keys[24], leases[DLI_RENEW_MAX][24], lasts[DLI_RENEW_MAX][24];
    const struct dli_renewal *row = request->renew.row;
    struct line line;

    begin(&line, DLI_SCRIPT_AGAIN, full);
    add_number(&line, keys, 2 * request->renew.count);
    for (int i = 0; i < request->renew.count; i++) {
        add_key(&line, row[i].place, 0);
        add_key(&line, row[i].place, 1);
    }
    for (int i = 0; i < request->renew.count; i++) {
        add_text(&line, row[i].heir[0] ? row[i].heir : row[i].owner);
        add_number(&line, leases[i], row[i].lease / MS);
        add_number(&line, lasts[i], row[i].last);
    }
    return dli_encode(out, line.count, line.word, line.size);
}

int dli_encode_floor(struct dli_buffer *out, int full, const struct dli_request *request)
{
    char number[3][24];
    struct line line;

    begin(&line, DLI_SCRIPT_FLOOR, full);
    add_text(&line, "2");
    add_key(&line, request->place, 0);
    add_key(&line, request->place, 1);
    add_text(&line, request->floor.owner);
    add_number(&line, number[0], request->floor.seen);
    add_number(&line, number[1], request->floor.last);
    add_number(&line, number[2], request->floor.keep_ms);
    return dli_encode(out, line.count, line.word, line.size);
}

int dli_encode_join(struct dli_buffer *out, int full, const struct dli_request *request)
{
    char number[24];
    struct line line;

    begin(&line, DLI_SCRIPT_JOIN, full);
    add_text(&line, "1");
    add_text(&line, "dlock_quorum");
    add_text(&line, request->join.view);
    add_number(&line, number, request->join.keep_ms);
    return dli_encode(out, line.count, line.word, line.size);
}
