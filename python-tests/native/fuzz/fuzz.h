/*
 * fuzz.h: shared parts of the fuzz targets: an input that is read from the front, and checks that abort.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUIRE(truth) ((truth) ? (void)0 : fuzz_broken(#truth, __FILE__, __LINE__))

static inline _Noreturn void fuzz_broken(const char *truth, const char *file, int line)
{
    fprintf(stderr, "%s:%d: not so: %s\n", file, line, truth);
    abort();
}

/* The rest of an input. */
struct fuzz {
    const uint8_t *at;
    size_t left;
};

/* The next byte; 0 after the end. */
static inline unsigned fuzz_byte(struct fuzz *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->at++;
}

/* A number below limit, which is 256 at most. */
static inline unsigned fuzz_below(struct fuzz *in, unsigned limit)
{
    return fuzz_byte(in) % limit;
}

/* A number of any size: most are small, some are at the end of a range. */
static inline int64_t fuzz_number(struct fuzz *in)
{
    static const int64_t edges[] = {0,
                                    1,
                                    -1,
                                    2,
                                    100,
                                    1000,
                                    16383,
                                    16384,
                                    65535,
                                    65536,
                                    INT32_MAX,
                                    INT32_MIN,
                                    (INT64_C(1) << 53) - 1,
                                    INT64_C(1) << 53,
                                    INT64_MAX,
                                    INT64_MIN};
    unsigned kind = fuzz_byte(in);
    uint64_t number = 0;

    if (kind < 64)
        return edges[kind % 16];
    for (unsigned i = 0; i < 1 + kind % 8; i++)
        number = number << 8 | fuzz_byte(in);
    return kind < 160 ? (int64_t)(number % 100000) : (int64_t)number;
}

/* The bytes up to the next separator, which is dropped, or all that are left. Not terminated. */
static inline const char *fuzz_until(struct fuzz *in, char separator, size_t *size)
{
    const char *text = (const char *)in->at, *end = in->left ? memchr(text, separator, in->left) : NULL;

    *size = end ? (size_t)(end - text) : in->left;
    in->at += *size + (end != NULL);
    in->left -= *size + (end != NULL);
    return text;
}

/* A terminated copy, up to the first NUL byte. The caller frees it. */
static inline char *fuzz_text(const char *bytes, size_t size)
{
    char *text = malloc(size + 1);

    REQUIRE(text);
    if (size)
        memcpy(text, bytes, size);
    text[size] = '\0';
    return text;
}

/* Whether text has no control bytes, as a sentence must not. */
static inline int fuzz_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return 0;
    return 1;
}

#endif
