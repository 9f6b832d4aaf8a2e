/*
 * fuzz_command.c: command lines of dlock. An input is words, each ended by a line feed. A word of two bytes that begins
 * with "@" stands for a word of the table below. No server is reached: dlock_client_open checks the URL and the
 * options, and fails.
 *
 * Help goes to stdout with the code 0. Anything else is one sentence on stderr, with 64 or 69, and nothing is done.
 */
#include <unistd.h>

#include "base/error.h"
#include "fuzz.h"
#include "tool.h"

enum { WORDS = 16 };

static const char *const table[] = {
    "run",
    "inspect",
    "list",
    "watch",
    "top",
    "release",
    "gate",
    "semaphore",
    "latch",
    "check",
    "provision",
    "bench",
    "version",
    "help",
    "--help",
    "--",
    "--wait",
    "--lease",
    "--kind",
    "--permits",
    "--min-hold",
    "--lost",
    "--grace",
    "--namespace",
    "--url",
    "--json",
    "--force",
    "--every",
    "--for",
    "--sort",
    "--quarantine",
    "--timeout",
    "set",
    "close",
    "open",
    "down",
    "wait",
    "reclaim",
    "permit",
    "mutex",
    "30s",
    "500ms",
    "0",
    "1",
    "job",
    "redis://h",
    "redis://:p@h/1?lease_ms=900",
    "--once",

    "--all",
    "--names",
    "term",
    "a{b}",
    "held",
    "-h",
    "--version",
    "--best-effort",
    "--keep-url",
};

enum { KNOWN = sizeof table / sizeof table[0] };

static FILE *said; /* what the command says on its standard error */

int LLVMFuzzerInitialize(int *argc, char ***argv);
dlock_status __real_dlock_client_open(const char *url, const dlock_options *options, dlock_client **ret_client,
                                      dlock_error *reterr);
dlock_status __wrap_dlock_client_open(const char *url, const dlock_options *options, dlock_client **ret_client,
                                      dlock_error *reterr);

dlock_status __wrap_dlock_client_open(const char *url, const dlock_options *options, dlock_client **ret_client,
                                      dlock_error *reterr)
{
    dlock_status status = __real_dlock_client_open(url, options, ret_client, reterr);

    if (status != DLOCK_OK)
        return status;
    dlock_client_free(*ret_client);
    *ret_client = NULL;
    return dli_fail(reterr, DLOCK_UNREACHABLE, "there is no server here");
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    return unsetenv("DLOCK_URL");
}

static char *word_of(const char *bytes, size_t size)
{
    const char *known;

    if (size != 2 || bytes[0] != '@')
        return fuzz_text(bytes, size);
    known = table[(unsigned char)bytes[1] % KNOWN];
    return fuzz_text(known, strlen(known));
}

/* One line that begins with the name of the program. */
static void check_sentence(const char *text)
{
    size_t size = strlen(text);
    char *line = fuzz_text(text, size ? size - 1 : 0);

    REQUIRE(size > 8 && strncmp(text, "dlock", 5) == 0 && text[size - 1] == '\n' && fuzz_printable(line));
    free(line);
}

static void check(int code, const char *out, const char *err)
{
    if (code == TOOL_DONE) {
        REQUIRE(!err[0] && out[0] && out[strlen(out) - 1] == '\n');
        return;
    }
    REQUIRE(code == TOOL_USAGE || code == TOOL_UNAVAILABLE);
    REQUIRE(!out[0]);
    check_sentence(err);
}

/* Sentences are written at once, past stderr. */
ssize_t __real_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size);
ssize_t __wrap_write(int fd, const void *bytes, size_t size)
{
    return fd == STDERR_FILENO && said ? (ssize_t)fwrite(bytes, 1, size, said) : __real_write(fd, bytes, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz in = {data, size};
    FILE *usual_out = stdout, *usual_err = stderr;
    char *argv[WORDS + 2] = {fuzz_text("dlock", 5)}, *kept[WORDS + 1], *out = NULL, *err = NULL;
    size_t out_size, err_size;
    int argc = 1, code;

    for (; in.left > 0 && argc <= WORDS; argc++) {
        size_t length;
        const char *word = fuzz_until(&in, '\n', &length);

        argv[argc] = word_of(word, length);
        if (strncmp(argv[argc], "--url-", 6) == 0) /* no file that an input names is read */
            argv[argc][2] = 'x';
    }
    memcpy(kept, argv, sizeof kept); /* the parser changes the order */
    stdout = open_memstream(&out, &out_size);
    stderr = said = open_memstream(&err, &err_size);
    code = tool_main(argc, argv);
    fclose(stdout);
    fclose(stderr);
    said = NULL;
    stdout = usual_out;
    stderr = usual_err;
    check(code, out, err);
    for (int i = 0; i < argc; i++)
        free(kept[i]);
    free(out);
    free(err);
    return 0;
}
