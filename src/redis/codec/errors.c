/*
 * errors.c: what the error replies of a server mean. See errors.h.
 */
#include "errors.h"

#include <string.h>

static const struct {
    const char *code;
    dlock_status status;
} codes[] = {
    {"NOAUTH", DLOCK_DENIED},
    {"WRONGPASS", DLOCK_DENIED},
    {"NOPERM", DLOCK_DENIED},
    {"DENIED", DLOCK_DENIED},
    {"LOADING", DLOCK_SERVER_LOADING},
    {"MASTERDOWN", DLOCK_SERVER_LOADING},
    {"BUSY", DLOCK_SERVER_BUSY},
    {"OOM", DLOCK_SERVER_OUT_OF_MEMORY},
    {"READONLY", DLOCK_SERVER_READ_ONLY},
    {"WRONGTYPE", DLOCK_WRONG_KIND},
    {"NOREPLICAS", DLOCK_NOT_REPLICATED},
    {"TRYAGAIN", DLOCK_SERVER_LOADING},
    {"CLUSTERDOWN", DLOCK_SERVER_LOADING},
    {"MOVED", DLOCK_WRONG_SETUP},
    {"ASK", DLOCK_WRONG_SETUP},
    {"CROSSSLOT", DLOCK_WRONG_SETUP},
    {"MISCONF", DLOCK_SERVER_READ_ONLY},
};

/* Error texts without a code of their own. Scripts pass some of them on with other text in front. */
static const struct {
    const char *text;
    dlock_status status;
} sentences[] = {
    {"ERR max number of clients reached", DLOCK_SERVER_BUSY},
    {"The user executing the script can't", DLOCK_DENIED},
    {"ACL failure in script", DLOCK_DENIED},
};

int dli_error_has(const struct dli_reply *error, const char *text)
{
    return memmem(error->text, error->size, text, strlen(text)) != NULL;
}

/* The status of the code that text begins with, or DLOCK_OK. */
static dlock_status code_status(const char *text, size_t size)
{
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        size_t length = strlen(codes[i].code);
        if (size >= length && memcmp(text, codes[i].code, length) == 0 && (size == length || text[length] == ' '))
            return codes[i].status;
    }
    return DLOCK_OK;
}

int dli_error_begins(const struct dli_reply *error, const char *text)
{
    size_t length = strlen(text);
    return error->size >= length && memcmp(error->text, text, length) == 0;
}

/*
 * The code inside a wrapped error, as in "ERR Error running script (call to f_<sha>): @user_script:2: @user_script: 2:
 * -OOM command not allowed ...".
 */
static dlock_status wrapped_status(const struct dli_reply *error)
{
    for (size_t at = 0; at + 2 < error->size; at++) {
        if (memcmp(error->text + at, ": ", 2) != 0)
            continue;
        size_t from = at + 2 + (error->text[at + 2] == '-');
        dlock_status status = code_status(error->text + from, error->size - from);
        if (status)
            return status;
        if (error->size - from >= 8 && memcmp(error->text + from, "The user", 8) == 0)
            return DLOCK_DENIED;
    }
    return DLOCK_SERVER_ERROR;
}

dlock_status dli_error_status(const struct dli_reply *error)
{
    dlock_status status = code_status(error->text, error->size);
    if (status)
        return status;
    for (size_t i = 0; i < sizeof sentences / sizeof sentences[0]; i++) {
        if (dli_error_has(error, sentences[i].text))
            return sentences[i].status;
    }
    return dli_error_begins(error, "ERR Error running script") ? wrapped_status(error) : DLOCK_SERVER_ERROR;
}

/*
 * Every release since 2.6 then names a line of the script. A server that takes no writes refuses the script's first
 * write, so nothing was written.
 */
int dli_error_midway(const struct dli_reply *error)
{
    return dli_error_has(error, "user_script:") && !dli_error_has(error, "READONLY ") &&
           !dli_error_has(error, "MISCONF ") && !dli_error_has(error, "NOREPLICAS ");
}

int dli_error_unknown(const struct dli_reply *error)
{
    return dli_error_begins(error, "ERR unknown command") || dli_error_has(error, "Unknown Redis command called from");
}
