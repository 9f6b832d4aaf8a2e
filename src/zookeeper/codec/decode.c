/*
 * decode.c: replies from bytes, see codec.h. The bytes may be anything.
 */
#include <stdlib.h>

#include "take.h"

enum { HEAD = 4, FLAG = 1 };

static const int64_t time_end = INT64_C(1) << 53;

/* ---- parts of messages */

/* czxid, mzxid, ctime, mtime, three versions, the owner, two lengths, pzxid. */
static int take_stat(struct dli_zk_text *from, struct dli_zk_stat *stat)
{
    struct dli_zk_stat got;

    if (dli_zk_take_long(from, &got.czxid) || dli_zk_take(from, NULL, 8) || dli_zk_take_long(from, &got.ctime) ||
        dli_zk_take_long(from, &got.mtime) || dli_zk_take_int(from, &got.version) || dli_zk_take(from, NULL, 8) ||
        dli_zk_take_long(from, &got.owner) || dli_zk_take(from, NULL, 16))
        return -1;
    if (got.czxid < 0 || got.ctime < 0 || got.ctime >= time_end || got.mtime < 0 || got.mtime >= time_end)
        return -1;
    got.version = got.version < 0 ? DLI_ZK_RUN_OVER : got.version;
    *stat = got;
    return 0;
}

/* The path of a node that was made: the one that was asked for, and the number behind it. */
static int take_path(struct dli_zk_text *from, struct dli_zk_text asked, int32_t *seq)
{
    struct dli_zk_text path;

    if (dli_zk_take_text(from, &path) || path.size < asked.size || memcmp(path.bytes, asked.bytes, asked.size) != 0)
        return -1;
    path.bytes += asked.size;
    path.size -= asked.size;
    *seq = dli_zk_take_sequence(path);
    return 0;
}

static int take_data(struct dli_zk_text *from, struct dli_zk_answer *answer)
{
    struct dli_zk_text data;
    char *copy;

    if (dli_zk_take_text(from, &data) || take_stat(from, &answer->stat))
        return -1;
    data.size = data.size < DLI_ZK_DATA_MAX ? data.size : DLI_ZK_DATA_MAX;
    answer->data.bytes = "";
    if (data.size == 0)
        return 0;
    if (!(copy = malloc(data.size + 1)))
        return -2;
    memcpy(copy, data.bytes, data.size);
    copy[data.size] = '\0';
    answer->room = copy;
    answer->room_size = data.size + 1;
    answer->data = (struct dli_zk_text){copy, data.size};
    return 0;
}

/* ---- transactions */

/* The next part of our own request: its operation and its path. 0: that was all. */
static int next_asked(struct dli_zk_text *from, int32_t *op, struct dli_zk_text *path)
{
    struct dli_zk_text skipped;
    int32_t rules;
    char last;

    if (dli_zk_take_int(from, op) || dli_zk_take(from, &last, FLAG) || last || dli_zk_take(from, NULL, 4) ||
        dli_zk_take_text(from, path))
        return 0;
    if (*op == DLI_ZK_DELETE)
        return dli_zk_take(from, NULL, 4) == 0;
    if (dli_zk_take_text(from, &skipped))
        return 0;
    if (*op == DLI_ZK_SET_DATA)
        return dli_zk_take(from, NULL, 4) == 0;
    for (dli_zk_take_int(from, &rules); rules > 0; rules--)
        if (dli_zk_take(from, NULL, 4) || dli_zk_take_text(from, &skipped) || dli_zk_take_text(from, &skipped))
            return 0;
    return dli_zk_take(from, NULL, 4) == 0; /* flags */
}

/* What became of one part. */
struct part {
    int32_t asked;
    struct dli_zk_text path;
    int failed;
    int32_t error, seq; /* failed: when one part has, all have, and those that are not to blame have no error */
};

static int take_part(struct dli_zk_text *from, struct part *part, struct dli_zk_answer *answer)
{
    struct dli_zk_stat stat;
    int32_t op;
    char last;

    part->seq = -1;
    if (dli_zk_take_int(from, &op) || dli_zk_take(from, &last, FLAG) || last || dli_zk_take_int(from, &part->error))
        return -1;
    part->failed = op == -1;
    if (part->failed)
        return dli_zk_take_int(from, &part->error);
    part->error = DLI_ZK_OK;
    if (part->asked == DLI_ZK_CREATE && (op == DLI_ZK_CREATED || op == DLI_ZK_CREATE))
        return take_path(from, part->path, &part->seq) || (op == DLI_ZK_CREATE && take_stat(from, &stat)) ? -1 : 0;
    if (op != part->asked)
        return -1;
    return op == DLI_ZK_SET_DATA ? take_stat(from, &answer->stat) : 0;
}

