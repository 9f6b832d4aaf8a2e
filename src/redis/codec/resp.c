/*
 * resp.c: RESP2. The parser is hiredis's redisReader with our own object functions; the encoder is ours.
 *
 * Nodes and texts of one reply lie in chunks that never move. The nodes of an array are one block, made when its header
 * is read; each child fills its place in the block. One chunk is kept for the next reply, so small replies allocate
 * nothing.
 *
 * Everything that a server can make us allocate is counted before it is allocated: chunks against DLI_REPLY_BYTES,
 * nodes against DLI_REPLY_ELEMENTS, bytes not yet parsed against DLI_REPLY_BYTES in all and DLI_REPLY_BULK for one
 * unfinished item. What the readers of a client hold together is counted, too: a server that sends much on all connections
 * gets no more than struct dli_reply_room. Each has DLI_REPLY_OWN for itself, so that usual replies touch nothing shared.
 *
 * hiredis 1.x reads RESP3 too. For types without a function here it makes up a pointer. A reply is therefore accepted
 * only if its root is our root and one of these functions filled every place that an array header promised.
 */
#include "resp.h"

#include <read.h> /* of hiredis */
#include <stdlib.h>
#include <string.h>

/* Between two replies a reader keeps a chunk and a buffer of the parser, and no more than its own share: see beyond(). */
enum { CHUNK = 4096, ITEM_OVERHEAD = 64, KEEP_ROOM = (DLI_REPLY_OWN - CHUNK) / 2 };

struct chunk {
    struct chunk *next;
    size_t size, used;
    _Alignas(max_align_t) char bytes[];
};

struct dli_reader {
    redisReader *parser;  /* NULL until the first byte */
    struct chunk *chunks; /* the one in use is first */
    struct dli_reply root;
    size_t allocated;            /* bytes of all chunks */
    size_t promised, created;    /* nodes of the reply being read */
    size_t largest;              /* the most bytes the parser held at once */
    int complete;                /* root was handed out */
    int starved;                 /* memory was short */
    struct dli_reply_room *room; /* NULL, or shared with the client's other readers */
    size_t charged;              /* what this one uses of it */
    const char *secret;
};

/* ---- the room that the readers of a client share */

/* What the reader holds, and is about to hold, beyond its own share. The parser's buffer may be twice what it held. */
static size_t beyond(const struct dli_reader *reader, size_t arena, size_t bytes)
{
    size_t held = dli_reader_left(reader) + bytes;
    size_t all = reader->allocated + arena + 2 * (held > reader->largest ? held : reader->largest);
    return all > DLI_REPLY_OWN ? all - DLI_REPLY_OWN : 0;
}

/* Before it takes more. 0; or -1: the client's readers hold too much. */
static int charge(struct dli_reader *reader, size_t arena, size_t bytes)
{
    size_t all = beyond(reader, arena, bytes);
    if (!reader->room || all <= reader->charged)
        return 0;
    int64_t more = (int64_t)(all - reader->charged);
    if (__atomic_add_fetch(&reader->room->used, more, __ATOMIC_RELAXED) > reader->room->most) {
        __atomic_sub_fetch(&reader->room->used, more, __ATOMIC_RELAXED);
        return -1;
    }
    reader->charged = all;
    return 0;
}

/* After it has given something back. */
static void refund(struct dli_reader *reader)
{
    size_t all = beyond(reader, 0, 0);
    if (!reader->room || all >= reader->charged)
        return;
    __atomic_sub_fetch(&reader->room->used, (int64_t)(reader->charged - all), __ATOMIC_RELAXED);
    reader->charged = all;
}

void dli_reader_share(struct dli_reader *reader, struct dli_reply_room *room)
{
    reader->room = room;
}

/* ---- the arena */

static struct chunk *chunk_new(struct dli_reader *reader, size_t size)
{
    if (size > DLI_REPLY_BYTES - reader->allocated || charge(reader, size, 0))
        return NULL;
    struct chunk *chunk = malloc(sizeof *chunk + size);
    reader->starved |= !chunk;
    if (!chunk)
        return NULL;
    *chunk = (struct chunk){.size = size};
    reader->allocated += size;
    return chunk;
}

/* A big piece gets its own chunk behind the one in use, so that little is wasted. */
static void *arena_take(struct dli_reader *reader, size_t size)
{
    struct chunk *first = reader->chunks;
    size_t align = _Alignof(max_align_t), rounded = (size + align - 1) / align * align;
    if (first && rounded <= first->size - first->used) {
        first->used += rounded;
        return first->bytes + first->used - rounded;
    }
    int big = first && rounded > CHUNK / 4;
    struct chunk *chunk = chunk_new(reader, rounded > CHUNK ? rounded : big ? rounded : CHUNK);
    if (!chunk)
        return NULL;
    chunk->used = rounded;
    struct chunk **place = big ? &first->next : &reader->chunks;
    chunk->next = *place;
    *place = chunk;
    return chunk->bytes;
}

