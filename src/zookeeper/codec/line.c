/*
 * line.c: the children of a node, and which of them stand in line, see codec.h. The bytes may be anything.
 *
 * Only names that stand in line are kept. Each has more than ten bytes, so that a list costs at most twice its bytes.
 */
#include <stdlib.h>

#include "take.h"

enum { DIGITS = 10 };

/* What stands before the number of a node. */
static const struct side {
    char side;
    const char *text;
} sides[] = {{'l', "lock-"}, {'r', "__READ__"}, {'w', "__WRIT__"}, {'p', "lease-"}};

const char *dli_zk_side_text(char side)
{
    for (size_t i = 0; i < sizeof sides / sizeof sides[0]; i++)
        if (sides[i].side == side)
            return sides[i].text;
    return "";
}

/* Ten digits. -1: they are none. */
static int64_t number_of(const char *digits)
{
    int64_t number = 0;

    for (int i = 0; i < DIGITS; i++) {
        if (digits[i] < '0' || digits[i] > '9')
            return -1;
        number = 10 * number + (digits[i] - '0');
    }
    return number;
}

int32_t dli_zk_take_sequence(struct dli_zk_text digits)
{
    int64_t number = digits.size == DIGITS ? number_of(digits.bytes) : -1;

    return number > INT32_MAX ? -1 : (int32_t)number;
}

static int ends_with(struct dli_zk_text name, size_t size, const char *text)
{
    size_t length = strlen(text);

    return size >= length && memcmp(name.bytes + size - length, text, length) == 0;
}

/* Whether a name stands in line. Then *child is it, but for its number when that has run over: then all are odd. */
static int stands(struct dli_zk_text name, struct dli_zk_child *child, int *odd)
{
    size_t rest = name.size > DIGITS ? name.size - DIGITS : 0;
    int64_t number = rest ? number_of(name.bytes + rest) : -1;

    for (size_t i = 0; number >= 0 && i < sizeof sides / sizeof sides[0]; i++) {
        int below = ends_with(name, rest, "-") && ends_with(name, rest - 1, sides[i].text);

        if (!below && !ends_with(name, rest, sides[i].text))
            continue;
        *odd |= below || number > INT32_MAX;
        *child = (struct dli_zk_child){
            .seq = number > INT32_MAX ? INT32_MAX : (int32_t)number, .side = sides[i].side, .name = name};
        return 1;
    }
    return 0;
}

/* What a list has. */
struct all {
    struct dli_zk_children found;
    size_t bytes; /* of the names that stand in line */
};

/* Go through the names. to: NULL, or where those that stand in line go; their bytes go to copy. 0, or -1. */
static int go_through(struct dli_zk_text body, struct all *all, struct dli_zk_child *to, char *copy)
{
    int32_t left;

    if (dli_zk_take_int(&body, &left) || left < 0 || (size_t)left > body.size / 4)
        return -1;
    *all = (struct all){.bytes = 0};
    while (left-- > 0) {
        struct dli_zk_child child;
        struct dli_zk_text name;

        if (dli_zk_take_text(&body, &name))
            return -1;
        all->found.gate |= name.size == sizeof DLI_ZK_GATE - 1 && memcmp(name.bytes, DLI_ZK_GATE, name.size) == 0;
        if (!stands(name, &child, &all->found.odd))
            continue;
        all->found.foreign |= name.size > DLI_ZK_NAME_MAX;
        if (name.size > DLI_ZK_NAME_MAX)
            continue;
        if (to) {
            child.name.bytes = memcpy(copy + all->bytes, name.bytes, name.size);
            to[all->found.count] = child;
        }
        all->bytes += name.size;
        all->found.count++;
    }
    return 0;
}

static int in_order(const void *a, const void *b)
{
    int32_t x = ((const struct dli_zk_child *)a)->seq, y = ((const struct dli_zk_child *)b)->seq;

    return x < y ? -1 : x > y;
}

int dli_zk_take_children(struct dli_zk_text body, struct dli_zk_answer *answer)
{
    struct dli_zk_child *child;
    struct all all;
    size_t rows, size;

    if (go_through(body, &all, NULL, NULL))
        return -1;
    rows = (size_t)all.found.count * sizeof *child;
    size = rows + all.bytes;
    if (size > 0 && !(answer->room = malloc(size)))
        return -2;
    child = answer->room;
    answer->room_size = size;
    if (size > 0) {
        go_through(body, &all, child, (char *)child + rows);
        qsort(child, (size_t)all.found.count, sizeof *child, in_order);
    }
    answer->children = all.found;
    answer->children.child = child;
    return 0;
}
