/*
 * fuzz_net.h: the network of fuzz_store.c: every connection ends here, and the input says what comes back.
 */
#ifndef FUZZ_NET_H
#define FUZZ_NET_H

#include "fuzz.h"

#define UUID "01234567-89ab-8def-0123-456789abcdef"

extern int64_t fuzz_now; /* what the clock shows */

/* obey_us: servers answer what they are asked, but for scripts as the input says. */
void fuzz_net_begin(int obey_us);
void fuzz_net_end(void);

/* How many connections there are; and the end of one. */
int fuzz_net_peers(void);
void fuzz_net_drop(int i);

/* Some server says something that nobody asked for. */
void fuzz_net_answer(struct fuzz *in);

/* Read what was written to servers. */
void fuzz_net_drain(struct fuzz *in);

#endif
