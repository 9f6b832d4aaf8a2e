/*
 * url.h: what a URL says: where the server is, plus options. No names are resolved here.
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
    DLI_SITE_QUORUM
};

/* What a URL names. */
struct dli_site {
    enum dli_site_kind kind;
    struct dli_target target; /* of a site with nodes only text and tls */
    int count;
    struct dli_target node[DLI_NODES_MAX]; /* sentinels, or servers of a cluster or a quorum as the URL lists them */
    char service[128];                     /* what sentinels know the primary by */
};

/*
 * Parse redis://[user[:password]@]host[:port][/db][?option=value&...] or redis+unix://[user[:password]@]/path[?...] ("db="
 * gives the database there). Percent escapes are decoded everywhere.
 * redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/service[/db][?...] names sentinels (port 26379) and what
 * they watch; redis+cluster://[user[:password]@]host[:port][,...][?...] some servers of a cluster; redis+quorum:// the same with
 * [/db] those of a quorum. With rediss in place of redis all are with TLS, but unix sockets. User, password, db and every
 * query option land in set (already initialised). Messages never repeat the URL's user or password.
 */
dlock_status dli_url_parse(const char *url, struct dli_site *site, struct dlock_options *set, dlock_error *box);

/*
 * DLOCK_INVALID_OPTION when an option is given for a site without TLS, sentinels or a quorum, and means nothing without.
 * DLOCK_INVALID_QUORUM when the servers of a quorum, or how many of them must agree, are none that can.
 */
dlock_status dli_site_check(const struct dli_site *site, const struct dlock_options *set, dlock_error *box);

/* Whether these bytes, 255 at most, can be the name or address of a host. */
int dli_is_host(const char *text, size_t size);

#endif
