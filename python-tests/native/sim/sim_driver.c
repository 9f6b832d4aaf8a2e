/*
 * sim_driver.c: stands in for the watchdog around the engine: sends wishes, hands in answers and messages, renews,
 * keeps the timer, and subscribes. See sim.h and src/engine/mutex.h.
 *
 * Driver mutants (--driver-mutant N): 10 a renewal that waits for the one in flight is sent even when its number was
 * released meanwhile; 13 no second probe once the subscription is there; 19 a request that is repeated with EVAL keeps
 * its old stamp (harmless, must pass); 20 the lock passes to a waiter that is not the next in line; 21 a release does not
 * name those that were served.
 */
#include "sim.h"

#include <inttypes.h>
#include <string.h>

enum { STUCK_ALARMS = 50 };

void sim_driver_start(struct sim *s, struct sim_peer *peer)
{
    peer->rules = s->plan.rules;
    peer->rules.numbers = &peer->numbers;
    peer->rules.highest = s->world == SIM_MUTEX ? NULL : &peer->highest; /* there all locks have one name */
    peer->readers = peer->rules;
    peer->readers.called = 0;
    peer->readers.no_line = 1;
    for (int i = 0; i < s->plan.locks; i++)
        dli_mutex_init(&peer->side[i].m, s->world == SIM_RW && i == 0 ? &peer->readers : &peer->rules, sim_random(s));
    sim_owner_start(s, peer);
}

void sim_driver_end(const struct sim *s, struct sim_peer *peer)
{
    for (int i = 0; i < s->plan.locks; i++)
        dli_active_fini(&peer->side[i].m);
}

/* ---- sending */

static void send_exchange(struct sim *s, struct sim_peer *peer, int lock, const struct dli_wish *wish)
{
    struct sim_request *request = sim_alloc(s, sizeof *request);

    *request = (struct sim_request){.kind = SIM_EXCHANGE, .peer = peer->index, .lock = lock, .wish = *wish};
    request->from_peer = peer->side[lock].giver;
    request->from_number = peer->side[lock].given;
    request->stamp = sim_clock(s, peer);
    request->attempt = wish->attempt;
    if (wish->want)
        peer->side[lock].wanted = wish->want;
    sim_turns_tell(s, &peer->side[lock], request);
    request->stays = wish->drop && sim_others_wait(s, peer, lock);
    peer->side[lock].exchange = request;
    dli_mutex_sent(&peer->side[lock].m, wish, request->stamp);
    sim_trace(s, "peer %d sends want %" PRId64 " drop %" PRId64 " mode %d seq %" PRId64, peer->index, wish->want,
              wish->drop, (int)wish->mode, wish->seq);
    sim_send(s, request);
}

/* The server does not have the script: send the whole text, with a new stamp. */
static void send_again(struct sim *s, struct sim_request *old)
{
    struct sim_peer *peer = &s->peer[old->peer];
    struct sim_request *request = sim_alloc(s, sizeof *request);

    *request = *old;
    request->full = 1;
    request->done = 0;
    if (s->driver_mutant != 19)
        request->stamp = sim_clock(s, peer);
    if (request->kind == SIM_EXCHANGE) {
        peer->side[request->lock].exchange = request;
        dli_mutex_sent(&peer->side[request->lock].m, &request->wish, request->stamp);
    } else {
        peer->renewal = request;
    }
    sim_fired(s, SIM_NOSCRIPT);
    sim_send(s, request);
}

static int unknown_script(const struct sim_request *request)
{
    return request->status == DLOCK_OK && request->result.error && !request->full &&
           strncmp(request->result.text, "NOSCRIPT", 8) == 0;
}

static dlock_status status_of(const struct sim_result *result)
{
    if (strncmp(result->text, "OOM", 3) == 0)
        return DLOCK_SERVER_OUT_OF_MEMORY;
    if (strncmp(result->text, "LOADING", 7) == 0)
        return DLOCK_SERVER_LOADING;
    if (strncmp(result->text, "BUSY", 4) == 0)
        return DLOCK_SERVER_BUSY;
    return DLOCK_SERVER_ERROR;
}

/* Put the due renewals into one request; at most one is in flight. */
static struct sim_request *gather_renewals(struct sim *s, struct sim_peer *peer)
{
    struct sim_request *request = NULL;

    for (int i = 0; i < s->plan.locks; i++) {
        const struct dli_mutex *m = &peer->side[i].m;
        int64_t number = peer->side[i].due, attempt = dli_lease_attempt(m->grant.lease, peer->rules.attempt);

        if (sim_shared(s) && request) /* one row each: the sides have scripts of their own */
            continue;
        peer->side[i].due = 0;
        if (!number || ((number != m->want.number || !dli_mutex_owned(m)) && s->driver_mutant != 10))
            continue;
        sim_check_renewal(s, peer, number);
        if (!request)
            request = sim_alloc(s, sizeof *request);
        if (request->rows == 0 || attempt < request->attempt)
            request->attempt = attempt;
        request->row[request->rows].lock = i;
        request->row[request->rows].number = number;
        request->row[request->rows++].lease = m->grant.lease;
    }
    return request;
}

