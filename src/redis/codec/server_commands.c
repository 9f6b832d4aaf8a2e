/*
 * server_commands.c: commands about a server itself. The heads of check.lua and provision.lua describe them.
 */
#include "args.h"

#include <string.h>

int dli_encode_ping(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct dli_args args;

    (void)full;
    (void)request;
    dli_args_clear(&args);
    dli_args_text(&args, "PING");
    return dli_args_finish(&args, out);
}

/* keyless: another server may own the slot of the keys, so they are sent as arguments. */
int dli_encode_check(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_place *place = request->place;
    struct dli_args args;

    dli_args_begin(&args, DLI_SCRIPT_CHECK, full);
    dli_args_number(&args, request->check.keyless ? 0 : place->keys);
    for (int i = 0; i < place->keys && !request->check.keyless; i++)
        dli_args_key(&args, place, i);
    dli_args_channel(&args, place);
    dli_args_text(&args, request->quarantine ? "1" : "0");
    dli_args_text(&args, request->check.replicated ? "1" : "0");
    for (int i = 0; i < 4 && request->check.keyless; i++)
        dli_args_key(&args, place, i);
    return dli_args_finish(&args, out);
}

int dli_encode_provision(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_place *place = request->place;
    const char *space = request->quarantine->space;
    struct dli_args args;

    dli_args_begin(&args, DLI_SCRIPT_PROVISION, full);
    dli_args_text(&args, "1");
    dli_args_text(&args, dli_slot_marker(args.marker, place && place->marked ? place->slot : -1, space, strlen(space)));
    dli_args_number(&args, request->quarantine->longest_ms);
    return dli_args_finish(&args, out);
}
