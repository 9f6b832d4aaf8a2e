/*
 * url_server.c: escapes, hosts and lists of hosts in a URL.
 */
#include <arpa/inet.h>
#include <stdio.h>

#include "error.h"
#include "url_parts.h"

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

dlock_status dli_part_decode(struct dli_part in, struct dli_decoded *out, dlock_error *box)
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
        if (out->size == DLI_DECODED_MAX)
            return dli_fail(box, DLOCK_INVALID_URL, "A part of the URL is longer than %d bytes.", DLI_DECODED_MAX);
        out->bytes[out->size++] = (char)byte;
        out->bytes[out->size] = '\0';
    }
    return DLOCK_OK;
}

/* Whether no label of a name is empty. A name may end in one dot. */
static int has_labels(const char *name)
{
    return name[0] != '.' && !strstr(name, "..");
}

static int is_address(const char *text, size_t size)
{
    unsigned char address[sizeof(struct in6_addr)];
    char copy[INET6_ADDRSTRLEN];

    if (size >= sizeof copy)
        return 0;
    memcpy(copy, text, size);
    copy[size] = '\0';
    return inet_pton(AF_INET6, copy, address) == 1;
}

static int is_host(const struct dli_decoded *host, int bracketed)
{
    const char *letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_";
    const char *zone = bracketed ? strchr(host->bytes, '%') : NULL;
    size_t size = zone ? (size_t)(zone - host->bytes) : host->size;
    if (host->size == 0 || host->size > 255)
        return 0;
    if (!bracketed)
        return strspn(host->bytes, letters) == host->size && has_labels(host->bytes);
    if (zone && (zone[1] == '\0' || strspn(zone + 1, letters) != host->size - size - 1))
        return 0;
    return is_address(host->bytes, size);
}

int dli_is_host(const char *text, size_t size)
{
    struct dli_decoded host = {.size = size};

    if (size == 0 || size > 255 || memchr(text, '\0', size))
        return 0;
    memcpy(host.bytes, text, size);
    return is_host(&host, strchr(host.bytes, ':') != NULL);
}

int dli_is_certified_name(const char *text)
{
    unsigned char address[sizeof(struct in_addr)];
    size_t size = strlen(text);

    if (!dli_is_host(text, size) || strchr(text, '%'))
        return 0;
    return strspn(text, "0123456789.-_") < size || inet_pton(AF_INET, text, address) == 1;
}

/* preset is the port when none is given. */
static dlock_status parse_port(struct dli_part in, int given, int *port, int preset, dlock_error *box)
{
    int number = 0;
    for (size_t i = 0; i < in.size && number <= 65535; i++)
        number = in.bytes[i] >= '0' && in.bytes[i] <= '9' ? number * 10 + in.bytes[i] - '0' : 65536;
    if (given && (number < 1 || number > 65535))
        return dli_fail(box, DLOCK_INVALID_URL, "The port in the URL must be a number from 1 to 65535.");
    *port = given ? number : preset;
    return DLOCK_OK;
}

dlock_status dli_url_server(struct dli_part server, int preset, struct dli_target *target, dlock_error *box)
{
    struct dli_part host, port;
    struct dli_decoded name;
    int bracketed = server.size > 0 && server.bytes[0] == '[', given;
    if (bracketed) {
        const char *close = dli_part_find(server, ']'), *end = server.bytes + server.size;
        if (!close || (close + 1 < end && close[1] != ':'))
            return dli_fail(box, DLOCK_INVALID_URL, "An IPv6 address in a URL reads [address] or [address]:port.");
        host = dli_part_of(server.bytes + 1, close);
        given = close + 1 < end;
        port = given ? dli_part_of(close + 2, end) : dli_part_of(end, end);
    } else {
        given = dli_part_find(server, ':') != NULL;
        host = dli_part_cut(server, ':', &port);
    }
    dlock_status status = parse_port(port, given, &target->port, preset, box);
    if (!status)
        status = dli_part_decode(host, &name, box);
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

dlock_status dli_url_servers(struct dli_part servers, int preset, const char *what, struct dli_site *site,
                             dlock_error *box)
{
    dlock_status status = DLOCK_OK;
    while (!status && (servers.size > 0 || site->count == 0)) {
        struct dli_part one = dli_part_cut(servers, ',', &servers);
        if (site->count == DLI_NODES_MAX)
            return dli_fail(box, DLOCK_INVALID_URL, "The URL names more than %d %s.", DLI_NODES_MAX, what);
        site->node[site->count].tls = site->target.tls;
        status = dli_url_server(one, preset, &site->node[site->count++], box);
    }
    return status;
}

int dli_url_is_path(const char *path)
{
    for (size_t size; *path; path += size) {
        size = 1 + strcspn(path + 1, "/");
        if (*path != '/' || size == 1 || (size == 2 && path[1] == '.') || (size == 3 && memcmp(path, "/..", 3) == 0))
            return 0;
    }
    return 1;
}
