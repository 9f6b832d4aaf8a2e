/*
 * codec.h: the interface of codec/: bytes on the wire and what they mean. No I/O.
 *
 *   resp.h         RESP2: replies read through hiredis, commands written by our encoder
 *   kinds.h        keys, channels and scripts of each kind of lock
 *   commands.h     requests of the store as commands, and replies as results
 *   errors.h       what error replies mean
 *   cluster_map.h  slots, which primaries own them, and redirects
 */
#ifndef DLI_REDIS_CODEC_CODEC_H
#define DLI_REDIS_CODEC_CODEC_H

#include "cluster_map.h"
#include "commands.h"
#include "errors.h"
#include "kinds.h"
#include "resp.h"

#endif
