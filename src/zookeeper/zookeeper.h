/*
 * zookeeper.h: the lock store on ZooKeeper.
 */
#ifndef DLI_ZOOKEEPER_ZOOKEEPER_H
#define DLI_ZOOKEEPER_ZOOKEEPER_H

#include "base/options.h"
#include "base/url.h"
#include "store/store.h"

/* Open the store at a site. options must outlive it. DLOCK_OUT_OF_MEMORY, or the errors of dli_tls_new. */
dlock_status dli_zookeeper_open(const struct dlock_options *options, const struct dli_site *site,
                                struct dli_store **ret, dlock_error *box);

#endif
