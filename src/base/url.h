/*
 * url.h: what a URL says: where the server is, plus options. No names are resolved here.
 */
#ifndef DLI_BASE_URL_H
#define DLI_BASE_URL_H

#include "options.h"

struct dli_target {
    char host[256]; /* name or address without brackets; "" for a unix socket */
    char path[108]; /* unix socket path; "" for TCP */
    int port;
    int tls;        /* rediss */
    char text[384]; /* "host:port" or the path, printable, for messages; never holds a credential */
};

/*
 * Parse redis://[user[:password]@]host[:port][/db][?option=value&...], the same with rediss:// for TLS, or
 * redis+unix://[user[:password]@]/path[?...] ("db=" gives the database there). Percent escapes are decoded everywhere.
 * redis+sentinel, redis+cluster and redis+quorum give DLOCK_UNSUPPORTED in this version. User, password, db and every query option land in set (already
 * initialised). Messages never repeat the URL's user or password.
 */
dlock_status dli_url_parse(const char *url, struct dli_target *target, struct dlock_options *set, dlock_error *box);

/* DLOCK_INVALID_OPTION when an option of TLS is given for a target without: nothing goes in the clear by mistake. */
dlock_status dli_target_check(const struct dli_target *target, const struct dlock_options *set, dlock_error *box);

#endif