static void send_renewal(struct sim *s, struct sim_peer *peer)
{
    struct sim_request *request;

    for (int i = 0; i < s->plan.locks; i++) {
        int64_t number = dli_mutex_renewal(&peer->side[i].m, sim_clock(s, peer));

        if (!number)
            continue;
        peer->side[i].due = number;
        dli_mutex_renewing(&peer->side[i].m);
    }
    if (peer->renewal || !(request = gather_renewals(s, peer)))
        return;
    request->kind = SIM_RENEW;
    request->peer = peer->index;
    request->lock = request->row[0].lock;
    request->conn = 1;
    request->stamp = sim_clock(s, peer);
    peer->renewal = request;
    s->stats.renewals += request->rows;
    sim_trace(s, "peer %d renews %" PRId64, peer->index, request->row[0].number);
    sim_send(s, request);
}

/* ---- after anything has changed in the engine */

static void drain(struct sim *s, struct sim_side *side)
{
    struct dli_link *link;

    while ((link = dli_ring_pop(&side->m.reports))) {
        struct sim_claim *claim = DLI_OBJECT(link, struct sim_claim, c.report);
        int reports = claim->c.reports;

        claim->c.reports = 0;
        if (reports & DLI_REPORT_AT_RISK)
            sim_check_at_risk(s, claim);
        if (!(reports & DLI_REPORT_LOST))
            continue;
        sim_check_lost(s, claim);
        sim_owner_told(s, claim);
    }
    while ((link = dli_ring_pop(&side->m.done))) {
        struct sim_claim *claim = DLI_OBJECT(link, struct sim_claim, c.link);

        if (claim->c.state == DLI_CLAIM_HELD)
            sim_check_granted(s, claim);
        sim_owner_told(s, claim);
    }
}

static void set_alarm(struct sim *s, struct sim_peer *peer, int lock)
{
    struct sim_side *side = &peer->side[lock];
    int64_t alarm = dli_mutex_alarm(&side->m), at = sim_when(s, peer, alarm);

    side->alarm_version++;
    if (alarm == DLI_NEVER)
        return;
    if (at < s->now)
        at = s->now;
    at += sim_below(s, SIM_MS / 2);
    if (sim_fault(s, SIM_TIMER_LATE))
        at += sim_below(s, s->plan.late);
    sim_at(s, at, SIM_ALARM, peer->index, side->alarm_version * SIM_LOCKS + lock, NULL);
}

static void mind_channels(struct sim *s, struct sim_peer *peer, int lock)
{
    struct sim_side *side = &peer->side[lock];

    if (side->m.line.needed && peer->line == DLI_LINE_ABSENT && !peer->subscriber) {
        sim_subscriber_open(s, peer);
        sim_subscribe(s, peer, SIM_OWN_CHANNEL);
    }
    if (!peer->subscriber || peer->subscriber->silent)
        return;
    if (side->m.line.listen && !side->subscribed) {
        side->subscribed = 1;
        sim_subscribe(s, peer, sim_shared(s) ? 0 : lock);
    } else if (!side->m.line.listen && side->m.line.listening && !sim_shared(s)) {
        side->subscribed = side->m.line.listening = 0;
        sim_subscribe(s, peer, SIM_UNSUBSCRIBE + lock);
    }
}

void sim_service(struct sim *s, struct sim_peer *peer, int lock)
{
    struct sim_side *side = &peer->side[lock];
    struct dli_wish wish;

    drain(s, side);
    dli_mutex_tick(&side->m, sim_clock(s, peer));
    drain(s, side);
    if (!side->exchange && dli_mutex_wish(&side->m, peer->line, sim_clock(s, peer), &wish))
        send_exchange(s, peer, lock, &wish);
    send_renewal(s, peer);
    mind_channels(s, peer, lock);
    dli_active_trim(&side->m);
    set_alarm(s, peer, lock);
}

void sim_alarm(struct sim *s, struct sim_event event)
{
    struct sim_peer *peer = &s->peer[event.who];
    int lock = (int)(event.number % SIM_LOCKS);
    struct sim_side *side = &peer->side[lock];

    if (event.number / SIM_LOCKS != side->alarm_version)
        return;
    sim_service(s, peer, lock);
    side->idle_turns = dli_mutex_alarm(&side->m) <= sim_clock(s, peer) ? side->idle_turns + 1 : 0;
    if (side->idle_turns > STUCK_ALARMS)
        sim_violated(s, "alarm: peer %d is woken again and again with nothing to do", peer->index);
}

