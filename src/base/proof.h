/*
 * proof.h: numbers that only their maker can tell. A waiter in line gives the server one; a message that grants it the lock must
 * repeat it. So only somebody who may read the line, or the message itself, can write such a message.
 */
#ifndef DLI_BASE_PROOF_H
#define DLI_BASE_PROOF_H

#include <stdint.h>

/* Random bytes of a client: as many as a proof needs to be unknown to everybody else. */
struct dli_secret {
    uint64_t word[2];
};

/*
 * The proof of one place in line: grant number, as of probe seq. SipHash-2-4 of the two under the secret. So each place has a
 * number of its own, and nothing is kept for it; whoever has seen proofs cannot tell any other.
 */
uint64_t dli_proof(const struct dli_secret *secret, int64_t number, int64_t seq);

#endif
