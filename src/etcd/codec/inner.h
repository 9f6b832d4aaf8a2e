/*
 * inner.h: shared by the files of codec/ that write requests, the only ones that use protobuf-c.
 */
#ifndef DLI_ETCD_CODEC_INNER_H
#define DLI_ETCD_CODEC_INNER_H

#include "codec.h"
#include "etcd.pb-c.h"

/* Append a message with gRPC's head. 0, or -1 without memory. */
int dli_etcd_pack(struct dli_buffer *out, const ProtobufCMessage *message);

static inline ProtobufCBinaryData dli_etcd_data(struct dli_etcd_bytes bytes)
{
    return (ProtobufCBinaryData){bytes.size, (uint8_t *)(uintptr_t)bytes.bytes};
}

#endif