/* ---- answers */

static void read_try(const int64_t *value, int count, int64_t block, struct dli_answer *answer)
{
    answer->got = count > 0 && value[0] == 1   ? DLI_TRY_GRANTED
                  : count > 0 && value[0] == 0 ? DLI_TRY_HELD
                                               : DLI_TRY_WRONG_KIND;
    if (answer->got == DLI_TRY_GRANTED) {
        answer->token = value[1];
        answer->tokens = count > 2 ? value[2] : block;
    }
    if (answer->got == DLI_TRY_HELD) {
        answer->left = value[1] < 0 ? -1 : value[1] * SIM_MS;
        answer->foreign = count > 2 && value[2] >= 1;
        answer->spent = count > 2 && value[2] == 2;
        if (count > 5)
            answer->seen = (struct dli_seen){value[3], value[4], answer->left};
    }
}

static struct dli_answer read_answer(const struct sim *s, const struct sim_request *request)
{
    const struct sim_result *result = &request->result;
    struct dli_answer answer = {.status = request->status, .sent = request->sent, .repeated = request->twice};
    int64_t block = s->world == SIM_MUTEX ? request->wish.block : 1;

    if (request->status != DLOCK_OK)
        return answer;
    if (result->error) {
        answer.status = status_of(result);
        answer.sent = answer.refused = 1;
    } else if (!request->wish.want) {
        answer.released = result->value[0] >= 1;
    } else if (request->wish.drop) {
        answer.released = result->value[0] == 1;
        read_try(result->value + 1, result->count - 1, block, &answer);
    } else {
        read_try(result->value, result->count, block, &answer);
    }
    return answer;
}

static void count_answer(struct sim *s, struct sim_peer *peer, const struct sim_request *request,
                         const struct dli_answer *answer)
{
    if (answer->status != DLOCK_OK) {
        sim_disturb(s, peer, s->now);
        return;
    }
    if (request->wish.drop) {
        struct sim_number *number = sim_number(s, peer, request->wish.drop);

        number->released = 1;
        number->buried = !s->forgot_at || request->ran_at > s->forgot_at;
    }
    if (request->wish.drop && answer->released && !peer->side[request->lock].m.active->leaving &&
        !peer->side[request->lock].m.active->drop.lingered)
        s->stats.undone++;
    if (request->wish.want && answer->got == DLI_TRY_WRONG_KIND)
        sim_violated(s, "wire: wrong kind of lock");
}

/* The tokens of a grant, and the next ones whom it may serve. */
static void took_grant(const struct sim *s, struct sim_peer *peer, struct sim_side *side, const char *next)
{
    dli_spare_keep(&peer->spare, &side->m.tokens);
    if (s->world == SIM_TURNS)
        sim_turns_begin(side, next);
}

void sim_exchange_done(struct sim *s, struct sim_request *request)
{
    struct sim_peer *peer = &s->peer[request->peer];
    struct sim_side *side = &peer->side[request->lock];
    struct dli_answer answer;

    if (side->exchange != request)
        return;
    if (unknown_script(request)) {
        send_again(s, request);
        return;
    }
    side->exchange = NULL;
    answer = read_answer(s, request);
    count_answer(s, peer, request, &answer);
    sim_trace(s, "peer %d is answered: status %d got %d token %" PRId64 " left %" PRId64, peer->index, answer.status,
              (int)answer.got, answer.token, answer.left);
    dli_mutex_answer(&side->m, &answer, sim_clock(s, peer));
    if (sim_shared(s) && answer.got == DLI_TRY_GRANTED && dli_mutex_owned(&side->m) &&
        request->wish.want == side->m.want.number)
        took_grant(s, peer, side, request->result.text);
    sim_service(s, peer, request->lock);
}

void sim_renewal_done(struct sim *s, struct sim_request *request)
{
    struct sim_peer *peer = &s->peer[request->peer];
    int good = request->status == DLOCK_OK && !request->result.error;

    if (peer->renewal != request)
        return;
    if (unknown_script(request)) {
        send_again(s, request);
        return;
    }
    peer->renewal = NULL;
    if (!good)
        sim_disturb(s, peer, s->now);
    for (int i = 0; i < request->rows; i++) {
        struct dli_mutex *m = &peer->side[request->row[i].lock].m;
        int kept = good ? (int)request->result.value[i] : -1;

        dli_mutex_renewed(m, request->row[i].number, kept, request->row[i].lease, request->stamp, sim_clock(s, peer));
        sim_service(s, peer, request->row[i].lock);
    }
}

/* ---- messages and the line */

