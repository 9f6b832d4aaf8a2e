/*
 * scripts.h: the Lua scripts, embedded by embed.py: the text for EVAL and its SHA1 for EVALSHA.
 */
#ifndef DLI_REDIS_SCRIPTS_SCRIPTS_H
#define DLI_REDIS_SCRIPTS_SCRIPTS_H

#include <stddef.h>

enum {
    DLI_SCRIPT_ACQUIRE,
    DLI_SCRIPT_RELEASE,
    DLI_SCRIPT_PASS,
    DLI_SCRIPT_RENEW,
    DLI_SCRIPT_EXPORT,
    DLI_SCRIPT_ADOPT,
    DLI_SCRIPT_DISOWN,
    DLI_SCRIPT_FORCE,
    DLI_SCRIPT_INSPECT,
    DLI_SCRIPT_GATE,
    DLI_SCRIPT_MULTI_ACQUIRE,
    DLI_SCRIPT_FAIR_ACQUIRE,
    DLI_SCRIPT_FAIR_RELEASE,
    DLI_SCRIPT_FAIR_FORCE,
    DLI_SCRIPT_READ_ACQUIRE,
    DLI_SCRIPT_READ_RELEASE,
    DLI_SCRIPT_READ_RENEW,
    DLI_SCRIPT_WRITE_ACQUIRE,
    DLI_SCRIPT_WRITE_RELEASE,
    DLI_SCRIPT_RW_FORCE,
    DLI_SCRIPT_SEMAPHORE_ACQUIRE,
    DLI_SCRIPT_SEMAPHORE_RELEASE,
    DLI_SCRIPT_SEMAPHORE_CHANGE,
    DLI_SCRIPT_SEMAPHORE_RENEW,
    DLI_SCRIPT_PERMIT_ACQUIRE,
    DLI_SCRIPT_PERMIT_RELEASE,
    DLI_SCRIPT_PERMIT_RENEW,
    DLI_SCRIPT_PERMIT_CHANGE,
    DLI_SCRIPT_LATCH_AWAIT,
    DLI_SCRIPT_LATCH_CHANGE,
    DLI_SCRIPT_QUARANTINE_ACQUIRE,
    DLI_SCRIPT_QUARANTINE_RELEASE,
    DLI_SCRIPT_QUARANTINE_PASS,
    DLI_SCRIPT_QUARANTINE_FORCE,
    DLI_SCRIPT_QUARANTINE_MULTI_ACQUIRE,
    DLI_SCRIPT_QUARANTINE_FAIR_ACQUIRE,
    DLI_SCRIPT_QUARANTINE_FAIR_RELEASE,
    DLI_SCRIPT_QUARANTINE_FAIR_FORCE,
    DLI_SCRIPT_QUARANTINE_READ_ACQUIRE,
    DLI_SCRIPT_QUARANTINE_WRITE_ACQUIRE,
    DLI_SCRIPT_QUARANTINE_PERMIT_ACQUIRE,
    DLI_SCRIPT_PROVISION,
    DLI_SCRIPT_CHECK,
    DLI_SCRIPT_AGAIN,
    DLI_SCRIPT_FLOOR,
    DLI_SCRIPT_JOIN,
    DLI_SCRIPT_BATCH_ACQUIRE,
    DLI_SCRIPT_BATCH_RELEASE,
    DLI_SCRIPT_MOVING,
    DLI_SCRIPT_COUNT
};

struct dli_script {
    const char *name; /* "acquire" */
    const char *text; /* terminated */
    size_t size;      /* bytes of text without the terminator */
    char sha1[41];    /* lower-case hex, terminated */
    char asking[41];  /* the same of dli_script_asking and text */
};

/* This comes before the text of a script that is sent with ASKING, see shared/asking.lua. */
extern const char dli_script_asking[];

extern const struct dli_script dli_scripts[DLI_SCRIPT_COUNT];

/*
 * The same for clusters with sharded channels. sharded: the channels of locks are sharded. both: messages go to the
 * plain and the sharded channel, and the subscribers of both are counted. Our own channel, "dlock_client:", is always
 * plain.
 */
extern const struct dli_script dli_scripts_sharded[DLI_SCRIPT_COUNT];
extern const struct dli_script dli_scripts_both[DLI_SCRIPT_COUNT];

/* The form of the channels of locks. */
enum { DLI_FORM_NONE = -1, DLI_FORM_PLAIN, DLI_FORM_SHARDED, DLI_FORM_BOTH };

static inline const struct dli_script *dli_script_in(int form, int script)
{
    if (form == DLI_FORM_BOTH)
        return &dli_scripts_both[script];
    return form == DLI_FORM_SHARDED ? &dli_scripts_sharded[script] : &dli_scripts[script];
}

#endif
