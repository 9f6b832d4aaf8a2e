/*
 * sim_zset.c: the commands on sorted sets. See sim_store.h.
 */
#include "sim_store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int word_double(struct sim_word word, double *value)
{
    char text[64], *end;

    if (word.size == 0 || word.size >= sizeof text)
        return 0;
    memcpy(text, word.at, word.size);
    text[word.size] = '\0';
    *value = strtod(text, &end);
    return *end == '\0' && !isnan(*value);
}

/* Whether a field comes before the place of score and name. */
static int stands_before(const struct sim_field *field, double score, struct sim_word name)
{
    size_t least = field->name.size < name.size ? field->name.size : name.size;
    int order;

    if (field->score < score || field->score > score)
        return field->score < score;
    order = memcmp(field->name.at, name.at, least);
    return order ? order < 0 : field->name.size < name.size;
}

static void insert_scored(struct sim_key *key, double score, struct sim_word name)
{
    int at = 0;

    while (at < key->count && stands_before(&key->fields[at], score, name))
        at++;
    sim_insert_field(key, at, name)->score = score;
}

static void zadd(struct sim_call *call, struct sim_key *key)
{
    int only_new = sim_word_is(call->argv[2], "NX"), only_up = sim_word_is(call->argv[2], "GT");
    int first = 2 + (only_new || only_up), added = 0;
    double score;

    if (first >= call->argc || (call->argc - first) % 2) {
        sim_reply_error(call, "ERR syntax error");
        return;
    }
    for (int i = first; i < call->argc; i += 2) {
        if (!word_double(call->argv[i], &score)) {
            sim_reply_error(call, "ERR value is not a valid float");
            return;
        }
    }
    if (sim_wrong_type(call, key, SIM_ZSET))
        return;
    if (!key)
        key = sim_make_key(call->store, call->argv[1], SIM_ZSET);
    for (int i = first; i < call->argc; i += 2) {
        struct sim_field *field = sim_find_field(key, call->argv[i + 1]);

        word_double(call->argv[i], &score);
        added += !field;
        if (field && (only_new || (only_up && score <= field->score)))
            continue;
        if (field) {
            memmove(field, field + 1, (size_t)(key->fields + key->count - field - 1) * sizeof *field);
            key->count--;
        }
        insert_scored(key, score, call->argv[i + 1]);
    }
    sim_reply_integer(call, added);
}

static void zrem(struct sim_call *call, struct sim_key *key)
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

static void zcard(struct sim_call *call, struct sim_key *key)
{
    sim_reply_integer(call, key ? key->count : 0);
}

/* A bound of ZCOUNT: "(" in front excludes the bound itself. */
static int bound(struct sim_word word, double *value, int *open)
{
    *open = word.size > 0 && word.at[0] == '(';
    word.at += *open;
    word.size -= (size_t)*open;
    return word_double(word, value);
}

static void zcount(struct sim_call *call, struct sim_key *key)
{
    double low, high;
    int low_open, high_open, count = 0;

    if (!bound(call->argv[2], &low, &low_open) || !bound(call->argv[3], &high, &high_open)) {
        sim_reply_error(call, "ERR min or max is not a float");
        return;
    }
    if (sim_wrong_type(call, key, SIM_ZSET))
        return;
    for (int i = 0; key && i < key->count; i++) {
        double score = key->fields[i].score;

        count += (low_open ? score > low : score >= low) && (high_open ? score < high : score <= high);
    }
    sim_reply_integer(call, count);
}

/* LIMIT's two numbers; -1: they are not numbers. */
static int64_t limit_of(const struct sim_call *call, int64_t *skip)
{
    int64_t most = INT64_MAX;

    *skip = 0;
    if (call->argc == 4)
        return most;
    if (call->argc != 7 || !sim_word_is(call->argv[4], "LIMIT") || !sim_word_integer(call->argv[5], skip) ||
        !sim_word_integer(call->argv[6], &most) || *skip < 0)
        return -1;
    return most < 0 ? INT64_MAX : most; /* as many as there are */
}

static void zrangebyscore(struct sim_call *call, struct sim_key *key)
{
    struct sim_reply *item;
    double low, high;
    int low_open, high_open, first = 0, last;
    int64_t skip, most = limit_of(call, &skip);

    if (!bound(call->argv[2], &low, &low_open) || !bound(call->argv[3], &high, &high_open) || most < 0) {
        sim_reply_error(call, "ERR min or max is not a float, or syntax error");
        return;
    }
    if (sim_wrong_type(call, key, SIM_ZSET))
        return;
    while (key && first < key->count && (low_open ? key->fields[first].score <= low : key->fields[first].score < low))
        first++;
    for (last = first; key && last < key->count; last++)
        if (high_open ? key->fields[last].score >= high : key->fields[last].score > high)
            break;
    first = skip < last - first ? first + (int)skip : last;
    last = most < last - first ? first + (int)most : last;
    item = sim_reply_array(call, last - first);
    for (; first < last; first++)
        *item++ =
            (struct sim_reply){.type = SIM_BULK, .text = {key->fields[first].name.at, key->fields[first].name.size}};
}

