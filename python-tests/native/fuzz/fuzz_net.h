/*
 * fuzz_net.h: the network of fuzz_store.c: every connection ends here, and the input chooses the replies.
 */
#ifndef FUZZ_NET_H
#define FUZZ_NET_H

#include "fuzz.h"

#define UUID "01234567-89ab-8def-0123-456789abcdef"

extern int64_t fuzz_now; /* the clock */

/* obey_us: servers reply as they should, except to scripts, where the input chooses. */
void fuzz_net_begin(int obey_us);
void fuzz_net_end(void);

/* The number of connections; and the end of one. */
int fuzz_net_peers(void);
void fuzz_net_drop(int i);

/* Some server sends data that nobody requested. */
void fuzz_net_answer(struct fuzz *in);

/* Read the data that was written to servers. */
void fuzz_net_drain(struct fuzz *in);

#endif
