/*
 * engine.h: what engine/ offers: decisions without I/O, clock or threads.
 *
 *   lease.h  how long a grant may be trusted
 *   mutex.h  the lock machine of one name in one process
 *   spare.h  tokens for turns of several machines of one name
 *   votes.h  how independent servers decide together
 */
#ifndef DLI_ENGINE_ENGINE_H
#define DLI_ENGINE_ENGINE_H

#include "lease.h"
#include "mutex.h"
#include "spare.h"
#include "votes.h"

#endif
