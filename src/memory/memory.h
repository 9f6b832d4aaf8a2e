/*
 * memory.h: the lock store in the memory of this process.
 */
#ifndef DLI_MEMORY_MEMORY_H
#define DLI_MEMORY_MEMORY_H

#include "base/options.h"
#include "base/url.h"
#include "store/store.h"

/* Open the store of a site. options must outlive it. DLOCK_OUT_OF_MEMORY. */
dlock_status dli_memory_open(const struct dlock_options *options, const struct dli_site *site, struct dli_store **ret,
                             dlock_error *box);

#endif
