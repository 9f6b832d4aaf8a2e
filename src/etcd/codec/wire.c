/*
 * wire.c: see wire.h. No state.
 */
#include "wire.h"

enum { VARINT = 0, FIXED_64 = 1, BYTES = 2, FIXED_32 = 5, BITS = 7, LAST_SHIFT = 63 };
enum { NUMBER_MAX = 0x1fffffff }; /* of a field */

struct dli_etcd_bytes dli_etcd_wire_bytes(struct dli_etcd_wire wire)
{
    return (struct dli_etcd_bytes){(const char *)wire.at, (size_t)(wire.end - wire.at)};
}

/* 0, or -1: it ends in the middle, or has more than 64 bits. */
static int varint(struct dli_etcd_wire *wire, uint64_t *value)
{
    *value = 0;
    for (int shift = 0; shift <= LAST_SHIFT && wire->at < wire->end; shift += BITS) {
        uint8_t byte = *wire->at++;

        if (shift == LAST_SHIFT && byte > 1)
            return -1;
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return 0;
    }
    return -1;
}

/* The field has so many bytes. */
static int take(struct dli_etcd_wire *wire, struct dli_etcd_field *field, uint64_t size)
{
    if (size > (uint64_t)(wire->end - wire->at))
        return -1;
    field->bytes = (struct dli_etcd_wire){wire->at, wire->at + size};
    wire->at += size;
    return 1;
}

int dli_etcd_wire_next(struct dli_etcd_wire *wire, struct dli_etcd_field *field)
{
    uint64_t tag, size;

    if (wire->at == wire->end)
        return 0;
    if (varint(wire, &tag) || tag >> 3 == 0 || tag >> 3 > NUMBER_MAX)
        return -1;
    *field = (struct dli_etcd_field){.number = (uint32_t)(tag >> 3)};
    switch (tag & 7) {
    case VARINT:
        field->is_number = 1;
        return varint(wire, &field->value) ? -1 : 1;
    case BYTES:
        field->is_bytes = 1;
        return varint(wire, &size) ? -1 : take(wire, field, size);
    case FIXED_64:
        return take(wire, field, 8);
    case FIXED_32:
        return take(wire, field, 4);
    default:
        return -1;
    }
}

int dli_etcd_wire_number(const struct dli_etcd_field *field, int64_t least, int64_t most, int64_t *number)
{
    *number = (int64_t)field->value;
    return field->is_number && *number >= least && *number <= most ? 0 : -1;
}

int dli_etcd_wire_text(const struct dli_etcd_field *field, struct dli_etcd_bytes *text)
{
    *text = dli_etcd_wire_bytes(field->bytes);
    return field->is_bytes ? 0 : -1;
}

int dli_etcd_wire_each(struct dli_etcd_wire wire, dli_etcd_wire_take *take_field, void *into)
{
    struct dli_etcd_field field;
    int more;

    while ((more = dli_etcd_wire_next(&wire, &field)) > 0)
        if (take_field(into, &field))
            return -1;
    return more;
}
