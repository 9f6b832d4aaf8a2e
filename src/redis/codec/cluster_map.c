/*
 * cluster_map.c: slots, maps and redirects, see cluster_map.h. No state.
 */
#include "cluster_map.h"

#include <stdio.h>
#include <string.h>

/* ---- slots of keys */

/* CRC-16/XMODEM: polynomial 0x1021, initial value 0, four bits at a time. */
static unsigned crc16(const char *bytes, size_t size)
{
    static const uint16_t row[16] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    unsigned crc = 0;

    for (size_t i = 0; i < size; i++) {
        unsigned byte = (unsigned char)bytes[i];

        crc = (crc << 4 ^ row[(crc >> 12 ^ byte >> 4) & 15]) & 0xffff;
        crc = (crc << 4 ^ row[(crc >> 12 ^ byte) & 15]) & 0xffff;
    }
    return crc;
}

int dli_slot_of(const char *key, size_t size)
{
    const char *open = memchr(key, '{', size), *close = NULL;

    if (open)
        close = memchr(open + 1, '}', size - (size_t)(open + 1 - key));
    if (close && close > open + 1)
        return (int)(crc16(open + 1, (size_t)(close - open - 1)) % DLI_SLOTS);
    return (int)(crc16(key, size) % DLI_SLOTS);
}

/* ---- maps */

int dli_cluster_find(const struct dli_cluster_map *map, const char *host, int port)
{
    for (int i = 0; i < map->count; i++)
        if (map->node[i].port == port && strcmp(map->node[i].host, host) == 0)
            return i;
    return -1;
}

static int is(const struct dli_reply *word, const char *text)
{
    return word->type == DLI_REPLY_TEXT && word->size == strlen(text) && memcmp(word->text, text, word->size) == 0;
}

static dlock_status malformed(dlock_error *reason)
{
    return dli_fail(reason, DLOCK_PROTOCOL_ERROR, "does not describe its cluster as Redis does");
}

/* The host that a reply names. If it names none, the host of from, the server that answered. NULL: not a valid host. */
static const char *host_of(const struct dli_reply *reply, const struct dli_target *from)
{
    if (!reply || reply->type == DLI_REPLY_NIL || (reply->type == DLI_REPLY_TEXT && reply->size == 0))
        return from->host;
    return reply->type == DLI_REPLY_TEXT && dli_is_host(reply->text, reply->size) ? reply->text : NULL;
}

