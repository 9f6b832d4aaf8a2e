/*
 * fuzz_over_redis.c: the whole library over hostile Redis servers: see hostile.h. One server, sentinels, a cluster and a quorum:
 * each connection is answered as the one it believes to speak to. There is no model of the data: scripts are granted what they ask
 * for, by their names, unless the input chooses another reply. Messages come when somebody publishes: grants with the ticket that
 * the client has sent, gates, hints of Redisson, on channels that the client has subscribed to or not.
 */
#include <errno.h>
#include <stdarg.h>
#include <sys/socket.h>

#include "hostile.h"
#include "redis/scripts/scripts.h"

enum {
    WORDS = 40,
    WORD = 160,
    CHANNELS = 6,
    RAW = 24,
    LONGEST = 1 << 20,
    UNTOUCHED = 160,
    BLOCK = 128,
    FIRST_FD = 1 << 24
};

static const int64_t first_token = 1700000000000000;
static int64_t next_token;

/* What a client says in one command: the beginning of each word. */
struct command {
    int words;
    char word[WORDS][WORD];
    size_t size[WORDS];
};

/* A connection. */
struct peer {
    struct dli_buffer in;
    char channel[CHANNELS][WORD];
    int channels;
};

/* The last waiter in line that some client has spoken of, for messages. */
static struct {
    char id[WORD], ticket[WORD], lock[WORD];
} waiter;

static struct w_wire *subscriber; /* the last one */
static int fds;                   /* so many connections have had one, which is none of the system */

/* ---- replies */

static void add(struct dli_buffer *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct dli_buffer *out, const char *format, ...)
{
    char text[2 * WORD];
    va_list words;
    int size;

    va_start(words, format);
    size = vsnprintf(text, sizeof text, format, words);
    va_end(words);
    h_put(out, text, size < (int)sizeof text ? (size_t)size : sizeof text - 1);
}

static void add_text(struct dli_buffer *out, const char *text)
{
    add(out, "$%zu\r\n%s\r\n", strlen(text), text);
}

static void add_grant(struct dli_buffer *out)
{
    add(out, "*3\r\n:1\r\n:%lld\r\n:1\r\n", (long long)next_token);
    next_token += BLOCK;
}

static const struct {
    const char *part, *reply; /* NULL: a grant */
} of_scripts[] = {
    {"multi_acquire", "*5\r\n:1\r\n:1700000000000001\r\n:1\r\n:1700000000000002\r\n:1\r\n"},
    {"pass", "*2\r\n:1\r\n*3\r\n:0\r\n:20000\r\n:0\r\n"},
    {"batch_acquire", "*1\r\n*3\r\n:0\r\n:5\r\n:0\r\n"},
    {"batch_release", "*1\r\n:1\r\n"},
    {"acquire", NULL},
    {"again", NULL},
    {"await", NULL},
    {"renew", "*1\r\n:1\r\n"},
    {"inspect",
     "*5\r\n$38\r\n01234567-89ab-8def-0123-456789abcdef:1\r\n:900\r\n:1700000000000001\r\n:1700000000000000\r\n:2\r\n"},
    {"check", "*3\r\n:1700000000000000\r\n$8\r\nEVICTION\r\n$11\r\nallkeys-lru\r\n"},
    {"change", "*2\r\n:1\r\n:3\r\n"},
    {"", ":1\r\n"},
};

