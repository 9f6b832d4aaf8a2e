/*
 * replay.c: runs a fuzz target over the inputs in folders, where libFuzzer is not linked. So every build compiles the
 * targets, and the inputs that are kept hold in every suite. Prints how many inputs it ran.
 */

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz/fuzz.h"

enum { INPUT_MAX = 1 << 20 };

__attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Run the target on one file: 1. Something else than a file: 0. A file that cannot be read ends the program. */
static int replay(const char *folder, const char *name)
{
    char path[4096];
    uint8_t *data, *input;
    size_t size;
    FILE *file;

    if (name[0] == '.')
        return 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "rb");
    data = malloc(INPUT_MAX);
    if (!file || !data) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(2);
    }
    size = fread(data, 1, INPUT_MAX, file);
    fclose(file);
    input = realloc(data, size ? size : 1); /* of exactly this size, so that a sanitizer sees a read behind it */
    LLVMFuzzerTestOneInput(input ? input : data, size);
    free(input ? input : data);
    return 1;
}

int main(int argc, char **argv)
{
    int ran = 0;

    if (LLVMFuzzerInitialize)
        LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; i++) {
        DIR *folder = opendir(argv[i]);

        if (!folder) {
            fprintf(stderr, "cannot open %s\n", argv[i]);
            return 2;
        }
        for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
            ran += replay(argv[i], entry->d_name);
        closedir(folder);
    }
    printf("%d\n", ran);
    return 0;
}
