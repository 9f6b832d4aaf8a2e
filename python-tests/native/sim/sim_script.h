/*
 * sim_script.h: runs our real Lua scripts against a sim_store, as Redis does: KEYS, ARGV, redis.call, redis.pcall, and
 * Redis's conversions of replies and results.
 */
#ifndef SIM_SCRIPT_H
#define SIM_SCRIPT_H

#include "sim_store.h"

enum { SIM_SCRIPTS_MAX = 40, SIM_VALUES_MAX = 16 };

/* The reply of a script: arrays are flattened, nil and texts are left out. */
struct sim_result {
    int error; /* text is the error; else the last text of the reply */
    char text[120];
    int count;
    int64_t value[SIM_VALUES_MAX];
};

struct sim_scripts;

/* The scripts of a folder, NAME.lua and what they include; ends the program when one cannot be read or compiled. */
struct sim_scripts *sim_scripts_load(const char *folder, struct sim_store *store);
void sim_scripts_free(struct sim_scripts *scripts);

/* Add a script by its text, for other kinds of clients. */
void sim_scripts_add(struct sim_scripts *scripts, const char *name, const char *text);

/* Its index, or -1. */
int sim_script_find(const struct sim_scripts *scripts, const char *name);

void sim_script_run(struct sim_scripts *scripts, int index, const struct sim_word *keys, int key_count,
                    const struct sim_word *args, int arg_count, struct sim_result *result);

/* The same, but the reply is written to out as text (see sim_replay.c). */
void sim_script_show(struct sim_scripts *scripts, int index, const struct sim_word *keys, int key_count,
                     const struct sim_word *args, int arg_count, void *out);

#endif
