/*
 * url.c: from the text of a URL to a target and options.
 *
 * A URL holds credentials, and a malformed one may hold them in any place: messages repeat nothing of it but the names of
 * options. That is also why a raw '@' behind the server part is refused: it is the mark of a password with an unescaped
 * '/', '?' or '#', whose rest would otherwise be taken for a path or an option.
 */
#include "base/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { DEFAULT_PORT = 6379, SENTINEL_PORT = 26379, DECODED_MAX = 1024 };

/* A part of the URL as it stands there. */
struct part {
    const char *bytes;
    size_t size;
};

/* A part with its escapes decoded; wiped after use. */
struct decoded {
    char bytes[DECODED_MAX + 1]; /* terminated */
    size_t size;
};

static const char *const accepted = "redis://[user[:password]@]host[:port][/db][?option=value&...], "
                                    "rediss:// with TLS, redis+unix://[user[:password]@]/path[?option=value&...], or "
                                    "redis+sentinel://[user[:password]@]host[:port][,...]/service[/db][?...]";

static struct part part_of(const char *from, const char *to)
{
    return (struct part){from, (size_t)(to - from)};
}

static const char *find(struct part in, char byte)
{
    return in.size ? memchr(in.bytes, byte, in.size) : NULL;
}

/* Cut in at the first byte (which is dropped); what follows goes to rest, an empty part when there is no such byte. */
static struct part cut(struct part in, char byte, struct part *rest)
{
    const char *end = in.bytes + in.size, *at = find(in, byte);
    *rest = at ? part_of(at + 1, end) : part_of(end, end);
    return at ? part_of(in.bytes, at) : in;
}

static int hex(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    if (digit >= 'a' && digit <= 'f')
        return digit - 'a' + 10;
    if (digit >= 'A' && digit <= 'F')
        return digit - 'A' + 10;
    return -1;
}

static dlock_status decode(struct part in, struct decoded *out, dlock_error *box)
{
    out->size = 0;
    out->bytes[0] = '\0';
    for (size_t i = 0; i < in.size; i++) {
        int byte = (unsigned char)in.bytes[i];
        if (byte == '%') {
            int high = i + 2 < in.size ? hex(in.bytes[i + 1]) : -1, low = high < 0 ? -1 : hex(in.bytes[i + 2]);
            if (low < 0 || (high | low) == 0)
                return dli_fail(box, DLOCK_INVALID_URL,
                                "The URL has a '%%' that is not followed by two hex digits "
                                "other than 00.");
            byte = high * 16 + low;
            i += 2;
        }
        if (out->size == DECODED_MAX)
            return dli_fail(box, DLOCK_INVALID_URL, "A part of the URL is longer than %d bytes.", DECODED_MAX);
        out->bytes[out->size++] = (char)byte;
        out->bytes[out->size] = '\0';
    }
    return DLOCK_OK;
}

/* Put one option; the URL may give it twice, in the same or another spelling, only if both say the same. */
static dlock_status put(struct dlock_options *set, int option, const struct decoded *value, dlock_error *box)
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

static dlock_status put_part(struct dlock_options *set, int option, struct part in, dlock_error *box)
{
    struct decoded value;
    dlock_status status = decode(in, &value, box);
    if (!status)
        status = put(set, option, &value, box);
    explicit_bzero(&value, sizeof value);
    return status;
}

static dlock_status unknown_option(struct part name, dlock_error *box)
{
    size_t plain = 0;
    while (plain < name.size && ((name.bytes[plain] >= 'a' && name.bytes[plain] <= 'z') || name.bytes[plain] == '_'))
        plain++;
    if (plain == 0 || plain < name.size || name.size > 40)
        return dli_fail(box, DLOCK_UNKNOWN_OPTION, "The URL has an option of unknown name.");
    return dli_fail(box, DLOCK_UNKNOWN_OPTION, "The URL has an unknown option \"%.*s\".", (int)name.size, name.bytes);
}

static dlock_status parse_query(struct part query, struct dlock_options *set, dlock_error *box)
{
    while (query.size > 0) {
        struct part value, pair = cut(query, '&', &query);
        if (pair.size == 0)
            continue;
        if (!find(pair, '='))
            return dli_fail(box, DLOCK_INVALID_URL, "The URL has an option without '=': they read ?option=value&...");
        struct part name = cut(pair, '=', &value);
        int option = dli_option_find(name.bytes, name.size);
        dlock_status status = option < 0 ? unknown_option(name, box) : put_part(set, option, value, box);
        if (status)
            return status;
    }
    return DLOCK_OK;
}

/* user[:password] */
static dlock_status parse_login(struct part login, struct dlock_options *set, dlock_error *box)
{
    struct part password, user = cut(login, ':', &password);
    dlock_status status = DLOCK_OK;
    if (user.size > 0)
        status = put_part(set, DLI_OPT_USERNAME, user, box);
    if (!status && password.size > 0)
        status = put_part(set, DLI_OPT_PASSWORD, password, box);
    return status;
}

