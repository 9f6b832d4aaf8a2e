/*
 * numbers.c: base/number.h, beside arithmetic in 128 bits: all pairs of numbers near the ends, near zero, and near the roots of the ends.
 */
#include "base.h"

#include "base/number.h"

static const int64_t middles[] = {INT64_MIN, INT64_MIN / 2,       -INT64_C(3037000500), -INT64_C(4294967296),
                                  0,         INT64_C(4294967296), INT64_C(3037000500),  INT64_MAX / 2,
                                  INT64_MAX};

enum { MIDDLES = sizeof middles / sizeof middles[0], AROUND = 2, COUNT = MIDDLES * (2 * AROUND + 1) };

__extension__ typedef __int128 wide;

static int64_t cut(wide number)
{
    return number > INT64_MAX ? INT64_MAX : number < INT64_MIN ? INT64_MIN : (int64_t)number;
}

static int64_t number_at(int i)
{
    return cut((wide)middles[i / (2 * AROUND + 1)] + i % (2 * AROUND + 1) - AROUND);
}

void numbers(void)
{
    for (int i = 0; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++) {
            int64_t a = number_at(i), b = number_at(j);

            REQUIRE(dli_plus(a, b) == cut((wide)a + b));
            REQUIRE(dli_minus(a, b) == cut((wide)a - b));
            REQUIRE(dli_times(a, b) == cut((wide)a * b));
            REQUIRE(dli_between(a, -5, 5) == (a < -5 ? -5 : a > 5 ? 5 : a));
        }
}
