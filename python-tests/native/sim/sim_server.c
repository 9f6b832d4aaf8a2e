/*
 * sim_server.c: the server runs a request: our real script with the arguments that its head lists, or the steps of a
 * Redisson client. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ARGS = 12, WIDE = 80 };

/* Arguments being built. */
struct args {
    struct sim_word word[ARGS];
    char text[ARGS][WIDE];
    int count;
};

static void add_number(struct args *args, int64_t number)
{
    char *text = args->text[args->count];

    snprintf(text, WIDE, "%" PRId64, number);
    args->word[args->count++] = sim_word(text);
}

static void add_text(struct args *args, const char *text)
{
    args->word[args->count++] = sim_word(text);
}

static void add_owner(struct sim *s, struct args *args, struct sim_peer *peer, int64_t number, int lock)
{
    char *text = args->text[args->count];

    sim_kinds_owner(s, lock, peer->index, number, text);
    args->word[args->count++] = sim_word(text);
}

static void add_try(struct sim *s, struct args *args, struct sim_peer *peer, const struct sim_request *request)
{
    const struct dli_wish *wish = &request->wish;

    add_owner(s, args, peer, wish->want, request->lock);
    add_number(args, (peer->rules.lives ? peer->rules.lives : wish->lease) / SIM_MS);
    add_number(args, wish->permits ? wish->permits : wish->block);
    add_number(args, wish->mode);
    add_number(args, wish->listening);
    add_number(args, wish->beat / SIM_MS);
    add_number(args, peer->rules.keep_ms);
    add_number(args, wish->seq);
}

static void add_served(struct args *args, const struct dli_next *served)
{
    char *text = args->text[args->count], *at = text;

    for (int i = 0; i < served->count; i++)
        at += sprintf(at, "%" PRId64 ",", served->number[i]);
    args->word[args->count++] = sim_word(text);
}

static const char *script_of(const struct sim *s, const struct sim_request *request)
{
    static const char *const names[] = {"", "renew", "force", "", "red_acquire", "red_renew", "red_release"};

    if (s->world)
        return sim_kinds_script(s, request);
    if (request->operation == SIM_OPERATION_ADOPT)
        return "adopt";
    if (request->operation == SIM_OPERATION_EXPORT)
        return "export";
    if (request->kind != SIM_EXCHANGE)
        return names[request->kind];
    if (request->wish.first)
        return "disown";
    if (!request->wish.want)
        return "release";
    return request->wish.drop ? "pass" : "acquire";
}

/* The giver, the heir, the delay, earlier tries, the proof; or the owner, the lease, the attempt, token, lease, the proof. */
static void add_transfer(struct sim *s, struct args *args, const struct sim_request *request)
{
    add_owner(s, args, &s->peer[request->from_peer], request->from_number, request->lock);
    if (request->operation == SIM_OPERATION_ADOPT) {
        add_owner(s, args, &s->peer[request->peer], request->row[0].number, request->lock);
        add_number(args, 0);
        add_number(args, request->row[0].first);
    } else {
        add_number(args, request->row[0].lease / SIM_MS);
        add_number(args, request->offer);
        add_number(args, request->token);
        add_number(args, request->row[0].lease / SIM_MS);
    }
    add_number(args, request->offer);
}

/* How many permits; and whether the process stays in line. */
static void add_release(const struct sim *s, struct args *args, const struct sim_request *request)
{
    if (s->world != SIM_RW)
        add_number(args, request->wish.permits);
    add_number(args, request->stays);
}