static int is_host(const struct decoded *host, int bracketed)
{
    const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
    const char *zone = bracketed ? strchr(host->bytes, '%') : NULL;
    size_t size = zone ? (size_t)(zone - host->bytes) : host->size;
    if (host->size == 0 || host->size > 255)
        return 0;
    if (!bracketed)
        return strspn(host->bytes, letters) == host->size;
    if (zone && (zone[1] == '\0' || strspn(zone + 1, letters) != host->size - size - 1))
        return 0;
    return strspn(host->bytes, "0123456789abcdefABCDEF:.") == size && strchr(host->bytes, ':') != NULL;
}

int dli_is_host(const char *text)
{
    struct decoded host = {.size = strlen(text)};

    if (host.size == 0 || host.size > 255)
        return 0;
    memcpy(host.bytes, text, host.size + 1);
    return is_host(&host, strchr(text, ':') != NULL);
}

/* preset stands for a port that is not given. */
static dlock_status parse_port(struct part in, int given, int *port, int preset, dlock_error *box)
{
    int number = 0;
    for (size_t i = 0; i < in.size && number <= 65535; i++)
        number = in.bytes[i] >= '0' && in.bytes[i] <= '9' ? number * 10 + in.bytes[i] - '0' : 65536;
    if (given && (number < 1 || number > 65535))
        return dli_fail(box, DLOCK_INVALID_URL, "The port in the URL must be a number from 1 to 65535.");
    *port = given ? number : preset;
    return DLOCK_OK;
}

/* host[:port], with the port preset. */
static dlock_status parse_server(struct part server, int preset, struct dli_target *target, dlock_error *box)
{
    struct part host, port;
    struct decoded name;
    int bracketed = server.size > 0 && server.bytes[0] == '[', given;
    if (bracketed) {
        const char *close = find(server, ']'), *end = server.bytes + server.size;
        if (!close || (close + 1 < end && close[1] != ':'))
            return dli_fail(box, DLOCK_INVALID_URL, "An IPv6 address in a URL reads [address] or [address]:port.");
        host = part_of(server.bytes + 1, close);
        given = close + 1 < end;
        port = given ? part_of(close + 2, end) : part_of(end, end);
    } else {
        given = find(server, ':') != NULL;
        host = cut(server, ':', &port);
    }
    dlock_status status = parse_port(port, given, &target->port, preset, box);
    if (!status)
        status = decode(host, &name, box);
    if (status)
        return status;
    if (!is_host(&name, bracketed))
        return dli_fail(box, DLOCK_INVALID_URL,
                        "The URL must name a host: letters, digits, '.', '-' and '_', or an IPv6 "
                        "address in brackets.");
    memcpy(target->host, name.bytes, name.size + 1);
    snprintf(target->text, sizeof target->text, bracketed ? "[%s]:%d" : "%s:%d", target->host, target->port);
    return DLOCK_OK;
}

static dlock_status parse_db(struct part in, struct dlock_options *set, dlock_error *box)
{
    dlock_status status = put_part(set, DLI_OPT_DB, in, box);
    if (status == DLOCK_INVALID_OPTION)
        return dli_fail(box, DLOCK_INVALID_URL, "The path of a redis:// URL is the number of a database, at most %lld.",
                        (long long)dli_option_table[DLI_OPT_DB].high);
    return status;
}

static dlock_status parse_tcp(struct part server, struct part path, struct dli_target *target,
                              struct dlock_options *set, dlock_error *box)
{
    dlock_status status = parse_server(server, DEFAULT_PORT, target, box);
    if (status || path.size <= 1)
        return status;
    return parse_db(part_of(path.bytes + 1, path.bytes + path.size), set, box);
}

static dlock_status parse_service(struct part in, struct dli_site *site, dlock_error *box)
{
    struct decoded name;
    char shown[200];
    dlock_status status = decode(in, &name, box);
    if (status)
        return status;
    if (name.size == 0 || name.size >= sizeof site->service || strcspn(name.bytes, " \r\n\t") != name.size)
        return dli_fail(box, DLOCK_INVALID_URL,
                        "The path of a redis+sentinel:// URL is /service or /service/db: the name "
                        "by which the sentinels know the primary, at most %zu bytes without spaces.",
                        sizeof site->service - 1);
    memcpy(site->service, name.bytes, name.size + 1);
    snprintf(site->target.text, sizeof site->target.text, "'%s' (by sentinel)",
             dli_quote(shown, sizeof shown, name.bytes, name.size));
    return DLOCK_OK;
}

