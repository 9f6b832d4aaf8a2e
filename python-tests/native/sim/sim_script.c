/*
 * sim_script.c: Lua 5.1 around the model of Redis. See sim_script.h.
 */
#include "sim_script.h"

#include <inttypes.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARGS_MAX = 64, TEXT_MAX = 65536 };

struct sim_scripts {
    lua_State *lua;
    struct sim_store *store;
    char folder[512];
    char name[SIM_SCRIPTS_MAX][24];
    int chunk[SIM_SCRIPTS_MAX]; /* references to compiled chunks */
    int count;
};

static _Noreturn void give_up(const char *what, const char *which)
{
    fprintf(stderr, "dlock_sim: %s: %s\n", what, which);
    exit(2);
}

/* ---- redis.call */

static void push_table_of(lua_State *lua, const char *field, struct sim_word text)
{
    lua_createtable(lua, 0, 1);
    lua_pushlstring(lua, text.at, text.size);
    lua_setfield(lua, -2, field);
}

static void push_reply(lua_State *lua, const struct sim_reply *reply)
{
    if (reply->type == SIM_NIL)
        lua_pushboolean(lua, 0);
    else if (reply->type == SIM_INTEGER)
        lua_pushnumber(lua, (lua_Number)reply->integer);
    else if (reply->type == SIM_BULK)
        lua_pushlstring(lua, reply->text.at, reply->text.size);
    else
        push_table_of(lua, reply->type == SIM_STATUS ? "ok" : "err", reply->text);
}

static void push_any(lua_State *lua, const struct sim_reply *reply)
{
    if (reply->type != SIM_ARRAY) {
        push_reply(lua, reply);
        return;
    }
    lua_createtable(lua, reply->count, 0);
    for (int i = 0; i < reply->count; i++) {
        push_reply(lua, &reply->items[i]);
        lua_rawseti(lua, -2, i + 1);
    }
}

static int command_words(lua_State *lua, struct sim_word *words, char (*numbers)[32])
{
    int count = lua_gettop(lua);

    if (count == 0 || count > ARGS_MAX)
        return luaL_error(lua, "Please specify at least one argument for this redis lib call");
    for (int i = 0; i < count; i++) {
        if (lua_type(lua, i + 1) == LUA_TNUMBER) {
            int size = snprintf(numbers[i], sizeof numbers[i], "%.17g", lua_tonumber(lua, i + 1));

            words[i] = (struct sim_word){numbers[i], (size_t)size};
        } else if (lua_type(lua, i + 1) == LUA_TSTRING) {
            words[i].at = lua_tolstring(lua, i + 1, &words[i].size);
        } else {
            return luaL_error(lua, "ERR Lua redis lib command arguments must be strings or integers");
        }
    }
    return count;
}

static int run_command(lua_State *lua, int raise)
{
    struct sim_store *store = lua_touserdata(lua, lua_upvalueindex(1));
    struct sim_word words[ARGS_MAX];
    char numbers[ARGS_MAX][32];
    struct sim_reply reply;
    int count = command_words(lua, words, numbers);

    sim_command(store, words, count, &reply);
    if (reply.type == SIM_ERROR && raise) {
        lua_pushlstring(lua, reply.text.at, reply.text.size);
        return lua_error(lua);
    }
    push_any(lua, &reply);
    return 1;
}

static int redis_call(lua_State *lua)
{
    return run_command(lua, 1);
}

static int redis_pcall(lua_State *lua)
{
    return run_command(lua, 0);
}

/* In place of SHA1: other texts have other sums, as good as always. */
static int redis_sha1hex(lua_State *lua)
{
    size_t size;
    const char *text = luaL_checklstring(lua, 1, &size);
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    char hex[17];

    for (size_t i = 0; i < size; i++)
        sum = (sum ^ (unsigned char)text[i]) * UINT64_C(0x100000001b3);
    snprintf(hex, sizeof hex, "%016" PRIx64, sum);
    lua_pushstring(lua, hex);
    return 1;
}

static int refuse_global(lua_State *lua)
{
    return luaL_error(lua, "ERR Script attempted to access nonexistent global variable '%s'", lua_tostring(lua, 2));
}

