/*
 * permit.c: permit semaphores, as Curator's InterProcessSemaphoreV2 keeps them. Belongs to lane 0's thread.
 *
 * Who wants permits stands in line below <path>/locks, as for a mutex. The first one makes a node below <path>/leases for each
 * permit, all in one transaction. When there are no more nodes than permits in all, it has its own and leaves the line. Else
 * it waits as the first one, so that nobody is passed: it watches the leases and the total. total.c keeps how many there are.
 *
 * When its node in line is deleted while it has nodes of permits, it keeps these if they are enough. Else it gives them back
 * and stands in line anew: whoever is the first one now could wait for them for ever.
 */
#include <stdlib.h>

#include "kinds.h"

/* What a look reads: after a transaction or a sync. */
enum { FIRST, LEASES, TOTAL, NAMES, READS };
static const char one_deleted[] = "a node of these permits was deleted";
static const char run_over[] = "the numbers below this name have run over: remove its node at a quiet time";

static void list(struct dli_job *job);

static struct dli_zk *zk_of(const struct dli_job *job)
{
    return dli_zk_at(job->base.lane);
}

static struct dli_zk_entry *entry_of(const struct dli_job *job)
{
    return dli_zk_entry(zk_of(job), job->request.exchange.wish.want);
}

static int permits_of(const struct dli_job *job)
{
    return (int)job->request.exchange.wish.permits;
}

const struct dli_zk_children *dli_zk_children_of(struct dli_job *job, int call)
{
    const struct dli_zk_children *all = &dli_zk_got(job, call)->children;
    int32_t error = job->call[call].error;

    if (error && error != DLI_ZK_NO_NODE)
        dli_zk_fail_error(job, error);
    else if (all->odd)
        dli_zk_fail(job, DLOCK_UNFIT, run_over);
    else if (all->foreign)
        dli_zk_fail(job, DLOCK_UNFIT, "a node that stands in line here has a name of more than 255 bytes");
    else
        return all;
    return NULL;
}

/* ---- it has its permits, or goes away */

static void left_line(struct dli_job *job)
{
    int32_t error = job->call[0].error;

    if (error && error != DLI_ZK_NO_NODE)
        dli_zk_fail_error(job, error);
    else
        dli_zk_granted(job, entry_of(job), -1);
}

static void taken(struct dli_job *job)
{
    struct dli_zk_entry *entry = entry_of(job);
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_DELETE, .version = -1};

    dli_zk_unwatch(zk_of(job), &entry->watch[1]);
    ask.path = dli_zk_numbered(job->kind, job->line, job->request.exchange.want, entry->place, room);
    dli_zk_ask(job, &ask, 1, left_line);
}

/* Its node in line goes, too. */
static void leaves(struct dli_job *job)
{
    dli_zk_go_away(job, job->gate.closed ? DLI_TRY_GATE : DLI_TRY_HELD);
}

static void gave_back(struct dli_job *job)
{
    struct dli_zk_entry *entry = entry_of(job);
    int32_t error = dli_zk_got(job, FIRST)->error;

    if (error == DLI_ZK_NO_NODE && permits_of(job) > 1) {
        dli_zk_fail(job, DLOCK_SERVER_ERROR, one_deleted);
    } else if (error && error != DLI_ZK_NO_NODE) {
        dli_zk_fail_error(job, error);
    } else if (entry->outside && !job->gate.closed) {
        dli_zk_stand_anew(job);
    } else {
        entry->permits = DLI_ZK_PERMITS_NONE;
        leaves(job);
    }
}

static void give_back(struct dli_job *job, int closed)
{
    job->gate.closed = closed;
    dli_zk_delete_leases(job, job->request.exchange.want, entry_of(job)->lease, permits_of(job), gave_back);
}

static void shut_out(struct dli_job *job)
{
    give_back(job, 1);
}

/* ---- wait as the first in line */

static void listened(struct dli_job *job)
{
    dli_zk_listened(job, 0);
    list(job);
}

static void watched(struct dli_job *job)
{
    const struct dli_zk_entry *entry = entry_of(job);

    if (!entry->watch[0].spot || !entry->watch[1].spot || !dli_zk_hears(job) ||
        !job->call[0].error) /* it is there now, or something happened */
        dli_zk_again(job, list);
    else if (job->call[0].error != DLI_ZK_NO_NODE)
        dli_zk_fail_error(job, job->call[0].error);
    else
        dli_zk_not_granted(job, DLI_TRY_HELD);
}

