/*
 * fuzz_url.c: URLs, options and addresses. The first byte of an input chooses:
 *
 *   p  the rest are two parts of a URL around a password, separated by a line feed: no text repeats the password
 *   o  lines NAME=VALUE for dlock_options_set: a refused value changes nothing, and a printed value can be set again
 *   a  a host name: resolved if it is an address
 *   others: a URL: a parsed URL that is written anew is parsed to the same
 */
#include <netdb.h>

#include "base/error.h"
#include "base/url.h"
#include "fuzz.h"
#include "net/resolve.h"

#define SECRET "S3cr3tPaSs"

enum { URL_MAX = 65536 };

/* Instead of threads: only addresses are resolved. */
int __wrap_dli_thread_start(const char *name, void (*run)(void *), void *argument);
int __wrap_dli_thread_start(const char *name, void (*run)(void *), void *argument)
{
    (void)name;
    (void)run;
    (void)argument;
    return 11;
}

/* ---- options */

static char *printed(const dlock_options *set, size_t option)
{
    char text[DLI_TEXT_MAX + 1];
    size_t size = 0;

    REQUIRE(dlock_options_get(set, dlock_option_name(option), text, sizeof text, &size, NULL) == DLOCK_OK);
    REQUIRE(strlen(text) == size);
    return fuzz_text(text, size);
}

static int same(const struct dlock_options *a, const struct dlock_options *b)
{
    for (int i = 0; i < DLI_OPT_COUNT; i++)
        if (strcmp(dli_options_text(a, i) ? dli_options_text(a, i) : "",
                   dli_options_text(b, i) ? dli_options_text(b, i) : "") != 0 ||
            a->number[i] != b->number[i])
            return 0;
    return a->given == b->given;
}

static void copy(struct dlock_options *to, const struct dlock_options *from)
{
    dli_options_init(to);
    REQUIRE(dli_options_overlay(to, from, NULL) == DLOCK_OK);
    REQUIRE(same(to, from));
}

/* An accepted value is printed in a form that can be set again; buffers that are too short are refused. */
static void check_printed(struct dlock_options *set, int option)
{
    struct dlock_options again;
    char *text = printed(set, (size_t)option), small[2];
    size_t size = strlen(text);

    REQUIRE(dlock_options_get(set, dlock_option_name((size_t)option), small, sizeof small, NULL, NULL) ==
            (size < sizeof small ? DLOCK_OK : DLOCK_BUFFER_TOO_SMALL));
    copy(&again, set);
    if (dli_option_table[option].type == DLI_TYPE_SECRET) {
        REQUIRE(strcmp(text, size ? "***" : "") == 0);
    } else {
        REQUIRE(dlock_options_set(&again, dlock_option_name((size_t)option), text, NULL) == DLOCK_OK);
        REQUIRE(same(&again, set));
    }
    free(text);
    dli_options_fini(&again);
}

static void set_one(struct dlock_options *set, const char *name, const char *value)
{
    struct dlock_options before;
    dlock_error box = {.code = DLOCK_OK};
    int option = dli_option_find(name, strlen(name));
    dlock_status status;

    copy(&before, set);
    status = dlock_options_set(set, name, value, &box);
    REQUIRE(option >= 0 || status == DLOCK_UNKNOWN_OPTION);
    if (status == DLOCK_OK) {
        REQUIRE(set->given >> option & 1);
        check_printed(set, option);
    } else {
        REQUIRE(box.code == status && box.message[0] && fuzz_printable(box.message));
        REQUIRE(same(&before, set));
        REQUIRE(strstr(name, SECRET) || !strstr(value, SECRET) || !strstr(box.message, SECRET));
    }
    dli_options_fini(&before);
}

/* Sets of options on top of one another, for a client and for a lock. */
static void check_layers(const struct dlock_options *set)
{
    struct dlock_options under;
    dlock_error box = {.code = DLOCK_OK};

    copy(&under, set);
    REQUIRE(dli_options_overlay_lock(&under, set, &box) == DLOCK_OK && same(&under, set));
    if (dli_options_check(set, &box) != DLOCK_OK)
        REQUIRE(box.message[0] && fuzz_printable(box.message) && !strstr(box.message, SECRET));
    dli_options_fini(&under);
}

