/*
 * errno.c: the text of an errno, in English whatever the locale, by what every C library has.
 */
#include "sys.h"

#include <locale.h>
#include <string.h>

const char *dli_errno_text(int error)
{
    static locale_t plain; /* atomic; made once, never freed */
    locale_t seen = __atomic_load_n(&plain, __ATOMIC_ACQUIRE), made;

    if (!seen) {
        made = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        if (!made)
            return "unknown error";
        seen = made;
        __atomic_store_n(&plain, made, __ATOMIC_RELEASE);
    }
    return strerror_l(error, seen);
}
