/*
 * secret.c: base/secret.h. A server repeats a password in many ways; none of them shows four of its characters in a row.
 */
#include "base.h"

#include <string.h>

#include "base/secret.h"

static const char password[] = "hunter2secret!", token[] = "AbCdEfGh.1234";

static const char *shown(const char *text, int cut)
{
    static char out[256];
    const char *secrets[] = {password, NULL, "", token};

    return dli_mask(out, sizeof out, &(struct dli_said){text, strlen(text), cut}, secrets, 4);
}

static void is_shown(const char *text, const char *wanted)
{
    if (strcmp(shown(text, 0), wanted) == 0)
        return;
    printf("%s\nis shown as\n%s\nnot as\n%s\n", text, shown(text, 0), wanted);
    exit(1);
}

static void plain(void)
{
    is_shown("", "");
    is_shown("no such user", "no such user");
    is_shown("bad password hunter2secret!, really", "bad password ***, really");
    is_shown("hunter2secret!hunter2secret! AbCdEfGh.1234", "*** ***");
    is_shown("begins hunter2se and ends cret!", "begins *** and ends ***");
    is_shown("a hun is none", "a hun is none");
    is_shown("line\nhunter2secret!\x1b[31m", "line\\x0a***\\x1b[31m");
}

static void written_otherwise(void)
{
    is_shown("p%68%75%6e%74%65%722%73ecret%21 z", "p*** z");
    is_shown("p\\x68unter2\\u0073ecret\\! z", "p*** z");
    is_shown("p\\150unter2secret z", "p*** z");
    is_shown("root:aHVudGVyMnNlY3JldCE=", "root:***E=");
    is_shown("Basic cm9vdDpodW50ZXIyc2VjcmV0IQ==", "Basic cm9vdDp***Q==");
    is_shown("AHJvb3QAaHVudGVyMnNlY3JldCE", "AHJvb3QA***E");
    is_shown("68756e74657232736563726574 21", "*** 21");
    is_shown("68756E7465723273", "***");
}

/* Where the server's text was cut, it may end within the password. */
static void cut(void)
{
    char text[1200];

    REQUIRE(strcmp(shown("password hun", 1), "password ***") == 0);
    REQUIRE(strcmp(shown("password hun", 0), "password hun") == 0);
    memset(text, ' ', sizeof text);
    memcpy(text + 1022, "hu", 3);
    REQUIRE(strstr(shown(text, 0), "hu") == NULL);
}

/* A short password is found as a whole; a long one does not end the process. */
static void sizes(void)
{
    static char large[200000];
    const char *secrets[] = {"ab", large};
    char out[64];

    memset(large, 'x', sizeof large - 1);
    REQUIRE(strcmp(dli_mask(out, sizeof out, &(struct dli_said){"cab a b xxxx", 12, 0}, secrets, 2), "c*** a b ***") ==
            0);
    REQUIRE(strcmp(dli_mask(out, 1, &(struct dli_said){"ab", 2, 0}, secrets, 2), "") == 0);
}

void secrets(void)
{
    plain();
    written_otherwise();
    cut();
    sizes();
}
