/*
 * wake.c: wake WAY URL ROUNDS: the time from a release in one process to the acquisition in another that sleeps.
 *
 * One process holds the lock, the other waits. The holder reads the clock and releases; the waiter reads it when it has
 * the lock. WAY is one of ways.h, or "blpop": RPUSH to a client in BLPOP, the shortest time in which a server can wake
 * a client.
 */
#include "ways.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_UP = 20, ASLEEP = 3 * NS_PER_MS };

/* The two processes take turns through pipes, so that nothing spins beside the measurement. */
struct shared {
    int64_t released_at;
    struct hist hist;
};

struct side {
    const struct way *way; /* NULL: blpop */
    void *lock;
    redisContext *connection;
    int in, out;
    int rounds;
    struct shared *shared;
};

static void tell(const struct side *side)
{
    if (write(side->out, "x", 1) != 1)
        die("write", "the other side is gone");
}

static void hear(const struct side *side)
{
    char byte;

    if (read(side->in, &byte, 1) != 1)
        die("read", "the other side is gone");
}

static void command(const struct side *side, const char *text)
{
    redisReply *reply = redisCommand(side->connection, text);

    if (!reply || reply->type == REDIS_REPLY_ERROR)
        die(text, side->connection->errstr);
    freeReplyObject(reply);
}

static void take(const struct side *side)
{
    if (side->way)
        side->way->acquire(side->lock);
    else
        command(side, "BLPOP wake 0");
}

static void give(const struct side *side)
{
    if (side->way)
        side->way->release(side->lock);
    else
        command(side, "RPUSH wake x");
}

static void open_side(struct side *side, const char *url)
{
    if (side->way)
        side->lock = side->way->lock(side->way->open(url), "wake");
    else
        side->connection = bare_connect(url);
}

static void hold(const struct side *side)
{
    for (int i = 0; i < side->rounds + WARM_UP; i++) {
        if (side->way)
            take(side);
        tell(side);
        hear(side);
        sleep_ns(ASLEEP);
        side->shared->released_at = now_ns();
        give(side);
        hear(side);
    }
}

static void await(const struct side *side)
{
    for (int i = 0; i < side->rounds + WARM_UP; i++) {
        hear(side);
        tell(side);
        take(side);
        if (i >= WARM_UP)
            hist_add(&side->shared->hist, now_ns() - side->shared->released_at);
        if (side->way)
            give(side);
        tell(side);
    }
}

static void waiter(struct side *side, const char *url, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    open_side(side, url);
    await(side);
    _exit(0);
}

int main(int argc, char **argv)
{
    struct side side = {.shared = shared_memory(sizeof(struct shared))};
    int there[2], back[2], status;
    pid_t parent = getpid(), child;

    if (argc != 4)
        die("usage", "wake WAY URL ROUNDS");
    side.way = strcmp(argv[1], "blpop") == 0 ? NULL : way_named(argv[1]);
    side.rounds = atoi(argv[3]);
    if (pipe(there) || pipe(back) || (child = fork()) < 0)
        die("fork", "no process");
    side.in = child ? back[0] : there[0];
    side.out = child ? there[1] : back[1];
    if (child == 0)
        waiter(&side, argv[2], parent);
    open_side(&side, argv[2]);
    hold(&side);
    if (waitpid(child, &status, 0) < 0 || status != 0)
        die("child", "did not end well");
    report_hist("wake", &side.shared->hist);
    return 0;
}
