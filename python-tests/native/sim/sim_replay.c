/*
 * sim_replay.c: runs commands from stdin on the model of Redis, so that its answers can be compared with a real server's.
 *
 *   at MICROSECONDS                  the server's clock from here on
 *   oom 0|1                          whether the server has reached maxmemory
 *   subscribers COUNT CHANNEL               how many subscribers a channel has; 0 at first
 *   run SCRIPT KEYS WORD...          a script with its keys and arguments: one line comes out
 *   call WORD...                     one command, as a script would call it: one line comes out
 *
 * Words are hexadecimal with a dot in front, so that one may be empty. A line that comes out is the reply: :1, $hex, _ for
 * nil, +status, -error, [items]; then the messages published, each after a tab: channel and message in hexadecimal.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WORDS = 40, CHANNELS = 16, LINE = 65536 };

struct replay {
    struct sim_store store;
    struct sim_scripts *scripts;
    char line[LINE], bytes[LINE];
    struct sim_word word[WORDS];
    int words;
    char channel[CHANNELS][SIM_TEXT_MAX];
    int64_t subscribers[CHANNELS];
    int channels;
    char messages[LINE];
    size_t messages_size;
};

static void add_hex(struct replay *replay, const char *before, struct sim_word word)
{
    replay->messages_size += (size_t)sprintf(replay->messages + replay->messages_size, "%s", before);
    for (size_t i = 0; i < word.size && replay->messages_size < LINE - 8; i++)
        replay->messages_size +=
            (size_t)sprintf(replay->messages + replay->messages_size, "%02x", (unsigned char)word.at[i]);
}

static int64_t subscribers(void *world, struct sim_word channel)
{
    const struct replay *replay = world;

    for (int i = 0; i < replay->channels; i++)
        if (strlen(replay->channel[i]) == channel.size && memcmp(replay->channel[i], channel.at, channel.size) == 0)
            return replay->subscribers[i];
    return 0;
}

static int64_t publish(void *world, struct sim_word channel, struct sim_word message)
{
    struct replay *replay = world;

    add_hex(replay, "\t", channel);
    add_hex(replay, " ", message);
    return subscribers(world, channel);
}

/* Decode the words of a line from hexadecimal. */
static void read_words(struct replay *replay, const char *at)
{
    char *out = replay->bytes;

    replay->words = 0;
    while ((at = strchr(at, '.')) && replay->words < WORDS) {
        struct sim_word *word = &replay->word[replay->words++];
        unsigned byte;

        word->at = out;
        for (at++; sscanf(at, "%2x", &byte) == 1 && *at != ' ' && *at != '\n'; at += 2)
            *out++ = (char)byte;
        word->size = (size_t)(out - word->at);
    }
}

static void set_subscribers(struct replay *replay, int64_t count)
{
    int at = 0;

    while (at < replay->channels && !sim_word_is(replay->word[0], replay->channel[at]))
        at++;
    if (at == CHANNELS)
        exit(2);
    if (at == replay->channels)
        replay->channels++;
    snprintf(replay->channel[at], SIM_TEXT_MAX, "%.*s", (int)replay->word[0].size, replay->word[0].at);
    replay->subscribers[at] = count;
}

static void show_reply(const struct sim_reply *reply)
{
    if (reply->type == SIM_INTEGER) {
        printf(":%" PRId64, reply->integer);
    } else if (reply->type == SIM_BULK) {
        putchar('$');
        for (size_t i = 0; i < reply->text.size; i++)
            printf("%02x", (unsigned char)reply->text.at[i]);
    } else if (reply->type == SIM_ARRAY) {
        putchar('[');
        for (int i = 0; i < reply->count; i++) {
            fputs(i ? " " : "", stdout);
            show_reply(&reply->items[i]);
        }
        putchar(']');
    } else {
        printf("%s%.*s",
               reply->type == SIM_NIL      ? "_"
               : reply->type == SIM_STATUS ? "+"
                                           : "-",
               (int)reply->text.size, reply->text.at);
    }
}

static void run_script(struct replay *replay)
{
    char name[24];
    int keys, script;

    if (sscanf(replay->line, "run %23s %d", name, &keys) != 2 || keys > replay->words)
        exit(2);
    script = sim_script_find(replay->scripts, name);
    if (script < 0)
        exit(2);
    sim_script_show(replay->scripts, script, replay->word, keys, replay->word + keys, replay->words - keys, stdout);
}

static void step(struct replay *replay)
{
    struct sim_reply reply;
    int64_t number;

    replay->messages_size = 0;
    replay->messages[0] = '\0';
    read_words(replay, replay->line);
    if (sscanf(replay->line, "at %" SCNd64, &replay->store.now) == 1)
        return;
    if (sscanf(replay->line, "oom %" SCNd64, &number) == 1) {
        replay->store.oom = (int)number;
        return;
    }
    if (sscanf(replay->line, "subscribers %" SCNd64, &number) == 1) {
        set_subscribers(replay, number);
        return;
    }
    if (strncmp(replay->line, "run ", 4) == 0) {
        run_script(replay);
    } else {
        replay->store.dirty = 0;
        sim_command(&replay->store, replay->word, replay->words, &reply);
        show_reply(&reply);
    }
    printf("%s\n", replay->messages);
}

int sim_replay(const char *scripts)
{
    struct replay *replay = calloc(1, sizeof *replay);

    if (!replay)
        return 2;
    replay->scripts = sim_scripts_load(scripts, &replay->store);
    replay->store.world = replay;
    replay->store.publish = publish;
    replay->store.subscribers = subscribers;
    while (fgets(replay->line, sizeof replay->line, stdin))
        step(replay);
    sim_scripts_free(replay->scripts);
    sim_store_free(&replay->store);
    free(replay);
    return 0;
}