/* Forget the reply. One chunk of the usual size is kept, the others are freed. */
static void arena_clear(struct dli_reader *reader)
{
    struct chunk *keep = NULL, *chunk;
    while ((chunk = reader->chunks)) {
        reader->chunks = chunk->next;
        if (!keep && chunk->size == CHUNK)
            keep = chunk;
        else
            free(chunk);
    }
    if (keep) {
        keep->next = NULL;
        keep->used = 0;
    }
    reader->chunks = keep;
    reader->allocated = keep ? keep->size : 0;
    reader->promised = 1;
    reader->created = 0;
    reader->complete = 0;
    refund(reader);
}

/* ---- object functions: they return NULL to make hiredis give up */

/* The place for the item of a task; NULL: none is left. */
static struct dli_reply *place_of(const redisReadTask *task)
{
    struct dli_reader *reader = task->privdata;
    if (reader->created == reader->promised)
        return NULL;
    reader->created++;
    if (!task->parent)
        return &reader->root;
    struct dli_reply *parent = task->parent->obj;
    return (struct dli_reply *)parent->items + task->idx;
}

/*
 * hiredis does not check the CR LF after a string. It only makes sure that two bytes are there, so they are checked
 * here.
 */
static void *make_text(const redisReadTask *task, char *bytes, size_t size)
{
    int plain = task->type == REDIS_REPLY_STRING || task->type == REDIS_REPLY_STATUS;
    if ((!plain && task->type != REDIS_REPLY_ERROR) || size > DLI_REPLY_BULK || memcmp(bytes + size, "\r\n", 2) != 0)
        return NULL;
    struct dli_reply *reply = place_of(task);
    char *copy = reply ? arena_take(task->privdata, size + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, bytes, size);
    copy[size] = '\0';
    *reply = (struct dli_reply){.type = plain ? DLI_REPLY_TEXT : DLI_REPLY_ERROR, .text = copy, .size = size};
    reply->secret = ((const struct dli_reader *)task->privdata)->secret;
    return reply;
}

static int too_deep(const redisReadTask *task)
{
    int depth = 0;
    for (; task; task = task->parent)
        depth++;
    return depth > DLI_REPLY_DEPTH;
}

static void *make_array(const redisReadTask *task, size_t size)
{
    struct dli_reader *reader = task->privdata;
    if (task->type != REDIS_REPLY_ARRAY || too_deep(task) || size > DLI_REPLY_ELEMENTS - (reader->promised - 1))
        return NULL;
    struct dli_reply *reply = place_of(task), *items = NULL;
    if (!reply || (size > 0 && !(items = arena_take(reader, size * sizeof *items))))
        return NULL;
    reader->promised += size;
    *reply = (struct dli_reply){.type = DLI_REPLY_ARRAY, .size = size, .items = items};
    return reply;
}

/* hiredis before 1.0 passes an int. */
static void *make_array_int(const redisReadTask *task, int size)
{
    return size < 0 ? NULL : make_array(task, (size_t)size);
}

static void *make_integer(const redisReadTask *task, long long integer)
{
    struct dli_reply *reply = task->type == REDIS_REPLY_INTEGER ? place_of(task) : NULL;
    if (reply)
        *reply = (struct dli_reply){.type = DLI_REPLY_INTEGER, .integer = integer};
    return reply;
}

/* In RESP2 nil is a string or an array of length -1. The nil of RESP3 is refused. */
static void *make_nil(const redisReadTask *task)
{
    int known = task->type == REDIS_REPLY_STRING || task->type == REDIS_REPLY_ARRAY;
    struct dli_reply *reply = known ? place_of(task) : NULL;
    if (reply)
        *reply = (struct dli_reply){.type = DLI_REPLY_NIL};
    return reply;
}

static void free_nothing(void *reply)
{
    (void)reply;
}

typedef void *array_with_int(const redisReadTask *, int);
typedef void *array_with_size(const redisReadTask *, size_t);

/* Never written, but hiredis takes no pointer to const. */
static redisReplyObjectFunctions functions = {
    .createString = make_text,
    /* By hand: releases of clang-format disagree here. */
    /* clang-format off */
    .createArray = _Generic(((redisReplyObjectFunctions *)NULL)->createArray,
                            array_with_int *: make_array_int,
                            array_with_size *: make_array),
    /* clang-format on */
    .createInteger = make_integer,
    .createNil = make_nil,
    .freeObject = free_nothing,
};

/* ---- the reader */

