/*
 * cluster_map.h: what a cluster says about itself: slots of keys, who owns which slot, and redirects. No I/O, no state.
 */
#ifndef DLI_REDIS_CODEC_CLUSTER_MAP_H
#define DLI_REDIS_CODEC_CLUSTER_MAP_H

#include "base/error.h"
#include "base/url.h"
#include "resp.h"

enum {
    DLI_SLOTS = 16384,
    DLI_CLUSTER_NODES = 128,    /* primaries with slots, at most */
    DLI_CLUSTER_REPLICAS = 256, /* that are known by name, at most */
    DLI_NOBODY = 255            /* the owner of a slot that nobody serves */
};

/* The slot of a key: CRC16 of what stands in its first pair of braces, or of all of it. */
int dli_slot_of(const char *key, size_t size);

/* A replica, and the index of its primary. */
struct dli_map_replica {
    char host[256];
    int port;
    uint8_t of;
};

/* Who owns which slot, as one server says. */
struct dli_cluster_map {
    int count;                                 /* of nodes */
    struct dli_target node[DLI_CLUSTER_NODES]; /* host, port, tls and text */
    uint8_t owner[DLI_SLOTS];                  /* an index into node, or DLI_NOBODY */
    int replicas;
    struct dli_map_replica replica[DLI_CLUSTER_REPLICAS];
};

/*
 * Read the answer to CLUSTER SHARDS, or to CLUSTER SLOTS, that came from a server: where it names no host it means that
 * one, and with tls the ports for TLS. DLOCK_OK; DLOCK_PROTOCOL_ERROR or DLOCK_UNSUPPORTED (too many nodes) with a reason.
 */
dlock_status dli_cluster_read_shards(struct dli_cluster_map *map, const struct dli_reply *reply,
                                     const struct dli_target *from, dlock_error *reason);
dlock_status dli_cluster_read_slots(struct dli_cluster_map *map, const struct dli_reply *reply,
                                    const struct dli_target *from, dlock_error *reason);

/* The node of a map with this host and port, or -1. */
int dli_cluster_find(const struct dli_cluster_map *map, const char *host, int port);

enum dli_redirect_kind {
    DLI_REDIRECT_NONE,  /* an answer */
    DLI_REDIRECT_MOVED, /* the slot is another node's */
    DLI_REDIRECT_ASK,   /* this once ask another node: the slot is on its way there */
    DLI_REDIRECT_LATER  /* the same again in a moment: keys are on their way, or the cluster is down */
};

/* Where an error reply sends the asker. */
struct dli_redirect {
    enum dli_redirect_kind kind;
    int slot;       /* MOVED and ASK */
    char host[256]; /* the same; "" the host that answered */
    int port;
    int down; /* LATER: it is the cluster, not the keys */
};

/* What a reply says; a redirect that cannot be understood is DLI_REDIRECT_LATER with slot -1. */
struct dli_redirect dli_redirect_of(const struct dli_reply *reply);

#endif
