/*
 * gate.c: gates. Belongs to lane 0's thread.
 *
 * A closed gate is the node <path>/dlock_gate, which stays: its data is its time in milliseconds, and its mtime is when the
 * leader closed it. Who stands in line sees it among the children that it reads anyway, behind its own node. The ctime of that
 * one is a stamp of the same clock, so it says whether the gate is over. Who meets one that is over removes it.
 *
 * Versions begin anew when the node is made again. So a removal names the version of the bell, too, as it was before the node
 * was read: a late one does not hit a gate that was closed meanwhile.
 *
 * Those who wait hear of it by a bell, see bell.c: closing and opening ring it in the same transaction.
 */
#include <stdlib.h>

#include "base/id.h"
#include "base/number.h"
#include "kinds.h"

enum { OWN, BELL, MET = 1 };

/* ---- names */

struct dli_zk_text dli_zk_gate_path(const struct dli_place *place, char out[DLI_ZK_PATH_MAX])
{
    return dli_zk_child_path(place, (struct dli_zk_text){DLI_ZK_GATE, sizeof DLI_ZK_GATE - 1}, out);
}

/* ---- the node and the bell, in one transaction */

/* The errors of both parts, and the stamp of the bell. 0; -1: the job has failed. */
static int both(struct dli_job *job, int32_t error[2], int64_t *stamp)
{
    const struct dli_zk_answer *answer = dli_zk_got(job, 0);

    if (job->call[0].error) {
        dli_zk_fail_error(job, job->call[0].error);
        return -1;
    }
    error[OWN] = answer->part_error[OWN];
    error[BELL] = answer->part_error[BELL];
    *stamp = answer->stat.mtime;
    return 0;
}

/* rings: so many times it was rung before; -1: as often as it was. */
static void ring(struct dli_job *job, const struct dli_zk_ask *gate, int32_t rings,
                 void (*answered)(struct dli_job *job))
{
    char room[2][DLI_ZK_PATH_MAX];
    struct dli_zk_ask part[2] = {*gate, {.op = DLI_ZK_SET_DATA, .version = rings}};
    struct dli_zk_ask ask = {.op = DLI_ZK_MULTI, .part = part, .parts = 2};

    part[OWN].path = dli_zk_gate_path(job->request.place, room[0]);
    part[BELL].path = dli_zk_bell_path(job, room[1]);
    dli_zk_ask(job, &ask, 1, answered);
}

/* ---- a node that is met */

void dli_zk_gate_read(struct dli_job *job, int call)
{
    const struct dli_zk_answer *answer = dli_zk_got(job, call);
    int64_t ms = strtoll(answer->data.bytes, NULL, 10);

    job->gate.end = ms > 0 && ms < INT64_MAX / 2 ? dli_plus(answer->stat.mtime, ms) : 0;
    job->gate.version = answer->stat.version;
    job->gate.passed = !job->gate.end; /* the node of a lock with such a name */
}

/* It has been done, or somebody else was faster. */
static int is_new(int32_t error)
{
    return !error || error == DLI_ZK_NO_NODE || error == DLI_ZK_BAD_VERSION;
}

static void removed(struct dli_job *job)
{
    int32_t error[2];
    int64_t stamp;

    if (both(job, error, &stamp))
        return;
    if (error[BELL] == DLI_ZK_NO_NODE)
        dli_zk_make_bell(job, job->gate.next);
    else if (is_new(error[OWN]) && is_new(error[BELL]))
        dli_zk_again(job, job->gate.next);
    else
        dli_zk_fail_error(job, is_new(error[OWN]) ? error[BELL] : error[OWN]);
}

/* now: a stamp of the leader's clock. */
static void pass_or_not(struct dli_job *job, int64_t now)
{
    struct dli_zk_ask gate = {.op = DLI_ZK_DELETE, .version = job->gate.version};

    if (now < job->gate.end)
        job->gate.shut(job);
    else if (job->gate.version == DLI_ZK_RUN_OVER || job->gate.rings == DLI_ZK_RUN_OVER)
        dli_zk_fail_run_over(job);
    else
        ring(job, &gate, job->gate.rings, removed);
}

static void met(struct dli_job *job)
{
    const struct dli_zk_entry *entry = dli_zk_entry(dli_zk_at(job->base.lane), job->request.exchange.wish.want);
    int32_t error = job->call[MET].error;

    if (error && error != DLI_ZK_NO_NODE) {
        dli_zk_fail_error(job, error);
        return;
    }
    if (!error) {
        dli_zk_rings(job, 0);
        dli_zk_gate_read(job, MET);
    }
    if (error || job->gate.passed)
        dli_zk_again(job, job->gate.next);
    else
        pass_or_not(job, entry->ctime);
}

