/*
 * ping.c: ping URL SECONDS: the latency for another client: a PING on an idle connection, twice a millisecond.
 */
#include "bench.h"

#include <stdlib.h>

int main(int argc, char **argv)
{
    struct hist *hist = zeroed(sizeof *hist);
    redisContext *connection;
    int64_t before, end;

    if (argc != 3)
        die("usage", "ping URL SECONDS");
    connection = bare_connect(argv[1]);
    end = now_ns() + (int64_t)(atof(argv[2]) * NS_PER_S);
    while ((before = now_ns()) < end) {
        redisReply *reply = redisCommand(connection, "PING");

        if (!reply)
            die("hiredis", connection->errstr);
        freeReplyObject(reply);
        hist_add(hist, now_ns() - before);
        sleep_ns(NS_PER_MS / 2);
    }
    report_hist("ping", hist);
    return 0;
}
