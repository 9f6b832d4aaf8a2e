/*
 * url.h: what a URL says: where the servers are, and options. No names are resolved here.
 */
#ifndef DLI_BASE_URL_H
#define DLI_BASE_URL_H

#include "options.h"

/* One server. */
struct dli_target {
    char host[256]; /* name or address without brackets; "" for a unix socket */
    char path[108]; /* unix socket path; "" for TCP */
    int port;
    int tls;        /* rediss */
    char text[416]; /* "host:port" or the path, printable, for messages; never holds a credential */
};

enum { DLI_NODES_MAX = 16 };

enum dli_site_kind {
    DLI_SITE_SERVER,
    DLI_SITE_UNIX,
    DLI_SITE_SENTINEL, /* the primary of a service that sentinels know */
    DLI_SITE_CLUSTER,
    DLI_SITE_QUORUM,
    DLI_SITE_ETCD,
    DLI_SITE_ZOOKEEPER,
    DLI_SITE_MEMORY
};

/* What keeps the locks. store/open.c has a row for each. */
enum dli_engine { DLI_ENGINE_REDIS, DLI_ENGINE_ETCD, DLI_ENGINE_ZOOKEEPER, DLI_ENGINE_MEMORY };

/* What a URL names. */
struct dli_site {
    enum dli_engine engine;
    enum dli_site_kind kind;
    const char *scheme;       /* of the URL; constant */
    uint64_t refused;         /* bit n: option n means nothing there */
    struct dli_target target; /* with nodes: only text and tls are set */
    int count;
    struct dli_target
        node[DLI_NODES_MAX]; /* sentinels, members, servers of a cluster or a quorum, in the URL's order */
    /* The name by which sentinels know the primary; of ZooKeeper the chroot, "" or "/a/b"; of memory, "": it is private. */
    char service[128];
};

/*
 * Parse a URL of one of these forms, each with [user[:password]@] before the server and [?option=value&...] at the end:
 *
 *   redis://host[:port][/db]                           one server
 *   redis+unix:///path                                 one server; the option db gives its database
 *   redis+sentinel://host[:port][,...]/service[/db]    sentinels (port 26379) and the service that they watch
 *   redis+cluster://host[:port][,...]                  some servers of a cluster
 *   redis+quorum://host[:port][,...][/db]              all servers of a quorum
 *   etcd://host[:port][,...]                           some members of an etcd cluster (port 2379)
 *   zookeeper://host[:port][,...][/chroot]             some members of a ZooKeeper ensemble (port 2181)
 *   memory:, memory://name                             no server: this client alone, or all with this name in the process
 *
 * rediss in place of redis means TLS, except for unix sockets; so do etcds and zookeepers. Percent escapes are decoded
 * everywhere. User, password, db and every query option go to set, which is already initialised. Messages never repeat the URL's user or password.
 */
dlock_status dli_url_parse(const char *url, struct dli_site *site, struct dlock_options *set, dlock_error *box);

/*
 * Check that the options fit the site. DLOCK_INVALID_OPTION: an option needs TLS, sentinels, a cluster or a quorum, and
 * the site has none. DLOCK_INVALID_QUORUM: these servers cannot vote together, or not with this majority.
 * DLOCK_UNSUPPORTED: the option replicas with a quorum.
 */
dlock_status dli_site_check(const struct dli_site *site, const struct dlock_options *set, dlock_error *box);

/* Whether these bytes can be the name or address of a host: 255 at most. No label of a name is empty. */
int dli_is_host(const char *text, size_t size);

/* Whether a certificate can be for it: a host name with a letter, or an IP address without brackets and zone. */
int dli_is_certified_name(const char *text);

#endif
