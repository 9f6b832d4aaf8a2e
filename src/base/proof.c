/*
 * proof.c: SipHash-2-4 (Aumasson and Bernstein, 2012) of a message of two words. See proof.h. No state.
 */
#include "proof.h"

enum { SIZE = 16 };

static uint64_t turn(uint64_t x, int by)
{
    return x << by | x >> (64 - by);
}

static void mix(uint64_t v[4], int rounds)
{
    while (rounds-- > 0) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = turn(v[1], 13) ^ v[0];
        v[3] = turn(v[3], 16) ^ v[2];
        v[0] = turn(v[0], 32);
        v[2] += v[1];
        v[0] += v[3];
        v[1] = turn(v[1], 17) ^ v[2];
        v[3] = turn(v[3], 21) ^ v[0];
        v[2] = turn(v[2], 32);
    }
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v, 2);
    v[0] ^= word;
}

uint64_t dli_proof(const struct dli_secret *secret, int64_t number, int64_t seq)
{
    uint64_t v[4] = {
        secret->word[0] ^ UINT64_C(0x736f6d6570736575),
        secret->word[1] ^ UINT64_C(0x646f72616e646f6d),
        secret->word[0] ^ UINT64_C(0x6c7967656e657261),
        secret->word[1] ^ UINT64_C(0x7465646279746573),
    };

    absorb(v, (uint64_t)number);
    absorb(v, (uint64_t)seq);
    absorb(v, (uint64_t)SIZE << 56);
    v[2] ^= 0xff;
    mix(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
