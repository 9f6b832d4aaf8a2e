/*
 * move.c: a lock that is touched while its slot moves goes to the slot's new server at once.
 *
 * From the moment a slot is MIGRATING its old server makes no new keys there. It refuses a script that declares keys of which it has some
 * and lacks others, as nearly every script does. Whoever is refused so moves the keys of that lock by MIGRATE, as the operator will, and
 * sends the request again: the old server now has none of the keys, so it says ASK. MIGRATE moves several keys in one step of the old
 * server. A key that somebody else has moved is skipped. One that the new server has already stays: then the request waits.
 *
 * With the option replicas nobody does so: a replica that takes over from the old server knows the lock there, but not that its slot moves.
 *
 * The steps, each with one command in the request's call:
 *   PROBE    the old server: a key that nobody makes is asked for, so the answer is ASK and names the new server
 *   SECURE   the old server, with TLS only: whether it speaks TLS with other servers, since it will hand on the password
 *   KNOCK    the new server: it answers, and takes the slot. A server that hangs would make the old one wait in MIGRATE
 *   LOOK     the old server: which keys of the lock it has, and that the slot still moves
 *   MIGRATE  the old server
 *
 * A route has one owner at a time, see route.c. still and still_until of a node are atomics.
 */
#include "inner.h"

#include <string.h>

#include "sys/sys.h"

enum { MOVES_MOST = 2, STILL = 10 * 1000 * 1000 /* microseconds without another try after a refusal */ };

static const char large[] = "they are too many to move at once";
static const char twice[] = "that server has some of its keys already";
static const char named[] = "that server is known by its name only";
static const char silent[] = "that server does not answer";
static const char closed[] = "that server does not take it";
static const char plain[] = "the servers may send passwords without TLS";
static const char confirmed[] = "with the option replicas no client moves keys";
static const char refused[] = "the user may not move its keys";
static const char failed[] = "moving its keys failed";

/* A lock's request that declares several keys. A renewal of several locks comes again for each alone. */
static int has_keys(const struct dli_request *request)
{
    switch (request->verb) {
    case DLI_VERB_EXCHANGE:
    case DLI_VERB_ACQUIRE_ALL:
    case DLI_VERB_FORCE:
    case DLI_VERB_INSPECT:
    case DLI_VERB_GATE:
    case DLI_VERB_CHANGE:
        return 1;
    case DLI_VERB_RENEW:
        return request->renew.count == 1;
    default:
        return 0;
    }
}

/*
 * Where keys go. Servers keep such connections, and the next MIGRATE of an operator without a password is done by the user of the last
 * one. So the password is sent only to a server that has asked for one: an operator needs one there, too.
 */
static struct dli_new_home home_of(const struct dli_route *route)
{
    const struct dli_conn_config *config = &route->source->config;
    const struct dli_node *node = route->ask_node;

    if (!node)
        return (struct dli_new_home){.host = ""};
    return (struct dli_new_home){
        .host = node->config.target.host,
        .port = node->config.target.port,
        .username = config->username,
        .password = __atomic_load_n(&node->guarded, __ATOMIC_RELAXED) ? config->password : NULL,
    };
}

/* Encode the command of a step. 0, or -1 without memory. */
static int say(struct dli_route *route, int step, const struct dli_reply *keys)
{
    struct dli_request *request = &route->job.request;
    struct dli_buffer *out = &route->job.call.command;
    struct dli_new_home home = home_of(route);

    route->move = step;
    route->node = step == DLI_MOVE_KNOCK ? route->ask_node : route->source;
    route->job.call.asking = step == DLI_MOVE_KNOCK;
    out->size = 0;
    if (step == DLI_MOVE_SECURE)
        return dli_encode_args(out, 3, (const char *[]){"CONFIG", "GET", "tls-cluster"});
    if (step == DLI_MOVE_LOOK)
        return dli_encode_move_look(out, request);
    if (step == DLI_MOVE_MIGRATE)
        return dli_encode_migrate(out, keys, &home);
    return dli_encode_move_probe(out, request);
}

static void over(struct dli_route *route, int result)
{
    struct dli_call *call = &route->job.call;

    route->move = result;
    route->node = route->source;
    route->ask_node = NULL;
    call->asking = 0;
    call->repeated = route->repeated;
    call->repeatable = route->job.request.repeatable;
    if (result == DLI_MOVE_DONE)
        route->why = NULL;
}

/* The keys stay. pause: so would those of other locks, for the same reason. */
static void stay(struct dli_route *route, const char *why, int pause)
{
    route->why = why;
    if (pause) {
        __atomic_store_n(&route->source->still, why, __ATOMIC_RELAXED);
        __atomic_store_n(&route->source->still_until, dli_now() + STILL, __ATOMIC_RELEASE);
    }
    over(route, DLI_MOVE_STUCK);
}

