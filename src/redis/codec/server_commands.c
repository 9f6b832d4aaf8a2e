/*
 * server_commands.c: commands about a server itself. The heads of check.lua and provision.lua describe them.
 */
#include "args.h"

int dli_encode_ping(struct dli_buffer *out, int full, const struct dli_request *request)
{
    struct dli_args args = {.count = 0};

    (void)full;
    (void)request;
    dli_args_add(&args, "PING", 4);
    return dli_args_finish(&args, out);
}

/* keyless: another server may own the slot of the keys, so they are sent as arguments. */
int dli_encode_check(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_place *place = request->place;
    char keys[24];
    struct dli_args args;

    dli_args_begin(&args, DLI_SCRIPT_CHECK, full);
    dli_args_add(&args, keys, dli_decimal(keys, request->check.keyless ? 0 : place->keys));
    for (int i = 0; i < place->keys && !request->check.keyless; i++)
        dli_args_add(&args, place->key[i].text, place->key[i].size);
    dli_args_add(&args, place->channel.text, place->channel.size);
    dli_args_add(&args, request->quarantine ? "1" : "0", 1);
    dli_args_add(&args, request->check.replicated ? "1" : "0", 1);
    for (int i = 0; i < 4 && request->check.keyless; i++)
        dli_args_add(&args, place->key[i].text, place->key[i].size);
    return dli_args_finish(&args, out);
}

int dli_encode_provision(struct dli_buffer *out, int full, const struct dli_request *request)
{
    const struct dli_place *place = request->place;
    const char *marker = place && place->marker[0] ? place->marker : request->quarantine->marker;
    char longest[24];
    struct dli_args args;

    dli_args_begin(&args, DLI_SCRIPT_PROVISION, full);
    dli_args_add(&args, "1", 1);
    dli_args_text(&args, marker);
    dli_args_add(&args, longest, dli_decimal(longest, request->quarantine->longest_ms));
    return dli_args_finish(&args, out);
}
