/*
 * decode.c: replies from bytes, see codec.h. The bytes may be anything.
 */
#include <string.h>

#include "codec.h"

/* All of them take from the front, and return 0, or -1 when there is not enough. */
static int take(struct dli_zk_text *from, void *to, size_t size)
{
    if (from->size < size)
        return -1;
    if (to)
        memcpy(to, from->bytes, size);
    from->bytes += size;
    from->size -= size;
    return 0;
}

static int take_int(struct dli_zk_text *from, int32_t *value)
{
    unsigned char bytes[4];
    uint32_t all = 0;

    if (take(from, bytes, sizeof bytes))
        return -1;
    for (int i = 0; i < 4; i++)
        all = all << 8 | bytes[i];
    *value = (int32_t)all;
    return 0;
}

static int take_long(struct dli_zk_text *from, int64_t *value)
{
    int32_t high, low;

    if (take_int(from, &high) || take_int(from, &low))
        return -1;
    *value = (int64_t)((uint64_t)(uint32_t)high << 32 | (uint32_t)low);
    return 0;
}

/* A length of -1 is no text, which is the empty one to us. */
static int take_text(struct dli_zk_text *from, struct dli_zk_text *text)
{
    int32_t size;

    if (take_int(from, &size) || size < -1)
        return -1;
    *text = (struct dli_zk_text){from->bytes, size < 0 ? 0 : (size_t)size};
    return take(from, NULL, text->size);
}

/* czxid, mzxid, ctime, mtime, three versions, the owner, two lengths, pzxid. */
static int take_stat(struct dli_zk_text *from, struct dli_zk_stat *stat)
{
    return take_long(from, &stat->czxid) || take(from, NULL, 8) || take_long(from, &stat->ctime) ||
                   take_long(from, &stat->mtime) || take_int(from, &stat->version) || take(from, NULL, 8) ||
                   take_long(from, &stat->owner) || take(from, NULL, 16)
               ? -1
               : 0;
}

int64_t dli_zk_frame(const char *bytes, size_t size)
{
    struct dli_zk_text from = {bytes, size};
    int32_t length;

    if (take_int(&from, &length))
        return 0;
    if (length < 0 || length > DLI_ZK_FRAME_MAX)
        return -1;
    return from.size < (size_t)length ? 0 : (int64_t)length + 4;
}

int dli_zk_decode_connect(struct dli_zk_text frame, struct dli_zk_ticket *ticket)
{
    struct dli_zk_text password;

    if (take(&frame, NULL, 4) || take_int(&frame, &ticket->timeout) || take_long(&frame, &ticket->id) ||
        take_text(&frame, &password) || (password.size != DLI_ZK_PASSWORD && ticket->timeout > 0))
        return -1;
    if (password.size == DLI_ZK_PASSWORD)
        memcpy(ticket->password, password.bytes, DLI_ZK_PASSWORD);
    return 0;
}

int dli_zk_decode_reply(struct dli_zk_text frame, struct dli_zk_reply *reply)
{
    if (take_int(&frame, &reply->xid) || take_long(&frame, &reply->zxid) || take_int(&frame, &reply->error))
        return -1;
    reply->body = frame;
    return 0;
}

int dli_zk_decode_event(struct dli_zk_text body, int32_t *type, struct dli_zk_text *path)
{
    return take_int(&body, type) || take(&body, NULL, 4) || take_text(&body, path) ? -1 : 0;
}

int dli_zk_decode_created(struct dli_zk_text body, struct dli_zk_text *path, struct dli_zk_stat *stat)
{
    return take_text(&body, path) || take_stat(&body, stat) ? -1 : 0;
}

int dli_zk_decode_stat(struct dli_zk_text body, struct dli_zk_stat *stat)
{
    return take_stat(&body, stat);
}

int dli_zk_decode_data(struct dli_zk_text body, struct dli_zk_text *data, struct dli_zk_stat *stat)
{
    return take_text(&body, data) || take_stat(&body, stat) ? -1 : 0;
}

int dli_zk_decode_part(struct dli_zk_text *rest, struct dli_zk_part *part)
{
    struct dli_zk_stat stat;
    char done;

    memset(part, 0, sizeof *part);
    if (take_int(rest, &part->op) || take(rest, &done, 1) || take_int(rest, &part->error))
        return -1;
    if (done)
        return 0;
    if (part->op == -1)
        return take_int(rest, &part->error) ? -1 : 1;
    part->error = DLI_ZK_OK;
    if (part->op == DLI_ZK_CREATED || part->op == DLI_ZK_CREATE)
        return take_text(rest, &part->path) || (part->op == DLI_ZK_CREATE && take_stat(rest, &stat)) ? -1 : 1;
    if (part->op == DLI_ZK_SET_DATA)
        return take_stat(rest, &part->stat) ? -1 : 1;
    return part->op == DLI_ZK_DELETE ? 1 : -1;
}

int dli_zk_decode_multi(struct dli_zk_text body, struct dli_zk_part *first)
{
    struct dli_zk_part part;
    int got;

    memset(first, 0, sizeof *first);
    while ((got = dli_zk_decode_part(&body, &part)) > 0) {
        if (part.error && part.error != DLI_ZK_NOT_TRIED && !first->error)
            first->error = part.error;
        if (part.path.size > 0 && !first->path.size)
            first->path = part.path;
    }
    return got;
}

int dli_zk_decode_count(struct dli_zk_text *rest, int32_t *left)
{
    return take_int(rest, left);
}

int dli_zk_decode_name(struct dli_zk_text *rest, struct dli_zk_text *name)
{
    return take_text(rest, name);
}
