/*
 * bell.c: nodes of all clients below dlock_gates: bells, and a clock. Belongs to lane 0's thread.
 *
 * Every closing, opening and removal of a gate writes to a bell. Names share bells, so that a session watches few of them, and
 * only once it has a reason to. A session that hears one looks again at all names that it waits for. A bell is watched before
 * the name is looked at: what happens later is heard.
 *
 * The clock is the leader's: it stamps what is written.
 */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "kinds.h"

enum { BELLS = 64, DIGITS = 2 };

static int bell_of(const char *name, size_t size)
{
    return (int)(dli_hash(name, size) % BELLS);
}

static int bell_of_job(const struct dli_job *job)
{
    const struct dli_place *place = job->request.place;

    return bell_of(dli_zk_place_name(place), place->size - (size_t)place->chroot - 1);
}

struct dli_zk_text dli_zk_bell_path(const struct dli_job *job, char out[DLI_ZK_PATH_MAX])
{
    char number[DIGITS + 1];

    snprintf(number, sizeof number, "%02d", bell_of_job(job));
    return dli_zk_child_path(dli_zk_at(job->base.lane)->bells, (struct dli_zk_text){number, DIGITS}, out);
}

static struct dli_zk_text clock_path(const struct dli_job *job, char out[DLI_ZK_PATH_MAX])
{
    return dli_zk_child_path(dli_zk_at(job->base.lane)->bells, (struct dli_zk_text){"clock", 5}, out);
}

/* ---- watched */

void dli_zk_rings(struct dli_job *job, int call)
{
    job->gate.rings = dli_zk_got(job, call)->stat.version;
}

int dli_zk_hears(const struct dli_job *job)
{
    return (int)(job->session->bells >> bell_of_job(job) & 1);
}

struct dli_zk_ask dli_zk_listen(struct dli_job *job, char room[DLI_ZK_PATH_MAX])
{
    job->session->bells |= UINT64_C(1) << bell_of_job(job);
    return (struct dli_zk_ask){.op = DLI_ZK_EXISTS, .watch = 1, .path = dli_zk_bell_path(job, room)};
}

void dli_zk_listened(struct dli_job *job, int call)
{
    int32_t error = job->call[call].error;

    if (error && error != DLI_ZK_NO_NODE)
        job->session->bells &= ~(UINT64_C(1) << bell_of_job(job));
}

int dli_zk_rung(struct dli_zk_session *session, struct dli_zk_text path)
{
    struct dli_zk_text parent = dli_zk_path(session->zk->bells);
    int number = 0;

    if (path.size != parent.size + 1 + DIGITS || memcmp(path.bytes, parent.bytes, parent.size) != 0 ||
        path.bytes[parent.size] != '/')
        return 0;
    for (size_t i = parent.size + 1; i < path.size; i++) {
        if (path.bytes[i] < '0' || path.bytes[i] > '9')
            return 0;
        number = 10 * number + (path.bytes[i] - '0');
    }
    if (number >= BELLS)
        return 0;
    session->bells &= ~(UINT64_C(1) << number);
    session->rung++;
    session->zk->followed = 1;
    dli_zk_gates_doubt(session->zk);
    return 1;
}

/* All who wait look again. Waiters in memory have no node: their process asks for the gate of each name. */
void dli_zk_gates_doubt(struct dli_zk *zk)
{
    if (zk->followed && !zk->lanes.shut)
        zk->store.hooks->up(zk->store.owner);
}

void dli_zk_gates_step(struct dli_zk *zk)
{
    if (zk->followed || !__atomic_load_n(&zk->follows, __ATOMIC_ACQUIRE))
        return;
    zk->followed = 1;
    dli_zk_gates_doubt(zk);
}

/* ---- made */

static void shared_made(struct dli_job *job);

static void make_shared(struct dli_job *job)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_CREATE, .flags = DLI_ZK_PERSISTENT};

    ask.path = job->gate.bell ? dli_zk_bell_path(job, room) : clock_path(job, room);
    dli_zk_ask(job, &ask, 1, shared_made);
}

static void shared_made(struct dli_job *job)
{
    int32_t error = job->call[0].error;

    if (error == DLI_ZK_NO_NODE)
        dli_zk_make_parents(job, dli_zk_at(job->base.lane)->bells, make_shared);
    else if (error && error != DLI_ZK_NODE_EXISTS)
        dli_zk_fail_error(job, error);
    else
        dli_zk_again(job, job->gate.again);
}

/* Make the bell, or the clock; then run again. */
static void share(struct dli_job *job, int bell, void (*again)(struct dli_job *job))
{
    job->gate.bell = bell;
    job->gate.again = again;
    make_shared(job);
}

/* ---- the clock */

static void read_clock(struct dli_job *job);

static void clock_read(struct dli_job *job)
{
    int32_t error = job->call[0].error;

    if (error == DLI_ZK_NO_NODE)
        share(job, 0, read_clock);
    else if (error)
        dli_zk_fail_error(job, error);
    else
        job->gate.timed(job, dli_zk_got(job, 0)->stat.mtime);
}

static void read_clock(struct dli_job *job)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_SET_DATA, .version = -1, .path = clock_path(job, room)};

    dli_zk_ask(job, &ask, 1, clock_read);
}

void dli_zk_ask_clock(struct dli_job *job, void (*timed)(struct dli_job *job, int64_t now))
{
    job->gate.timed = timed;
    read_clock(job);
}

void dli_zk_make_bell(struct dli_job *job, void (*made)(struct dli_job *job))
{
    share(job, 1, made);
}
