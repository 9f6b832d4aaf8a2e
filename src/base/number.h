/*
 * number.h: sums of numbers that somebody else chose: a server, a user, another client. They stop at the ends of the range
 * instead of running over. No state.
 */
#ifndef DLI_BASE_NUMBER_H
#define DLI_BASE_NUMBER_H

#include <stdint.h>

/* a + b, at most INT64_MAX and at least INT64_MIN. */
static inline int64_t dli_plus(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? (b < 0 ? INT64_MIN : INT64_MAX) : sum;
}

/* a - b, the same. */
static inline int64_t dli_minus(int64_t a, int64_t b)
{
    int64_t rest;

    return __builtin_sub_overflow(a, b, &rest) ? (b < 0 ? INT64_MAX : INT64_MIN) : rest;
}

/* a * b, the same. */
static inline int64_t dli_times(int64_t a, int64_t b)
{
    int64_t product;

    return __builtin_mul_overflow(a, b, &product) ? ((a < 0) == (b < 0) ? INT64_MAX : INT64_MIN) : product;
}

/* The number of a range that is nearest to number. least <= most. */
static inline int64_t dli_between(int64_t number, int64_t least, int64_t most)
{
    return number < least ? least : number > most ? most : number;
}

#endif
