/*
 * fuzz_map.c: replies of cluster servers: CLUSTER SHARDS, CLUSTER SLOTS, MOVED and ASK. The first byte chooses the
 * command (S, T with TLS: shards; L, M: slots; others: an error); the rest is the reply, see fuzz_words.h.
 */
#include "fuzz_words.h"
#include "redis/codec/cluster_map.h"

static struct dli_target from(int tls)
{
    struct dli_target target = {.host = "10.1.2.3", .port = 7000, .tls = tls, .text = "10.1.2.3:7000"};

    return target;
}

static void check_map(const struct dli_cluster_map *map, const struct dli_target *said)
{
    REQUIRE(map->count >= 0 && map->count <= DLI_CLUSTER_NODES);
    REQUIRE(map->replicas >= 0 && map->replicas <= DLI_CLUSTER_REPLICAS);
    for (int i = 0; i < DLI_SLOTS; i++)
        REQUIRE(map->owner[i] < map->count || map->owner[i] == DLI_NOBODY);
    for (int i = 0; i < map->count; i++) {
        const struct dli_target *node = &map->node[i];

        REQUIRE(dli_is_host(node->host, strlen(node->host)) && node->port >= 1 && node->port <= 65535);
        REQUIRE(dli_cluster_find(map, node->host, node->port) == i && node->tls == said->tls);
        REQUIRE(strstr(node->text, node->host) && fuzz_printable(node->text));
    }
    for (int i = 0; i < map->replicas; i++) {
        const struct dli_map_replica *replica = &map->replica[i];

        REQUIRE(replica->of < map->count || replica->of == DLI_NOBODY);
        REQUIRE(replica->port >= 1 && replica->port <= 65535);
        REQUIRE(dli_is_host(replica->host, strlen(replica->host)));
    }
}

static void fuzz_map(const struct dli_reply *reply, int slots, int tls)
{
    static struct dli_cluster_map map, again;
    struct dli_target target = from(tls);
    dlock_error reason = {.code = DLOCK_OK};
    dlock_status (*read)(struct dli_cluster_map *, const struct dli_reply *, const struct dli_target *, dlock_error *) =
        slots ? dli_cluster_read_slots : dli_cluster_read_shards;
    dlock_status status = read(&map, reply, &target, &reason);

    REQUIRE(status == DLOCK_OK || status == DLOCK_PROTOCOL_ERROR || status == DLOCK_UNSUPPORTED);
    REQUIRE(status == DLOCK_OK || (reason.code == status && reason.message[0]));
    check_map(&map, &target);
    if (status != DLOCK_OK || map.count % 4)
        return;
    REQUIRE(read(&again, reply, &target, &reason) == DLOCK_OK && again.count == map.count);
    REQUIRE(again.replicas == map.replicas && memcmp(again.owner, map.owner, sizeof map.owner) == 0);
}

/* A parsed redirect that is written anew is parsed to the same. */
static void check_redirect(const struct dli_redirect *redirect)
{
    char text[400];
    struct dli_reply reply = {.type = DLI_REPLY_ERROR, .text = text};
    struct dli_redirect again;

    REQUIRE(redirect->kind >= DLI_REDIRECT_NONE && redirect->kind <= DLI_REDIRECT_LATER);
    if (redirect->kind == DLI_REDIRECT_LATER)
        REQUIRE(redirect->slot == -1);
    if (redirect->kind != DLI_REDIRECT_MOVED && redirect->kind != DLI_REDIRECT_ASK)
        return;
    REQUIRE(redirect->slot >= 0 && redirect->slot < DLI_SLOTS && redirect->port >= 1 && redirect->port <= 65535);
    REQUIRE(!redirect->host[0] || dli_is_host(redirect->host, strlen(redirect->host)));
    reply.size =
        (size_t)snprintf(text, sizeof text, "%s %d %s:%d", redirect->kind == DLI_REDIRECT_MOVED ? "MOVED" : "ASK",
                         redirect->slot, redirect->host, redirect->port);
    again = dli_redirect_of(&reply);
    REQUIRE(again.kind == redirect->kind && again.slot == redirect->slot && again.port == redirect->port);
    REQUIRE(strcmp(again.host, redirect->host) == 0);
}

static void fuzz_redirect(struct fuzz *in, struct dli_reader *reader)
{
    struct dli_buffer bytes = {0};
    const struct dli_reply *reply = NULL;
    struct dli_redirect redirect;

    fuzz_error(in, &bytes);
    if (dli_reader_feed(reader, bytes.bytes, bytes.size) == 0 && dli_reader_next(reader, &reply) == 1) {
        redirect = dli_redirect_of(reply);
        check_redirect(&redirect);
    }
    dli_buffer_free(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz in = {data, size};
    struct dli_reader *reader = dli_reader_new();
    unsigned kind = fuzz_byte(&in);
    const struct dli_reply *reply;

    REQUIRE(reader);
    if (kind != 'S' && kind != 'T' && kind != 'L' && kind != 'M')
        fuzz_redirect(&in, reader);
    else if ((reply = fuzz_read(&in, reader)))
        fuzz_map(reply, kind == 'L' || kind == 'M', kind == 'T' || kind == 'M');
    dli_reader_free(reader);
    return 0;
}
