/*
 * latch.c: count-down latches. Belongs to lane 0's thread.
 *
 * A latch is the node <path>/count, which stays: its data is what is left, and the ids of the last changes, so that a
 * change that is sent twice acts once. An open latch has no node. A change names the version that it has read. Who waits
 * watches the node.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"

enum { CHANGES = 100 };

static void read_again(struct dli_job *job);

static struct dli_zk_text path_of(const struct dli_job *job, char room[DLI_ZK_PATH_MAX])
{
    return dli_zk_child_path(job->request.place, (struct dli_zk_text){"count", 5}, room);
}

/* One number for all who wait for this latch: negative, so that it is no grant number. */
static int64_t number_of(const struct dli_place *place)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < place->size; i++)
        hash = (hash ^ (unsigned char)place->path[i]) * UINT64_C(1099511628211);
    return -(int64_t)(hash >> 2) - 1;
}

/* ---- a wait */

static void waited(struct dli_job *job)
{
    struct dli_answer *answer = &job->request.exchange.answer;
    int32_t error = job->call[0].error;
    int open = error == DLI_ZK_NO_NODE;

    if (error && !open) {
        dli_zk_fail_error(job, error);
        return;
    }
    answer->got = open ? DLI_TRY_GRANTED : DLI_TRY_HELD;
    answer->token = answer->tokens = open;
    answer->left = -1;
    if (open)
        dli_zk_forget(dli_zk_at(job->base.lane), number_of(job->request.place));
    job->request.status = DLOCK_OK;
    dli_zk_finish(job);
}

void dli_zk_latch_wait(struct dli_job *job)
{
    struct dli_zk *zk = dli_zk_at(job->base.lane);
    int64_t number = number_of(job->request.place);
    struct dli_zk_entry *entry = dli_zk_entry(zk, number);
    struct dli_zk_session *session = entry ? dli_zk_session(zk, entry->session) : NULL;
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_GET_DATA, .watch = job->request.exchange.wish.patient};

    if (!session && !(session = dli_zk_enter(job, 0)))
        return;
    job->session = session;
    ask.path = path_of(job, room);
    if (ask.watch && !entry && !(entry = dli_zk_entry_new(zk, job->request.place, number))) {
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a watch");
        return;
    }
    if (entry)
        entry->session = session->number;
    if (ask.watch && dli_zk_watch(zk, &entry->watch[0], ask.path))
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a watch");
    else
        dli_zk_ask(job, &ask, 1, waited);
}

/* ---- a change */

int dli_zk_value_knows(const char *value, const char *id)
{
    size_t size = strlen(id);

    for (const char *at = strstr(value, id); at; at = strstr(at + size, id))
        if (at[size] == ' ' || at[size] == '\0')
            return 1;
    return 0;
}

void dli_zk_value_write(char out[DLI_ZK_VALUE], int64_t number, const char *id, const char *before)
{
    int size = snprintf(out, DLI_ZK_VALUE, "%" PRId64 " %s", number, id);
    const char *ids = strchr(before, ' ');

    snprintf(out + size, (size_t)(DLI_ZK_VALUE - size), "%s", ids ? ids : "");
    for (int spaces = 0; *out; out++)
        if (*out == ' ' && ++spaces > DLI_ZK_IDS)
            *out-- = '\0';
}

static void finish(struct dli_job *job, dlock_status status, int64_t value)
{
    job->request.change.value = value;
    job->request.status = status;
    dli_zk_finish(job);
}

static void changed(struct dli_job *job)
{
    int32_t error = job->call[0].error;

    if (!error)
        finish(job, DLOCK_OK, job->value);
    else if (error != DLI_ZK_BAD_VERSION && error != DLI_ZK_NO_NODE && error != DLI_ZK_NODE_EXISTS)
        dli_zk_fail_error(job, error);
    else if (job->at++ < CHANGES) /* somebody else has changed it meanwhile */
        read_again(job);
    else
        dli_zk_fail(job, DLOCK_SERVER_BUSY, "the latch changes too often");
}

static void made(struct dli_job *job)
{
    if (job->call[0].error == DLI_ZK_NO_NODE)
        dli_zk_make_parents(job, job->request.place, read_again);
    else
        changed(job);
}

/* Write left, if the node has this version; -1: if there is none. */
static void change(struct dli_job *job, int32_t version, int64_t left, const char *before)
{
    char room[DLI_ZK_PATH_MAX], value[DLI_ZK_VALUE];
    struct dli_zk_ask ask = {
        .op = version < 0 ? DLI_ZK_CREATE
              : left > 0  ? DLI_ZK_SET_DATA
                          : DLI_ZK_DELETE,
        .flags = DLI_ZK_PERSISTENT,
        .mine = dli_zk_at(job->base.lane)->user[0] != '\0',
        .version = version,
    };

    dli_zk_value_write(value, left, job->request.change.id, before);
    ask.path = path_of(job, room);
    ask.data = (struct dli_zk_text){value, strlen(value)};
    job->value = left;
    dli_zk_ask(job, &ask, 1, version < 0 ? made : changed);
}

/* The node is there with this value and version, or not: -1. */
static void decide(struct dli_job *job, int32_t version, const char *value)
{
    const char *what = job->request.change.what;
    int64_t left = strtoll(value, NULL, 10), number = job->request.change.number;

    if (strcmp(what, "count") == 0 || (version >= 0 && dli_zk_value_knows(value, job->request.change.id)))
        finish(job, DLOCK_OK, left);
    else if (strcmp(what, "set") == 0 && version < 0)
        change(job, version, number, "");
    else if (strcmp(what, "set") == 0)
        finish(job, DLOCK_UNCHANGED, left);
    else if (version < 0)
        finish(job, DLOCK_OK, 0);
    else
        change(job, version, left > number ? left - number : 0, value);
}

static void found(struct dli_job *job)
{
    int32_t error = job->call[1].error;
    char value[DLI_ZK_VALUE] = "";
    struct dli_zk_stat stat = {.version = -1};
    struct dli_zk_text data = {"", 0};

    if (error && error != DLI_ZK_NO_NODE) {
        dli_zk_fail_error(job, error);
        return;
    }
    if (!error && dli_zk_decode_data(dli_zk_body(job, 1), &data, &stat)) {
        dli_zk_fail_bytes(job);
        return;
    }
    snprintf(value, sizeof value, "%.*s", (int)(data.size < DLI_ZK_VALUE ? data.size : DLI_ZK_VALUE - 1), data.bytes);
    decide(job, stat.version, value);
}

static void read_again(struct dli_job *job)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask[2] = {{.op = DLI_ZK_SYNC}, {.op = DLI_ZK_GET_DATA}};

    ask[0].path = ask[1].path = path_of(job, room);
    dli_zk_ask(job, ask, 2, found);
}

void dli_zk_latch_change(struct dli_job *job)
{
    job->at = 0;
    if (dli_zk_enter(job, 0))
        read_again(job);
}
