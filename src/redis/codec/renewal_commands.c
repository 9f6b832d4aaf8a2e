/*
 * renewal_commands.c: commands that renew many holds at once, offer one hold, or give it to an heir.
 */
#include <stdlib.h>

#include "args.h"
#include "commands.h"
#include "redis/scripts/scripts.h"

enum { MS = 1000, ABOUT = 3 };

/* Memory for the texts of one row. */
struct renewal_room {
    char id[DLI_ID_MAX], lease[24], permits[24];
};

static void add_renewal_keys(struct dli_args *args, const struct dli_wire *wire, const struct dli_renewal *row,
                             const char *id, char *room)
{
    dli_args_key(args, row->place, 0);
    if (room)
        dli_args_add(args, room, dli_hold_key(room, row->place, id));
    else if (wire->renew_key)
        dli_args_key(args, row->place, wire->renew_key);
    if (wire->renew_also)
        dli_args_key(args, row->place, wire->renew_also);
}

/*
 * Whether one lease is sent for all rows: they have the same one, and the script is renew.lua, which alone accepts
 * this.
 */
static int one_lease(const struct dli_wire *wire, const struct dli_renewal *row, int count)
{
    for (int i = 1; i < count; i++)
        if (row[i].lease != row[0].lease)
            return 0;
    return wire->renew == DLI_SCRIPT_RENEW;
}

static int encode_renewals(struct dli_buffer *out, int full, const struct dli_renewal *row, int count,
                           struct renewal_room *room, char *keys)
{
    const struct dli_wire *wire = dli_wire_of(row[0].kind);
    int one = one_lease(wire, row, count);
    struct dli_args args;

    dli_args_begin(&args, wire->renew, full);
    dli_args_number(&args, count * (1 + (wire->renew_key != 0) + (wire->renew_also != 0)));
    for (int i = 0; i < count; i++) {
        dli_args_id(room[i].id, dli_wire_of(row[i].kind), row[i].owner);
        add_renewal_keys(&args, wire, &row[i], room[i].id, keys ? keys + (size_t)i * DLI_HOLD_KEY_MAX : NULL);
    }
    for (int i = 0; i < count; i++) {
        dli_args_text(&args, room[i].id);
        if (!one || i == count - 1)
            dli_args_number_in(&args, room[i].lease, row[i].lease / MS);
        if (row[i].kind->slots)
            dli_args_number_in(&args, room[i].permits, row[i].permits);
    }
    return dli_args_finish(&args, out);
}

static void add_offer(struct dli_args *args, const struct dli_renewal *row)
{
    dli_args_number(args, row->lease / MS);
    dli_args_number(args, row->transfer->attempt);
    dli_args_number(args, row->transfer->token);
    dli_args_number(args, row->transfer->lease / MS);
}

static void add_heir(struct dli_args *args, const struct dli_renewal *row)
{
    dli_args_text(args, row->transfer->heir);
    dli_args_number(args, row->delay / MS);
    dli_args_number(args, row->transfer->first);
}

int dli_encode_transfer(struct dli_buffer *out, int full, const struct dli_renewal *row)
{
    int adopts = row->transfer->heir[0] != '\0';
    struct dli_args args;

    dli_args_begin(&args, adopts ? DLI_SCRIPT_ADOPT : DLI_SCRIPT_EXPORT, full);
    dli_args_number(&args, 2);
    dli_args_key(&args, row->place, 0);
    dli_args_key(&args, row->place, ABOUT);
    dli_args_text(&args, row->owner);
    (adopts ? add_heir : add_offer)(&args, row);
    dli_args_text(&args, row->transfer->proof);
    return dli_args_finish(&args, out);
}

int dli_encode_renew(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_wire *wire = dli_wire_of(request->renew.row[0].kind);
    size_t count = (size_t)request->renew.count;
    int holds = wire->renew_key && wire->renew_key == wire->holds, status = -1;
    struct renewal_room *room = malloc(count * sizeof *room);
    char *keys = holds ? malloc(count * DLI_HOLD_KEY_MAX) : NULL;

    if (room && (keys || !holds))
        status = encode_renewals(out, full, request->renew.row, (int)count, room, keys);
    free(keys);
    free(room);
    return status;
}
