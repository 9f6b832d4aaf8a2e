/*
 * ticket.c: tickets, as text: "<seq>-<proof>", the proof in 16 hex digits. A waiter in line gives the server one with each probe.
 * Scripts keep the last one and repeat it in the message of a grant; they look at nothing in it. See base/proof.h. No state.
 */
#include "commands.h"

enum { DIGITS = 16 };

const char *dli_ticket_write(char out[DLI_TICKET_MAX], int64_t seq, uint64_t proof)
{
    static const char digits[] = "0123456789abcdef";
    char *at = out + dli_decimal(out, seq);

    *at++ = '-';
    for (int i = DIGITS - 1; i >= 0; i--)
        *at++ = digits[proof >> 4 * i & 15];
    *at = '\0';
    return out;
}

/* The value of a digit; -1: it is none that dli_ticket_write writes. */
static int value_of(char digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

int dli_ticket_read(const char **at, const char *end, int64_t *seq, uint64_t *proof)
{
    const char *from = *at;

    *seq = 0;
    *proof = 0;
    for (; from < end && *from >= '0' && *from <= '9'; from++) {
        if (*seq > INT64_MAX / 10 - 1)
            return 0;
        *seq = *seq * 10 + (*from - '0');
    }
    if (from == *at || end - from < DIGITS + 2 || *from++ != '-')
        return 0;
    for (int i = 0; i < DIGITS; i++) {
        int digit = value_of(*from++);

        if (digit < 0)
            return 0;
        *proof = *proof << 4 | (uint64_t)digit;
    }
    if (*from != ' ')
        return 0;
    *at = from + 1;
    return 1;
}