/* host[:port][,host[:port]...] and /service[/db] */
static dlock_status parse_sentinels(struct part servers, struct part path, struct dli_site *site,
                                    struct dlock_options *set, dlock_error *box)
{
    struct part db, service = cut(part_of(path.bytes + (path.size > 0), path.bytes + path.size), '/', &db);
    dlock_status status = parse_service(service, site, box);
    if (!status && db.size > 0)
        status = parse_db(db, set, box);
    while (!status && (servers.size > 0 || site->count == 0)) {
        struct part one = cut(servers, ',', &servers);
        if (site->count == DLI_SENTINELS_MAX)
            return dli_fail(box, DLOCK_INVALID_URL, "The URL names more than %d sentinels.", DLI_SENTINELS_MAX);
        status = parse_server(one, SENTINEL_PORT, &site->sentinel[site->count++], box);
    }
    return status;
}

static dlock_status parse_unix(struct part server, struct part path, struct dli_target *target, dlock_error *box)
{
    struct decoded name;
    dlock_status status = decode(path, &name, box);
    if (status)
        return status;
    if (server.size > 0 || name.size < 2)
        return dli_fail(box, DLOCK_INVALID_URL, "A redis+unix:// URL names an absolute path and no host.");
    if (name.size >= sizeof target->path)
        return dli_fail(box, DLOCK_INVALID_URL, "The path of a unix socket has at most %zu bytes.",
                        sizeof target->path - 1);
    memcpy(target->path, name.bytes, name.size + 1);
    dli_quote(target->text, sizeof target->text, name.bytes, name.size);
    return DLOCK_OK;
}

static int has_scheme(const char *url, const char *scheme)
{
    return strncmp(url, scheme, strlen(scheme)) == 0 && strncmp(url + strlen(scheme), "://", 3) == 0;
}

static dlock_status refuse_scheme(const char *url, dlock_error *box)
{
    static const char *const later[] = {"redis+cluster", "redis+quorum"};
    for (size_t i = 0; i < sizeof later / sizeof later[0]; i++) {
        if (has_scheme(url, later[i]))
            return dli_fail(box, DLOCK_UNSUPPORTED, "This version does not support %s://; URLs read %s.", later[i],
                            accepted);
    }
    return dli_fail(box, DLOCK_INVALID_URL, "The scheme of the URL is unknown; URLs read %s.", accepted);
}

/* What stands between the scheme and the query. */
static dlock_status parse_where(const char *url, struct part server, struct part path, struct dli_site *site,
                                struct dlock_options *set, dlock_error *box)
{
    if (has_scheme(url, "redis+unix"))
        return parse_unix(server, path, &site->target, box);
    if (has_scheme(url, "redis+sentinel"))
        return parse_sentinels(server, path, site, set, box);
    site->target.tls = has_scheme(url, "rediss");
    return parse_tcp(server, path, &site->target, set, box);
}

static int is_known_scheme(const char *url)
{
    return has_scheme(url, "redis") || has_scheme(url, "rediss") || has_scheme(url, "redis+unix") ||
           has_scheme(url, "redis+sentinel");
}

dlock_status dli_url_parse(const char *url, struct dli_site *site, struct dlock_options *set, dlock_error *box)
{
    if (!is_known_scheme(url))
        return refuse_scheme(url, box);

    const char *start = strstr(url, "://") + 3, *end = start + strlen(start);
    const char *slash = start + strcspn(start, "/?#");
    struct part login = part_of(start, start), server = part_of(start, slash), query;
    if (memchr(slash, '@', (size_t)(end - slash)) || memchr(slash, '#', (size_t)(end - slash)))
        return dli_fail(box, DLOCK_INVALID_URL,
                        "The URL has '@' or '#' behind the server; in a user name, a password or "
                        "an option write '@', '#', '/' and '?' as %%40, %%23, %%2F and %%3F.");
    for (const char *at = slash; at > start; at--) {
        if (at[-1] != '@')
            continue;
        login = part_of(start, at - 1);
        server = part_of(at, slash);
        break;
    }

    memset(site, 0, sizeof *site);
    struct part path = cut(part_of(slash, end), '?', &query);
    dlock_status status = parse_login(login, set, box);
    if (!status)
        status = parse_where(url, server, path, site, set, box);
    return status ? status : parse_query(query, set, box);
}

dlock_status dli_site_check(const struct dli_site *site, const struct dlock_options *set, dlock_error *box)
{
    for (int i = DLI_OPT_TLS_CA_FILE; i <= DLI_OPT_TLS_VERIFY && !site->target.tls; i++) {
        if (set->given >> i & 1)
            return dli_fail(box, DLOCK_INVALID_OPTION, "The option %s is for rediss://, and this URL is without TLS.",
                            dli_option_table[i].name);
    }
    for (int i = DLI_OPT_SENTINEL_USERNAME; i <= DLI_OPT_SENTINEL_PASSWORD && !site->count; i++) {
        if (set->given >> i & 1)
            return dli_fail(box, DLOCK_INVALID_OPTION, "The option %s is for redis+sentinel://.",
                            dli_option_table[i].name);
    }
    return DLOCK_OK;
}