static void open_lua(struct sim_scripts *scripts)
{
    lua_State *lua = luaL_newstate();

    if (!lua)
        give_up("no memory", "Lua");
    scripts->lua = lua;
    luaL_openlibs(lua);
    lua_createtable(lua, 0, 3);
    lua_pushcfunction(lua, redis_sha1hex);
    lua_setfield(lua, -2, "sha1hex");
    lua_pushlightuserdata(lua, scripts->store);
    lua_pushcclosure(lua, redis_call, 1);
    lua_setfield(lua, -2, "call");
    lua_pushlightuserdata(lua, scripts->store);
    lua_pushcclosure(lua, redis_pcall, 1);
    lua_setfield(lua, -2, "pcall");
    lua_setglobal(lua, "redis");
    lua_createtable(lua, 0, 2);
    lua_pushcfunction(lua, refuse_global);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, refuse_global);
    lua_setfield(lua, -2, "__newindex");
    lua_setmetatable(lua, LUA_GLOBALSINDEX);
    lua_gc(lua, LUA_GCSETPAUSE, 400);
}

/* ---- loading */

/* The file of an include: beside the including file, or FOLDER/NAME. */
static void path_of(const char *file, const char *part, char out[512])
{
    int folder = strchr(part, '/') ? 0 : (int)(strrchr(file, '/') + 1 - file);

    snprintf(out, 512, "%.*s%s", folder, file, part);
}

/* Append FOLDER/NAME.lua to text as embed.py would: includes resolved, comments and blank lines removed. */
static size_t add_file(const struct sim_scripts *scripts, const char *file, char *text, size_t size)
{
    char path[1024], line[1024], part[256], included[512];
    FILE *in;

    snprintf(path, sizeof path, "%s/%s", scripts->folder, file);
    in = fopen(path, "r");
    if (!in)
        give_up("cannot read", path);
    while (fgets(line, sizeof line, in)) {
        const char *bare = line + strspn(line, " \t\r\n");

        if (sscanf(bare, "--@include %255s", part) == 1) {
            path_of(file, part, included);
            size = add_file(scripts, included, text, size);
        } else if (*bare && strncmp(bare, "--", 2) != 0) {
            if (size + strlen(line) >= TEXT_MAX)
                give_up("too long", path);
            memcpy(text + size, line, strlen(line));
            size += strlen(line);
        }
    }
    fclose(in);
    return size;
}

static void add_chunk(struct sim_scripts *scripts, const char *name, const char *text, size_t size)
{
    if (scripts->count == SIM_SCRIPTS_MAX || luaL_loadbuffer(scripts->lua, text, size, name))
        give_up("cannot compile", scripts->count == SIM_SCRIPTS_MAX ? name : lua_tostring(scripts->lua, -1));
    scripts->chunk[scripts->count] = luaL_ref(scripts->lua, LUA_REGISTRYINDEX);
    snprintf(scripts->name[scripts->count++], sizeof scripts->name[0], "%s", name);
}

void sim_scripts_add(struct sim_scripts *scripts, const char *name, const char *text)
{
    add_chunk(scripts, name, text, strlen(text));
}

struct sim_scripts *sim_scripts_load(const char *folder, struct sim_store *store)
{
    static const char *const names[] = {"mutex/acquire",
                                        "mutex/release",
                                        "mutex/pass",
                                        "mutex/renew",
                                        "shared/export",
                                        "shared/adopt",
                                        "shared/disown",
                                        "mutex/force",
                                        "shared/inspect",
                                        "fair/fair_acquire",
                                        "fair/fair_release",
                                        "rw/read_acquire",
                                        "rw/read_release",
                                        "rw/read_renew",
                                        "rw/write_acquire",
                                        "rw/write_release",
                                        "semaphore/semaphore_acquire",
                                        "semaphore/semaphore_release",
                                        "semaphore/semaphore_renew",
                                        "semaphore/semaphore_change",
                                        "permit/permit_acquire",
                                        "permit/permit_release",
                                        "permit/permit_renew"};
    struct sim_scripts *scripts = calloc(1, sizeof *scripts);
    char *text = malloc(TEXT_MAX), file[64];

    if (!scripts || !text)
        give_up("no memory", folder);
    scripts->store = store;
    snprintf(scripts->folder, sizeof scripts->folder, "%s", folder);
    open_lua(scripts);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(file, sizeof file, "%s.lua", names[i]);
        add_chunk(scripts, strchr(names[i], '/') + 1, text, add_file(scripts, file, text, 0));
    }
    free(text);
    return scripts;
}

void sim_scripts_free(struct sim_scripts *scripts)
{
    lua_close(scripts->lua);
    free(scripts);
}

int sim_script_find(const struct sim_scripts *scripts, const char *name)
{
    for (int i = 0; i < scripts->count; i++)
        if (strcmp(scripts->name[i], name) == 0)
            return i;
    return -1;
}

