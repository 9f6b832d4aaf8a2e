/*
 * reader.c: reader WHAT    the memory of readers of replies that share room. Prints what is not so, and exits with 1.
 *
 *   rests    between two replies a reader holds nothing of the room: whoever sent it much before takes nothing from the others
 *   most     together they hold no more than the room, and what one gives back another one gets
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/codec/resp.h"
#include "require.h"

enum { READERS = 8, SIZES = 6 };

static const size_t sizes[SIZES] = {10, 20 * 1024, 40 * 1024, 60 * 1024, 200 * 1024, 1000 * 1024};
static char bytes[1100 * 1024];

/* A reply with a text of this size. */
static size_t text_of(size_t size)
{
    size_t head = (size_t)snprintf(bytes, sizeof bytes, "$%zu\r\n", size);

    memset(bytes + head, 'x', size);
    memcpy(bytes + head + size, "\r\n", 3);
    return head + size + 2;
}

/* Take in replies of this size, so many at a time, and read them as a connection that is shared does: until there are no more. */
static void receive(struct dli_reader *reader, size_t size, int count)
{
    size_t all = text_of(size);
    const struct dli_reply *reply;
    int found = 0;

    for (int i = 0; i < count; i++)
        REQUIRE(dli_reader_feed(reader, bytes, all) == 0);
    while (dli_reader_next(reader, &reply) == 1) {
        REQUIRE(reply->type == DLI_REPLY_TEXT && reply->size == size);
        found++;
    }
    REQUIRE(found == count);
}

static void rests(void)
{
    for (int i = 0; i < SIZES; i++)
        for (int count = 1; count <= 3; count++) {
            struct dli_reply_room room = {.most = DLI_REPLY_SHARED};
            struct dli_reader *reader = dli_reader_new();

            dli_reader_share(reader, &room);
            receive(reader, sizes[i], count);
            REQUIRE(room.used == 0);
            receive(reader, 10, 1);
            receive(reader, sizes[i], count);
            REQUIRE(room.used == 0);
            dli_reader_free(reader);
            REQUIRE(room.used == 0);
        }
}

/* So many readers get half of a large reply. Returns how many the room had place for. */
static int halves(struct dli_reader *reader[READERS])
{
    size_t all = text_of(sizes[SIZES - 1]);
    int got = 0;

    for (int i = 0; i < READERS; i++)
        if (dli_reader_feed(reader[i], bytes, all / 2) == 0)
            got++;
        else
            dli_reader_reset(reader[i]);
    return got;
}

static void most(void)
{
    struct dli_reply_room room = {.most = 4 * 1024 * 1024};
    struct dli_reader *reader[READERS];

    for (int i = 0; i < READERS; i++) {
        reader[i] = dli_reader_new();
        dli_reader_share(reader[i], &room);
    }
    for (int round = 0; round < 3; round++) {
        int got = halves(reader);

        REQUIRE(got > 1 && got < READERS && room.used <= room.most);
        for (int i = 0; i < READERS; i++)
            dli_reader_reset(reader[i]);
        REQUIRE(room.used == 0);
    }
    for (int i = 0; i < READERS; i++)
        receive(reader[i], sizes[SIZES - 1], 1); /* one after the other all have place */
    REQUIRE(room.used == 0);
    for (int i = 0; i < READERS; i++)
        dli_reader_free(reader[i]);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "rests") == 0)
        rests();
    else if (argc == 2 && strcmp(argv[1], "most") == 0)
        most();
    else
        return 2;
    return 0;
}