static void zscore(struct sim_call *call, struct sim_key *key)
{
    const struct sim_field *field = key ? sim_find_field(key, call->argv[2]) : NULL;
    int size;

    if (!field)
        return;
    size = snprintf(call->store->text, sizeof call->store->text, "%.17g", field->score);
    sim_reply_text(call, call->store->text, (size_t)size);
}

static void reply_range(struct sim_call *call, const struct sim_key *key, int64_t first, int64_t last, int scores)
{
    int count = first > last ? 0 : (int)(last - first + 1);
    struct sim_reply *item = sim_reply_array(call, count * (1 + scores));

    if (scores && count > 64) {
        fprintf(stderr, "sim_zset: more than 64 scores\n");
        exit(2);
    }
    for (int i = 0; i < count; i++) {
        const struct sim_field *field = &key->fields[first + i];
        char *text = call->store->numbers[i];

        *item++ = (struct sim_reply){.type = SIM_BULK, .text = {field->name.at, field->name.size}};
        if (!scores)
            continue;
        snprintf(text, sizeof call->store->numbers[0], "%.17g", field->score);
        *item++ = (struct sim_reply){.type = SIM_BULK, .text = sim_word(text)};
    }
}

static void zrange(struct sim_call *call, struct sim_key *key)
{
    int scores = call->argc == 5;
    int64_t first, last, count = key ? key->count : 0;

    if (scores && !sim_word_is(call->argv[4], "WITHSCORES")) {
        sim_reply_error(call, "ERR syntax error");
        return;
    }
    if (!sim_word_integer(call->argv[2], &first) || !sim_word_integer(call->argv[3], &last)) {
        sim_reply_error(call, "ERR value is not an integer or out of range");
        return;
    }
    if (sim_wrong_type(call, key, SIM_ZSET))
        return;
    first = first < 0 ? first + count : first;
    last = last < 0 ? last + count : last;
    reply_range(call, key, first < 0 ? 0 : first, last >= count ? count - 1 : last, scores);
}

/* From the lowest score to a rank. */
static void zremrangebyrank(struct sim_call *call, struct sim_key *key)
{
    int64_t first, last;
    int count = key ? key->count : 0;

    if (!sim_word_integer(call->argv[2], &first) || !sim_word_integer(call->argv[3], &last) || first != 0 || last < 0) {
        fprintf(stderr, "sim_zset: that ZREMRANGEBYRANK is not in the model\n");
        exit(2);
    }
    if (sim_wrong_type(call, key, SIM_ZSET))
        return;
    count = last < count ? (int)last + 1 : count;
    for (int i = 0; i < count; i++)
        sim_drop_field(call->store, key, &key->fields[0]);
    sim_reply_integer(call, count);
}

static void zremrangebyscore(struct sim_call *call, struct sim_key *key)
{
    double low, high;
    int low_open, high_open, gone = 0, i = 0;

    if (!bound(call->argv[2], &low, &low_open) || !bound(call->argv[3], &high, &high_open)) {
        sim_reply_error(call, "ERR min or max is not a float");
        return;
    }
    if (sim_wrong_type(call, key, SIM_ZSET))
        return;
    while (key && i < key->count) {
        double score = key->fields[i].score;
        int last = key->count == 1;

        if (!((low_open ? score > low : score >= low) && (high_open ? score < high : score <= high))) {
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

const struct sim_command_row sim_zset_commands[] = {
    {"ZADD", 4, -1, SIM_WRITES | SIM_NEEDS_MEMORY, SIM_ZSET, 0, zadd},
    {"ZREM", 3, -1, SIM_WRITES, SIM_ZSET, 1, zrem},
    {"ZREMRANGEBYSCORE", 4, 4, SIM_WRITES, SIM_ZSET, 0, zremrangebyscore},
    {"ZREMRANGEBYRANK", 4, 4, SIM_WRITES, SIM_ZSET, 0, zremrangebyrank},
    {"ZCARD", 2, 2, 0, SIM_ZSET, 1, zcard},
    {"ZCOUNT", 4, 4, 0, SIM_ZSET, 0, zcount},
    {"ZRANGEBYSCORE", 4, 7, 0, SIM_ZSET, 0, zrangebyscore},
    {"ZSCORE", 3, 3, 0, SIM_ZSET, 1, zscore},
    {"ZRANGE", 4, 5, 0, SIM_ZSET, 0, zrange},
    {NULL, 0, 0, 0, SIM_STRING, 0, NULL},
};
