/*
 * printable.h: which characters people are shown as they are. All others become \xNN, byte by byte.
 *
 * Not shown are control characters, also those of C1, which a terminal may obey; format characters, which turn the
 * direction of text or cannot be seen; all spaces but the usual one, which look like it or like nothing; characters of
 * private use; and what is no UTF-8. Marks above and below a letter are shown, but not without the letter, and only
 * some of them. The command dlock compiles this file as well, so library and command have one rule.
 */
#ifndef DLI_BASE_PRINTABLE_H
#define DLI_BASE_PRINTABLE_H

#include <stddef.h>
#include <stdint.h>

/* How many marks the last character has. A text begins with DLI_MARKS_NONE: a mark needs a letter before it. */
enum { DLI_MARKS_MOST = 4, DLI_MARKS_NONE = DLI_MARKS_MOST };

/* The length of the UTF-8 character at bytes, and its code; 0 when there is none. Surrogates and overlong forms are none. */
size_t dli_utf8(const char *bytes, size_t size, uint32_t *ret_code);

/* Whether it is a mark, which takes no place of its own. */
int dli_is_mark(uint32_t code);

/* The length of the character at bytes if it is shown as it is; 0: its first byte is escaped. Keeps account of marks. */
size_t dli_printable(const char *bytes, size_t size, int *marks);

#endif