/* A grant message: 1 if the text is one. */
static int read_grant(const struct sim *s, const char *text, int64_t said[4], char next[64], char name[64])
{
    if (sim_fair(s))
        return sscanf(text, "fair %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %63s %63s", &said[0], &said[1],
                      &said[2], &said[3], next, name) == 6;
    return sscanf(text, "grant %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %63s", &said[0], &said[1], &said[2],
                  &said[3], name) == 5;
}

static void turns_pushed(struct sim *s, struct sim_peer *peer, const int64_t said[4], const char *next)
{
    int lock = sim_turns_side(s, peer, said[0]);
    struct sim_side *side = &peer->side[lock];

    if (side->exchange && side->exchange->wish.want == said[0])
        sim_fired(s, SIM_PUSH_FIRST);
    s->stats.pushed_grants++;
    if (lock == s->plan.locks - 1) {
        sim_turns_stray(s, peer, said[0]);
    } else if (!dli_mutex_owned(&side->m)) {
        dli_mutex_pushed(&side->m, said[0], said[1], said[2], said[3], sim_clock(s, peer));
        if (dli_mutex_owned(&side->m))
            took_grant(s, peer, side, next);
    }
    sim_service(s, peer, lock);
}

void sim_pushed(struct sim *s, struct sim_peer *peer, const struct sim_push *push)
{
    int64_t number, said[4], ms, now = sim_clock(s, peer);
    char name[64], next[64];
    int lock = push->lock;

    sim_trace(s, "peer %d is told: %s", peer->index, push->text);
    for (int k = 1; lock >= 0 && sim_shared(s) && k < s->plan.locks; k++) { /* all sides get it */
        dli_mutex_hint(&peer->side[k].m, now);
        sim_service(s, peer, k);
    }
    if (lock >= 0) {
        dli_mutex_hint(&peer->side[lock].m, now);
    } else if (read_grant(s, push->text, said, next, name)) {
        for (lock = 0; lock < s->plan.locks - 1 && strcmp(s->lock[lock].name, name) != 0; lock++)
            ;
        if (s->world == SIM_TURNS) {
            turns_pushed(s, peer, said, next);
            return;
        }
        if (peer->side[lock].exchange && peer->side[lock].exchange->wish.want == said[0])
            sim_fired(s, SIM_PUSH_FIRST);
        s->stats.pushed_grants++;
        dli_mutex_pushed(&peer->side[lock].m, said[0], said[1], said[2], said[3], now);
    } else if (sscanf(push->text, "open %" SCNd64 " %" SCNd64 " %63s", &number, &ms, name) == 3) {
        for (lock = 0; lock < s->plan.locks - 1 && strcmp(s->lock[lock].name, name) != 0; lock++)
            ;
        dli_mutex_hint(&peer->side[lock].m, now + ms * SIM_MS);
    } else if (sscanf(push->text, "free %63s", name) == 1) {
        for (lock = s->plan.locks - 1; lock > 0; lock--) { /* side 0 is served with the rest */
            dli_mutex_hint(&peer->side[lock].m, now);
            sim_service(s, peer, lock);
        }
    } else {
        sim_violated(s, "wire: message not understood: %s", push->text);
        return;
    }
    sim_service(s, peer, lock);
}

void sim_subscribed(struct sim *s, struct sim_peer *peer, int what)
{
    if (what == SIM_OWN_CHANNEL)
        peer->line = DLI_LINE_READY;
    for (int i = 0; i < s->plan.locks; i++) {
        struct sim_side *side = &peer->side[i];

        if (what != SIM_OWN_CHANNEL && what != i && !sim_shared(s))
            continue;
        if (what != SIM_OWN_CHANNEL && side->subscribed)
            side->m.line.listening = 1;
        if (s->driver_mutant != 13)
            dli_mutex_probe(&side->m, sim_clock(s, peer));
        sim_service(s, peer, i);
    }
}

void sim_line_broken(struct sim *s, struct sim_peer *peer)
{
    sim_trace(s, "peer %d notices that its subscriptions are gone", peer->index);
    peer->line = DLI_LINE_BROKEN;
    for (int i = 0; i < s->plan.locks; i++)
        peer->side[i].subscribed = peer->side[i].m.line.listening = 0;
    sim_at(s, s->now + sim_between(s, SIM_MS, 200 * SIM_MS), SIM_SUB_RETRY, peer->index, 0, NULL);
}

void sim_line_retry(struct sim *s, struct sim_peer *peer)
{
    sim_subscriber_open(s, peer);
    sim_subscribe(s, peer, SIM_OWN_CHANNEL);
    for (int i = 0; i < s->plan.locks; i++)
        mind_channels(s, peer, i);
}

void sim_close_process(struct sim *s, struct sim_peer *peer)
{
    sim_trace(s, "peer %d closes", peer->index);
    for (int i = 0; i < s->plan.locks; i++) {
        dli_mutex_close(&peer->side[i].m, sim_clock(s, peer));
        sim_service(s, peer, i);
    }
}
