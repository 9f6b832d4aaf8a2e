/*
 * scenario_counters.c: semaphores, latches, transactions, and the counter that the matrix of languages contends for,
 * for the C runner of the scenario table. See scenario.c.
 */
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "scenario.h"

struct txn {
    dlock_txn *handle;
};

/* ---- semaphores and latches */

static dlock_status do_set(struct word *w)
{
    return dlock_semaphore_set(handle_of(w[0]), number(w[1]), box);
}

static dlock_status do_add(struct word *w)
{
    int64_t free_now = 0;
    dlock_status status = dlock_semaphore_add(handle_of(w[0]), number(w[1]), &free_now, box);

    return valued(status, "value", free_now);
}

static dlock_status do_drain(struct word *w)
{
    int64_t drained = 0;
    dlock_status status = dlock_semaphore_drain(handle_of(w[0]), &drained, box);

    return valued(status, "value", drained);
}

static dlock_status do_reclaim(struct word *w)
{
    int64_t reclaimed = 0;
    dlock_status status = dlock_semaphore_reclaim(handle_of(w[0]), number(w[1]), &reclaimed, box);

    return valued(status, "value", reclaimed);
}

static dlock_status do_available(struct word *w)
{
    int64_t available = 0;
    dlock_status status = dlock_semaphore_available(handle_of(w[0]), &available, box);

    return valued(status, "value", available);
}

static dlock_status do_permit(struct word *w)
{
    char id[33] = "";
    dlock_status status = dlock_semaphore_permit(handle_of(w[0]), number(w[1]), number(w[2]), id, sizeof(id), box);

    return valued(status, "digits", (int64_t)strlen(id));
}

static dlock_status do_count(struct word *w)
{
    return dlock_latch_set(handle_of(w[0]), number(w[1]), box);
}

static dlock_status do_down(struct word *w)
{
    int64_t left = 0;
    dlock_status status = dlock_latch_count_down(handle_of(w[0]), number(w[1]), &left, box);

    return valued(status, "value", left);
}

static dlock_status do_left(struct word *w)
{
    int64_t left = 0;
    dlock_status status = dlock_latch_count(handle_of(w[0]), &left, box);

    return valued(status, "value", left);
}

/* ---- a counter in Redis: read, then written, by plain commands of a connection of its own */

static FILE *connection(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        perror(path);
        exit(2);
    }
    return fdopen(fd, "r");
}

/* Send a command in one line; returns the number in the reply, or none. */
static int64_t command(FILE *redis, const char *name, const char *argument, int64_t value)
{
    char line[256];
    int64_t answer;

    if (value >= 0)
        dprintf(fileno(redis), "%s %s %" PRId64 "\r\n", name, argument, value);
    else
        dprintf(fileno(redis), "%s %s\r\n", name, argument);
    if (!fgets(line, sizeof(line), redis) || line[0] == '-')
        exit(3);
    answer = strtoll(line + 1, NULL, 10);
    if (line[0] == '$' && answer >= 0 && fgets(line, sizeof(line), redis))
        return strtoll(line, NULL, 10);
    return line[0] == '$' ? 0 : answer;
}

/* work LOCK OWNER TIMES SOCKET: so many times alone, increment the counter and note the token. */
static dlock_status do_work(struct word *w)
{
    struct lock *lock = find(w[0]);
    FILE *redis = connection(w[3].text);
    dlock_status status = DLOCK_OK;
    int64_t done = 0;

    for (; done < number(w[2]); done++) {
        int64_t token = 0;

        status = acquire(lock, number(w[1]), PATIENCE_MS, &token);
        if (status != DLOCK_OK)
            break;
        command(redis, "SET", "witness:counter", command(redis, "GET", "witness:counter", -1) + 1);
        command(redis, "RPUSH", "witness:tokens", token);
        status = release(lock, number(w[1]));
        if (status != DLOCK_OK)
            break;
    }
    fclose(redis);
    return valued(status, "done", done);
}

const struct verb counter_verbs[] = {
    {"set", do_set},       {"add", do_add},         {"drain", do_drain}, {"available", do_available},
    {"permit", do_permit}, {"count", do_count},     {"down", do_down},   {"left", do_left},
    {"work", do_work},     {"reclaim", do_reclaim}, {NULL, NULL}};

/* ---- transactions */

static dlock_txn *txn_of(struct word name)
{
    return ((struct txn *)find(name))->handle;
}

static void drop_txn(void *thing)
{
    dlock_txn_free(((struct txn *)thing)->handle);
}

static dlock_status do_txn(struct word *w)
{
    struct client *client = find(w[0]);
    struct txn *txn = name_it(w[1], sizeof(*txn), drop_txn);

    return dlock_txn_new(client->handle, &txn->handle, box);
}

static dlock_status do_watch(struct word *w)
{
    return dlock_txn_watch(txn_of(w[0]), w[1].text, w[1].size, box);
}

static dlock_status do_get(struct word *w)
{
    uint8_t value[256];
    size_t size = 0;
    dlock_status status = dlock_txn_get(txn_of(w[0]), w[1].text, w[1].size, value, sizeof(value), &size, box);

    if (status != DLOCK_OK)
        return status;
    printf("OK value=%.*s", (int)size, (char *)value);
    return SAID;
}

static dlock_status do_put(struct word *w)
{
    return dlock_txn_set(txn_of(w[0]), w[1].text, w[1].size, (uint8_t *)w[2].text, w[2].size,
                         w[3].size > 0 ? number(w[3]) : -1, box);
}

static dlock_status do_incr(struct word *w)
{
    return dlock_txn_incr(txn_of(w[0]), w[1].text, w[1].size, number(w[2]), box);
}

static dlock_status do_delete(struct word *w)
{
    return dlock_txn_delete(txn_of(w[0]), w[1].text, w[1].size, box);
}

static dlock_status do_commit(struct word *w)
{
    return dlock_txn_commit(txn_of(w[0]), box);
}

static dlock_status do_rollback(struct word *w)
{
    return dlock_txn_rollback(txn_of(w[0]), box);
}

const struct verb txn_verbs[] = {{"txn", do_txn},       {"watch", do_watch},       {"get", do_get},
                                 {"put", do_put},       {"incr", do_incr},         {"delete", do_delete},
                                 {"commit", do_commit}, {"rollback", do_rollback}, {NULL, NULL}};
