/*
 * url.c: parse a URL into a site and options.
 *
 * A URL holds credentials, and a malformed one may hold them in any place: messages repeat only the names of options
 * and the servers of a quorum. A raw '@' after the server part is refused for the same reason: it shows a password with
 * an unescaped '/', '?' or '#', and the rest of that password would be read as a path or an option.
 */
#include "url.h"

#include <stdio.h>

#include "error.h"
#include "url_parts.h"

enum { DEFAULT_PORT = 6379, SENTINEL_PORT = 26379, ETCD_PORT = 2379, ZOOKEEPER_PORT = 2181 };

/* Options that mean nothing to etcd. Those of other schemes are refused by dli_site_check. */
#define OPTION(name) (UINT64_C(1) << DLI_OPT_##name)
#define NOT_ETCD                                                                                                       \
    (OPTION(DB) | OPTION(CLIENT_NAME) | OPTION(PRIVATE_CONNECTIONS) | OPTION(BUSY_POLL_US) | OPTION(QUARANTINE_MS) |   \
     OPTION(REPLICAS) | OPTION(TOKEN_TTL_MS) | OPTION(POLLING_CLIENTS))
#define NOT_ZOOKEEPER                                                                                                  \
    (NOT_ETCD | OPTION(MIN_HOLD_MS) | OPTION(LOCK_DELAY_MS) | OPTION(HANDOVER_TURNS) | OPTION(HANDOVER_MS) |           \
     OPTION(LINGER_MS))

/* Options that promise what memory does not keep. Others that mean nothing to it do no harm: a test needs only another URL. */
#define NOT_MEMORY (OPTION(QUARANTINE_MS) | OPTION(REPLICAS))

/* rediss is redis with TLS. */
static const struct scheme {
    const char *name;
    enum dli_engine engine;
    enum dli_site_kind kind;
    int tls;
    uint64_t refused; /* as in struct dli_site */
} schemes[] = {
    {"redis", DLI_ENGINE_REDIS, DLI_SITE_SERVER, 0, 0},
    {"rediss", DLI_ENGINE_REDIS, DLI_SITE_SERVER, 1, 0},
    {"redis+unix", DLI_ENGINE_REDIS, DLI_SITE_UNIX, 0, 0},
    {"redis+sentinel", DLI_ENGINE_REDIS, DLI_SITE_SENTINEL, 0, 0},
    {"rediss+sentinel", DLI_ENGINE_REDIS, DLI_SITE_SENTINEL, 1, 0},
    {"redis+cluster", DLI_ENGINE_REDIS, DLI_SITE_CLUSTER, 0, 0},
    {"rediss+cluster", DLI_ENGINE_REDIS, DLI_SITE_CLUSTER, 1, 0},
    {"redis+quorum", DLI_ENGINE_REDIS, DLI_SITE_QUORUM, 0, 0},
    {"rediss+quorum", DLI_ENGINE_REDIS, DLI_SITE_QUORUM, 1, 0},
    {"etcd", DLI_ENGINE_ETCD, DLI_SITE_ETCD, 0, NOT_ETCD},
    {"etcds", DLI_ENGINE_ETCD, DLI_SITE_ETCD, 1, NOT_ETCD},
    {"zookeeper", DLI_ENGINE_ZOOKEEPER, DLI_SITE_ZOOKEEPER, 0, NOT_ZOOKEEPER},
    {"zookeepers", DLI_ENGINE_ZOOKEEPER, DLI_SITE_ZOOKEEPER, 1, NOT_ZOOKEEPER},
    {"memory", DLI_ENGINE_MEMORY, DLI_SITE_MEMORY, 0, NOT_MEMORY},
};

static const char *const accepted =
    "redis://[user[:password]@]host[:port][/db][?option=value&...], redis+unix://[user[:password]@]/path[?...], "
    "redis+sentinel://[user[:password]@]host[:port][,...]/service[/db][?...], redis+cluster://... and redis+quorum:// "
    "with several hosts, etcd://[user:password@]host[:port][,...][?...], "
    "zookeeper://[user:password@]host[:port][,...][/chroot][?...], memory:[?...], memory://name[?...]; rediss, etcds "
    "or "
    "zookeepers for TLS";