/* As many parts as were asked for, each with an answer to its own operation. */
static int take_parts(struct dli_zk_text asked, struct dli_zk_text body, struct dli_zk_answer *answer)
{
    int count = 0, made = 0, failed = 0;
    struct part part;
    int32_t end;
    char last;

    for (; next_asked(&asked, &part.asked, &part.path); count++) {
        if (take_part(&body, &part, answer))
            return -1;
        if (part.error == DLI_ZK_NOT_TRIED)
            part.error = DLI_ZK_OK;
        if (count < 2)
            answer->part_error[count] = part.error;
        if (part.asked == DLI_ZK_CREATE && !made++)
            answer->seq = part.seq;
        answer->error = answer->error ? answer->error : part.error;
        failed |= part.failed;
    }
    if (failed && !answer->error)
        return -1;
    return dli_zk_take_int(&body, &end) || dli_zk_take(&body, &last, FLAG) || !last ? -1 : 0;
}

/* ---- answers */

void dli_zk_answer_drop(struct dli_zk_answer *answer)
{
    free(answer->room);
    *answer = (struct dli_zk_answer){0};
}

static int take_answer(struct dli_zk_text asked, struct dli_zk_text body, struct dli_zk_answer *answer)
{
    struct dli_zk_text path;
    int32_t op;

    if (dli_zk_take(&asked, NULL, HEAD + 4) || dli_zk_take_int(&asked, &op)) /* the length, the number */
        return -1;
    if (op == DLI_ZK_MULTI)
        return take_parts(asked, body, answer);
    if (op == DLI_ZK_DELETE || op == DLI_ZK_SYNC || op == DLI_ZK_CLOSE)
        return 0;
    if (op == DLI_ZK_EXISTS || op == DLI_ZK_SET_DATA)
        return take_stat(&body, &answer->stat);
    if (op == DLI_ZK_GET_DATA)
        return take_data(&body, answer);
    if (op == DLI_ZK_GET_CHILDREN)
        return dli_zk_take_children(body, answer);
    return dli_zk_take_text(&asked, &path) || take_path(&body, path, &answer->seq) || take_stat(&body, &answer->stat)
               ? -1
               : 0;
}

int dli_zk_decode_answer(const struct dli_buffer *asked, const struct dli_zk_reply *reply, struct dli_zk_answer *answer)
{
    int failed = 0;

    if (reply->error)
        answer->error = reply->error;
    else
        failed = take_answer((struct dli_zk_text){asked->bytes, asked->size}, reply->body, answer);
    if (failed)
        dli_zk_answer_drop(answer);
    return failed;
}

/* ---- messages */

int64_t dli_zk_decode_frame(const char *bytes, size_t size)
{
    struct dli_zk_text from = {bytes, size};
    int32_t length;

    if (dli_zk_take_int(&from, &length))
        return 0;
    if (length < 0 || length > DLI_ZK_FRAME_MAX)
        return -1;
    return from.size < (size_t)length ? 0 : (int64_t)length + HEAD;
}

int dli_zk_decode_connect(struct dli_zk_text frame, struct dli_zk_ticket *ticket)
{
    struct dli_zk_ticket got = {.id = 0};
    struct dli_zk_text password;

    if (dli_zk_take(&frame, NULL, 4) || dli_zk_take_int(&frame, &got.timeout) || dli_zk_take_long(&frame, &got.id) ||
        dli_zk_take_text(&frame, &password))
        return -1;
    if (got.timeout <= 0) {
        ticket->timeout = 0;
        return 0;
    }
    if (got.timeout > DLI_ZK_TIMEOUT_MAX || password.size != DLI_ZK_PASSWORD || !got.id ||
        (ticket->id && ticket->id != got.id))
        return -1;
    memcpy(got.password, password.bytes, DLI_ZK_PASSWORD);
    *ticket = got;
    return 0;
}

int dli_zk_decode_reply(struct dli_zk_text frame, struct dli_zk_reply *reply)
{
    struct dli_zk_reply got;

    if (dli_zk_take_int(&frame, &got.xid) || dli_zk_take_long(&frame, &got.zxid) || dli_zk_take_int(&frame, &got.error))
        return -1;
    got.body = frame;
    *reply = got;
    return 0;
}

int dli_zk_decode_event(struct dli_zk_text body, int32_t *type, struct dli_zk_text *path)
{
    struct dli_zk_text got;
    int32_t what;

    if (dli_zk_take_int(&body, &what) || dli_zk_take(&body, NULL, 4) || dli_zk_take_text(&body, &got))
        return -1;
    *type = what >= DLI_ZK_EVENT_CREATED && what <= DLI_ZK_EVENT_CHILDREN ? what : 0;
    *path = got;
    return 0;
}
