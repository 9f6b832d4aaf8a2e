/*
 * replies.c: what the replies to the commands of commands.c mean. Anything unexpected is DLOCK_PROTOCOL_ERROR.
 */
#include "commands.h"

#include <string.h>

#include "conn.h"

#define TOKEN_LIMIT (INT64_C(1) << 53)

static dlock_status refusal(const struct dli_reply *reply, dlock_error *box)
{
    char shown[260];

    return dli_fail(box, dli_error_status(reply), "the server says: %s",
                    dli_quote(shown, sizeof shown, reply->text, reply->size));
}

static dlock_status unexpected(dlock_error *box)
{
    return dli_fail(box, DLOCK_PROTOCOL_ERROR, "the server's reply is not one the script can give");
}

static int integer_at(const struct dli_reply *reply, size_t index, int64_t *out)
{
    if (reply->type != DLI_REPLY_ARRAY || index >= reply->size || reply->items[index].type != DLI_REPLY_INTEGER)
        return 0;
    *out = reply->items[index].integer;
    return 1;
}

/* {1, token}, {0, ms, foreign}, {-1} for another kind, or {-2} for a closed gate. */
static int decode_try(const struct dli_reply *reply, struct dli_answer *answer)
{
    int64_t code, foreign;

    if (!integer_at(reply, 0, &code))
        return 0;
    if (code == -1 || code == -2) {
        answer->got = code == -1 ? DLI_TRY_WRONG_KIND : DLI_TRY_GATE;
        return 1;
    }
    if (!integer_at(reply, 1, code == 1 ? &answer->token : &answer->left))
        return 0;
    if (code == 1) {
        answer->got = DLI_TRY_GRANTED;
        return answer->token > 0 && answer->token < TOKEN_LIMIT;
    }
    answer->got = DLI_TRY_HELD;
    answer->left = answer->left < 0 ? -1 : answer->left > INT32_MAX ? -1 : answer->left * 1000;
    if (!integer_at(reply, 2, &foreign))
        return 0;
    answer->foreign = foreign == 1;
    return code == 0;
}

static int decode_pass(const struct dli_reply *reply, struct dli_answer *answer)
{
    int64_t released;

    if (!integer_at(reply, 0, &released) || reply->size != 2)
        return 0;
    answer->released = released == 1;
    return decode_try(&reply->items[1], answer);
}

void dli_decode_exchange(const struct dli_reply *reply, const struct dli_wish *wish, struct dli_answer *answer,
                         dlock_error *box)
{
    int good;

    *answer = (struct dli_answer){.status = DLOCK_OK};
    if (reply->type == DLI_REPLY_ERROR) {
        answer->status = refusal(reply, box);
        answer->sent = answer->refused = 1;
        return;
    }
    if (!wish->want) {
        good = reply->type == DLI_REPLY_INTEGER;
        answer->released = good && reply->integer == 1;
    } else {
        good = wish->drop ? decode_pass(reply, answer) : decode_try(reply, answer);
    }
    if (!good) {
        answer->status = unexpected(box);
        answer->sent = 1;
    }
}

dlock_status dli_decode_renew(const struct dli_reply *reply, int *kept, int count, dlock_error *box)
{
    if (reply->type == DLI_REPLY_ERROR)
        return refusal(reply, box);
    if (reply->type != DLI_REPLY_ARRAY || reply->size != (size_t)count)
        return unexpected(box);
    for (int i = 0; i < count; i++) {
        if (reply->items[i].type != DLI_REPLY_INTEGER)
            return unexpected(box);
        kept[i] = reply->items[i].integer == 1;
    }
    return DLOCK_OK;
}

dlock_status dli_decode_done(const struct dli_reply *reply, dlock_status otherwise, dlock_error *box)
{
    if (reply->type == DLI_REPLY_ERROR)
        return refusal(reply, box);
    if (reply->type != DLI_REPLY_INTEGER)
        return unexpected(box);
    if (reply->integer == 1)
        return DLOCK_OK;
    if (reply->integer == 0)
        return otherwise;
    return dli_fail(box, DLOCK_WRONG_KIND, "the key belongs to another kind of lock");
}

dlock_status dli_decode_multi(const struct dli_reply *reply, int count, struct dli_taken *taken, dlock_error *box)
{
    int64_t which;

    if (reply->type == DLI_REPLY_ERROR)
        return refusal(reply, box);
    if (!integer_at(reply, 0, &taken->code) || taken->code > 1 || taken->code < -2)
        return unexpected(box);
    if (taken->code == 1) {
        for (int i = 0; i < count; i++)
            if (!integer_at(reply, (size_t)i + 1, &taken->token[i]) || taken->token[i] <= 0 ||
                taken->token[i] >= TOKEN_LIMIT)
                return unexpected(box);
        return DLOCK_OK;
    }
    if (!integer_at(reply, 1, &which) || which < 1 || which > count)
        return unexpected(box);
    taken->which = (int)which - 1;
    return DLOCK_OK;
}

dlock_status dli_decode_change(const struct dli_reply *reply, int64_t *value, dlock_error *box)
{
    int64_t code;

    if (reply->type == DLI_REPLY_ERROR)
        return refusal(reply, box);
    if (!integer_at(reply, 0, &code))
        return unexpected(box);
    if (code == -1)
        return dli_fail(box, DLOCK_WRONG_KIND, "the key belongs to something else than this kind");
    if (!integer_at(reply, 1, value))
        return unexpected(box);
    return code == 1 ? DLOCK_OK : DLOCK_UNCHANGED;
}

dlock_status dli_decode_inspect(const struct dli_reply *reply, struct dli_sight *sight, dlock_error *box)
{
    if (reply->type == DLI_REPLY_ERROR)
        return refusal(reply, box);
    if (reply->type != DLI_REPLY_ARRAY || reply->size != 5 || reply->items[0].type != DLI_REPLY_TEXT ||
        !integer_at(reply, 1, &sight->left_ms) || !integer_at(reply, 2, &sight->token) ||
        !integer_at(reply, 3, &sight->now_us) || !integer_at(reply, 4, &sight->waiters))
        return unexpected(box);
    dli_quote(sight->holder, sizeof sight->holder, reply->items[0].text, reply->items[0].size);
    return DLOCK_OK;
}

dlock_status dli_decode_word(const struct dli_reply *reply, dlock_error *box)
{
    return reply->type == DLI_REPLY_ERROR ? refusal(reply, box) : DLOCK_OK;
}