/* The look has set both watches, if both nodes are there. */
static void wait(struct dli_job *job)
{
    const struct dli_zk_entry *entry = entry_of(job);
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_EXISTS, .watch = 1};

    if (!entry->watch[0].spot || !entry->watch[1].spot) {
        dli_zk_again(job, list);
    } else if (!job->gate.heard || !dli_zk_hears(job)) {
        ask = dli_zk_listen(job, room);
        dli_zk_ask(job, &ask, 1, listened);
    } else if (!job->call[TOTAL].error) {
        dli_zk_not_granted(job, DLI_TRY_HELD);
    } else {
        ask.path = dli_zk_total_path(job->request.place, room);
        dli_zk_ask(job, &ask, 1, watched);
    }
}

/* ---- a look */

static void create(struct dli_job *job);

static void decide(struct dli_job *job, int own, int all, int64_t total, int gate)
{
    struct dli_zk_entry *entry = entry_of(job);

    if (own < permits_of(job) && own > 0) {
        dli_zk_fail(job, DLOCK_SERVER_ERROR, one_deleted);
    } else if (own == 0 && entry->outside) {
        dli_zk_stand_anew(job);
    } else if (own == 0) {
        entry->permits = DLI_ZK_PERMITS_NONE;
        dli_zk_again(job, create);
    } else if (gate && !job->gate.passed) {
        dli_zk_gate_meet(job, list, shut_out);
    } else if (all <= total) {
        entry->permits = DLI_ZK_PERMITS_TAKEN;
        entry->place = entry->seq;
        entry->seq = entry->lease;
        taken(job);
    } else if (!dli_zk_stands(job) || entry->outside) { /* whoever is the first in line now needs them */
        give_back(job, 0);
    } else {
        wait(job);
    }
}

/* Whether this is one of its nodes, of which the first one has that number. Those of an older session do not count. */
static int is_own(const struct dli_job *job, const struct dli_zk_child *child, int64_t first)
{
    return child->seq >= first && child->seq - first < permits_of(job) &&
           dli_zk_is_owners(child->name, job->request.exchange.want);
}

static void judge(struct dli_job *job)
{
    const struct dli_zk_children *names = dli_zk_children_of(job, NAMES);
    const struct dli_zk_children *leases = names ? dli_zk_children_of(job, LEASES) : NULL;
    int64_t total;
    int own = 0;

    if (!leases)
        return;
    for (int i = 0; i < leases->count; i++)
        own += is_own(job, &leases->child[i], entry_of(job)->lease);
    if (dli_zk_total_of(job, TOTAL, &total) == 0)
        decide(job, own, leases->count, total, names->gate);
}

/* Ask for this, and read the leases and the total behind it, with watches. */
static void ask_and_look(struct dli_job *job, const struct dli_zk_ask *first, void (*answered)(struct dli_job *job))
{
    struct dli_zk_entry *entry = entry_of(job);
    char room[DLI_ZK_PATH_MAX];
    int watch = dli_zk_stands(job);
    struct dli_zk_ask ask[READS] = {
        *first,
        {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->request.place->leases), .watch = watch},
        {.op = DLI_ZK_GET_DATA, .path = dli_zk_total_path(job->request.place, room), .watch = watch},
        {.op = DLI_ZK_GET_CHILDREN, .path = dli_zk_path(job->request.place)}};

    job->gate.heard = dli_zk_hears(job);
    if (watch && (dli_zk_watch(zk_of(job), &entry->watch[0], ask[LEASES].path) ||
                  dli_zk_watch(zk_of(job), &entry->watch[1], ask[TOTAL].path)))
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a watch");
    else
        dli_zk_ask(job, ask, READS, answered);
}

static void list(struct dli_job *job)
{
    struct dli_zk_ask sync = {.op = DLI_ZK_SYNC, .path = dli_zk_path(job->request.place)};

    ask_and_look(job, &sync, judge);
}

/* ---- new nodes */

/* Nothing of this session's is there. */
static void make(struct dli_job *job)
{
    if (entry_of(job)->outside)
        dli_zk_stand_anew(job);
    else
        create(job);
}

/* The node of the first permit has the token. */
static void number_read(struct dli_job *job)
{
    struct dli_zk_entry *entry = entry_of(job);

    if (job->call[0].error) {
        dli_zk_fail_error(job, job->call[0].error);
    } else if (dli_zk_got(job, 0)->stat.owner != job->session->ticket.id) { /* of a session that ends at any time */
        dli_zk_again(job, make);
    } else {
        entry->czxid = dli_zk_got(job, 0)->stat.czxid;
        entry->permits = DLI_ZK_PERMITS_KNOWN;
        list(job);
    }
}

