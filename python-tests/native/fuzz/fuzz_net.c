/*
 * fuzz_net.c: see fuzz_net.h. The linker replaces the clock, thread functions, socket and connect by the functions that
 * begin with __wrap_.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_net.h"
#include "fuzz_words.h"

enum { PEERS = 48 };

/* ---- replaced functions */

int64_t fuzz_now;
static int peer[PEERS]; /* the servers' ends, oldest first */
static int peers;
static int obedient;

int64_t __wrap_dli_now(void);
int64_t __wrap_dli_now(void)
{
    return fuzz_now;
}

int __wrap_dli_thread_start(const char *name, void (*run)(void *), void *argument);
int __wrap_dli_thread_start(const char *name, void (*run)(void *), void *argument)
{
    (void)name;
    (void)run;
    (void)argument;
    return EAGAIN;
}

void fuzz_net_drop(int i)
{
    close(peer[i]);
    memmove(peer + i, peer + i + 1, (size_t)(peers - i - 1) * sizeof peer[0]);
    peers--;
}

int __wrap_socket(int domain, int type, int protocol);
int __wrap_socket(int domain, int type, int protocol)
{
    int ends[2];

    (void)domain;
    (void)protocol;
    if (peers == PEERS)
        fuzz_net_drop(0);
    if (socketpair(AF_UNIX, type | SOCK_NONBLOCK, 0, ends))
        return -1;
    peer[peers++] = ends[1];
    return ends[0];
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    (void)fd;
    (void)address;
    (void)size;
    return 0;
}

/* ---- servers that reply anything */

static const char *const lines[] = {
    "+OK\r\n",
    "+OK\r\n+OK\r\n",
    ":1\r\n",
    ":0\r\n",
    "*3\r\n:1\r\n:1700000000000000\r\n:1\r\n",
    "*3\r\n:0\r\n:20000\r\n:0\r\n",
    "*3\r\n:0\r\n:-1\r\n:1\r\n",
    "*1\r\n:1\r\n",
    "*2\r\n:1\r\n*3\r\n:0\r\n:5\r\n:0\r\n",
    "-NOSCRIPT No matching script.\r\n",
    "-MOVED 1 127.0.0.1:3\r\n",
    "-MOVED 15495 127.0.0.1:2\r\n",
    "-ASK 15495 127.0.0.1:2\r\n",
    "-TRYAGAIN x\r\n",
    "-CLUSTERDOWN x\r\n",
    "-READONLY x\r\n",
    "-LOADING x\r\n",
    "-WRONGPASS " SECRET "\r\n",
    "-ERR user_script:1: " SECRET "\r\n",
    "*0\r\n",
    "$-1\r\n",
    ":-1\r\n",
    "*2\r\n:-3\r\n:50\r\n",
    "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:1\r\n",
    "*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:16383\r\n$5\r\nnodes\r\n*1\r\n*6\r\n$4\r\nrole\r\n$6\r\nmaster\r\n$4\r\n"
    "port\r\n:2\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n",
    "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n7\r\n",
    "*2\r\n$10\r\nnum-slaves\r\n$1\r\n1\r\n",
    "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n",
    "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$7\r\nconnect\r\n:0\r\n",
    "*3\r\n$5\r\nrun-1\r\n:0\r\n$0\r\n\r\n",
    "*3\r\n$5\r\nrun-2\r\n:0\r\n$0\r\n\r\n",
    "*3\r\n$9\r\nsubscribe\r\n$49\r\ndlock_client:" UUID "\r\n:1\r\n",
    "*3\r\n$7\r\nmessage\r\n$49\r\ndlock_client:" UUID "\r\n$33\r\ngrant 1 1-f51072c88cb2e485 7 65 a\r\n",
    "*3\r\n$7\r\nmessage\r\n$26\r\nredisson_lock__channel:{a}\r\n$1\r\n0\r\n",
    "*3\r\n$9\r\nsubscribe\r\n$26\r\nredisson_lock__channel:{a}\r\n:2\r\n",
    "*3\r\n:1700000000000000\r\n$8\r\nEVICTION\r\n$11\r\nallkeys-lru\r\n",
};

static void say(int i, const char *bytes, size_t size)
{
    ssize_t sent = send(peer[i], bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);

    (void)sent;
}

/* ---- servers that reply as they should, except to scripts, where the input chooses */

