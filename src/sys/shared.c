/*
 * shared.c: a shared library that is looked for at run time. No state.
 *
 * It prefers its own symbols (RTLD_DEEPBIND): a program such as Node.js may export another version of the same functions.
 */
#include "sys.h"

#include <dlfcn.h>

#ifndef RTLD_DEEPBIND /* musl */
#define RTLD_DEEPBIND 0
#endif

void *dli_shared_open(const char *name)
{
    return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_DEEPBIND);
}

void *dli_shared_symbol(void *library, const char *name)
{
    return dlsym(library, name);
}
