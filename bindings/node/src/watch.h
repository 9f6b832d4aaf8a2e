/* watch.h: a watch calls a function of JavaScript whenever the descriptor of a client is readable. */
#ifndef DLOCK_WATCH_H
#define DLOCK_WATCH_H

#include <node_api.h>

/*
 * watch(fd, function, alive): begins, without keeping the process alive. Returns the watch. alive is an Int32Array of two: what is
 * in use, which JavaScript counts, and whether the watch keeps the process alive.
 */
napi_value watch(napi_env env, napi_callback_info info);

/* hold(watch): it keeps the process alive until nothing is in use when the loop comes round. */
napi_value hold(napi_env env, napi_callback_info info);

/* unwatch(watch): ends it. The watch must not be used again. */
napi_value unwatch(napi_env env, napi_callback_info info);

#endif
