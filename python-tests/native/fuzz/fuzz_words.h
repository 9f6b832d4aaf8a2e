/*
 * fuzz_words.h: replies for the fuzz targets, through the codec. An input that begins with "!" is RESP as it is. Any
 * other input chooses words, numbers and arrays that the parsers know.
 */
#ifndef FUZZ_WORDS_H
#define FUZZ_WORDS_H

#include "fuzz.h"
#include "redis/codec/resp.h"

/* No sentence may repeat it. */
#define SECRET "S3cr3tPaSs"

/* Bytes of a reply, made from in. */
void fuzz_reply(struct fuzz *in, struct dli_buffer *out);

/* The same, parsed. NULL unless the bytes are one whole reply. It lives as long as the reader. */
const struct dli_reply *fuzz_read(struct fuzz *in, struct dli_reader *reader);

/* One error reply that may have SECRET in it; or the same as above. */
void fuzz_error(struct fuzz *in, struct dli_buffer *out);

#endif