static void fill_args(struct sim *s, const struct sim_request *request, struct args *args)
{
    struct sim_peer *peer = &s->peer[request->peer];
    const struct sim_lock *lock = &s->lock[request->lock];
    const struct dli_wish *wish = &request->wish;

    if (request->kind == SIM_EXCHANGE && wish->want)
        add_try(s, args, peer, request);
    if (s->world && request->kind == SIM_EXCHANGE && wish->want) {
        add_text(args, lock->channel);
        add_text(args, "");
        add_number(args, wish->block);
    }
    if (!s->world && request->kind == SIM_EXCHANGE && wish->want && !wish->drop) {
        add_number(args, wish->seen.ends);
        add_number(args, wish->seen.token);
        add_number(args, wish->seen.left / SIM_MS + 1);
    }
    if (request->kind == SIM_EXCHANGE && wish->first) {
        add_owner(s, args, peer, wish->drop, request->lock);
        add_owner(s, args, &s->peer[request->from_peer], request->from_number, request->lock);
        add_number(args, wish->first);
    } else if (request->kind == SIM_EXCHANGE && wish->drop) {
        add_owner(s, args, peer, wish->drop, request->lock);
        add_text(args, lock->channel);
        if (!wish->want)
            add_number(args, wish->listening);
        add_number(args, wish->rest / SIM_MS);
        add_number(args, wish->doubt);
        if (!wish->want && request->served.count)
            add_served(args, &request->served);
        else if (!wish->want && !sim_fair(s))
            add_release(s, args, request);
    } else if (request->operation >= SIM_OPERATION_EXPORT) {
        add_transfer(s, args, request);
    } else if (request->kind == SIM_RENEW) {
        for (int i = 0; i < request->rows; i++) {
            add_owner(s, args, peer, request->row[i].number, request->lock);
            add_number(args, (peer->rules.lives ? peer->rules.lives : request->row[i].lease) / SIM_MS);
            if (peer->rules.permits)
                add_number(args, s->plan.rules.permits);
        }
    } else if (request->kind == SIM_RECLAIM) {
        add_text(args, "reclaim");
        add_number(args, 0);
        add_number(args, s->reclaims++); /* its id */
        add_text(args, lock->channel);
    } else if (request->kind == SIM_FORCED) {
        add_text(args, lock->channel);
    } else if (request->kind >= SIM_RED_ACQUIRE) {
        add_owner(s, args, peer, request->number, request->lock);
        add_number(args, request->lease / SIM_MS);
        add_text(args, lock->channel);
        add_number(args, s->plan.fenced);
    }
}

static int fill_keys(struct sim *s, const struct sim_request *request, struct sim_word *keys)
{
    const struct sim_lock *lock = &s->lock[request->lock];

    if (s->world)
        return sim_kinds_keys(s, request, keys);
    if (request->operation >= SIM_OPERATION_EXPORT || request->wish.first) {
        keys[0] = sim_word(lock->name);
        keys[1] = sim_word(lock->about);
        return 2;
    }
    if (request->kind == SIM_RENEW) {
        for (int i = 0; i < request->rows; i++)
            keys[i] = sim_word(s->lock[request->row[i].lock].name);
        return request->rows;
    }
    keys[0] = sim_word(lock->name);
    keys[1] = sim_word(lock->fence);
    keys[2] = sim_word(lock->line);
    keys[3] = sim_word(lock->about);
    keys[4] = sim_word(lock->gate);
    return 5;
}

/* Refuse before the script runs: 1. */
static int refused(struct sim *s, struct sim_request *request, int script)
{
    const char *why = NULL;

    if (s->now < s->error_until)
        why = s->error_kind == SIM_LOADING ? "LOADING Redis is loading the dataset in memory"
                                           : "BUSY Redis is busy running a script.";
    else if (!request->full && !s->loaded[script])
        why = "NOSCRIPT No matching script. Please use EVAL.";
    if (!why)
        return 0;
    sim_trace(s, "  server: %s", why);
    request->result.error = 1;
    request->result.count = 0;
    snprintf(request->result.text, sizeof request->result.text, "%s", why);
    return 1;
}

static void trace_script(struct sim *s, const struct sim_request *request, const struct args *args)
{
    const struct sim_result *result = &request->result;

    if (!s->verbose)
        return;
    printf("%10" PRId64 "   server: peer %d %s%s %s", s->now, request->peer, request->copy ? "(late) " : "",
           script_of(s, request), s->lock[request->lock].name);
    for (int i = 0; i < args->count; i++)
        printf(" %.*s", (int)args->word[i].size, args->word[i].at);
    printf(" ->%s%s", result->error ? " " : "", result->error ? result->text : "");
    for (int i = 0; i < result->count; i++)
        printf(" %" PRId64, result->value[i]);
    putchar('\n');
}

static int64_t number_in(const struct sim_text *text, int from)
{
    char digits[SIM_TEXT_MAX + 1];

    memcpy(digits, text->at, text->size);
    digits[text->size] = '\0';
    return from < text->size ? strtoll(digits + from, NULL, 10) : 0;
}

struct sim_seen sim_look(struct sim *s, int index)
{
    struct sim_lock *lock = &s->lock[index];
    struct sim_seen seen = {.peer = -1, .expires = -1};
    struct sim_key *key;

