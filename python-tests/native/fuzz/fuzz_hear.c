/*
 * fuzz_hear.c: messages that a client receives: "CHANNEL LF TEXT", where an empty channel stands for the client's own.
 * Parsed values are in bounds, and a message of our scripts is parsed as it was meant.
 */
#include <inttypes.h>

#include "fuzz.h"
#include "redis/pubsub/messages.h"

#define UUID "01234567-89ab-cdef-0123-456789abcdef"

enum told { TOLD_NOTHING, TOLD_HINT, TOLD_GRANT, TOLD_GATE };

/* The last parsed message. */
struct heard {
    const char *from, *end; /* names must be between them */
    enum told what;
    int times;
    struct dli_message_target lock;
    struct dli_pushed grant;
};

static struct heard *note(void *owner, const struct dli_message_target *lock, enum told what)
{
    struct heard *heard = owner;

    REQUIRE(dli_kind_find(lock->family) && dli_kind_find(lock->family)->family == lock->family);
    REQUIRE(lock->name >= heard->from && lock->name + lock->size <= heard->end && lock->number >= 0);
    heard->what = what;
    heard->lock = *lock;
    heard->times++;
    return heard;
}

static void hint(void *owner, const struct dli_message_target *lock)
{
    note(owner, lock, TOLD_HINT);
}

static void granted(void *owner, const struct dli_message_target *lock, const struct dli_pushed *grant)
{
    struct heard *heard = note(owner, lock, TOLD_GRANT);

    REQUIRE(grant->seq >= 0 && grant->token > 0 && grant->tokens > 0 && lock->number > 0);
    REQUIRE(grant->next.count >= 0 && grant->next.count <= DLI_NEXT_MAX);
    heard->grant = *grant;
}

static void gate(void *owner, const struct dli_message_target *lock, int64_t ms)
{
    REQUIRE(ms == -1);
    note(owner, lock, TOLD_GATE);
}

static const struct dli_secret secret = {{1, 2}};
static const struct dli_ear ear = {NULL, 0, 0}; /* of no namespace */
static const struct dli_store_hooks hooks = {.hint = hint, .rumour = hint, .granted = granted, .gate = gate};

static struct heard hear(int own, const char *channel, size_t channel_size, const char *text, size_t size)
{
    struct heard heard = {.from = own ? text : channel, .end = own ? text + size : channel + channel_size};
    struct dli_store store = {.hooks = &hooks, .owner = &heard, .uuid = UUID, .secret = &secret};

    dli_message_dispatch(&store, own ? &ear : NULL, channel, channel_size, text, size);
    REQUIRE(heard.times <= 16);
    return heard;
}

/* Write a grant of let_go.lua, or of fair_line.lua with those who come next; wrong: bits of the proof. Returns the size. */
static size_t write_grant(char *out, int fair, int64_t number, const struct dli_pushed *grant, uint64_t wrong)
{
    char *at = out;

    at += sprintf(at, "%s %" PRId64 " %" PRId64 "-%016" PRIx64 " %" PRId64 " %" PRId64 " ", fair ? "fair" : "grant",
                  number, grant->seq, dli_proof(&secret, number, grant->seq) ^ wrong, grant->token, grant->tokens);
    for (int i = 0; i < grant->next.count; i++)
        at += sprintf(at, "%" PRId64 "%s", grant->next.number[i], i + 1 < grant->next.count ? "," : "");
    if (fair)
        at += sprintf(at, ", ");
    return (size_t)(at - out);
}

/* The messages of grants: one with a proof is heard, one without is nothing. */
static void check_said(struct fuzz in)
{
    int64_t number = 1 + (int64_t)fuzz_byte(&in);
    struct dli_pushed grant = {.seq = (uint16_t)fuzz_number(&in), .tokens = 1 + fuzz_below(&in, 65)};
    int fair = (int)fuzz_below(&in, 2);
    char text[320 + DLI_NEXT_MAX * 22 + 128], *name;
    size_t length, size;
    struct heard heard;

    grant.token = 1 + (int64_t)((uint64_t)fuzz_number(&in) % (UINT64_C(1) << 53));
    if (fair) {
        grant.next.count = (int)(grant.tokens % (DLI_NEXT_MAX + 1));
        grant.tokens = grant.next.count + 1;
    }
    for (int i = 0; i < grant.next.count; i++)
        grant.next.number[i] = 1 + (int64_t)fuzz_byte(&in);
    length = in.left < 200 ? in.left : 200;
    if (length == 0) /* no lock has that name */
        return;
    name = fuzz_text((const char *)in.at, length);
    size = write_grant(text, fair, number, &grant, UINT64_C(1) << fuzz_below(&in, 64));
    memcpy(text + size, name, length);
    REQUIRE(hear(1, "", 0, text, size + length).times == 0);
    size = write_grant(text, fair, number, &grant, 0);
    memcpy(text + size, name, length);
    heard = hear(1, "", 0, text, size + length);
    REQUIRE(heard.what == TOLD_GRANT && heard.times == 1 && heard.lock.number == number);
    REQUIRE(heard.grant.seq == grant.seq && heard.grant.token == grant.token && heard.grant.tokens == grant.tokens);
    REQUIRE(heard.grant.next.count == grant.next.count &&
            memcmp(heard.grant.next.number, grant.next.number, sizeof *grant.next.number * (size_t)grant.next.count) ==
                0);
    REQUIRE(heard.lock.size == length && memcmp(heard.lock.name, name, length) == 0);
    REQUIRE(heard.lock.family == (fair ? DLOCK_KIND_FAIR : DLOCK_KIND_MUTEX));
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz in = {data, size};
    size_t channel_size;
    const char *channel = fuzz_until(&in, '\n', &channel_size);
    char *text = fuzz_text((const char *)in.at, in.left), *copy = fuzz_text(channel, channel_size);

    hear(channel_size == 0, copy, channel_size, text, in.left);
    hear(1, copy, channel_size, text, in.left);
    check_said((struct fuzz){data, size});
    free(text);
    free(copy);
    return 0;
}