static void fuzz_options(struct fuzz *in)
{
    dlock_options *set = dlock_options_new();

    REQUIRE(set);
    for (int lines = 0; in->left > 0 && lines < 16; lines++) {
        size_t size, rest;
        const char *line = fuzz_until(in, '\n', &size), *sign = size ? memchr(line, '=', size) : NULL;
        char *name, *value;

        rest = sign ? (size_t)(sign - line) : size;
        name = fuzz_text(line, rest);
        value = fuzz_text(sign ? sign + 1 : line + size, sign ? size - rest - 1 : 0);
        set_one(set, name, value);
        free(name);
        free(value);
    }
    check_layers(set);
    dlock_options_free(set);
}

/* ---- URLs */

static size_t escape(char *to, const char *text)
{
    size_t size = 0;

    for (; *text; text++)
        size += (size_t)sprintf(to + size, "%%%02X", (unsigned)(unsigned char)*text);
    to[size] = '\0';
    return size;
}

static size_t put_hosts(char *to, const struct dli_site *site)
{
    const struct dli_target *node = site->count ? site->node : &site->target;
    size_t size = 0;

    if (site->kind == DLI_SITE_UNIX)
        return escape(to, site->target.path);
    if (site->kind == DLI_SITE_MEMORY)
        return escape(to, site->service);
    for (int i = 0; i < (site->count ? site->count : 1); i++) {
        size += (size_t)sprintf(to + size, "%s%s", i ? "," : "", strchr(node[i].host, ':') ? "[" : "");
        size += escape(to + size, node[i].host);
        size += (size_t)sprintf(to + size, "%s:%d", strchr(node[i].host, ':') ? "]" : "", node[i].port);
    }
    if (site->kind == DLI_SITE_SENTINEL) {
        to[size++] = '/';
        size += escape(to + size, site->service);
    }
    if (site->kind == DLI_SITE_ZOOKEEPER && site->service[0]) {
        to[size++] = '/';
        size += escape(to + size, site->service + 1);
    }
    return size;
}

/* The URL of a site and its options; every byte that may be escaped is. */
static void print_url(char *to, const struct dli_site *site, const struct dlock_options *set)
{
    int alone = site->kind == DLI_SITE_MEMORY && !site->service[0];
    size_t size = (size_t)sprintf(to, "%s:%s", site->scheme, alone ? "" : "//");
    const char *before = "?";

    if (site->kind == DLI_SITE_UNIX)
        to[size++] = '/';
    size += put_hosts(to + size, site);
    if (site->kind == DLI_SITE_UNIX) { /* the first byte of the path is its "/" */
        char *path = strstr(to, "://") + 3;

        memmove(path + 1, path + 4, strlen(path + 4) + 1);
        size -= 3;
    }
    for (int i = 0; i < DLI_OPT_COUNT; i++) {
        const char *text = dli_options_text(set, i);
        enum dli_option_type type = dli_option_table[i].type;

        if (!(set->given >> i & 1))
            continue;
        size += (size_t)sprintf(to + size, "%s%s=", before, dli_option_table[i].name);
        before = "&";
        if (type == DLI_TYPE_TEXT || type == DLI_TYPE_SECRET)
            size += escape(to + size, text);
        else
            size += (size_t)sprintf(to + size, "%lld", (long long)set->number[i]);
    }
}

static void check_site(const struct dli_site *site)
{
    REQUIRE(site->target.text[0] && fuzz_printable(site->target.text));
    REQUIRE(site->count >= 0 && site->count <= DLI_NODES_MAX);
    REQUIRE(site->kind != DLI_SITE_SERVER || dli_is_host(site->target.host, strlen(site->target.host)));
    for (int i = 0; i < site->count; i++) {
        REQUIRE(dli_is_host(site->node[i].host, strlen(site->node[i].host)));
        REQUIRE(site->node[i].port >= 1 && site->node[i].port <= 65535 && fuzz_printable(site->node[i].text));
    }
}

