/*
 * batch.c: puts calls into batches, see batch.h.
 *
 * The head of an EVALSHA command is its name, the hash and the number of keys. Keys and arguments follow. Some
 * arguments in the middle are the same for a whole batch and are sent once.
 */
#include "batch.h"

#include <string.h>

#include "base/id.h"
#include "base/text.h"
#include "redis/codec/codec.h"
#include "redis/scripts/scripts.h"

enum { ACQUIRE = 1, RELEASE, KEYS = 5, HEAD = 3 };
enum { PART_KEYS, PART_BEFORE, PART_SAME, PART_BEHIND, PART_END };

/* How many arguments each call has of its own, then in common, then again of its own. */
static const struct {
    int script, before, same, behind;
} layouts[] = {
    [ACQUIRE] = {DLI_SCRIPT_BATCH_ACQUIRE, 1, 6, 4},
    [RELEASE] = {DLI_SCRIPT_BATCH_RELEASE, 2, 2, 0},
};

int dli_batch_of(const struct dli_request *request)
{
    const struct dli_wish *wish = &request->exchange.wish;

    if (request->verb != DLI_VERB_EXCHANGE || request->kind->id != DLOCK_KIND_MUTEX || request->quarantine ||
        __atomic_load_n(&request->place->apart, __ATOMIC_RELAXED))
        return 0;
    if (wish->doubt || wish->first) /* its command has more arguments than the others */
        return 0;
    if (!wish->want)
        return RELEASE;
    return wish->drop ? 0 : ACQUIRE;
}

/* Skip so many words of a command, such as "$3\r\nfoo\r\n". */
static const char *skip(const char *word, int count)
{
    while (count-- > 0) {
        size_t size = 0;

        for (word++; *word != '\r'; word++)
            size = 10 * size + (size_t)(*word - '0');
        word += 2 + size + 2;
    }
    return word;
}

static void find_parts(const struct dli_call *call, const char *part[DLI_BATCH_PARTS + 1])
{
    const char *words = memchr(call->command.bytes, '\n', call->command.size);

    part[PART_KEYS] = skip(words + 1, HEAD);
    part[PART_BEFORE] = skip(part[PART_KEYS], KEYS);
    part[PART_SAME] = skip(part[PART_BEFORE], layouts[call->batch].before);
    part[PART_BEHIND] = skip(part[PART_SAME], layouts[call->batch].same);
    part[PART_END] = call->command.bytes + call->command.size;
}

static int same(const char *const *one, const char *const *other)
{
    size_t size = (size_t)(one[PART_BEHIND] - one[PART_SAME]);

    return (size_t)(other[PART_BEHIND] - other[PART_SAME]) == size &&
           memcmp(one[PART_SAME], other[PART_SAME], size) == 0;
}

int dli_batch_add(struct dli_batch *batch, struct dli_call *call)
{
    const char **part = batch->part[batch->count];

    if (batch->count > 0 && call->batch != batch->call[0]->batch)
        return 0;
    find_parts(call, part);
    if (batch->count > 0 && !same(batch->part[0], part))
        return 0;
    batch->call[batch->count++] = call;
    return 1;
}

static int add_head(struct dli_buffer *out, int script, int args, int keys, int full)
{
    const struct dli_script *said = &dli_scripts[script];
    const char *text = full ? said->text : said->sha1;
    size_t text_size = full ? said->size : strlen(said->sha1);
    char words[64], number[24];
    size_t size = dli_print(words, sizeof words, "*%d\r\n%s\r\n$%zu\r\n", HEAD + keys + args,
                            full ? "$4\r\nEVAL" : "$7\r\nEVALSHA", text_size);
    size_t digits = dli_decimal(number, keys);

    if (dli_buffer_add(out, words, size) || dli_buffer_add(out, text, text_size))
        return -1;
    size = dli_print(words, sizeof words, "\r\n$%zu\r\n%s\r\n", digits, number);
    return dli_buffer_add(out, words, size);
}

static int add_part(struct dli_buffer *out, const struct dli_batch *batch, int i, int part)
{
    const char *begin = batch->part[i][part];

    return dli_buffer_add(out, begin, (size_t)(batch->part[i][part + 1] - begin));
}

int dli_batch_encode(struct dli_buffer *out, const struct dli_batch *batch, int full)
{
    int which = batch->call[0]->batch, count = batch->count;
    int args = layouts[which].same + count * (layouts[which].before + layouts[which].behind);
    size_t before = out->size;
    int bad = add_head(out, layouts[which].script, args, count * KEYS, full);

    for (int i = 0; i < count && !bad; i++)
        bad = add_part(out, batch, i, PART_KEYS);
    if (!bad)
        bad = add_part(out, batch, 0, PART_SAME);
    for (int i = 0; i < count && !bad; i++)
        bad = add_part(out, batch, i, PART_BEFORE) || add_part(out, batch, i, PART_BEHIND);
    if (bad)
        out->size = before;
    return bad;
}

const struct dli_reply *dli_batch_reply(const struct dli_call *call, const struct dli_reply *said,
                                        struct dli_reply room[DLI_BATCH_ARGS])
{
    if (call->batch != ACQUIRE || said->type != DLI_REPLY_INTEGER)
        return said;
    room[0] = (struct dli_reply){.type = DLI_REPLY_ARRAY, .size = 2, .items = &room[1]};
    room[1] = (struct dli_reply){.type = DLI_REPLY_INTEGER, .integer = 1};
    room[2] = *said;
    return room;
}