/* Put one option. A URL may give an option twice, in one spelling or two, if both values are the same. */
static dlock_status put(struct dlock_options *set, int option, const struct dli_decoded *value, dlock_error *box)
{
    int before = (int)(set->given >> option & 1);
    int64_t number = set->number[option];
    const char *text = set->text[option];
    if (before && text && (strlen(text) != value->size || memcmp(text, value->bytes, value->size) != 0))
        goto twice;
    dlock_status status = dli_options_put(set, option, value->bytes, value->size, box);
    if (!status && before && set->number[option] != number)
        goto twice;
    return status;

twice:
    return dli_fail(box, DLOCK_INVALID_URL, "The URL gives two different values for the option %s.",
                    dli_option_table[option].name);
}

static dlock_status put_part(struct dlock_options *set, int option, struct dli_part in, dlock_error *box)
{
    struct dli_decoded value;
    dlock_status status = dli_part_decode(in, &value, box);
    if (!status)
        status = put(set, option, &value, box);
    explicit_bzero(&value, sizeof value);
    return status;
}

static dlock_status unknown_option(struct dli_part name, dlock_error *box)
{
    size_t plain = 0;
    while (plain < name.size && ((name.bytes[plain] >= 'a' && name.bytes[plain] <= 'z') || name.bytes[plain] == '_'))
        plain++;
    if (plain == 0 || plain < name.size || name.size > 40)
        return dli_fail(box, DLOCK_UNKNOWN_OPTION, "The URL has an option of unknown name.");
    return dli_fail(box, DLOCK_UNKNOWN_OPTION, "The URL has an unknown option \"%.*s\".", (int)name.size, name.bytes);
}

static dlock_status parse_query(struct dli_part query, struct dlock_options *set, dlock_error *box)
{
    while (query.size > 0) {
        struct dli_part value, pair = dli_part_cut(query, '&', &query);
        if (pair.size == 0)
            continue;
        if (!dli_part_find(pair, '='))
            return dli_fail(box, DLOCK_INVALID_URL, "The URL has an option without '=': they read ?option=value&...");
        struct dli_part name = dli_part_cut(pair, '=', &value);
        int option = dli_option_find(name.bytes, name.size);
        dlock_status status = option < 0 ? unknown_option(name, box) : put_part(set, option, value, box);
        if (status)
            return status;
    }
    return DLOCK_OK;
}

/* user[:password] */
static dlock_status parse_login(struct dli_part login, struct dlock_options *set, dlock_error *box)
{
    struct dli_part password, user = dli_part_cut(login, ':', &password);
    dlock_status status = DLOCK_OK;
    if (user.size > 0)
        status = put_part(set, DLI_OPT_USERNAME, user, box);
    if (!status && password.size > 0)
        status = put_part(set, DLI_OPT_PASSWORD, password, box);
    return status;
}

static dlock_status parse_db(struct dli_part in, struct dlock_options *set, dlock_error *box)
{
    dlock_status status = put_part(set, DLI_OPT_DB, in, box);
    if (status == DLOCK_INVALID_OPTION)
        return dli_fail(box, DLOCK_INVALID_URL, "The path of a redis:// URL is the number of a database, at most %lld.",
                        (long long)dli_option_table[DLI_OPT_DB].high);
    return status;
}

static dlock_status parse_tcp(struct dli_part server, struct dli_part path, struct dli_target *target,
                              struct dlock_options *set, dlock_error *box)
{
    dlock_status status = dli_url_server(server, DEFAULT_PORT, target, box);
    if (status || path.size <= 1)
        return status;
    return parse_db(dli_part_of(path.bytes + 1, path.bytes + path.size), set, box);
}

