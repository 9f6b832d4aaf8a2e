/*
 * sim_store.h: the memory of one Redis server, as far as the lock scripts use it: strings, hashes, lists and sorted
 * sets with expiry by the server's own clock. Texts are short (SIM_TEXT_MAX); the program ends when one does not fit.
 *
 * test_simulator.py checks it against a real server: it replays random traces on both (sim_replay.c).
 */
#ifndef SIM_STORE_H
#define SIM_STORE_H

#include <stddef.h>
#include <stdint.h>

enum { SIM_TEXT_MAX = 110, SIM_KEYS_MAX = 1024 };

struct sim_text {
    uint16_t size;
    char at[SIM_TEXT_MAX];
};

/* A word of a command: not terminated. */
struct sim_word {
    const char *at;
    size_t size;
};

enum sim_type { SIM_STRING, SIM_HASH, SIM_ZSET, SIM_LIST };

/* List: names. Hash: name and value. Sorted set: name and score, in order. */
struct sim_field {
    struct sim_text name, value;
    double score;
};

struct sim_key {
    struct sim_text name, value;
    enum sim_type type;
    int64_t expires; /* ms of the server's clock; < 0: never */
    struct sim_field *fields;
    int count, room;
};

enum sim_reply_type { SIM_NIL, SIM_INTEGER, SIM_BULK, SIM_STATUS, SIM_ERROR, SIM_ARRAY };

/* A reply is valid until the next command. Items of an array are never arrays. */
struct sim_reply {
    enum sim_reply_type type;
    int64_t integer;
    struct sim_word text; /* BULK, STATUS, ERROR */
    struct sim_reply *items;
    int count;
};

struct sim_store {
    int64_t now; /* the server's clock, microseconds since 1970 */
    int oom;     /* it has reached maxmemory */
    int dirty;   /* a script runs and has called a writing command */
    struct sim_key keys[SIM_KEYS_MAX];
    int count;
    void *world; /* for the two below */
    int64_t (*publish)(void *world, struct sim_word channel, struct sim_word message);
    int64_t (*subscribers)(void *world, struct sim_word channel);
    struct sim_reply *items; /* of the last array reply */
    int items_room;
    char text[256];       /* of the last reply that was built here */
    char numbers[64][32]; /* of the scores in it */
};

void sim_store_reset(struct sim_store *store); /* forget all keys */
void sim_store_free(struct sim_store *store);

/* Run one command. */
void sim_command(struct sim_store *store, const struct sim_word *argv, int argc, struct sim_reply *reply);

/* ---- keys, sim_store.c */

struct sim_word sim_word(const char *text);
int sim_same(const struct sim_text *text, struct sim_word word);
void sim_set_text(struct sim_text *text, struct sim_word word);

struct sim_key *sim_find_key(struct sim_store *store, struct sim_word name); /* NULL when absent or expired */
struct sim_key *sim_make_key(struct sim_store *store, struct sim_word name, enum sim_type type);
void sim_drop_key(struct sim_store *store, struct sim_key *key);
struct sim_field *sim_find_field(struct sim_key *key, struct sim_word name);
struct sim_field *sim_insert_field(struct sim_key *key, int at, struct sim_word name);
void sim_drop_field(struct sim_store *store, struct sim_key *key, struct sim_field *field); /* an empty key goes too */

/* ---- command tables */

struct sim_call {
    struct sim_store *store;
    const struct sim_word *argv;
    int argc;
    struct sim_reply *reply;
};

enum { SIM_WRITES = 1, SIM_NEEDS_MEMORY = 2 };

struct sim_command_row {
    const char *name;
    int least, most; /* words, most < 0: any number */
    int flags;
    enum sim_type type;
    int typed; /* the key must be of type when it exists; otherwise run checks that, after its other arguments */
    void (*run)(struct sim_call *call, struct sim_key *key);
};

extern const struct sim_command_row sim_plain_commands[]; /* sim_commands.c */
extern const struct sim_command_row sim_zset_commands[];  /* sim_zset.c */
extern const struct sim_command_row sim_list_commands[];  /* sim_list.c */

void sim_reply_integer(struct sim_call *call, int64_t value);
void sim_reply_text(struct sim_call *call, const char *at, size_t size);
void sim_reply_error(struct sim_call *call, const char *text);
struct sim_reply *sim_reply_array(struct sim_call *call, int count);
int sim_wrong_type(struct sim_call *call, const struct sim_key *key,
                   enum sim_type type);                  /* 1, with the error in the reply */
int sim_word_is(struct sim_word word, const char *text); /* case is ignored */
int sim_word_integer(struct sim_word word, int64_t *value);

#endif
