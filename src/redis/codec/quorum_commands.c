/*
 * quorum_commands.c: commands for the servers of a quorum. The heads of again.lua, floor.lua and join.lua describe
 * them.
 */
#include "args.h"

#include "base/text.h"

enum { MS = 1000 };

int dli_encode_again(struct dli_buffer *out, int full, const struct dli_request *request)
{
    char leases[DLI_RENEW_MAX][24], lasts[DLI_RENEW_MAX][24];
    const struct dli_renewal *row = request->renew.row;
    struct dli_args args;

    dli_args_begin(&args, DLI_SCRIPT_AGAIN, full);
    dli_args_number(&args, 2 * request->renew.count);
    for (int i = 0; i < request->renew.count; i++) {
        dli_args_key(&args, row[i].place, 0);
        dli_args_key(&args, row[i].place, 1);
    }
    for (int i = 0; i < request->renew.count; i++) {
        dli_args_text(&args, dli_renewal_id(&row[i]));
        dli_args_number_in(&args, leases[i], row[i].lease / MS);
        dli_args_number_in(&args, lasts[i], row[i].last);
    }
    return dli_args_finish(&args, out);
}

int dli_encode_floor(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_floor *floor = request->own;
    struct dli_args args;

    dli_args_begin(&args, DLI_SCRIPT_FLOOR, full);
    dli_args_text(&args, "2");
    dli_args_key(&args, request->place, 0);
    dli_args_key(&args, request->place, 1);
    dli_args_text(&args, floor->owner);
    dli_args_number(&args, floor->seen);
    dli_args_number(&args, floor->last);
    dli_args_number(&args, floor->keep_ms);
    return dli_args_finish(&args, out);
}

int dli_encode_join(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_join *join = request->own;
    char key[DLI_NAME_MAX + 16];
    struct dli_args args;

    dli_args_begin(&args, DLI_SCRIPT_JOIN, full);
    dli_args_text(&args, "1");
    dli_print(key, sizeof key, "dlock_quorum%s%s", *join->space ? ":" : "", join->space);
    dli_args_text(&args, key);
    dli_args_text(&args, join->view);
    dli_args_number(&args, join->keep_ms);
    if (join->others) {
        dli_args_number(&args, join->others);
        dli_args_text(&args, join->members);
    }
    return dli_args_finish(&args, out);
}