static const char *const others[] = {
    "*3\r\n:0\r\n:20000\r\n:0\r\n",
    "*3\r\n:0\r\n:-1\r\n:1\r\n",
    "*6\r\n:0\r\n:50\r\n:2\r\n:1700000000000000\r\n:1700000000000001\r\n:7\r\n",
    "*5\r\n:1\r\n:1700000000000001\r\n:1\r\n:2\r\n:900\r\n",
    "*1\r\n:-1\r\n",
    "*1\r\n:-2\r\n",
    "*2\r\n:-3\r\n:50\r\n",
    "*2\r\n:-4\r\n:1000\r\n",
    "*2\r\n:1\r\n*3\r\n:1\r\n:1700000000000001\r\n:64\r\n",
    ":0\r\n",
    ":1\r\n",
    ":-1\r\n",
    ":4\r\n",
    "*0\r\n",
    "*1\r\n:0\r\n",
    "*2\r\n:1\r\n:0\r\n",
    "*3\r\n:1\r\n:1700000000000001\r\n:1000\r\n",
    "$-1\r\n",
    "$3\r\nabc\r\n",
    "+OK\r\n",
    "+QUEUED\r\n",
    "-NOSCRIPT No matching script.\r\n",
    "-MOVED 1 127.0.0.1:1001\r\n",
    "-MOVED 15495 127.0.0.1:1002\r\n",
    "-ASK 15495 127.0.0.1:1001\r\n",
    "-TRYAGAIN x\r\n",
    "-CLUSTERDOWN x\r\n",
    "-READONLY x\r\n",
    "-LOADING x\r\n",
    "-BUSY x\r\n",
    "-OOM x\r\n",
    "-NOAUTH x\r\n",
    "-WRONGPASS " SECRET "\r\n",
    "-NOPERM " SECRET " x\r\n",
    "-UNBLOCKED x\r\n",
    "-MASTERDOWN x\r\n",
    "-MISCONF x\r\n",
    "-CROSSSLOT x\r\n",
    "-EXECABORT x\r\n",
    "-ERR user_script:1: " SECRET "\r\n",
    "-WRONGTYPE x\r\n",
};