    s->store.now = sim_server_clock(s);
    key = sim_find_key(&s->store, sim_word(lock->fence));
    if (key)
        seen.fence = number_in(&key->value, 0);
    key = sim_find_key(&s->store, sim_word(lock->name));
    if (!key || (sim_shared(s) && s->world != SIM_TURNS))
        return seen;
    if (key->count != 1)
        sim_violated(s, "exclusion: %d owners in the hash of %s", key->count, lock->name);
    for (int i = 0; i < s->plan.procs + s->plan.foreign; i++)
        if (memcmp(s->peer[i].uuid, key->fields[0].name.at, 36) == 0)
            seen.peer = i;
    seen.number = number_in(&key->fields[0].name, 37);
    seen.expires = key->expires;
    if (seen.peer < 0 || key->expires < 0)
        sim_violated(s, "wire: %s has an owner unknown to us or no TTL", lock->name);
    return seen;
}

/* The token counters are gone, as after a flush, or after their expiry. */
static void forget(struct sim *s)
{
    for (int i = 0; i < s->plan.locks; i++) {
        struct sim_key *key = sim_find_key(&s->store, sim_word(s->lock[i].fence));

        if (key)
            sim_drop_key(&s->store, key);
    }
}

/* A script takes longer than a microsecond. */
static void tick(struct sim *s)
{
    int64_t now = sim_server_clock(s);

    if (s->plan.chance[SIM_FORGET] || s->forgets || s->world == SIM_TURNS)
        s->ran_at = now > s->ran_at ? now : now + 1;
}

/* A number whose release was answered is not granted again, however late a request for it comes. */
static void check_stray(struct sim *s, const struct sim_request *request)
{
    const struct sim_result *result = &request->result;
    int at = request->wish.drop ? 1 : 0;

    if (request->kind == SIM_EXCHANGE && request->wish.want && result->count > at && result->value[at] == 1 &&
        sim_number(s, &s->peer[request->peer], request->wish.want)->buried)
        sim_violated(s, "stray: peer %d is granted %" PRId64 ", whose release was answered", request->peer,
                     request->wish.want);
}

void sim_execute(struct sim *s, struct sim_request *request)
{
    int script = sim_script_find(s->scripts, script_of(s, request));
    struct sim_word keys[7];
    struct sim_seen before[SIM_LOCKS];
    struct args args = {.count = 0};
    int key_count = fill_keys(s, request, keys);
    int rows = request->kind == SIM_RENEW ? request->rows : 1, held;

    if (request->kind <= SIM_FORCED && refused(s, request, script))
        return;
    if (request->full)
        s->loaded[script] = 1;
    fill_args(s, request, &args);
    tick(s);
    if (sim_fault(s, SIM_FORGET))
        forget(s);
    if (sim_fault(s, SIM_FLUSH))
        sim_forget(s);
    request->ran_at = s->now;
    for (int i = 0; i < rows; i++)
        before[i] = sim_look(s, request->kind == SIM_RENEW ? request->row[i].lock : request->lock);
    held = s->world ? sim_kinds_held(s, request) : 0;
    s->store.now = sim_server_clock(s);
    s->store.oom = s->now < s->oom_until;
    s->stats.scripts++;
    sim_script_run(s->scripts, script, keys, key_count, args.word, args.count, &request->result);
    trace_script(s, request, &args);
    for (int i = 0; i < request->result.count; i++)
        sim_mix(s, (uint64_t)request->result.value[i]);
    if (s->world == SIM_MUTEX && request->result.count == 6 && request->result.value[0] == 0 &&
        request->result.value[5])
        sim_violated(s, "clock: %" PRId64 " ms of a lease were cut off, and no clock was set back",
                     request->result.value[5]);
    if (request->result.error && strncmp(request->result.text, "OOM", 3) != 0)
        sim_violated(s, "script %s failed: %s", script_of(s, request), request->result.text);
    check_stray(s, request);
    if (sim_shared(s)) {
        if (s->world == SIM_TURNS)
            sim_turns_ran(s, request, &before[0]);
        sim_kinds_ran(s, request, held);
        return;
    }
    for (int i = 0; i < rows; i++)
        sim_check_script(s, request, request->kind == SIM_RENEW ? request->row[i].lock : request->lock, before[i]);
    if (s->world == SIM_FAIR)
        sim_fair_ran(s, &before[0]);
}
