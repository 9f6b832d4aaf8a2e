/*
 * cluster_map.h: the slot of a key, the slot map that a cluster reports, and redirects. No I/O, no state.
 */
#ifndef DLI_REDIS_CODEC_CLUSTER_MAP_H
#define DLI_REDIS_CODEC_CLUSTER_MAP_H

#include "base/error.h"
#include "base/url.h"
#include "resp.h"

enum {
    DLI_SLOTS = 16384,
    DLI_CLUSTER_NODES = 128,    /* primaries with slots in a map, at most */
    DLI_CLUSTER_REPLICAS = 256, /* replicas in a map, at most */
    DLI_NOBODY = 255            /* the owner of a slot without a primary */
};

/*
 * The slot of a key: from the CRC16 of the text in its first pair of braces, or of the whole key if that is missing or
 * empty.
 */
int dli_slot_of(const char *key, size_t size);

/* A replica, and the index of its primary. */
struct dli_map_replica {
    char host[256];
    int port;
    uint8_t of; /* an index into node, or DLI_NOBODY: its shard has no slots, or no primary */
};

/* Which primary owns which slot, as one server reports it. */
struct dli_cluster_map {
    int count;                                 /* of nodes */
    struct dli_target node[DLI_CLUSTER_NODES]; /* host, port, tls and text */
    uint8_t owner[DLI_SLOTS];                  /* an index into node, or DLI_NOBODY */
    int replicas;
    struct dli_map_replica replica[DLI_CLUSTER_REPLICAS];
};

/*
 * Read a reply to CLUSTER SHARDS or CLUSTER SLOTS. from is the server that answered: it stands for hosts that the reply
 * leaves out, and its tls says whether to take the TLS ports of CLUSTER SHARDS. DLOCK_OK; DLOCK_PROTOCOL_ERROR or
 * DLOCK_UNSUPPORTED (too many nodes) with a reason.
 */
dlock_status dli_cluster_read_shards(struct dli_cluster_map *map, const struct dli_reply *reply,
                                     const struct dli_target *from, dlock_error *reason);
dlock_status dli_cluster_read_slots(struct dli_cluster_map *map, const struct dli_reply *reply,
                                    const struct dli_target *from, dlock_error *reason);

/* The index of the node with this host and port, or -1. */
int dli_cluster_find(const struct dli_cluster_map *map, const char *host, int port);

enum dli_redirect_kind {
    DLI_REDIRECT_NONE,  /* not a redirect */
    DLI_REDIRECT_MOVED, /* another node owns the slot */
    DLI_REDIRECT_ASK,   /* send this command once to another node: the slot is migrating there */
    DLI_REDIRECT_LATER  /* send it again in a moment: keys are migrating, or the cluster is down */
};

/* Where a reply sends the client. */
struct dli_redirect {
    enum dli_redirect_kind kind;
    int slot;       /* MOVED and ASK */
    char host[256]; /* MOVED and ASK; "": the host that answered */
    int port;
    int down; /* LATER: the cluster or the server is not available; 0: keys are migrating */
};

/* The redirect in a reply. One that cannot be parsed is DLI_REDIRECT_LATER with slot -1. */
struct dli_redirect dli_redirect_of(const struct dli_reply *reply);

#endif
