/*
 * main.c: base WHAT    runs the tests of one part of src/base, see base.h. Prints what is not so, and exits with 1.
 */
#include "base.h"

#include <string.h>

static const struct part {
    const char *name;
    void (*run)(void);
} parts[] = {{"lists", lists}, {"numbers", numbers}, {"secrets", secrets}, {"texts", texts}};

int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (argc == 2 && strcmp(argv[1], parts[i].name) == 0) {
            parts[i].run();
            return 0;
        }
    fprintf(stderr, "usage: base WHAT\n");
    return 2;
}