static const struct {
    const char *verb, *word, *reply; /* word: NULL for any */
} usual[] = {
    {"AUTH", NULL, "+OK\r\n"},
    {"SELECT", NULL, "+OK\r\n"},
    {"CLIENT", NULL, "+OK\r\n"},
    {"ASKING", NULL, "+OK\r\n"},
    {"PING", NULL, "+PONG\r\n"},
    {"ROLE", NULL, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"},
    {"PUBSUB", NULL, "*0\r\n"},
    {"SENTINEL", "get-master-addr-by-name", "*2\r\n$9\r\n127.0.0.1\r\n$1\r\n7\r\n"},
    {"SENTINEL", "master", "*2\r\n$10\r\nnum-slaves\r\n$1\r\n1\r\n"},
    {"SUBSCRIBE", "dlock_client:" UUID, "*3\r\n$9\r\nsubscribe\r\n$49\r\ndlock_client:" UUID "\r\n:1\r\n"},
    {"SUBSCRIBE", NULL, "*3\r\n$9\r\nsubscribe\r\n$26\r\nredisson_lock__channel:{a}\r\n:2\r\n"},
    {"SSUBSCRIBE", NULL, "*3\r\n$10\r\nssubscribe\r\n$26\r\nredisson_lock__channel:{a}\r\n:1\r\n"},
    {"UNSUBSCRIBE", NULL, "*3\r\n$11\r\nunsubscribe\r\n$26\r\nredisson_lock__channel:{a}\r\n:1\r\n"},
    {"CLUSTER", "SHARDS",
     "*2\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:9999\r\n$5\r\nnodes\r\n*2\r\n*6\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
     "$4\r\nport\r\n:1\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n*6\r\n$4\r\nrole\r\n$7\r\nreplica\r\n$4\r\nport\r\n:8\r\n"
     "$2\r\nip\r\n$9\r\n127.0.0.1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:10000\r\n:16383\r\n$5\r\nnodes\r\n*1\r\n*6\r\n"
     "$4\r\nrole\r\n$6\r\nmaster\r\n$4\r\nport\r\n:2\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n"},
};

static int is(const char *word, size_t size, const char *text)
{
    return strlen(text) == size && memcmp(word, text, size) == 0;
}

static const char *usual_reply(const char *verb, size_t verb_size, const char *word, size_t size)
{
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (is(verb, verb_size, usual[i].verb) && (!usual[i].word || is(word, size, usual[i].word)))
            return usual[i].reply;
    return NULL;
}

/* A decimal number after a sign, and CR LF; NULL when it is not complete. */
static const char *number_at(const char *at, const char *end, char sign, size_t *number)
{
    *number = 0;
    if (at == end || *at++ != sign)
        return NULL;
    while (at < end && *at >= '0' && *at <= '9')
        *number = *number * 10 + (size_t)(*at++ - '0');
    return end - at >= 2 ? at + 2 : NULL;
}

/* Reply to the complete commands; an incomplete one is ignored. */
static void obey(struct fuzz *in, int i, const char *at, const char *end)
{
    size_t words, sizes[2], size;
    const char *first[2], *reply;

    while ((at = number_at(at, end, '*', &words))) {
        sizes[0] = sizes[1] = 0;
        first[0] = first[1] = "";
        for (size_t n = 0; n < words; n++) {
            if (!(at = number_at(at, end, '$', &size)) || (size_t)(end - at) < size + 2)
                return;
            if (n < 2) {
                first[n] = at;
                sizes[n] = size;
            }
            at += size + 2;
        }
        if (!(reply = usual_reply(first[0], sizes[0], first[1], sizes[1])))
            reply = lines[fuzz_below(in, sizeof lines / sizeof lines[0])];
        say(i, reply, strlen(reply));
    }
}

/* Data to a server is dropped, or answered; a server end whose client has closed is closed too. */
void fuzz_net_drain(struct fuzz *in)
{
    static char bytes[1 << 18];

    for (int i = peers - 1; i >= 0; i--) {
        ssize_t size;

        while ((size = recv(peer[i], bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
            if (obedient)
                obey(in, i, bytes, bytes + size);
        if (size == 0 || (errno != EAGAIN && errno != EINTR))
            fuzz_net_drop(i);
    }
}

void fuzz_net_answer(struct fuzz *in)
{
    struct dli_buffer bytes = {0};
    unsigned how = fuzz_byte(in);
    int i = peers ? (int)(how / 8) % peers : 0;
    const char *line;

    if (peers == 0)
        return;
    if (how % 8 == 0) {
        fuzz_reply(in, &bytes);
        say(i, bytes.bytes, bytes.size);
        dli_buffer_free(&bytes);
        return;
    }
    line = lines[fuzz_below(in, sizeof lines / sizeof lines[0])];
    if (how % 8 == 1) /* all reply */
        for (i = 0; i < peers; i++)
            say(i, line, strlen(line));
    else
        say(how % 8 < 5 ? peers - 1 : i, line, strlen(line));
}

void fuzz_net_begin(int obey_us)
{
    fuzz_now = 1000000000;
    obedient = obey_us;
}

int fuzz_net_peers(void)
{
    return peers;
}

void fuzz_net_end(void)
{
    while (peers > 0)
        fuzz_net_drop(0);
}
