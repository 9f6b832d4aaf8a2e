/*
 * fuzz_words.c: see fuzz_words.h.
 */
#include "fuzz_words.h"

enum { DEEPEST = 5, ITEMS_MOST = 12 };

static const char *const words[] = {
    "slots",
    "nodes",
    "role",
    "master",
    "primary",
    "replica",
    "health",
    "online",
    "fail",
    "endpoint",
    "ip",
    "hostname",
    "port",
    "tls-port",
    "id",
    "?",
    "",
    "127.0.0.1",
    "10.0.0.1",
    "::1",
    "fe80::1%eth0",
    "redis-1.example",
    "[::1]",
    "num-slaves",
    "flags",
    "message",
    "smessage",
    "subscribe",
    "ssubscribe",
    "unsubscribe",
    "sunsubscribe",
    "pmessage",
    "EVICTION",
    "PERSISTENCE",
    "VERSION",
    "REPLICAS",
    "CLOCK",
    "COMMAND_MISSING",
    "WRITE_REFUSED",
    "OK",
    "PONG",
    "QUEUED",
    "slave",
    "connected",
    "00",
    "1",
    "0",
    "6379",
    "70000",
    "-1",
    "99999999999999999999",
    "0x10",
    " 7",
    "01234567-89ab-cdef-0123-456789abcdef:1",
    "redisson_lock__channel:{a}",
    SECRET,
    "dlock_client:01234567-89ab-cdef-0123-456789abcdef",
    "grant 1 1-0123456789abcdef 7 65 a",
    "fair 1 1 7 a",
    "open 1 5 a",
    "gate 100 a",
};

static const char *const errors[] = {
    "MOVED 3999 127.0.0.1:6381",
    "MOVED 16384 127.0.0.1:6381",
    "MOVED 1 :6381",
    "ASK 3999 ::1:6381",
    "ASK 1 h:0",
    "MOVED 3999 redis-1.example:70000",
    "TRYAGAIN Multiple keys",
    "CLUSTERDOWN The cluster is down",
    "LOADING Redis",
    "MASTERDOWN Link",
    "NOSCRIPT No matching script.",
    "OOM command not allowed",
    "READONLY You can't write",
    "MISCONF Redis is configured",
    "WRONGTYPE Operation",
    "BUSY Redis is busy",
    "NOAUTH Authentication required.",
    "WRONGPASS invalid",
    "NOPERM this user",
    "DENIED Redis is running in protected mode",
    "NOREPLICAS Not enough",
    "ERR unknown command 'EVALSHA'",
    "ERR max number of clients reached",
    "ERR This instance has cluster support disabled",
    "ERR Error running script (call to f_0123): @user_script:2: @user_script: 2: -OOM command not allowed",
    "ERR user_script:7: Script attempted to access nonexistent global variable '" SECRET "'",
    "ERR " SECRET SECRET,
    "EXECABORT Transaction discarded because of: OOM command not allowed",
    "-",
    "",
};

static void put(struct dli_buffer *out, const char *text, size_t size)
{
    REQUIRE(dli_buffer_add(out, text, size) == 0);
}

static void put_bulk(struct dli_buffer *out, const char *text, size_t size)
{
    char head[32];

    put(out, head, (size_t)sprintf(head, "$%zu\r\n", size));
    put(out, text, size);
    put(out, "\r\n", 2);
}

/* Bytes of the input itself. */
static void put_own(struct fuzz *in, struct dli_buffer *out)
{
    size_t size = fuzz_byte(in);

    size = size < in->left ? size : in->left;
    put_bulk(out, (const char *)in->at, size);
    in->at += size;
    in->left -= size;
}

void fuzz_error(struct fuzz *in, struct dli_buffer *out)
{
    size_t size;
    const char *own;

    put(out, "-", 1);
    if (fuzz_below(in, 8) == 0) {
        own = fuzz_until(in, '\n', &size);
        for (size_t i = 0; i < size; i++)
            put(out, own[i] == '\r' ? "." : own + i, 1);
    } else {
        own = errors[fuzz_below(in, sizeof errors / sizeof errors[0])];
        put(out, own, strlen(own));
    }
    put(out, "\r\n", 2);
}

static void put_reply(struct fuzz *in, struct dli_buffer *out, int depth)
{
    unsigned kind = fuzz_byte(in), items;
    const char *word;
    char head[40];

    if (kind < 90) {
        word = words[fuzz_below(in, sizeof words / sizeof words[0])];
        put_bulk(out, word, strlen(word));
    } else if (kind < 150) {
        put(out, head, (size_t)sprintf(head, ":%lld\r\n", (long long)fuzz_number(in)));
    } else if (kind < 160) {
        put(out, "$-1\r\n", 5);
    } else if (kind < 170) {
        put_own(in, out);
    } else if (kind < 180) {
        put(out, "+OK\r\n", 5);
    } else if (kind < 190 || depth == DEEPEST) {
        fuzz_error(in, out);
    } else {
        items = fuzz_below(in, ITEMS_MOST);
        put(out, head, (size_t)sprintf(head, "*%u\r\n", items));
        while (items-- > 0)
            put_reply(in, out, depth + 1);
    }
}

void fuzz_reply(struct fuzz *in, struct dli_buffer *out)
{
    if (in->left > 0 && *in->at == '!') {
        put(out, (const char *)in->at + 1, in->left - 1);
        in->left = 0;
        return;
    }
    put_reply(in, out, 0);
}

const struct dli_reply *fuzz_read(struct fuzz *in, struct dli_reader *reader)
{
    struct dli_buffer bytes = {0};
    const struct dli_reply *reply = NULL;

    fuzz_reply(in, &bytes);
    if ((bytes.size && dli_reader_feed(reader, bytes.bytes, bytes.size)) || dli_reader_next(reader, &reply) != 1)
        reply = NULL;
    dli_buffer_free(&bytes);
    return reply;
}