/* ---- running */

static void set_words(lua_State *lua, const char *global, const struct sim_word *words, int count)
{
    lua_pushstring(lua, global);
    lua_createtable(lua, count, 0);
    for (int i = 0; i < count; i++) {
        lua_pushlstring(lua, words[i].at, words[i].size);
        lua_rawseti(lua, -2, i + 1);
    }
    lua_rawset(lua, LUA_GLOBALSINDEX);
}

/* Leaves the result on the stack, or the error. Returns which. */
static int run(struct sim_scripts *scripts, int index, const struct sim_word *keys, int key_count,
               const struct sim_word *args, int arg_count)
{
    lua_State *lua = scripts->lua;

    scripts->store->dirty = 0;
    lua_settop(lua, 0);
    set_words(lua, "KEYS", keys, key_count);
    set_words(lua, "ARGV", args, arg_count);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, scripts->chunk[index]);
    return lua_pcall(lua, 0, 1, 0);
}

static void lay_flat(lua_State *lua, struct sim_result *result, int depth)
{
    int type = lua_type(lua, -1);

    if (type == LUA_TNUMBER || (type == LUA_TBOOLEAN && lua_toboolean(lua, -1))) {
        if (result->count < SIM_VALUES_MAX)
            result->value[result->count++] = type == LUA_TNUMBER ? (int64_t)lua_tonumber(lua, -1) : 1;
    } else if (type == LUA_TSTRING) {
        snprintf(result->text, sizeof result->text, "%s", lua_tostring(lua, -1));
    } else if (type == LUA_TTABLE && depth < 4) {
        for (int i = 1;; i++) {
            lua_rawgeti(lua, -1, i);
            if (lua_isnil(lua, -1))
                break;
            lay_flat(lua, result, depth + 1);
            lua_pop(lua, 1);
        }
        lua_pop(lua, 1);
    }
}

void sim_script_run(struct sim_scripts *scripts, int index, const struct sim_word *keys, int key_count,
                    const struct sim_word *args, int arg_count, struct sim_result *result)
{
    result->count = 0;
    result->text[0] = '\0';
    result->error = run(scripts, index, keys, key_count, args, arg_count) != 0;
    if (result->error)
        snprintf(result->text, sizeof result->text, "%s", lua_tostring(scripts->lua, -1));
    else
        lay_flat(scripts->lua, result, 0);
}

static int show_field(lua_State *lua, const char *field, const char *mark, FILE *out)
{
    lua_pushstring(lua, field);
    lua_rawget(lua, -2);
    if (lua_isstring(lua, -1)) {
        fprintf(out, "%s%s", mark, lua_tostring(lua, -1));
        lua_pop(lua, 1);
        return 1;
    }
    lua_pop(lua, 1);
    return 0;
}

static void show_bytes(const char *at, size_t size, FILE *out)
{
    fputc('$', out);
    for (size_t i = 0; i < size; i++)
        fprintf(out, "%02x", (unsigned char)at[i]);
}

static void show(lua_State *lua, FILE *out)
{
    int type = lua_type(lua, -1);
    size_t size = 0;

    if (type == LUA_TNUMBER) {
        fprintf(out, ":%" PRId64, (int64_t)lua_tonumber(lua, -1));
    } else if (type == LUA_TSTRING) {
        const char *at = lua_tolstring(lua, -1, &size);

        show_bytes(at, size, out);
    } else if (type == LUA_TBOOLEAN && lua_toboolean(lua, -1)) {
        fputs(":1", out);
    } else if (type != LUA_TTABLE) {
        fputc('_', out);
    } else if (!show_field(lua, "err", "-", out) && !show_field(lua, "ok", "+", out)) {
        fputc('[', out);
        for (int i = 1;; i++) {
            lua_rawgeti(lua, -1, i);
            if (lua_isnil(lua, -1))
                break;
            if (i > 1)
                fputc(' ', out);
            show(lua, out);
            lua_pop(lua, 1);
        }
        lua_pop(lua, 1);
        fputc(']', out);
    }
}

void sim_script_show(struct sim_scripts *scripts, int index, const struct sim_word *keys, int key_count,
                     const struct sim_word *args, int arg_count, void *out)
{
    if (run(scripts, index, keys, key_count, args, arg_count))
        fprintf(out, "-%s", lua_tostring(scripts->lua, -1));
    else
        show(scripts->lua, out);
}
