/*
 * fuzz_words.h: replies for the fuzz targets, through the codec: an input that begins with "!" is RESP as it stands, any other one
 * chooses words, numbers and arrays that the parsers know.
 */
#ifndef FUZZ_WORDS_H
#define FUZZ_WORDS_H

#include "fuzz.h"
#include "redis/codec/resp.h"

/* What no sentence repeats. */
#define SECRET "S3cr3tPaSs"

/* Bytes of a reply, made of in. */
void fuzz_reply(struct fuzz *in, struct dli_buffer *out);

/* The same, read. NULL when the bytes are not one whole reply; it lives as long as the reader. */
const struct dli_reply *fuzz_read(struct fuzz *in, struct dli_reader *reader);

/* One error reply with SECRET in it, perhaps; or the same as above. */
void fuzz_error(struct fuzz *in, struct dli_buffer *out);

#endif