static const struct {
    const char *verb, *word, *reply; /* word: NULL for any */
} usual[] = {
    {"PING", NULL, "+PONG\r\n"},
    {"PTTL", NULL, ":-2\r\n"},
    {"ROLE", NULL, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"},
    {"PUBSUB", NULL, "*0\r\n"},
    {"SCAN", NULL, "*2\r\n$1\r\n7\r\n*2\r\n$23\r\nredisson_lock_token:{a}\r\n$23\r\nredisson_lock_token:{b}\r\n"},
    {"WAIT", NULL, ":1\r\n"},
    {"WATCH", NULL, "+OK\r\n"},
    {"GET", NULL, "$2\r\n17\r\n"},
    {"MULTI", NULL, "+OK\r\n"},
    {"SET", NULL, "+QUEUED\r\n"},
    {"INCRBY", NULL, "+QUEUED\r\n"},
    {"DEL", NULL, "+QUEUED\r\n"},
    {"EXEC", NULL, "*1\r\n+OK\r\n"},
    {"SENTINEL", "get-master-addr-by-name", "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n1001\r\n"},
    {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n1001\r\n"},
    {"SENTINEL", NULL, "*2\r\n$10\r\nnum-slaves\r\n$1\r\n1\r\n"},
    {"CLUSTER", NULL,
     "*2\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:9999\r\n$5\r\nnodes\r\n*2\r\n*6\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
     "$4\r\nport\r\n:1000\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n*6\r\n$4\r\nrole\r\n$7\r\nreplica\r\n$4\r\nport\r\n:"
     "1002\r\n"
     "$2\r\nip\r\n$9\r\n127.0.0.1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:10000\r\n:16383\r\n$5\r\nnodes\r\n*1\r\n*6\r\n"
     "$4\r\nrole\r\n$6\r\nmaster\r\n$4\r\nport\r\n:1001\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n"},
    {NULL, NULL, "+OK\r\n"},
};

static int is_script(const struct command *command)
{
    return strcmp(command->word[0], "EVALSHA") == 0 || strcmp(command->word[0], "EVAL") == 0;
}

/* "" when it is not known: it was sent as a text. */
static const char *script_name(const char *sha)
{
    for (int i = 0; i < DLI_SCRIPT_COUNT; i++)
        if (strcmp(dli_scripts[i].sha1, sha) == 0 || strcmp(dli_scripts_sharded[i].sha1, sha) == 0)
            return dli_scripts[i].name;
    return "";
}

/* The view is the client's own. */
static void add_join(const struct command *command, int member, struct dli_buffer *out)
{
    add(out, "*5\r\n$4\r\nabc%d\r\n:0\r\n", member);
    add_text(out, command->word[4]);
    add(out, ":1700000000000000\r\n:100\r\n");
}

static void reply_to_script(const struct command *command, int member, struct dli_buffer *out)
{
    const char *name = script_name(command->word[1]);
    int i = 0;

    if (strcmp(name, "join") == 0) {
        add_join(command, member, out);
        return;
    }

    while (!strstr(name, of_scripts[i].part))
        i++;
    if (of_scripts[i].reply)
        add(out, "%s", of_scripts[i].reply);
    else
        add_grant(out);
}

static void reply_to_subscription(const struct command *command, struct peer *peer, struct dli_buffer *out)
{
    char verb[WORD];

    for (size_t i = 0; i <= command->size[0]; i++)
        verb[i] = (char)(command->word[0][i] | 32 * (command->word[0][i] >= 'A' && command->word[0][i] <= 'Z'));
    for (int i = 1; i < command->words; i++) {
        add(out, "*3\r\n");
        add_text(out, verb);
        add_text(out, command->word[i]);
        add(out, ":%d\r\n", i);
        memcpy(peer->channel[peer->channels++ % CHANNELS], command->word[i], WORD);
    }
}

static void usual_reply(const struct command *command, struct peer *peer, int member, struct dli_buffer *out)
{
    int i = 0;

    if (is_script(command)) {
        reply_to_script(command, member, out);
        return;
    }
    if (strstr(command->word[0], "SUBSCRIBE")) {
        reply_to_subscription(command, peer, out);
        return;
    }
    while (usual[i].verb && (strcmp(usual[i].verb, command->word[0]) != 0 ||
                             (usual[i].word && strcmp(usual[i].word, command->word[1]) != 0)))
        i++;
    h_put(out, usual[i].reply, strlen(usual[i].reply));
}

/* ---- other replies */

static void random_reply(struct dli_buffer *out)
{
    uint8_t raw[RAW];
    struct fuzz from = {raw, 1 + h_spoil_below(RAW)};

    for (size_t i = 0; i < from.left; i++)
        raw[i] = (uint8_t)h_spoil();
    h_garbled();
    fuzz_reply(&from, out);
}

static void forged_grant(struct dli_buffer *out)
{
    int64_t token = h_spoil() < 128 ? next_token + h_number() % 1000 : h_number();

    h_forged(token);
    add(out, "*%d\r\n:1\r\n:%lld\r\n:%lld\r\n", h_spoil() < 200 ? 3 : 4, (long long)token, (long long)h_number());
}

static void reply(struct w_wire *wire, const struct command *command)
{
    struct dli_buffer out = {0};
    unsigned how = h_spoil();

    if (how < UNTOUCHED) {
        usual_reply(command, wire->peer, wire->member, &out);
    } else if (how < 220) {
        h_garbled();
        add(&out, "%s", others[h_spoil() % (sizeof others / sizeof others[0])]);
    } else if (how < 232) {
        random_reply(&out);
    } else if (how < 244) {
        forged_grant(&out);
    } else if (how < 250) {
        h_garbled(); /* the second one may come while another request is under way, as its answer */
        usual_reply(command, wire->peer, wire->member, &out);
        usual_reply(command, wire->peer, wire->member, &out);
    } else if (how < 253) {
        h_hang_up(wire);
    } else {
        h_garbled(); /* no reply: that of the next request is taken for it */
    }
    if (out.size > 0)
        w_reply(wire, out.bytes, out.size);
    dli_buffer_free(&out);
}

/* ---- commands */

/* A decimal number after a sign, and CR LF; 0 when it is not there. */
static size_t number_at(const struct dli_buffer *in, size_t at, char sign, size_t *number)
{
    *number = 0;
    if (at >= in->size || in->bytes[at++] != sign)
        return 0;
    while (at < in->size && in->bytes[at] >= '0' && in->bytes[at] <= '9' && *number < LONGEST)
        *number = *number * 10 + (size_t)(in->bytes[at++] - '0');
    return at + 2 <= in->size ? at + 2 : 0;
}

/* Its size, or 0: not all of it is there. */
static size_t read_command(const struct dli_buffer *in, struct command *command)
{
    size_t words, size, at = number_at(in, 0, '*', &words);

    memset(command, 0, sizeof *command);
    for (size_t i = 0; at && i < words; i++) {
        at = number_at(in, at, '$', &size);
        if (!at || at + size + 2 > in->size)
            return 0;
        if (i < WORDS) {
            command->words = (int)i + 1;
            command->size[i] = size < WORD - 1 ? size : WORD - 1;
            memcpy(command->word[i], in->bytes + at, command->size[i]);
        }
        at += size + 2;
    }
    return at;
}

static int is_ticket(const char *word)
{
    const char *dash = strchr(word, '-');

    return dash && dash != word && strspn(word, "0123456789") == (size_t)(dash - word) && strlen(dash) == 17;
}

/* Who waits, for messages. */
static void note(struct w_wire *wire, const struct command *command)
{
    if (strstr(command->word[0], "SUBSCRIBE"))
        subscriber = wire;
    if (!is_script(command))
        return;
    memcpy(waiter.lock, command->word[3], WORD);
    for (int i = 3; i < command->words; i++) {
        if (is_ticket(command->word[i]))
            memcpy(waiter.ticket, command->word[i], WORD);
        else if (command->size[i] > 37 && command->word[i][36] == ':')
            memcpy(waiter.id, command->word[i] + 37, WORD - 37);
    }
}

static void came(struct w_wire *wire, const char *bytes, size_t size)
{
    static struct command command;
    struct peer *peer = wire->peer;
    size_t used;

    h_put(&peer->in, bytes, size);
    while ((used = read_command(&peer->in, &command))) {
        dli_buffer_drop(&peer->in, used);
        w_trace("process %d says %s %s at %d", wire->process->index, command.word[0],
                is_script(&command) ? script_name(command.word[1]) : command.word[1], wire->member);
        note(wire, &command);
        reply(wire, &command);
    }
}

static void opened(struct w_wire *wire)
{
    wire->conn->fd = FIRST_FD + fds++;
    wire->peer = calloc(1, sizeof(struct peer));
    if (!wire->peer)
        abort();
}

static void gone(struct w_wire *wire)
{
    struct peer *peer = wire->peer;

    if (subscriber == wire)
        subscriber = NULL;
    dli_buffer_free(&peer->in);
    free(peer);
    wire->peer = NULL;
}

/* ---- what the library reads past net/ */

static struct w_wire *wire_at(int fd)
{
    for (struct w_wire *wire = w.wires; wire; wire = wire->next)
        if (wire->conn && wire->conn->fd == fd)
            return wire;
    return NULL;
}

ssize_t __real_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t size, int flags)
{
    struct w_wire *wire = fd >= FIRST_FD ? wire_at(fd) : NULL;

    if (!wire)
        return __real_recv(fd, bytes, size, flags);
    if (wire->in.size == 0 && wire->ended)
        return 0;
    if (wire->in.size == 0) {
        errno = EAGAIN;
        return -1;
    }
    size = size < wire->in.size ? size : wire->in.size;
    memcpy(bytes, wire->in.bytes, size);
    if (!(flags & MSG_PEEK))
        dli_buffer_drop(&wire->in, size);
    return (ssize_t)size;
}

/* ---- messages */

static void say_message(char text[4 * WORD], unsigned how)
{
    const char *lock = how & 64 ? "a" : waiter.lock;
    int64_t token = how & 128 ? h_number() : next_token;
    struct h_text other;

    next_token += BLOCK;
    h_forged(token);
    switch (how % 8) {
    case 0:
    case 1:
        snprintf(text, 4 * WORD, "grant %s %s %lld %lld %s", waiter.id, waiter.ticket, (long long)token,
                 (long long)(how & 32 ? h_number() : 1), lock);
        break;
    case 2:
        snprintf(text, 4 * WORD, "fair %s %s %lld 1  %s", waiter.id, waiter.ticket, (long long)token, lock);
        break;
    case 3:
        snprintf(text, 4 * WORD, "free %s", lock);
        break;
    case 4:
        snprintf(text, 4 * WORD, "gate %lld %s", (long long)h_number(), lock);
        break;
    case 5:
        snprintf(text, 4 * WORD, "open %s %d %s", waiter.id, (int)h_spoil() * 8, lock);
        break;
    case 6:
        snprintf(text, 4 * WORD, "%d", (int)h_spoil_below(3));
        break;
    default:
        other = h_text();
        snprintf(text, 4 * WORD, "%.*s", (int)other.size, other.bytes);
    }
}

static void publish(struct w_wire *wire)
{
    struct peer *peer = wire->peer;
    struct dli_buffer out = {0};
    char text[4 * WORD];
    unsigned how = h_spoil(), where = h_spoil();
    int channels = peer->channels < CHANNELS ? peer->channels : CHANNELS;

    say_message(text, how);
    add(&out, "*3\r\n%s", where < 240 ? "$7\r\nmessage\r\n" : "$8\r\nsmessage\r\n");
    add_text(&out, channels ? peer->channel[(int)where % channels] : "redisson_lock__channel:{a}");
    add(&out, "$%zu\r\n", strlen(text));
    h_put(&out, text, strlen(text));
    add(&out, "\r\n");
    w_reply(wire, out.bytes, out.size);
    dli_buffer_free(&out);
}

static void unasked(struct w_wire *wire)
{
    struct dli_buffer out = {0};

    if (h_spoil() < 128) {
        publish(wire);
        return;
    }
    random_reply(&out);
    if (out.size > 0)
        w_reply(wire, out.bytes, out.size);
    dli_buffer_free(&out);
}

static void tenant(void)
{
    if (subscriber)
        publish(subscriber);
}

static void spoil(struct w_wire *wire, struct dli_buffer *bytes)
{
    (void)wire;
    dli_buffer_drop(bytes, bytes->size);
    random_reply(bytes);
}

/* ---- */

static int nothing(void)
{
    return 0;
}

static void nobody(void)
{
}

static int granted(int64_t token)
{
    return (token >= first_token && token < next_token) || h_was_forged(token);
}

static void begin(void)
{
    memset(&waiter, 0, sizeof waiter);
    subscriber = NULL;
    next_token = first_token + BLOCK; /* those before are in fixed replies */
    fds = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const urls[] = {"redis://:" SECRET "@127.0.0.1:1000",
                                       "redis+sentinel://127.0.0.1:1000,127.0.0.1:1002/s",
                                       "redis+cluster://:" SECRET "@127.0.0.1:1000,127.0.0.1:1001",
                                       "redis+quorum://127.0.0.1:1000,127.0.0.1:1001,127.0.0.1:1002?quorum_name=q"};
    static const struct w_model model = {.scheme = "redis",
                                         .begin = nobody,
                                         .end = nobody,
                                         .opened = opened,
                                         .came = came,
                                         .gone = gone,
                                         .elected = nobody,
                                         .expire = nothing,
                                         .remove = nothing,
                                         .forget = nothing};
    static const struct hostile_server redis = {.model = &model,
                                                .urls = urls,
                                                .begin = begin,
                                                .tenant = tenant,
                                                .spoil = spoil,
                                                .unasked = unasked,
                                                .granted = granted,
                                                .exports = 1};

    return hostile_run(&redis, data, size);
}