void dli_zk_gate_meet(struct dli_job *job, void (*open)(struct dli_job *job), void (*shut)(struct dli_job *job))
{
    char room[2][DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask[2] = {{.op = DLI_ZK_EXISTS, .path = dli_zk_bell_path(job, room[0])},
                                {.op = DLI_ZK_GET_DATA, .path = dli_zk_gate_path(job->request.place, room[1])}};

    job->gate.next = open;
    job->gate.shut = shut;
    dli_zk_ask(job, ask, 2, met);
}

/* ---- a latch */

void dli_zk_gate_try(struct dli_job *job, void (*open)(struct dli_job *job), void (*shut)(struct dli_job *job))
{
    job->gate.next = open;
    job->gate.shut = shut;
    dli_zk_ask_clock(job, pass_or_not);
}

/* ---- close and open: the gate's node and the bell, in one transaction */

static void finish(struct dli_job *job, dlock_status status)
{
    job->request.status = status;
    dli_zk_finish(job);
}

static void close_gate(struct dli_job *job);

static void closed(struct dli_job *job)
{
    int32_t error[2];
    int64_t stamp;

    if (both(job, error, &stamp))
        return;
    if (!error[OWN] && !error[BELL]) {
        finish(job, DLOCK_OK);
    } else if (error[BELL] == DLI_ZK_NO_NODE) {
        dli_zk_make_bell(job, close_gate);
    } else if (error[OWN] == DLI_ZK_NO_NODE && !job->at) {
        dli_zk_make_parents(job, job->request.place, close_gate);
    } else if (error[OWN] == DLI_ZK_NO_NODE || error[OWN] == DLI_ZK_NODE_EXISTS) {
        job->at = !job->at;
        dli_zk_again(job, close_gate);
    } else {
        dli_zk_fail_error(job, error[OWN] ? error[OWN] : error[BELL]);
    }
}

/* job.at: the node is there, as far as is known. */
static void close_gate(struct dli_job *job)
{
    char value[24];
    struct dli_zk_ask gate = {.op = job->at ? DLI_ZK_SET_DATA : DLI_ZK_CREATE,
                              .flags = DLI_ZK_PERSISTENT,
                              .mine = dli_zk_at(job->base.lane)->user[0] != '\0',
                              .version = -1};

    gate.data = (struct dli_zk_text){value, dli_decimal(value, job->request.gate_ms)};
    ring(job, &gate, -1, closed);
}

static void open_gate(struct dli_job *job);

static void opened(struct dli_job *job)
{
    int32_t error[2];
    int64_t stamp;

    if (both(job, error, &stamp))
        return;
    if (!error[OWN] && !error[BELL])
        finish(job, stamp < job->gate.end ? DLOCK_OK : DLOCK_UNCHANGED);
    else if (error[BELL] == DLI_ZK_NO_NODE)
        dli_zk_make_bell(job, open_gate);
    else if (error[OWN] == DLI_ZK_NO_NODE || error[OWN] == DLI_ZK_BAD_VERSION)
        dli_zk_again(job, open_gate);
    else
        dli_zk_fail_error(job, error[OWN] ? error[OWN] : error[BELL]);
}

static void found(struct dli_job *job)
{
    struct dli_zk_ask gate = {.op = DLI_ZK_DELETE};

    if (job->call[1].error == DLI_ZK_NO_NODE) {
        finish(job, DLOCK_UNCHANGED);
    } else if (job->call[1].error) {
        dli_zk_fail_error(job, job->call[1].error);
    } else {
        dli_zk_gate_read(job, 1);
        gate.version = job->gate.version;
        if (job->gate.passed)
            finish(job, DLOCK_UNCHANGED);
        else if (gate.version == DLI_ZK_RUN_OVER)
            dli_zk_fail_run_over(job);
        else
            ring(job, &gate, -1, opened);
    }
}

static void open_gate(struct dli_job *job)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask[2] = {{.op = DLI_ZK_SYNC}, {.op = DLI_ZK_GET_DATA}};

    ask[0].path = ask[1].path = dli_zk_gate_path(job->request.place, room);
    dli_zk_ask(job, ask, 2, found);
}

void dli_zk_gate(struct dli_job *job)
{
    job->at = 0;
    if (!dli_zk_enter(job, 0))
        return;
    if (job->request.gate_ms > 0)
        close_gate(job);
    else
        open_gate(job);
}

/* ---- for how long it is closed */

static void left(struct dli_job *job, int64_t now)
{
    job->request.gate_ms = now < job->gate.end ? job->gate.end - now : -1;
    finish(job, DLOCK_OK);
}

static void seen(struct dli_job *job)
{
    int32_t error = job->call[1].error;

    dli_zk_listened(job, 0);
    job->gate.end = 0;
    if (!error)
        dli_zk_gate_read(job, 1);
    if (error && error != DLI_ZK_NO_NODE)
        dli_zk_fail_error(job, error);
    else if (job->gate.end)
        dli_zk_ask_clock(job, left);
    else
        left(job, 0);
}

void dli_zk_gate_left(struct dli_job *job)
{
    char room[2][DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask[2] = {{.op = DLI_ZK_EXISTS}, {.op = DLI_ZK_GET_DATA}};

    if (!dli_zk_enter(job, 0))
        return;
    ask[0] = dli_zk_listen(job, room[0]);
    ask[1].path = dli_zk_gate_path(job->request.place, room[1]);
    dli_zk_ask(job, ask, 2, seen);
}
