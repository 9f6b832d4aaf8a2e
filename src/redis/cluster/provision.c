/*
 * provision.c: the operator confirms that all servers remember every lock. The marker of each slot needs one request;
 * AT_ONCE steps send them. A step that is answered goes on with the next slot. The last step to end reports to the
 * caller.
 *
 * next, busy and status are atomics. reason belongs to the step that sets status. A step belongs to its request.
 */
#include "inner.h"

#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

enum { AT_ONCE = 128, TRIES = 3 };

struct provision;

struct step {
    struct provision *all;
    struct dli_request *request;
    struct dli_place place; /* only its slot and marker are set */
    int tries;              /* for the current slot */
    dlock_error reason;
};

struct provision {
    struct dli_lane *lane;
    struct dli_request *original;
    int next, busy;      /* the next slot; number of active steps */
    dlock_status status; /* of the first step that failed */
    dlock_error reason;
    uint32_t carried, done; /* carried: its caller sleeps on the futex done */
    struct step step[AT_ONCE];
};

static void provision_free(struct provision *all)
{
    for (int i = 0; i < AT_ONCE; i++)
        dli_job_free(all->step[i].request);
    free(all);
}

/* The last step has ended. */
static void finish(struct provision *all)
{
    struct dli_request *original = all->original;

    original->status = all->status;
    original->sent = all->status != DLOCK_OK;
    original->refused = original->repeated = 0;
    if (all->status != DLOCK_OK)
        dli_fail(original->reason, all->status, "%s",
                 all->reason.message[0] ? all->reason.message : dli_status_find(all->status)->text);
    if (all->carried) {
        __atomic_store_n(&all->done, 1, __ATOMIC_RELEASE); /* all is its caller's from here on */
        dli_futex_wake(&all->done, 1);
        return;
    }
    provision_free(all);
    original->done(original);
}

static void leave(struct provision *all)
{
    if (__atomic_sub_fetch(&all->busy, 1, __ATOMIC_ACQ_REL) == 0)
        finish(all);
}

static void fail(struct provision *all, dlock_status status, const dlock_error *reason)
{
    dlock_status none = DLOCK_OK;

    if (__atomic_compare_exchange_n(&all->status, &none, status, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        all->reason = *reason;
}

/* The step may be freed by the time this returns. */
static void push_request(struct step *step)
{
    struct provision *all = step->all;
    dlock_status status;

    step->tries++;
    step->reason.code = DLOCK_OK;
    step->reason.message[0] = '\0';
    if ((status = dli_route_push(all->lane, step->request, 0)) == DLOCK_OK)
        return;
    fail(all, status, &step->reason);
    leave(all);
}

static void go_on(struct step *step)
{
    struct provision *all = step->all;
    int slot = __atomic_fetch_add(&all->next, 1, __ATOMIC_RELAXED);

    if (slot >= DLI_SLOTS || __atomic_load_n(&all->status, __ATOMIC_ACQUIRE) != DLOCK_OK) {
        leave(all);
        return;
    }
    step->place.slot = (int16_t)slot;
    step->place.marked = 1;
    step->tries = 0;
    push_request(step);
}

/* A broken connection fails all requests under way on it: each is tried again on the next connection. */
static void answered(struct dli_request *request)
{
    struct step *step = request->context;

    if (request->status == DLOCK_UNREACHABLE && step->tries < TRIES && dli_now() < request->deadline) {
        push_request(step);
        return;
    }
    if (request->status != DLOCK_OK)
        fail(step->all, request->status, &step->reason);
    go_on(step);
}

static struct provision *make(struct dli_lane *lane, struct dli_request *original)
{
    struct provision *all = calloc(1, sizeof *all);

    if (!all)
        return NULL;
    all->lane = lane;
    all->original = original;
    for (int i = 0; i < AT_ONCE; i++) {
        struct step *step = &all->step[i];

        if (!(step->request = dli_route_new())) {
            provision_free(all);
            return NULL;
        }
        step->all = all;
        step->request->verb = DLI_VERB_PROVISION;
        step->request->quarantine = original->quarantine;
        step->request->place = &step->place;
        step->request->deadline = original->deadline;
        step->request->repeatable = 1;
        step->request->done = answered;
        step->request->context = step;
        step->request->reason = &step->reason;
    }
    return all;
}

/* all may be freed by the time this returns, unless it is carried. */
static void begin(struct provision *all)
{
    all->busy = AT_ONCE;
    for (int i = 0; i < AT_ONCE; i++)
        go_on(&all->step[i]);
}

dlock_status dli_provision_push(struct dli_lane *lane, struct dli_request *request)
{
    struct provision *all = make(lane, request);

    if (!all)
        return DLOCK_OUT_OF_MEMORY;
    begin(all);
    return DLOCK_OK;
}

void dli_provision_execute(struct dli_lane *lane, struct dli_request *request)
{
    struct provision *all = make(lane, request);

    if (!all) {
        request->status = dli_fail(request->reason, DLOCK_OUT_OF_MEMORY, "no memory for the markers of all slots");
        return;
    }
    all->carried = 1;
    begin(all);
    while (!__atomic_load_n(&all->done, __ATOMIC_ACQUIRE))
        dli_futex_sleep(&all->done, 0);
    provision_free(all);
}
