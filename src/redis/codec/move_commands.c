/*
 * move_commands.c: commands that move the keys of a request's locks to another server, see commands.h. No state.
 */
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "commands.h"
#include "redis/scripts/scripts.h"

enum {
    MOST = 4096,            /* members that one step moves: it takes the server a few ms, see moving.lua */
    MIGRATE_TIMEOUT = 1000, /* ms that the server waits for the other one; it serves nobody meanwhile */
    FIXED = 10              /* words of MIGRATE before the keys, at most */
};

/* Memory for the keys of two read holds. */
struct hold_room {
    char key[2][DLI_HOLD_KEY_MAX];
};

/* The place of a lock, its kind, and whose read holds the request is about: an owner of the client's, or "". */
struct about {
    const struct dli_place *place;
    const struct dli_kind *kind;
    const char *owner[2];
};

static struct about about_of(const struct dli_request *request)
{
    if (request->verb == DLI_VERB_RENEW)
        return (struct about){
            request->renew.row[0].place, request->renew.row[0].kind, {request->renew.row[0].owner, ""}};
    if (request->verb == DLI_VERB_EXCHANGE)
        return (struct about){request->place, request->kind, {request->exchange.want, request->exchange.drop}};
    return (struct about){request->place, request->kind, {"", ""}};
}

int dli_encode_move_probe(struct dli_buffer *out, const struct dli_request *request)
{
    struct dli_args args;
    int multi = request->verb == DLI_VERB_ACQUIRE_ALL;

    dli_args_clear(&args);
    dli_args_text(&args, "EXISTS");
    dli_args_pattern(&args, multi ? request->multi.row[0].place : about_of(request).place, DLI_NOBODY_PATTERN);
    return dli_args_finish(&args, out);
}

static void begin_look(struct dli_args *args, const struct dli_place *place, int holds)
{
    dli_args_begin(args, DLI_SCRIPT_MOVING, DLI_ENCODE_FULL);
    dli_args_number(args, 0);
    dli_args_number(args, MOST);
    dli_args_pattern(args, place, DLI_NOBODY_PATTERN);
    if (holds)
        dli_args_key(args, place, holds);
    else
        dli_args_text(args, "");
}

static void add_keys(struct dli_args *args, const struct dli_place *place)
{
    for (int key = 0; key < place->keys; key++)
        dli_args_key(args, place, key);
}

int dli_encode_move_look(struct dli_buffer *out, const struct dli_request *request)
{
    const struct about about = about_of(request);
    const struct dli_wire *wire;
    struct hold_room room;
    struct dli_args args;
    char id[DLI_ID_MAX];

    if (request->verb == DLI_VERB_ACQUIRE_ALL) {
        begin_look(&args, request->multi.row[0].place, 0);
        for (int i = 0; i < request->multi.count; i++)
            add_keys(&args, request->multi.row[i].place);
        return dli_args_finish(&args, out);
    }
    wire = dli_wire_of(about.kind); /* that of the place may be of the other side of a read-write lock */
    begin_look(&args, about.place, wire->holds);
    add_keys(&args, about.place);
    if (wire->id == DLOCK_KIND_FAIR)
        dli_args_pattern(&args, about.place, DLI_TOMBS_PATTERN);
    for (int i = 0; i < 2 && wire->holds; i++)
        if (about.owner[i][0])
            dli_args_add(&args, room.key[i],
                         dli_hold_key(room.key[i], about.place, dli_args_id(id, wire, about.owner[i])));
    return dli_args_finish(&args, out);
}

/* The words before the keys. Returns their number. */
static int begin_migrate(const char **word, char port[24], char timeout[24], const struct dli_new_home *home)
{
    int count = 0;

    dli_decimal(port, home->port);
    dli_decimal(timeout, MIGRATE_TIMEOUT);
    word[count++] = "MIGRATE";
    word[count++] = home->host;
    word[count++] = port;
    word[count++] = "";
    word[count++] = "0";
    word[count++] = timeout;
    if (home->password)
        word[count++] = home->username[0] ? "AUTH2" : "AUTH";
    if (home->password && home->username[0])
        word[count++] = home->username;
    if (home->password)
        word[count++] = home->password;
    word[count++] = "KEYS";
    return count;
}

int dli_encode_migrate(struct dli_buffer *out, const struct dli_reply *keys, const struct dli_new_home *home)
{
    const char **word = malloc((FIXED + keys->size) * sizeof *word);
    size_t *size = malloc((FIXED + keys->size) * sizeof *size);
    char port[24], timeout[24];
    int count, status = -1;

    if (word && size) {
        count = begin_migrate(word, port, timeout, home);
        for (int i = 0; i < count; i++)
            size[i] = strlen(word[i]);
        for (size_t i = 0; i < keys->size; i++, count++) {
            word[count] = keys->items[i].text;
            size[count] = keys->items[i].size;
        }
        status = dli_encode(out, count, word, size);
    }
    free(word);
    free(size);
    return status;
}
