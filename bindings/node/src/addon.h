/*
 * addon.h: what the calls in calls.c share. Each environment (the main thread, a worker) has an instance with an error box and an
 * event box of its own, so no mutex is needed: everything runs on the thread of the environment, except dlock_client_open.
 */
#ifndef DLOCK_ADDON_H
#define DLOCK_ADDON_H

#include <dlock.h>
#include <node_api.h>

enum { OUTS = 64, ARGUMENTS = 8, MEMBERS = 17 };

/* Numbers go back to JavaScript in out, the memory of a Float64Array: all numbers of the library are below 2^53. */
typedef struct instance {
    dlock_error *error;
    dlock_event *event;
    double *out;
} instance;

/* A call from JavaScript. */
typedef struct call {
    napi_env env;
    instance *own;
    napi_value given[ARGUMENTS];
    void *members[MEMBERS];
} call;

typedef struct export_row {
    const char *name;
    napi_callback function;
} export_row;

/* The generated calls, and how many there are. */
extern const export_row calls[];
extern const size_t calls_count;

/* Begin a call. */
call begin(napi_env env, napi_callback_info info);

/* Arguments by their place, which JavaScript has checked: numbers are whole and within int64. bytes: of a Uint8Array, which has a terminator where the library wants one; size: their number. */
void *handle(const call *c, size_t place);
int64_t number(const call *c, size_t place);
void *bytes(const call *c, size_t place);
size_t size(const call *c, size_t place);

/* The handles of an array go to c->members; returns how many, of which one more than the library takes is enough. */
size_t members(call *c, size_t place);

/* Results. An external frees what it points to; without one, the status is returned in its place. */
napi_value whole(const call *c, double value);
napi_value text(const call *c, const char *value);
napi_value nothing(const call *c);
napi_value external(const call *c, dlock_status status, void *pointer, napi_finalize finalize);
void outs(const call *c, const int64_t *values, size_t count);

#endif