struct dli_reader *dli_reader_new(void)
{
    struct dli_reader *reader = calloc(1, sizeof *reader);
    if (reader)
        reader->promised = 1;
    return reader;
}

void dli_reader_hide(struct dli_reader *reader, const char *secret)
{
    reader->secret = secret && secret[0] ? secret : NULL;
}

void dli_reader_free(struct dli_reader *reader)
{
    if (!reader)
        return;
    dli_reader_reset(reader);
    free(reader->chunks);
    free(reader);
}

static void free_parser(struct dli_reader *reader)
{
    if (reader->parser)
        redisReaderFree(reader->parser);
    reader->parser = NULL;
    reader->largest = 0;
    refund(reader);
}

static int start_parser(struct dli_reader *reader)
{
    reader->parser = redisReaderCreateWithFunctions(&functions);
    reader->starved = !reader->parser;
    if (!reader->parser)
        return -1;
    reader->parser->privdata = reader;
    reader->parser->maxbuf = 0;
    reader->largest = 0;
    return 0;
}

/*
 * Between two replies: free a large buffer, together with the parser. hiredis can free it itself (maxbuf), but before
 * 1.0 it aborts the process if memory is short at that point.
 */
static void shrink_parser(struct dli_reader *reader)
{
    if (!reader->complete || reader->largest <= KEEP_ROOM || dli_reader_left(reader) > 0)
        return;
    free_parser(reader);
}

size_t dli_reader_left(const struct dli_reader *reader)
{
    return reader->parser ? reader->parser->len - reader->parser->pos : 0;
}

int dli_reader_feed(struct dli_reader *reader, const char *bytes, size_t size)
{
    if (size == 0)
        return 0;
    shrink_parser(reader);
    if (!reader->parser && start_parser(reader))
        return -1;
    if (size > DLI_REPLY_BYTES || dli_reader_left(reader) > DLI_REPLY_BYTES - size || charge(reader, 0, size))
        return -1;
    if (dli_reader_left(reader) + size > reader->largest)
        reader->largest = dli_reader_left(reader) + size;
    if (redisReaderFeed(reader->parser, bytes, size) == REDIS_OK)
        return 0;
    reader->starved = 1;
    return -1;
}

int dli_reader_starved(const struct dli_reader *reader)
{
    return reader->starved;
}

int dli_reader_next(struct dli_reader *reader, const struct dli_reply **reply)
{
    void *root = NULL;
    dli_reader_rest(reader);
    if (!reader->parser)
        return 0;
    if (redisReaderGetReply(reader->parser, &root) != REDIS_OK)
        return -1;
    if (!root)
        return dli_reader_left(reader) > DLI_REPLY_BULK + ITEM_OVERHEAD ? -1 : 0;
    reader->complete = 1;
    if (root != &reader->root || reader->created != reader->promised)
        return -1;
    *reply = &reader->root;
    return 1;
}

void dli_reader_reset(struct dli_reader *reader)
{
    free_parser(reader);
    arena_clear(reader);
}

void dli_reader_rest(struct dli_reader *reader)
{
    if (!reader->complete)
        return;
    shrink_parser(reader);
    arena_clear(reader);
}

/* ---- the encoder */

/* Write mark, number, CR LF. Returns the byte after them. */
static char *put_header(char *to, char mark, size_t number)
{
    char digits[20];
    size_t count = 0;
    for (; number >= 10; number /= 10)
        digits[count++] = (char)('0' + number % 10);
    *to++ = mark;
    *to++ = (char)('0' + number);
    while (count > 0)
        *to++ = digits[--count];
    *to++ = '\r';
    *to++ = '\n';
    return to;
}

int dli_encode(struct dli_buffer *out, int argc, const char *const *argv, const size_t *sizes)
{
    enum { HEADER = 1 + 20 + 2 };
    size_t needed = HEADER;
    for (int i = 0; i < argc; i++) {
        if (__builtin_add_overflow(needed, sizes[i], &needed) || __builtin_add_overflow(needed, HEADER + 2, &needed))
            return -1;
    }
    if (dli_buffer_reserve(out, needed))
        return -1;

    char *to = put_header(out->bytes + out->size, '*', (size_t)argc);
    for (int i = 0; i < argc; i++) {
        to = put_header(to, '$', sizes[i]);
        memcpy(to, argv[i], sizes[i]);
        to += sizes[i];
        *to++ = '\r';
        *to++ = '\n';
    }
    out->size = (size_t)(to - out->bytes);
    return 0;
}

int dli_encode_args(struct dli_buffer *out, int argc, const char *const *argv)
{
    size_t sizes[8];

    for (int i = 0; i < argc && i < 8; i++)
        sizes[i] = strlen(argv[i]);
    return dli_encode(out, argc, argv, sizes);
}