int dli_move_begin(struct dli_route *route)
{
    struct dli_call *call = &route->job.call;
    struct dli_request *request = &route->job.request;

    if (call->asking || request->quarantine || !has_keys(request) || route->moves == MOVES_MOST)
        return 0;
    if (route->lane->cluster->confirm) {
        route->why = confirmed;
        return 0;
    }
    if (dli_now() < __atomic_load_n(&route->node->still_until, __ATOMIC_ACQUIRE)) {
        route->why = __atomic_load_n(&route->node->still, __ATOMIC_RELAXED);
        return 0;
    }
    route->moves++;
    route->source = route->node;
    route->ask_node = NULL;
    route->repeated = call->repeated;
    route->job.form = DLI_FORM_NONE;
    call->repeatable = 1;
    call->repeated = call->fallback = 0;
    if (say(route, DLI_MOVE_PROBE, NULL) == 0)
        return 1;
    over(route, DLI_MOVE_NONE);
    return 0;
}

/* Go on with a step. */
static void go(struct dli_route *route, int step, const struct dli_reply *keys)
{
    if (say(route, step, keys))
        stay(route, failed, 0);
}

/* Addresses only: the old server would serve nobody while it looks up a name. */
static int is_address(const char *host)
{
    return strchr(host, ':') || strspn(host, "0123456789.") == strlen(host);
}

static void probed(struct dli_route *route, const struct dli_reply *reply)
{
    struct dli_redirect redirect = dli_redirect_of(reply);
    struct dli_node *node = NULL;

    if (redirect.kind == DLI_REDIRECT_MOVED || redirect.kind == DLI_REDIRECT_ASK)
        node = dli_refresh_moved(route->lane->cluster, route->source, &redirect);
    if (redirect.kind != DLI_REDIRECT_ASK)
        over(route,
             reply->type == DLI_REPLY_ERROR && redirect.kind != DLI_REDIRECT_MOVED ? DLI_MOVE_STUCK : DLI_MOVE_DONE);
    else if (!node || node == route->source)
        over(route, DLI_MOVE_STUCK);
    else if (!is_address(node->config.target.host))
        stay(route, named, 1);
    else {
        route->ask_node = node;
        go(route, route->source->config.tls ? DLI_MOVE_SECURE : DLI_MOVE_KNOCK, NULL);
    }
}

static void secured(struct dli_route *route, const struct dli_reply *reply)
{
    if (reply->type == DLI_REPLY_ARRAY && reply->size == 2 && reply->items[1].type == DLI_REPLY_TEXT &&
        strcmp(reply->items[1].text, "yes") == 0)
        go(route, DLI_MOVE_KNOCK, NULL);
    else
        stay(route, plain, 1);
}

static int are_keys(const struct dli_reply *reply)
{
    for (size_t i = 0; i < reply->size; i++)
        if (reply->items[i].type != DLI_REPLY_TEXT)
            return 0;
    return 1;
}

static void looked(struct dli_route *route, const struct dli_reply *reply)
{
    int word = reply->type == DLI_REPLY_TEXT;

    if (word && strcmp(reply->text, "LARGE") == 0)
        stay(route, large, 0);
    else if (word || (reply->type == DLI_REPLY_ARRAY && reply->size == 0))
        over(route, DLI_MOVE_DONE); /* it stays, or is there already */
    else if (reply->type == DLI_REPLY_ARRAY && are_keys(reply))
        go(route, DLI_MOVE_MIGRATE, reply);
    else if (reply->type == DLI_REPLY_ERROR && dli_error_status(reply) == DLOCK_DENIED)
        stay(route, refused, 1);
    else
        stay(route, failed, 0);
}

static int is_denied(const struct dli_reply *reply)
{
    return dli_error_has(reply, "NOPERM") || dli_error_has(reply, "NOAUTH") || dli_error_has(reply, "WRONGPASS");
}

/* Whether the new server wants a password, and for the first time. */
static int wants_password(const struct dli_route *route, const struct dli_reply *reply)
{
    return dli_error_has(reply, "Target instance replied") && route->source->config.password[0] &&
           !__atomic_exchange_n(&route->ask_node->guarded, 1, __ATOMIC_RELAXED);
}

static void migrated(struct dli_route *route, const struct dli_reply *reply)
{
    if (reply->type == DLI_REPLY_TEXT)
        over(route, DLI_MOVE_DONE); /* OK, or NOKEY: somebody else has moved them */
    else if (reply->type != DLI_REPLY_ERROR)
        stay(route, failed, 1);
    else if (dli_error_has(reply, "BUSYKEY"))
        stay(route, twice, 0);
    else if (!is_denied(reply))
        stay(route, failed, 1);
    else if (wants_password(route, reply))
        go(route, DLI_MOVE_LOOK, NULL);
    else
        stay(route, refused, 1);
}

void dli_move_turn(struct dli_route *route, const struct dli_reply *reply)
{
    if (!reply && route->move == DLI_MOVE_KNOCK)
        stay(route, silent, 1);
    else if (!reply)
        stay(route, failed, 0);
    else if (route->move == DLI_MOVE_PROBE)
        probed(route, reply);
    else if (route->move == DLI_MOVE_SECURE)
        secured(route, reply);
    else if (route->move == DLI_MOVE_KNOCK && reply->type == DLI_REPLY_INTEGER)
        go(route, DLI_MOVE_LOOK, NULL);
    else if (route->move == DLI_MOVE_KNOCK)
        stay(route, closed, 0);
    else if (route->move == DLI_MOVE_LOOK)
        looked(route, reply);
    else
        migrated(route, reply);
}
