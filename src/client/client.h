/*
 * client.h: what client/ offers to api/: one client in one process, its locks, and the calls on them.
 *
 *   acquire.h    acquire and release: blocking, submitted, begun, in memory
 *   operation.h  every other operation on the server, checks of the servers too
 *   multi.h      several locks as one
 *   txn.h        optimistic transactions
 *   events.h     the event queue
 *   core.h       the client itself: its life, its functions
 *   entry.h      entries and waiters
 */
#ifndef DLI_CLIENT_CLIENT_H
#define DLI_CLIENT_CLIENT_H

#include "acquire.h"
#include "core.h"
#include "events.h"
#include "multi.h"
#include "operation.h"
#include "txn.h"

#endif
