/*
 * latch.c: count-down latches. Belongs to lane 0's thread.
 *
 * A latch is the node <path>/count, which stays: its data is what is left, see store/change.h. An open latch has no node. A
 * change names the version that it has read. Who waits watches the node.
 *
 * Versions begin anew when a latch is set again. So below the node is a witness, with the id of the set as its name: a change
 * writes both or none. A late one does not find the witness that it knows. The ids go when the latch opens.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/number.h"
#include "base/text.h"
#include "kinds.h"

enum { PARTS = 2 };

static void read_again(struct dli_job *job);

static struct dli_zk_text path_of(const struct dli_job *job, char room[DLI_ZK_PATH_MAX])
{
    return dli_zk_child_path(job->request.place, (struct dli_zk_text){"count", 5}, room);
}

/* One number for all who wait for this latch: negative, so that it is no grant number. */
static int64_t number_of(const struct dli_place *place)
{
    return -(int64_t)(dli_hash(place->path, place->size) >> 2) - 1;
}

/* ---- a wait */

static void wait(struct dli_job *job);

/* What a wait asks, in this order. */
enum { SYNC, BELL, COUNT, GATE, ASKS };

static void answer_wait(struct dli_job *job)
{
    struct dli_answer *answer = &job->request.exchange.answer;
    int open = job->gate.open;

    answer->got = open ? DLI_TRY_GRANTED : DLI_TRY_HELD;
    answer->token = answer->tokens = open;
    answer->left = -1;
    if (open)
        dli_zk_forget(dli_zk_at(job->base.lane), number_of(job->request.place));
    job->request.status = DLOCK_OK;
    dli_zk_finish(job);
}

/* Who waited gives up. */
static void stop_waiting(struct dli_job *job)
{
    dli_zk_forget(dli_zk_at(job->base.lane), number_of(job->request.place));
    job->request.status = DLOCK_OK;
    dli_zk_finish(job);
}

static void shut_out(struct dli_job *job)
{
    dli_zk_not_granted(job, DLI_TRY_GATE);
}

/* There is a node where gates have theirs. */
static void meet_gate(struct dli_job *job)
{
    dli_zk_rings(job, BELL);
    dli_zk_gate_read(job, GATE);
    if (job->gate.passed)
        answer_wait(job);
    else
        dli_zk_gate_try(job, wait, shut_out);
}

static void waited(struct dli_job *job)
{
    int32_t error = job->call[COUNT].error, other = job->call[GATE].error;

    dli_zk_listened(job, BELL);
    job->gate.open = error == DLI_ZK_NO_NODE;
    if ((error && !job->gate.open) || (other && other != DLI_ZK_NO_NODE))
        dli_zk_fail_error(job, error && !job->gate.open ? error : other);
    else if (job->request.exchange.wish.patient && !dli_zk_hears(job))
        dli_zk_again(job, wait);
    else if (other)
        answer_wait(job);
    else
        meet_gate(job);
}

static void wait(struct dli_job *job)
{
    struct dli_zk *zk = dli_zk_at(job->base.lane);
    int64_t number = number_of(job->request.place);
    struct dli_zk_entry *entry = dli_zk_entry(zk, number);
    struct dli_zk_session *session = entry ? dli_zk_session(zk, entry->session) : NULL;
    char room[DLI_ZK_PATH_MAX], bell_room[DLI_ZK_PATH_MAX], gate_room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask[ASKS] = {{.op = DLI_ZK_SYNC}, {0}, {.op = DLI_ZK_GET_DATA}, {.op = DLI_ZK_GET_DATA}};
    int watch = job->request.exchange.wish.patient;

    if (!session && !(session = dli_zk_enter(job, 0)))
        return;
    job->session = session;
    ask[COUNT].watch = watch;
    ask[COUNT].path = ask[SYNC].path = path_of(job, room);
    ask[GATE].path = dli_zk_gate_path(job->request.place, gate_room);
    if (watch && !entry && !(entry = dli_zk_entry_new(zk, job->request.place, number))) {
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a watch");
        return;
    }
    if (entry)
        entry->session = session->number;
    if (watch && dli_zk_watch(zk, &entry->watch[0], ask[COUNT].path)) {
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a watch");
        return;
    }
    ask[BELL] = dli_zk_listen(job, bell_room);
    dli_zk_ask(job, ask, ASKS, waited);
}

void dli_zk_latch_wait(struct dli_job *job)
{
    if (job->request.exchange.wish.want)
        wait(job);
    else
        stop_waiting(job);
}

/* ---- a change */

/* From at on, up to the next space. */
static void word(const char *at, char out[DLI_OWNER_MAX])
{
    snprintf(out, DLI_OWNER_MAX, "%.*s", at ? (int)strcspn(at, " ") : 0, at ? at : "");
}

