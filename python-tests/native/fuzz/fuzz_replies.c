/*
 * fuzz_replies.c: replies of scripts and INFO, and errors, to each request. The first byte chooses the request, the
 * next ones its arguments; the rest is the reply, see fuzz_words.h. Results are in bounds, and no sentence has the
 * password.
 */
#include <inttypes.h>

#include "fuzz_words.h"
#include "redis/codec/commands.h"
#include "redis/codec/codec.h"

enum { ROWS = 4 };

static const int32_t kinds[] = {DLOCK_KIND_MUTEX, DLOCK_KIND_FAIR,      DLOCK_KIND_READ,
                                DLOCK_KIND_WRITE, DLOCK_KIND_SEMAPHORE, DLOCK_KIND_PERMIT_SEMAPHORE,
                                DLOCK_KIND_LATCH};

static struct dli_renewal renewals[ROWS];
static struct dli_multi_row takings[ROWS];
static struct dli_findings found;
static union {
    struct dli_floor floor;
    struct dli_join join;
} own;
static struct dli_quarantine quarantine;

static void fill(struct dli_request *request, struct fuzz *in, dlock_error *reason)
{
    memset(request, 0, sizeof *request);
    request->verb = (int)fuzz_below(in, DLI_VOTER_VERBS);
    request->kind = dli_kind_find(kinds[fuzz_below(in, sizeof kinds / sizeof kinds[0])]);
    request->quarantine = fuzz_below(in, 2) ? &quarantine : NULL;
    request->reason = fuzz_below(in, 4) ? reason : NULL;
    if (request->verb == DLI_VERB_EXCHANGE) {
        request->exchange.wish.want = (int64_t)fuzz_below(in, 2);
        request->exchange.wish.drop = (int64_t)fuzz_below(in, 2) * 2;
        request->exchange.wish.block = 1 + (int64_t)fuzz_byte(in) * 5;
        request->above = fuzz_below(in, 2) ? fuzz_number(in) : 0;
    } else if (request->verb == DLI_VERB_RENEW) {
        request->renew.row = renewals;
        request->renew.count = 1 + (int)fuzz_below(in, ROWS);
    } else if (request->verb == DLI_VERB_ACQUIRE_ALL) {
        request->multi.row = takings;
        request->multi.count = 1 + (int)fuzz_below(in, ROWS);
        for (int i = 0; i < ROWS; i++)
            takings[i] = (struct dli_multi_row){.block = 1 + (int64_t)fuzz_byte(in)};
    } else if (request->verb == DLI_VERB_CHECK) {
        request->check.found = &found;
    } else if (request->verb >= DLI_VERBS) {
        request->own = &own;
    }
}

static void check_tokens(int64_t token, int64_t tokens, int64_t most)
{
    REQUIRE(tokens >= 1 && tokens <= most && token > 0 && token < (INT64_C(1) << 53) - tokens);
}

static void check_exchange(const struct dli_request *request)
{
    const struct dli_answer *answer = &request->exchange.answer;

    if (answer->got == DLI_TRY_GRANTED) {
        check_tokens(answer->token, answer->tokens, request->exchange.wish.block);
        REQUIRE(answer->token >= request->above);
    }
    if (answer->got == DLI_TRY_HELD || answer->got == DLI_TRY_QUARANTINE)
        REQUIRE(answer->left >= -1 && answer->left <= (int64_t)INT32_MAX * 1000);
    REQUIRE(request->exchange.wish.want || answer->got == DLI_TRY_NONE);
}

static void check_take(const struct dli_request *request)
{
    if (request->multi.result == DLI_MULTI_ALL)
        for (int i = 0; i < request->multi.count; i++)
            check_tokens(takings[i].token, takings[i].tokens, takings[i].block);
    REQUIRE(request->multi.which >= -1 && request->multi.which < request->multi.count);
    REQUIRE(request->multi.result != DLI_MULTI_QUARANTINE || request->multi.left >= 0);
}

/* Names of a list: each has its terminator. */
static void check_names(const struct dli_request *request)
{
    size_t at = 0;

    while (at < request->list.size) {
        size_t size = strnlen(request->list.names + at, request->list.size - at);

        REQUIRE(size >= 1 && size <= DLI_NAME_MAX && at + size < request->list.size);
        at += size + 1;
    }
}

static void check_done(const struct dli_request *request)
{
    switch (request->verb) {
    case DLI_VERB_EXCHANGE:
        check_exchange(request);
        break;
    case DLI_VERB_ACQUIRE_ALL:
        check_take(request);
        break;
    case DLI_VERB_INSPECT:
        REQUIRE(fuzz_printable(request->inspection.holder));
        break;
    case DLI_VERB_GATE_LEFT:
        REQUIRE(request->gate_ms >= -1);
        break;
    case DLI_VERB_LIST:
        check_names(request);
        break;
    case DLI_VERB_JOIN:
        REQUIRE(fuzz_printable(own.join.stands) && fuzz_printable(own.join.run_id));
        break;
    default:
        break;
    }
    for (int i = 0; i < found.count; i++) {
        char sentence[512];

        REQUIRE(fuzz_printable(dli_finding_say(&found.row[i], sentence, sizeof sentence)));
    }
}

/* The sentence about an error, truncated anywhere. */
static void check_error(const struct dli_reply *reply)
{
    char shown[64];

    if (reply->type != DLI_REPLY_ERROR)
        return;
    for (size_t size = 1; size <= sizeof shown; size += 9)
        REQUIRE(strlen(dli_escape_error(shown, size, reply)) < size && fuzz_printable(shown) && !strstr(shown, SECRET));
    REQUIRE(dli_status_find(dli_error_status(reply)));
    dli_error_midway(reply);
    dli_error_unknown(reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz in = {data, size};
    struct dli_reader *reader = dli_reader_new();
    struct dli_request request;
    dlock_error reason = {.code = DLOCK_OK};
    const struct dli_reply *reply;

    REQUIRE(reader);
    dli_reader_hide(reader, SECRET);
    dli_quarantine_init(&quarantine, "", 60000, 10000);
    fill(&request, &in, &reason);
    if ((reply = fuzz_read(&in, reader))) {
        check_error(reply);
        dli_decode_request(reply, &request);
        REQUIRE(dli_status_find(request.status) && !(reason.code && !reason.message[0]));
        REQUIRE(fuzz_printable(reason.message) && (reply->type != DLI_REPLY_ERROR || !strstr(reason.message, SECRET)));
        if (request.status == DLOCK_OK)
            check_done(&request);
    }
    if (request.verb == DLI_VERB_LIST)
        free(request.list.names);
    dli_findings_free(&found);
    dli_reader_free(reader);
    return 0;
}