static void check_again(const struct dli_site *site, const struct dlock_options *set)
{
    static char url[URL_MAX];
    struct dli_site other;
    struct dlock_options again;
    dlock_error box = {.code = DLOCK_OK};
    dlock_status status;

    print_url(url, site, set);
    dli_options_init(&again);
    status = dli_url_parse(url, &other, &again, &box);
    if (status != DLOCK_OK)
        fprintf(stderr, "%s\n%s\n", url, box.message);
    REQUIRE(status == DLOCK_OK);
    REQUIRE(same(set, &again));
    REQUIRE(other.kind == site->kind && other.count == site->count && other.target.port == site->target.port);
    REQUIRE(strcmp(other.target.text, site->target.text) == 0 && strcmp(other.service, site->service) == 0);
    REQUIRE(strcmp(other.target.host, site->target.host) == 0 && strcmp(other.target.path, site->target.path) == 0);
    REQUIRE(memcmp(other.node, site->node, sizeof other.node) == 0);
    dli_options_fini(&again);
}

/* hidden: no text may repeat the password. */
static void check_url(const char *url, int hidden)
{
    struct dli_site site;
    struct dlock_options set;
    dlock_error box = {.code = DLOCK_OK};
    dlock_status status;

    dli_options_init(&set);
    status = dli_url_parse(url, &site, &set, &box);
    if (status == DLOCK_OK) {
        check_site(&site);
        REQUIRE(!hidden || !strstr(site.target.text, SECRET));
        REQUIRE(!hidden || strstr(dli_options_text(&set, DLI_OPT_PASSWORD), SECRET));
        check_again(&site, &set);
        if (dli_options_check(&set, &box) == DLOCK_OK)
            dli_site_check(&site, &set, &box);
    }
    REQUIRE(status == DLOCK_OK || (box.code == status && box.message[0]));
    REQUIRE(fuzz_printable(box.message));
    REQUIRE(!hidden || !strstr(box.message, SECRET));
    dli_options_fini(&set);
}

/* A user name, a password, and the rest. */
static void fuzz_password(struct fuzz *in)
{
    static const char *const schemes[] = {"redis",          "rediss",        "redis+unix",
                                          "redis+sentinel", "redis+cluster", "rediss+quorum"};
    const char *scheme = schemes[fuzz_below(in, 6)];
    size_t first, second;
    const char *user = fuzz_until(in, '\n', &first), *rest = fuzz_until(in, '\n', &second);
    char *before, *behind, *url;

    if (memchr(user, ':', first)) /* the password begins there */
        return;
    if (memmem(user, first, SECRET, strlen(SECRET)) || memmem(rest, second, SECRET, strlen(SECRET)))
        return; /* text that is not the password may be repeated */
    before = fuzz_text(user, first);
    behind = fuzz_text(rest, second);
    url = malloc(first + second + 64);
    REQUIRE(url);
    sprintf(url, "%s://%s:" SECRET "@%s", scheme, before, behind);
    check_url(url, strlen(before) == first);
    free(before);
    free(behind);
    free(url);
}

/* ---- addresses */

static void fuzz_address(struct fuzz *in)
{
    struct dli_address found[DLI_ADDRESS_MAX];
    char *host = fuzz_text((const char *)in->at, in->left), text[256];
    const char *reason = NULL;
    int unknown = 0, count, known = dli_is_host(host, strlen(host));
    struct dli_resolve *resolve = known ? dli_resolve_start(host, 6379) : NULL;

    if (resolve) {
        count = dli_resolve_result(resolve, found, &reason, &unknown);
        REQUIRE(count >= 0 && count <= DLI_ADDRESS_MAX && (count > 0 || reason));
        for (int i = 0; i < count; i++)
            REQUIRE(getnameinfo((const struct sockaddr *)&found[i].sockaddr, found[i].size, text, sizeof text, NULL, 0,
                                NI_NUMERICHOST) == 0);
        dli_resolve_end(resolve);
    }
    free(host);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz in = {data, size};
    unsigned kind = size ? data[0] : 0;
    char *url;

    if (size > 8192)
        return 0;
    if (kind == 'p' || kind == 'o' || kind == 'a')
        fuzz_byte(&in);
    if (kind == 'p') {
        fuzz_password(&in);
    } else if (kind == 'o') {
        fuzz_options(&in);
    } else if (kind == 'a') {
        fuzz_address(&in);
    } else {
        url = fuzz_text((const char *)data, size);
        check_url(url, 0);
        free(url);
    }
    return 0;
}