static dlock_status parse_service(struct dli_part in, struct dli_site *site, dlock_error *box)
{
    struct dli_decoded name;
    char shown[200];
    dlock_status status = dli_part_decode(in, &name, box);
    if (status)
        return status;
    if (name.size == 0 || name.size >= sizeof site->service || strcspn(name.bytes, " \r\n\t") != name.size)
        return dli_fail(box, DLOCK_INVALID_URL,
                        "The path of a redis+sentinel:// URL is /service or /service/db: the name "
                        "by which the sentinels know the primary, at most %zu bytes without spaces.",
                        sizeof site->service - 1);
    memcpy(site->service, name.bytes, name.size + 1);
    snprintf(site->target.text, sizeof site->target.text, "'%s' (by sentinel)",
             dli_escape(shown, sizeof shown, name.bytes, name.size));
    return DLOCK_OK;
}

/* host[:port][,host[:port]...] and /service[/db] */
static dlock_status parse_sentinels(struct dli_part servers, struct dli_part path, struct dli_site *site,
                                    struct dlock_options *set, dlock_error *box)
{
    const char *start = path.bytes + (path.size > 0);
    struct dli_part db, service = dli_part_cut(dli_part_of(start, path.bytes + path.size), '/', &db);
    dlock_status status = parse_service(service, site, box);
    if (!status && db.size > 0)
        status = parse_db(db, set, box);
    return status ? status : dli_url_servers(servers, SENTINEL_PORT, "sentinels", site, box);
}

/* host[:port][,host[:port]...] of a cluster or a quorum, and [/db] of a quorum: a cluster has no databases. */
static dlock_status parse_nodes(struct dli_part servers, struct dli_part path, struct dli_site *site,
                                struct dlock_options *set, dlock_error *box)
{
    int cluster = site->kind == DLI_SITE_CLUSTER;
    dlock_status status = dli_url_servers(servers, DEFAULT_PORT, "servers", site, box);
    if (status)
        return status;
    snprintf(site->target.text, sizeof site->target.text, "%s of %.300s%s", cluster ? "cluster" : "quorum",
             site->node[0].text, site->count > 1 ? ", ..." : "");
    if (path.size <= 1)
        return DLOCK_OK;
    if (cluster)
        return dli_fail(box, DLOCK_INVALID_URL, "A redis+cluster:// URL has no path: a cluster has one database.");
    return parse_db(dli_part_of(path.bytes + 1, path.bytes + path.size), set, box);
}

/* host[:port][,host[:port]...] of etcd */
static dlock_status parse_members(struct dli_part servers, struct dli_part path, struct dli_site *site,
                                  dlock_error *box)
{
    dlock_status status = dli_url_servers(servers, ETCD_PORT, "members", site, box);
    if (status)
        return status;
    snprintf(site->target.text, sizeof site->target.text, "etcd at %.300s%s", site->node[0].text,
             site->count > 1 ? ", ..." : "");
    if (path.size > 1)
        return dli_fail(box, DLOCK_INVALID_URL, "An etcd:// URL has no path: use the option namespace.");
    return DLOCK_OK;
}

/* host[:port][,host[:port]...][/chroot] of ZooKeeper */
static dlock_status parse_ensemble(struct dli_part servers, struct dli_part path, struct dli_site *site,
                                   dlock_error *box)
{
    struct dli_decoded chroot;
    dlock_status status = dli_url_servers(servers, ZOOKEEPER_PORT, "members", site, box);
    if (!status)
        status = dli_part_decode(path, &chroot, box);
    if (status)
        return status;
    snprintf(site->target.text, sizeof site->target.text, "ZooKeeper at %.300s%s", site->node[0].text,
             site->count > 1 ? ", ..." : "");
    if (path.size <= 1)
        return DLOCK_OK;
    if (chroot.size >= sizeof site->service || strlen(chroot.bytes) != chroot.size || !dli_url_is_path(chroot.bytes))
        return dli_fail(box, DLOCK_INVALID_URL,
                        "The path of a zookeeper:// URL is a chroot, /a/b: at most %zu bytes, no part of it is empty, "
                        "'.' or '..'.",
                        sizeof site->service - 1);
    memcpy(site->service, chroot.bytes, chroot.size + 1);
    return DLOCK_OK;
}

