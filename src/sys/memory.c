/*
 * memory.c: see sys.h. Other C libraries than glibc return memory by themselves.
 */
#include "sys.h"

#include <malloc.h>

void dli_memory_trim(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
