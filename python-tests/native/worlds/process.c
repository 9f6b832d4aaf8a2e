/*
 * process.c: one process with its client: its beginning, what happens to it, its end. See worlds.h.
 */
#include <stdlib.h>
#include <string.h>

#include "watchdog/watchdog.h"
#include "worlds.h"

enum { SILENT = 40 * 1000, RECLAIMED = 99 };

static void fail(const char *what, const dlock_error *box)
{
    fprintf(stderr, "dlock_worlds: %s: %s\n", what, dlock_error_message(box));
    exit(2);
}

static void set(dlock_options *options, const char *name, int64_t value, dlock_error *box)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)value);
    if (dlock_options_set(options, name, text, box) != DLOCK_OK)
        fail(name, box);
}

static int32_t kind_of(int side)
{
    if (w.latches)
        return DLOCK_KIND_LATCH;
    if (w.plan.permits)
        return w.plan.plain ? DLOCK_KIND_SEMAPHORE : DLOCK_KIND_PERMIT_SEMAPHORE;
    if (w.plan.shared)
        return side ? DLOCK_KIND_WRITE : DLOCK_KIND_READ;
    return w.plan.fair ? DLOCK_KIND_FAIR : DLOCK_KIND_MUTEX;
}

static void open_lock(struct w_process *process, int i, int side, dlock_error *box)
{
    dlock_options *options = dlock_options_new();
    char name[16];

    snprintf(name, sizeof name, "lock%d", i);
    set(options, "permits", w.plan.permits ? w_permits_of(side) : 1, box);
    if (dlock_lock_new(process->client, kind_of(side), name, strlen(name), options, &process->lock[i][side], box) !=
        DLOCK_OK)
        fail("a lock", box);
    dlock_options_free(options);
}

static void open_locks(struct w_process *process, dlock_error *box)
{
    for (int i = 0; i < w.plan.locks; i++)
        for (int side = 0; side < w_sides(); side++)
            open_lock(process, i, side, box);
}

int w_process_acts(const struct w_process *process, w_run *run, void *what, int64_t number)
{
    if (process->closing || process->crashed)
        return 0;
    if (w.now >= process->paused_until)
        return 1;
    w_at(process->paused_until, run, what, number);
    return 0;
}

struct w_process *w_process_any(void)
{
    for (int i = 0; i < 20; i++) {
        struct w_process *process = &w.process[w_below(w.plan.processes)];

        if (!process->crashed && !process->closing)
            return process;
    }
    return NULL;
}

/* Each process gives each semaphore its permits, until it hears that it has them. */
static void give_permits(void *what, int64_t number)
{
    struct w_process *process = what, *before = w.current;

    if (number == INT64_MIN || !w_process_acts(process, give_permits, process, number))
        return;
    w.current = process;
    if (dlock_semaphore_submit_set(process->lock[number][0], w.plan.permits, number, NULL) != DLOCK_OK)
        w_violated("the permits of lock %lld cannot be set", (long long)number);
    w_process_turn(process);
    w.current = before;
}

/* Permits of dead processes come back. Of those that live, each has renewed its since then. */
static void reclaim(void *what, int64_t number)
{
    struct w_process *process = what, *before = w.current;

    if (number == INT64_MIN || !w_process_acts(process, reclaim, process, number))
        return;
    w.current = process;
    if (dlock_semaphore_submit_reclaim(process->lock[number][0], SILENT, RECLAIMED, NULL) == DLOCK_OK)
        w_process_turn(process);
    w.current = before;
    w_at(w.now + w_between(W_SECOND, 5 * W_SECOND), reclaim, process, number);
}

void w_process_told(struct w_process *process, const int64_t *field)
{
    int64_t number = field[DLOCK_FIELD_TAG], status = field[DLOCK_FIELD_STATUS];

    w_trace("process %d %s permits of %lld: %lld", process->index, number == RECLAIMED ? "reclaims" : "gives",
            (long long)number, (long long)status);
    if (number != RECLAIMED && status != DLOCK_OK && status != DLOCK_UNCHANGED)
        w_at(w.now + w_between(W_MS, W_SECOND), give_permits, process, number);
}

void w_process_begin(struct w_process *process)
{
    dlock_options *options = dlock_options_new();
    dlock_error *box = dlock_error_new();
    char url[80];

    w.current = process;
    snprintf(url, sizeof url, "%s://%s", w.model->scheme,
             w.model->together ? "world" : "127.0.0.1:1000,127.0.0.1:1001,127.0.0.1:1002");
    set(options, "lease_ms", w.plan.lease / W_MS, box);
    set(options, "connects_per_second", 50, box);
    if (w.plan.watched)
        set(options, "safety_ms", 60000, box);
    process->event = dlock_event_new();
    if (dlock_client_open(url, options, &process->client, box) != DLOCK_OK)
        fail("open", box);
    open_locks(process, box);
    dlock_options_free(options);
    dlock_error_free(box);
    for (int i = 0; i < w.plan.locks && w.plan.permits; i++) {
        w_at(w.now + w_below(W_SECOND), give_permits, process, i);
        if (w.plan.plain)
            w_at(w.now + w_below(W_SECOND), reclaim, process, i);
    }
    for (int i = 0; i < w.plan.owners; i++)
        w_owner_begin(&process->owner[i]);
}

/* ---- what happens to it */

void w_process_close(struct w_process *process)
{
    struct w_process *before = w.current;

    if (process->closing || process->crashed)
        return;
    w_trace("process %d closes", process->index);
    process->closing = 1;
    w.current = process;
    for (int i = 0; i < w.plan.owners; i++)
        w_owner_gone(&process->owner[i]);
    dlock_client_submit_close(process->client, 5000, NULL);
    w_process_turn(process);
    w.current = before;
}

static void cut_mine(struct w_wire *wire)
{
    if (wire->process == w.current)
        w_cut(wire);
}

/* What is left of it is only freed. */
void w_process_crash(struct w_process *process)
{
    struct w_process *before = w.current;

    w_trace("process %d crashes", process->index);
    for (int i = 0; i < w.plan.owners; i++)
        w_owner_gone(&process->owner[i]);
    process->crashed = 1;
    process->paused_until = INT64_MAX;
    process->alarm++;
    w.current = process;
    w_wires_of(-1, cut_mine);
    w.current = before;
}

void w_process_end(struct w_process *process)
{
    w.current = process;
    process->busy = 1;
    for (int i = 0; i < w.plan.locks; i++)
        for (int side = 0; side < w_sides(); side++)
            dlock_lock_free(process->lock[i][side]);
    dlock_client_free(process->client);
    if (process->loop)
        dli_loop_turn(process->loop, &process->next);
    dlock_event_free(process->event);
    process->loop = NULL;
}