/* The index of a node, which is added if it is new. -1: too many nodes. */
static int add_node(struct dli_cluster_map *map, const char *host, int port, int tls)
{
    int found = dli_cluster_find(map, host, port);
    struct dli_target *target = &map->node[map->count];

    if (found >= 0 || map->count == DLI_CLUSTER_NODES)
        return found;
    memset(target, 0, sizeof *target);
    snprintf(target->host, sizeof target->host, "%s", host);
    target->port = port;
    target->tls = tls;
    snprintf(target->text, sizeof target->text, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    return map->count++;
}

static dlock_status own_slots(struct dli_cluster_map *map, const struct dli_reply *first, const struct dli_reply *last,
                              int node, dlock_error *reason)
{
    if (first->type != DLI_REPLY_INTEGER || last->type != DLI_REPLY_INTEGER || first->integer < 0 ||
        first->integer > last->integer || last->integer >= DLI_SLOTS)
        return malformed(reason);
    for (int64_t slot = first->integer; slot <= last->integer; slot++)
        map->owner[slot] = (uint8_t)node;
    return DLOCK_OK;
}

static void begin(struct dli_cluster_map *map)
{
    map->count = map->replicas = 0;
    memset(map->owner, DLI_NOBODY, sizeof map->owner);
}

/* Add a primary and set *index to its index. */
static dlock_status primary(struct dli_cluster_map *map, const struct dli_reply *host, const struct dli_reply *port,
                            const struct dli_target *from, int *index, dlock_error *reason)
{
    const char *name = host_of(host, from);

    if (!name || !port || port->type != DLI_REPLY_INTEGER || port->integer < 1 || port->integer > 65535)
        return malformed(reason);
    *index = add_node(map, name, (int)port->integer, from->tls);
    if (*index >= 0)
        return DLOCK_OK;
    return dli_fail(reason, DLOCK_UNSUPPORTED, "describes a cluster of more than %d primaries", DLI_CLUSTER_NODES);
}

/* Add a replica of primary number of. It is skipped if it has no usable host and port, or if the map is full. */
static void add_replica(struct dli_cluster_map *map, const struct dli_reply *host, const struct dli_reply *port,
                        const struct dli_target *from, int of)
{
    struct dli_map_replica *replica = &map->replica[map->replicas];
    const char *name = host_of(host, from);

    if (map->replicas == DLI_CLUSTER_REPLICAS || !name || !port || port->type != DLI_REPLY_INTEGER ||
        port->integer < 1 || port->integer > 65535)
        return;
    snprintf(replica->host, sizeof replica->host, "%s", name);
    replica->port = (int)port->integer;
    replica->of = (uint8_t)of;
    map->replicas++;
}

/* ---- CLUSTER SHARDS: each map is a flat array: name, value, name, value */

static const struct dli_reply *value_of(const struct dli_reply *map, const char *name)
{
    for (size_t i = 0; map->type == DLI_REPLY_ARRAY && i + 1 < map->size; i += 2)
        if (is(&map->items[i], name))
            return &map->items[i + 1];
    return NULL;
}

static int is_primary(const struct dli_reply *node)
{
    const struct dli_reply *role = value_of(node, "role");

    return role && (is(role, "master") || is(role, "primary"));
}

/* The primary of a shard: the last one that is online, else the first. NULL: none. */
static const struct dli_reply *primary_of(const struct dli_reply *nodes)
{
    const struct dli_reply *found = NULL, *health;

    for (size_t i = 0; nodes->type == DLI_REPLY_ARRAY && i < nodes->size; i++) {
        if (!is_primary(&nodes->items[i]))
            continue;
        health = value_of(&nodes->items[i], "health");
        if (!found || (health && is(health, "online")))
            found = &nodes->items[i];
    }
    return found;
}

static const struct dli_reply *host_in(const struct dli_reply *node)
{
    const struct dli_reply *host = value_of(node, "endpoint");

    return host && is(host, "?") ? value_of(node, "ip") : host;
}

static const struct dli_reply *port_in(const struct dli_reply *node, const struct dli_target *from)
{
    const struct dli_reply *port = from->tls ? value_of(node, "tls-port") : NULL;

    return port ? port : value_of(node, "port");
}

/* The servers of a shard beside its primary. One that was the primary before is one of them until it is forgotten. */
static void read_others(struct dli_cluster_map *map, const struct dli_reply *nodes, const struct dli_reply *primary,
                        const struct dli_target *from, int of)
{
    for (size_t i = 0; i < nodes->size; i++)
        if (&nodes->items[i] != primary)
            add_replica(map, host_in(&nodes->items[i]), port_in(&nodes->items[i], from), from, of);
}

static dlock_status read_shard(struct dli_cluster_map *map, const struct dli_reply *slots,
                               const struct dli_reply *nodes, const struct dli_reply *node,
                               const struct dli_target *from, dlock_error *reason)
{
    int index = -1;
    dlock_status status = primary(map, host_in(node), port_in(node, from), from, &index, reason);

    if (status == DLOCK_OK)
        read_others(map, nodes, node, from, index);
    for (size_t i = 0; status == DLOCK_OK && i + 1 < slots->size; i += 2)
        status = own_slots(map, &slots->items[i], &slots->items[i + 1], index, reason);
    return status;
}

dlock_status dli_cluster_read_shards(struct dli_cluster_map *map, const struct dli_reply *reply,
                                     const struct dli_target *from, dlock_error *reason)
{
    dlock_status status = DLOCK_OK;

    begin(map);
    if (reply->type != DLI_REPLY_ARRAY)
        return malformed(reason);
    for (size_t i = 0; status == DLOCK_OK && i < reply->size; i++) {
        const struct dli_reply *slots = value_of(&reply->items[i], "slots"), *node = NULL;
        const struct dli_reply *nodes = value_of(&reply->items[i], "nodes");

        if (!slots || slots->type != DLI_REPLY_ARRAY || !nodes)
            return malformed(reason);
        if (slots->size > 0 && (node = primary_of(nodes)))
            status = read_shard(map, slots, nodes, node, from, reason);
        else if (nodes->type == DLI_REPLY_ARRAY)
            read_others(map, nodes, NULL, from, DLI_NOBODY);
    }
    return status;
}

/* ---- CLUSTER SLOTS: first slot, last slot, {host, port, ...} of the primary, then of its replicas */

/* The reply repeats a replica for each range of its primary: add it only once. */
static void read_slots_replica(struct dli_cluster_map *map, const struct dli_reply *node, const struct dli_target *from,
                               int of)
{
    int last = map->replicas - 1;

    if (node->type != DLI_REPLY_ARRAY || node->size < 2)
        return;
    add_replica(map, &node->items[0], &node->items[1], from, of);
    for (int i = 0; last + 1 < map->replicas && i <= last; i++)
        if (map->replica[i].port == map->replica[last + 1].port &&
            strcmp(map->replica[i].host, map->replica[last + 1].host) == 0)
            map->replicas--;
}

dlock_status dli_cluster_read_slots(struct dli_cluster_map *map, const struct dli_reply *reply,
                                    const struct dli_target *from, dlock_error *reason)
{
    dlock_status status = DLOCK_OK;

    begin(map);
    if (reply->type != DLI_REPLY_ARRAY)
        return malformed(reason);
    for (size_t i = 0; status == DLOCK_OK && i < reply->size; i++) {
        const struct dli_reply *range = &reply->items[i], *node;
        int index = -1;

        if (range->type != DLI_REPLY_ARRAY || range->size < 3)
            return malformed(reason);
        node = &range->items[2];
        if (node->type != DLI_REPLY_ARRAY || node->size < 2)
            return malformed(reason);
        status = primary(map, &node->items[0], &node->items[1], from, &index, reason);
        if (status == DLOCK_OK)
            status = own_slots(map, &range->items[0], &range->items[1], index, reason);
        for (size_t j = 3; status == DLOCK_OK && j < range->size; j++)
            read_slots_replica(map, &range->items[j], from, index);
    }
    return status;
}

/* ---- redirects */

/* Read a decimal number of at most limit at *at and move *at behind it. -1: there is none. */
static int number(const char **at, int limit)
{
    const char *start = *at;
    int value = 0;

    while (**at >= '0' && **at <= '9' && value <= limit)
        value = value * 10 + *(*at)++ - '0';
    return *at == start || value > limit ? -1 : value;
}

/* Parse "1234 host:port". The host may be empty, or an IPv6 address. */
static struct dli_redirect place(enum dli_redirect_kind kind, const char *at)
{
    static const struct dli_redirect bad = {.kind = DLI_REDIRECT_LATER, .slot = -1, .down = 1};
    struct dli_redirect redirect = {.kind = kind};
    const char *colon = strrchr(at, ':');
    size_t size;

    redirect.slot = number(&at, DLI_SLOTS - 1);
    if (redirect.slot < 0 || *at++ != ' ' || !colon || colon < at)
        return bad;
    size = (size_t)(colon - at);
    if (size >= sizeof redirect.host)
        return bad;
    memcpy(redirect.host, at, size);
    at = colon + 1;
    redirect.port = number(&at, 65535);
    if (redirect.port < 1 || *at || (size > 0 && !dli_is_host(redirect.host, size)))
        return bad;
    return redirect;
}

struct dli_redirect dli_redirect_of(const struct dli_reply *reply)
{
    static const char *const later[] = {"TRYAGAIN ", "CLUSTERDOWN ", "LOADING ", "MASTERDOWN "};

    if (reply->type != DLI_REPLY_ERROR)
        return (struct dli_redirect){.kind = DLI_REDIRECT_NONE};
    if (strncmp(reply->text, "MOVED ", 6) == 0)
        return place(DLI_REDIRECT_MOVED, reply->text + 6);
    if (strncmp(reply->text, "ASK ", 4) == 0)
        return place(DLI_REDIRECT_ASK, reply->text + 4);
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
        if (strncmp(reply->text, later[i], strlen(later[i])) == 0)
            return (struct dli_redirect){.kind = DLI_REDIRECT_LATER, .slot = -1, .down = i > 0};
    return (struct dli_redirect){.kind = DLI_REDIRECT_NONE};
}
