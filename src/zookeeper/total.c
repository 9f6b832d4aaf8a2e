/*
 * total.c: how many permits a semaphore has. Belongs to lane 0's thread.
 *
 * They are the first four bytes of the node <path>/total, as those of Curator's SharedCount. Behind them are the ids of the
 * last changes, see store/change.h; Curator writes none. A change names the version that it has read.
 */
#include <string.h>

#include "kinds.h"

enum { NUMBER = 4 };

static void read_number(struct dli_job *job);

struct dli_zk_text dli_zk_total_path(const struct dli_place *place, char out[DLI_ZK_PATH_MAX])
{
    return dli_zk_child_path(place, (struct dli_zk_text){"total", 5}, out);
}

int64_t dli_zk_total(struct dli_zk_text data)
{
    uint32_t number = 0;

    for (size_t i = 0; i < NUMBER && data.size >= NUMBER; i++)
        number = number << 8 | (unsigned char)data.bytes[i];
    return (int32_t)number;
}

int dli_zk_total_of(struct dli_job *job, int call, int64_t *total)
{
    int32_t error = job->call[call].error;

    if (error && error != DLI_ZK_NO_NODE) {
        dli_zk_fail_error(job, error);
        return -1;
    }
    *total = dli_zk_total(dli_zk_got(job, call)->data);
    return 0;
}

static void make_parents(struct dli_job *job)
{
    job->at++;
    dli_zk_make_parents(job, job->request.place, read_number);
}

static void written(struct dli_job *job)
{
    int32_t error = job->call[0].error;

    job->request.change.writes = 0;
    if (!error)
        dli_zk_finish_change(job, DLOCK_OK, job->value);
    else if (error == DLI_ZK_NO_NODE && job->at == 0) /* no other change has been in the way */
        make_parents(job);
    else if (error != DLI_ZK_BAD_VERSION && error != DLI_ZK_NO_NODE && error != DLI_ZK_NODE_EXISTS)
        dli_zk_fail_error(job, error);
    else if (job->at++ < DLI_CHANGE_TRIES)
        read_number(job);
    else
        dli_zk_fail(job, DLOCK_SERVER_BUSY, "the number of permits changes too often");
}

/* Write it if the node has this version; DLI_ZK_NO_VERSION: if there is none. before: the data that was read. */
static void write_number(struct dli_job *job, int32_t version, int64_t number, const char *before)
{
    char room[DLI_ZK_PATH_MAX], value[DLI_CHANGE_VALUE], data[NUMBER + DLI_CHANGE_VALUE];
    struct dli_zk_ask ask = {
        .op = version == DLI_ZK_NO_VERSION ? DLI_ZK_CREATE : DLI_ZK_SET_DATA,
        .flags = DLI_ZK_PERSISTENT,
        .mine = dli_zk_at(job->base.lane)->user[0] != '\0',
        .version = version,
    };
    size_t size;

    if (version == DLI_ZK_RUN_OVER) {
        dli_zk_fail_run_over(job);
        return;
    }
    dli_change_write(&job->request.change, version, "", before, value);
    size = strlen(value);
    for (int i = 0; i < NUMBER; i++)
        data[i] = (char)((uint32_t)number >> (24 - 8 * i));
    memcpy(data + NUMBER, value, size);
    ask.path = dli_zk_total_path(job->request.place, room);
    ask.data = (struct dli_zk_text){data, NUMBER + size};
    dli_zk_ask(job, &ask, 1, written);
}

/* Whether an earlier try may have acted, and neither version nor ids tell. With an id for each version, none has gone. */
static int is_unclear(const struct dli_job *job, int32_t version, const char *ids)
{
    const struct dli_change *change = &job->request.change;

    return dli_change_unclear(change, ids, version == change->version || dli_change_ids(ids) - 1 == version);
}

/* taken: permits that have a node. */
static void decide(struct dli_job *job, int32_t version, struct dli_zk_text data, int64_t taken)
{
    const char *what = job->request.change.what;
    int64_t total = dli_zk_total(data), number = job->request.change.number, left = total - taken;
    char ids[DLI_CHANGE_VALUE] = "";

    if (data.size > NUMBER && data.size - NUMBER < sizeof ids)
        memcpy(ids, data.bytes + NUMBER, data.size - NUMBER);
    if (left < 0 && total >= 0)
        left = 0; /* the first in line has nodes, too */
    if (strcmp(what, "count") == 0 || (version != DLI_ZK_NO_VERSION && dli_change_acted(&job->request.change, ids))) {
        dli_zk_finish_change(job, DLOCK_OK, left);
    } else if (is_unclear(job, version, ids)) {
        dli_zk_fail(job, DLOCK_UNKNOWN_OUTCOME, "the answer was lost, and the number of permits has changed since");
    } else if (strcmp(what, "set") == 0 && version != DLI_ZK_NO_VERSION) {
        dli_zk_finish_change(job, DLOCK_UNCHANGED, left);
    } else if (total + number > INT32_MAX || total + number < INT32_MIN) {
        dli_zk_fail(job, DLOCK_INVALID_ARGUMENT, "a semaphore on ZooKeeper has at most 2147483647 permits");
    } else {
        job->value = total + number - taken;
        write_number(job, version, total + number, ids);
    }
}

static void number_read(struct dli_job *job)
{
    int32_t error = job->call[2].error;
    const struct dli_zk_answer *answer = dli_zk_got(job, 2);
    const struct dli_zk_children *leases = dli_zk_children_of(job, 1);

    if (!leases)
        return;
    if (error && error != DLI_ZK_NO_NODE)
        dli_zk_fail_error(job, error);
    else
        decide(job, error ? DLI_ZK_NO_VERSION : answer->stat.version, answer->data, leases->count);
}

static void read_number(struct dli_job *job)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask[3] = {
        {.op = DLI_ZK_SYNC, .path = dli_zk_path(job->request.place)},
        {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->request.place->leases)},
        {.op = DLI_ZK_GET_DATA, .path = dli_zk_total_path(job->request.place, room)},
    };

    dli_zk_ask(job, ask, 3, number_read);
}

void dli_zk_permit_change(struct dli_job *job)
{
    job->at = 0;
    dli_change_begin(&job->request.change, job->call[0].sent);
    if (dli_zk_enter(job, 0))
        read_number(job);
}
