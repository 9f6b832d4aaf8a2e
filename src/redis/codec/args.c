/*
 * args.c: builds one command, see args.h. Scripts that grant or hand over have a variant for servers with a quarantine.
 */
#include "args.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void dli_args_add(struct dli_args *args, const char *word, size_t size)
{
    args->word[args->count] = word;
    args->place[args->count] = NULL;
    args->size[args->count++] = size;
}

void dli_args_text(struct dli_args *args, const char *text)
{
    dli_args_add(args, text, strlen(text));
}

void dli_args_pattern(struct dli_args *args, const struct dli_place *place, const char *pattern)
{
    size_t most = dli_pattern_most(pattern, place);

    dli_args_add(args, pattern, most);
    args->place[args->count - 1] = place;
    args->most += most;
}

void dli_args_key(struct dli_args *args, const struct dli_place *place, int key)
{
    dli_args_pattern(args, place, dli_wire_at(place->wire)->key[key]);
}

void dli_args_channel(struct dli_args *args, const struct dli_place *place)
{
    dli_args_pattern(args, place, dli_wire_at(place->wire)->channel);
}

void dli_args_number(struct dli_args *args, int64_t number)
{
    char *text = args->number[args->numbers++];

    dli_args_add(args, text, dli_decimal(text, number));
}

void dli_args_number_in(struct dli_args *args, char room[24], int64_t number)
{
    dli_args_add(args, room, dli_decimal(room, number));
}

void dli_args_clear(struct dli_args *args)
{
    args->count = args->numbers = args->form = args->asks = 0;
    args->asking = NULL;
    args->most = 0;
    args->quarantine = NULL;
}

/* Add the text or the hash of a script that is sent with ASKING. Without memory the text stays NULL. */
static void add_asking(struct dli_args *args, const struct dli_script *said, int full)
{
    size_t head = strlen(dli_script_asking);

    args->asks = 1;
    if (!(full & DLI_ENCODE_FULL)) {
        dli_args_add(args, said->asking, 40);
        return;
    }
    args->asking = malloc(head + said->size);
    if (args->asking) {
        memcpy(args->asking, dli_script_asking, head);
        memcpy(args->asking + head, said->text, said->size);
    }
    dli_args_add(args, args->asking, head + said->size);
}

void dli_args_begin(struct dli_args *args, int script, int full)
{
    int form = (full & (DLI_ENCODE_ASKING - 1)) / DLI_ENCODE_FORM;
    const struct dli_script *said = dli_script_in(form, script);

    dli_args_clear(args);
    args->form = form;
    dli_args_text(args, full & DLI_ENCODE_FULL ? "EVAL" : "EVALSHA");
    if (full & DLI_ENCODE_ASKING)
        add_asking(args, said, full);
    else if (full & DLI_ENCODE_FULL)
        dli_args_add(args, said->text, said->size);
    else
        dli_args_add(args, said->sha1, 40);
}

/* The variant of a script that respects the quarantine, see quarantine.lua. */
static const int quarantine_scripts[DLI_SCRIPT_COUNT] = {
    [DLI_SCRIPT_ACQUIRE] = DLI_SCRIPT_QUARANTINE_ACQUIRE,
    [DLI_SCRIPT_RELEASE] = DLI_SCRIPT_QUARANTINE_RELEASE,
    [DLI_SCRIPT_PASS] = DLI_SCRIPT_QUARANTINE_PASS,
    [DLI_SCRIPT_FORCE] = DLI_SCRIPT_QUARANTINE_FORCE,
    [DLI_SCRIPT_MULTI_ACQUIRE] = DLI_SCRIPT_QUARANTINE_MULTI_ACQUIRE,
    [DLI_SCRIPT_FAIR_ACQUIRE] = DLI_SCRIPT_QUARANTINE_FAIR_ACQUIRE,
    [DLI_SCRIPT_FAIR_RELEASE] = DLI_SCRIPT_QUARANTINE_FAIR_RELEASE,
    [DLI_SCRIPT_FAIR_FORCE] = DLI_SCRIPT_QUARANTINE_FAIR_FORCE,
    [DLI_SCRIPT_READ_ACQUIRE] = DLI_SCRIPT_QUARANTINE_READ_ACQUIRE,
    [DLI_SCRIPT_WRITE_ACQUIRE] = DLI_SCRIPT_QUARANTINE_WRITE_ACQUIRE,
    [DLI_SCRIPT_PERMIT_ACQUIRE] = DLI_SCRIPT_QUARANTINE_PERMIT_ACQUIRE,
};

void dli_args_begin_keys(struct dli_args *args, int script, int full, const struct dli_request *request, int64_t keys)
{
    const struct dli_quarantine *quarantine = quarantine_scripts[script] ? request->quarantine : NULL;

    dli_args_begin(args, quarantine ? quarantine_scripts[script] : script, full);
    args->quarantine = quarantine;
    dli_args_number(args, keys + (quarantine != NULL));
}

void dli_args_end_keys(struct dli_args *args, const struct dli_place *place)
{
    size_t space = place->space ? place->space - 1U : 0; /* without its colon */

    if (args->quarantine)
        dli_args_text(args,
                      dli_slot_marker(args->marker, place->marked ? place->slot : -1, dli_place_name(place), space));
}

void dli_args_begin_lock(struct dli_args *args, int script, int full, const struct dli_request *request)
{
    const struct dli_place *place = request->place;
    int tombs = (full & DLI_ENCODE_ALL) != 0;

    dli_args_begin_keys(args, script, full, request, place->keys + tombs);
    for (int i = 0; i < place->keys; i++)
        dli_args_key(args, place, i);
    if (tombs)
        dli_args_pattern(args, place, DLI_TOMBS_PATTERN);
    dli_args_end_keys(args, place);
}

/* Write the patterns into text. */
static void write_patterns(struct dli_args *args, char *text)
{
    for (int i = 0; i < args->count; i++) {
        if (!args->place[i])
            continue;
        args->size[i] = dli_pattern(text, args->word[i], args->place[i]);
        args->word[i] = text;
        text += args->size[i];
    }
}

/* Declare the first key only: the number of keys and the others become arguments. */
static void declare_one(struct dli_args *args)
{
    for (int i = args->count; i > 4; i--) {
        args->word[i] = args->word[i - 1];
        args->size[i] = args->size[i - 1];
        args->place[i] = args->place[i - 1];
    }
    args->word[4] = args->word[2];
    args->size[4] = args->size[2];
    args->place[4] = NULL;
    args->word[2] = "1";
    args->size[2] = 1;
    args->count++;
}

int dli_args_finish(struct dli_args *args, struct dli_buffer *out)
{
    char small[1024], *text = args->most > sizeof small ? malloc(args->most) : small;
    int status = -1;

    if (!text || (args->asks && !args->word[1]))
        goto end;
    if (args->quarantine) {
        dli_args_number(args, args->quarantine->longest_ms);
        dli_args_number(args, args->quarantine->lasts_ms);
    }
    if (args->asks)
        declare_one(args);
    write_patterns(args, text);
    status = dli_encode(out, args->count, args->word, args->size);
end:
    if (text != small)
        free(text);
    free(args->asking);
    return status;
}

const char *dli_args_id(char room[DLI_ID_MAX], const struct dli_wire *wire, const char *owner)
{
    struct dli_text id = dli_text_in(room, DLI_ID_MAX);

    dli_text_add(&id, owner, strlen(owner));
    dli_text_add(&id, wire->suffix, strlen(wire->suffix));
    return room;
}