/* The name of a store in memory; "": the client has one of its own. */
static dlock_status parse_memory(struct dli_part name, struct dli_part path, struct dli_site *site, dlock_error *box)
{
    struct dli_decoded text;
    char shown[sizeof site->service], before = name.bytes[-1];
    dlock_status status = dli_part_decode(name, &text, box);

    if (status)
        return status;
    if (before != (text.size > 0 ? '/' : ':') || path.size > 0 || text.size >= sizeof site->service ||
        strlen(text.bytes) != text.size)
        return dli_fail(
            box, DLOCK_INVALID_URL,
            "A URL of a store in memory is memory: for this client alone, or memory://name with a name of 1 "
            "to %zu bytes.",
            sizeof site->service - 1);
    memcpy(site->service, text.bytes, text.size + 1);
    snprintf(site->target.text, sizeof site->target.text, "%s%s",
             text.size > 0 ? "memory://" : "memory:", dli_escape(shown, sizeof shown, text.bytes, text.size));
    return DLOCK_OK;
}

static dlock_status parse_unix(struct dli_part server, struct dli_part path, struct dli_target *target,
                               dlock_error *box)
{
    struct dli_decoded name;
    dlock_status status = dli_part_decode(path, &name, box);
    if (status)
        return status;
    if (server.size > 0 || name.size < 2)
        return dli_fail(box, DLOCK_INVALID_URL, "A redis+unix:// URL names an absolute path and no host.");
    if (name.size >= sizeof target->path)
        return dli_fail(box, DLOCK_INVALID_URL, "The path of a unix socket has at most %zu bytes.",
                        sizeof target->path - 1);
    memcpy(target->path, name.bytes, name.size + 1);
    dli_escape(target->text, sizeof target->text, name.bytes, name.size);
    return DLOCK_OK;
}

/* The scheme of a URL, or NULL. */
static const struct scheme *scheme_of(const char *url)
{
    size_t size = strcspn(url, ":");

    if (url[size] != ':')
        return NULL;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strlen(schemes[i].name) == size && memcmp(url, schemes[i].name, size) == 0)
            return schemes[i].kind == DLI_SITE_MEMORY || strncmp(url + size, "://", 3) == 0 ? &schemes[i] : NULL;
    }
    return NULL;
}

/* Parse the part between the scheme and the query. */
static dlock_status parse_where(struct dli_part server, struct dli_part path, struct dli_site *site,
                                struct dlock_options *set, dlock_error *box)
{
    switch (site->kind) {
    case DLI_SITE_UNIX:
        return parse_unix(server, path, &site->target, box);
    case DLI_SITE_SENTINEL:
        return parse_sentinels(server, path, site, set, box);
    case DLI_SITE_ETCD:
        return parse_members(server, path, site, box);
    case DLI_SITE_ZOOKEEPER:
        return parse_ensemble(server, path, site, box);
    case DLI_SITE_MEMORY:
        return parse_memory(server, path, site, box);
    case DLI_SITE_CLUSTER:
    case DLI_SITE_QUORUM:
        return parse_nodes(server, path, site, set, box);
    default:
        return parse_tcp(server, path, &site->target, set, box);
    }
}

dlock_status dli_url_parse(const char *url, struct dli_site *site, struct dlock_options *set, dlock_error *box)
{
    const struct scheme *scheme = scheme_of(url);
    if (!scheme)
        return dli_fail(box, DLOCK_INVALID_URL, "The scheme of the URL is unknown; URLs read %s.", accepted);

    const char *start = url + strlen(scheme->name) + 1, *end = start + strlen(start);
    start += strncmp(start, "//", 2) == 0 ? 2 : 0;
    const char *slash = start + strcspn(start, "/?#");
    struct dli_part login = dli_part_of(start, start), server = dli_part_of(start, slash), query;
    if (memchr(slash, '@', (size_t)(end - slash)) || memchr(slash, '#', (size_t)(end - slash)))
        return dli_fail(box, DLOCK_INVALID_URL,
                        "The URL has '@' or '#' after the server; in a user name, a password or "
                        "an option write '@', '#', '/' and '?' as %%40, %%23, %%2F and %%3F.");
    for (const char *at = slash; at > start; at--) {
        if (at[-1] != '@')
            continue;
        login = dli_part_of(start, at - 1);
        server = dli_part_of(at, slash);
        break;
    }

    memset(site, 0, sizeof *site);
    site->engine = scheme->engine;
    site->kind = scheme->kind;
    site->scheme = scheme->name;
    site->refused = scheme->refused;
    site->target.tls = scheme->tls;
    struct dli_part path = dli_part_cut(dli_part_of(slash, end), '?', &query);
    dlock_status status = parse_login(login, set, box);
    if (!status)
        status = parse_where(server, path, site, set, box);
    return status ? status : parse_query(query, set, box);
}

