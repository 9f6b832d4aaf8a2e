/*
 * scripts.h: the Lua scripts, embedded by embed.py: text for EVAL and its SHA1 for EVALSHA.
 */
#ifndef DLI_SCRIPTS_H
#define DLI_SCRIPTS_H

#include <stddef.h>

enum {
    DLI_SCRIPT_ACQUIRE,
    DLI_SCRIPT_RELEASE,
    DLI_SCRIPT_PASS,
    DLI_SCRIPT_RENEW,
    DLI_SCRIPT_FORCE,
    DLI_SCRIPT_INSPECT,
    DLI_SCRIPT_COUNT
};

struct dli_script {
    const char *name; /* "acquire" */
    const char *text; /* terminated */
    size_t size;      /* bytes of text without the terminator */
    char sha1[41];    /* lower-case hex, terminated */
};

extern const struct dli_script dli_scripts[DLI_SCRIPT_COUNT];

#endif