static void read_first(struct dli_job *job)
{
    char room[DLI_ZK_PATH_MAX];
    struct dli_zk_ask ask = {.op = DLI_ZK_GET_DATA};

    ask.path = dli_zk_numbered(job->request.kind, job->request.place->leases, job->request.exchange.want,
                               entry_of(job)->lease, room);
    dli_zk_ask(job, &ask, 1, number_read);
}

static void not_created(struct dli_job *job, int32_t error)
{
    entry_of(job)->permits = DLI_ZK_PERMITS_NONE;
    if (error == DLI_ZK_NO_NODE)
        dli_zk_make_parents(job, job->request.place->leases, create);
    else
        dli_zk_fail_error(job, error);
}

static void created(struct dli_job *job)
{
    struct dli_zk_entry *entry = entry_of(job);
    const struct dli_zk_answer *answer = dli_zk_got(job, FIRST);

    if (answer->error) {
        not_created(job, answer->error);
        return;
    }
    entry->lease = answer->seq;
    if (answer->seq < 0 || answer->seq > INT32_MAX - permits_of(job)) {
        dli_zk_fail(job, DLOCK_UNFIT, run_over);
    } else if (permits_of(job) > 1) {
        read_first(job);
    } else {
        entry->czxid = answer->stat.czxid;
        entry->permits = DLI_ZK_PERMITS_KNOWN;
        judge(job);
    }
}

static void create(struct dli_job *job)
{
    char room[DLI_ZK_PATH_MAX];
    int count = permits_of(job);
    struct dli_zk_text path =
        dli_zk_node(job->request.kind, job->request.place->leases, job->request.exchange.want, room);
    struct dli_zk_ask *part = malloc((size_t)count * sizeof *part);
    struct dli_zk_ask ask = {.op = DLI_ZK_MULTI, .part = part, .parts = count};

    if (!part) {
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for the permits");
        return;
    }
    for (int i = 0; i < count; i++)
        part[i] = (struct dli_zk_ask){.op = DLI_ZK_CREATE,
                                      .path = path,
                                      .flags = DLI_ZK_EPHEMERAL_SEQUENTIAL,
                                      .mine = zk_of(job)->user[0] != '\0'};
    entry_of(job)->permits = DLI_ZK_PERMITS_SENT;
    ask_and_look(job, count == 1 ? part : &ask, created);
    free(part);
}

/* ---- after a lost reply */

/* The first node of those that were made last. Older ones are of an older session. -1: there is none. */
static int64_t last_made(const struct dli_job *job, const struct dli_zk_children *all)
{
    int64_t last = -1, first = -1;

    for (int i = all->count - 1; i >= 0; i--) {
        const struct dli_zk_child *child = &all->child[i];

        if (!dli_zk_is_owners(child->name, job->request.exchange.want))
            continue;
        last = last < 0 ? child->seq : last;
        first = last - child->seq < permits_of(job) ? child->seq : first;
    }
    return first;
}

static void searched(struct dli_job *job)
{
    struct dli_zk_entry *entry = entry_of(job);
    const struct dli_zk_children *all = dli_zk_children_of(job, 1);
    int64_t first;

    if (!all)
        return;
    first = last_made(job, all);
    entry->lease = first < 0 ? 0 : (int32_t)first;
    if (entry->lease > INT32_MAX - permits_of(job))
        dli_zk_fail(job, DLOCK_UNFIT, run_over);
    else if (first >= 0)
        read_first(job);
    else
        make(job);
}

/* ---- begin */

void dli_zk_permit_take(struct dli_job *job)
{
    const struct dli_zk_entry *entry = entry_of(job);
    struct dli_zk_text path = dli_zk_path(job->request.place->leases);
    struct dli_zk_ask ask[2] = {{.op = DLI_ZK_SYNC, .path = path}, {.op = DLI_ZK_GET_CHILDREN, .path = path}};

    if (entry->permits == DLI_ZK_PERMITS_TAKEN)
        taken(job);
    else if (entry->permits == DLI_ZK_PERMITS_KNOWN)
        list(job);
    else if (entry->permits == DLI_ZK_PERMITS_SENT)
        dli_zk_ask(job, ask, 2, searched);
    else
        create(job);
}
