/*
 * client.h: what client/ offers to api/: one client in one process, its locks, and what its callers can ask.
 *
 *   acquire.h    acquire and release: blocking, submitted, begun, in memory
 *   operation.h  everything else that is asked of the server
 *   multi.h      several locks as one
 *   txn.h        optimistic transactions
 *   check.h      looks at the servers
 *   events.h     the event queue
 *   core.h       the client itself: life, entries, waiters
 */
#ifndef DLI_CLIENT_CLIENT_H
#define DLI_CLIENT_CLIENT_H

#include "acquire.h"
#include "check.h"
#include "core.h"
#include "events.h"
#include "multi.h"
#include "operation.h"
#include "txn.h"

#endif