/* The name of the witness in a value; "": there is none, or it is no id: a path of others. */
static void witness_in(const char *value, char out[DLI_OWNER_MAX])
{
    static const char fit[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ:-";
    const char *at = strchr(value, '@');

    word(at ? at + 1 : NULL, out);
    if (out[strspn(out, fit)])
        out[0] = '\0';
}

static void changed(struct dli_job *job)
{
    int32_t error = dli_zk_got(job, 0)->error;

    job->request.change.writes = 0;
    if (!error)
        dli_zk_finish_change(job, DLOCK_OK, job->value);
    else if (error == DLI_ZK_NO_NODE && strcmp(job->request.change.what, "set") == 0)
        dli_zk_make_parents(job, job->request.place, read_again);
    else if (error != DLI_ZK_BAD_VERSION && error != DLI_ZK_NO_NODE && error != DLI_ZK_NODE_EXISTS)
        dli_zk_fail_error(job, error);
    else if (job->at++ < DLI_CHANGE_TRIES) /* somebody else has changed it meanwhile */
        read_again(job);
    else
        dli_zk_fail(job, DLOCK_SERVER_BUSY, "the latch changes too often");
}

/* Write the count and its witness; "": there is none. In a transaction, too, a node is made before those below it. */
static void write_both(struct dli_job *job, const struct dli_zk_ask *count, const char *witness)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask other = *count, part[PARTS], ask = {.op = DLI_ZK_MULTI, .part = part, .parts = PARTS};

    other.path.bytes = room;
    other.path.size = dli_print(room, sizeof room, "%.*s/%s", (int)count->path.size, count->path.bytes, witness);
    other.data = (struct dli_zk_text){"", 0};
    other.version = -1;
    part[0] = count->op == DLI_ZK_DELETE && *witness ? other : *count;
    part[1] = count->op == DLI_ZK_DELETE ? *count : other;
    ask.parts = *witness ? PARTS : 1;
    dli_zk_ask(job, &ask, 1, changed);
}

/* Write left, if the node has this version; DLI_ZK_NO_VERSION: if there is none. */
static void change(struct dli_job *job, int32_t version, int64_t left, const char *before)
{
    char room[DLI_ZK_PATH_MAX], value[DLI_CHANGE_VALUE], front[DLI_CHANGE_FRONT], witness[DLI_OWNER_MAX];
    struct dli_zk_ask ask = {
        .op = version == DLI_ZK_NO_VERSION ? DLI_ZK_CREATE
              : left > 0                   ? DLI_ZK_SET_DATA
                                           : DLI_ZK_DELETE,
        .flags = DLI_ZK_PERSISTENT,
        .mine = dli_zk_at(job->base.lane)->user[0] != '\0',
        .version = version,
    };

    if (version == DLI_ZK_RUN_OVER) {
        dli_zk_fail_run_over(job);
        return;
    }
    witness_in(before, witness);
    if (version == DLI_ZK_NO_VERSION)
        word(job->request.change.id, witness);
    snprintf(front, sizeof front, "%" PRId64 "@%s", left, witness);
    dli_change_write(&job->request.change, version, front, before, value);
    ask.path = path_of(job, room);
    ask.data = (struct dli_zk_text){value, strlen(value)};
    job->value = left;
    write_both(job, &ask, witness);
}

/* The node is there with this value and version, or not: DLI_ZK_NO_VERSION. */
static void decide(struct dli_job *job, int32_t version, const char *value)
{
    const char *what = job->request.change.what;
    int64_t left = dli_between(strtoll(value, NULL, 10), 0, INT64_MAX), number = job->request.change.number;

    if (strcmp(what, "count") == 0 || (version != DLI_ZK_NO_VERSION && dli_change_acted(&job->request.change, value)))
        dli_zk_finish_change(job, DLOCK_OK, left);
    else if (strcmp(what, "down") == 0 && version == DLI_ZK_NO_VERSION)
        dli_zk_finish_change(job, DLOCK_OK, 0);
    else if (dli_change_unclear(&job->request.change, value, 0))
        dli_zk_fail(job, DLOCK_UNKNOWN_OUTCOME, "the answer was lost, and the latch has changed since");
    else if (strcmp(what, "set") == 0 && version == DLI_ZK_NO_VERSION)
        change(job, version, number, "");
    else if (strcmp(what, "set") == 0)
        dli_zk_finish_change(job, DLOCK_UNCHANGED, left);
    else
        change(job, version, left > number ? left - number : 0, value);
}

static void found(struct dli_job *job)
{
    int32_t error = job->call[1].error;
    char value[DLI_CHANGE_VALUE] = "";
    const struct dli_zk_answer *answer = dli_zk_got(job, 1);

    if (error && error != DLI_ZK_NO_NODE) {
        dli_zk_fail_error(job, error);
        return;
    }
    if (!error)
        snprintf(value, sizeof value, "%s", answer->data.bytes);
    decide(job, error ? DLI_ZK_NO_VERSION : answer->stat.version, value);
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
    dli_change_begin(&job->request.change, job->call[0].sent);
    if (dli_zk_enter(job, 0))
        read_again(job);
}
