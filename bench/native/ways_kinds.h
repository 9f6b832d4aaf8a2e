/*
 * ways_kinds.h: the ways of ways_kinds.c, ways_floor.c and ways_etcd.c, for ways.c.
 */
#ifndef WAYS_KINDS_H
#define WAYS_KINDS_H

#include "ways.h"

extern const struct way kind_ways[];
extern const size_t kind_way_count;
extern const struct way floor_way, blpop_way, least_way;
extern const struct way etcd_way; /* in a build with etcd */

#endif