/* The index of the first server that is named twice; 0: none. */
static int named_twice(const struct dli_site *site)
{
    for (int i = 1; i < site->count; i++)
        for (int j = 0; j < i; j++)
            if (strcasecmp(site->node[i].text, site->node[j].text) == 0)
                return i;
    return 0;
}

static dlock_status check_quorum(const struct dli_site *site, int needed, dlock_error *box)
{
    int count = site->count, twice = named_twice(site);
    if (twice)
        return dli_fail(box, DLOCK_INVALID_QUORUM, "The URL names the server %s twice: name every server once.",
                        site->node[twice].text);
    if (count < 3 || count % 2 == 0 || count > 15)
        return dli_fail(box, DLOCK_INVALID_QUORUM,
                        "A quorum needs an odd number of servers, 3 to 15, and the URL names %d, the first of them %s.",
                        count, site->node[0].text);
    if (needed && (needed <= count / 2 || needed > count))
        return dli_fail(box, DLOCK_INVALID_QUORUM,
                        "With %d servers, the first of them %s, the option quorum must be from %d to %d, and is %d.",
                        count, site->node[0].text, count / 2 + 1, count, needed);
    return DLOCK_OK;
}

dlock_status dli_site_check(const struct dli_site *site, const struct dlock_options *set, dlock_error *box)
{
    for (int i = DLI_OPT_TLS_CA_FILE; i <= DLI_OPT_TLS_VERIFY && !site->target.tls; i++) {
        if (set->given >> i & 1)
            return dli_fail(box, DLOCK_INVALID_OPTION,
                            "The option %s is for URLs with TLS, such as rediss://, and this URL is without.",
                            dli_option_table[i].name);
    }
    for (int i = DLI_OPT_SENTINEL_USERNAME; i <= DLI_OPT_SENTINEL_PASSWORD && site->kind != DLI_SITE_SENTINEL; i++) {
        if (set->given >> i & 1)
            return dli_fail(box, DLOCK_INVALID_OPTION, "The option %s is for redis+sentinel://.",
                            dli_option_table[i].name);
    }
    for (int i = DLI_OPT_QUORUM; i <= DLI_OPT_QUORUM_NAME && site->kind != DLI_SITE_QUORUM; i++) {
        if (set->given >> i & 1)
            return dli_fail(box, DLOCK_INVALID_OPTION, "The option %s is for redis+quorum://.",
                            dli_option_table[i].name);
    }
    if (set->given >> DLI_OPT_CLUSTER_PUBSUB & 1 && site->kind != DLI_SITE_CLUSTER)
        return dli_fail(box, DLOCK_INVALID_OPTION, "The option cluster_pubsub is for redis+cluster://.");
    if (dli_options_replicas(set) != 0 && site->kind == DLI_SITE_QUORUM)
        return dli_fail(
            box, DLOCK_UNSUPPORTED,
            "The option replicas is not for a quorum: its servers have no replicas, and their votes confirm grants.");
    if (dli_options_replicas(set) == -1 && (site->kind == DLI_SITE_SERVER || site->kind == DLI_SITE_UNIX))
        return dli_fail(
            box, DLOCK_INVALID_OPTION,
            "Only sentinels and a cluster know how many replicas are all: give the option replicas their number.");
    if (site->kind == DLI_SITE_QUORUM)
        return check_quorum(site, (int)set->number[DLI_OPT_QUORUM], box);
    return dli_options_fit(set, site->refused, site->target.text, box);
}
