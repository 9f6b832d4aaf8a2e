/*
 * wire.h: a walk over the bytes of a protobuf message, field by field. Private to codec/; only the files that read answers include
 * it. It allocates nothing, so no message costs more than its own bytes.
 */
#ifndef DLI_ETCD_CODEC_WIRE_H
#define DLI_ETCD_CODEC_WIRE_H

#include "codec.h"

/* What is left of a message. */
struct dli_etcd_wire {
    const uint8_t *at, *end;
};

struct dli_etcd_field {
    uint32_t number;
    int8_t is_number; /* a varint, in value */
    int8_t is_bytes;  /* in bytes */
    uint64_t value;
    struct dli_etcd_wire bytes;
};

static inline struct dli_etcd_wire dli_etcd_wire_of(struct dli_etcd_bytes bytes)
{
    const uint8_t *at = (const uint8_t *)bytes.bytes;

    return (struct dli_etcd_wire){at, at ? at + bytes.size : at};
}

/* The bytes of a field, or what is left of a message. */
struct dli_etcd_bytes dli_etcd_wire_bytes(struct dli_etcd_wire wire);

/* The next field. 1; 0: the message is over; -1: these bytes are no message. */
int dli_etcd_wire_next(struct dli_etcd_wire *wire, struct dli_etcd_field *field);

/* The field as a number of a range. 0, or -1: it is none. */
int dli_etcd_wire_number(const struct dli_etcd_field *field, int64_t least, int64_t most, int64_t *number);

/* The field as bytes. 0, or -1: it is a number. */
int dli_etcd_wire_text(const struct dli_etcd_field *field, struct dli_etcd_bytes *text);

/*
 * Give each field of a message to take. 0, or -1: these bytes are no message, or take returned -1.
 */
typedef int dli_etcd_wire_take(void *into, const struct dli_etcd_field *field);
int dli_etcd_wire_each(struct dli_etcd_wire wire, dli_etcd_wire_take *take, void *into);

/* ---- reply.c: the revision and the term in the header of an answer. term: may be NULL. 0, or -1: it is none. */
int dli_etcd_read_header(const struct dli_etcd_field *field, int64_t *revision, int64_t *term);

#endif
