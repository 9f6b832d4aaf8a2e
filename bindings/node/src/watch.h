/* watch.h: a watch calls a function of JavaScript whenever the descriptor of a client is readable. */
#ifndef DLOCK_WATCH_H
#define DLOCK_WATCH_H

#include <node_api.h>

/* watch(fd, function): begins, without keeping the process alive. Returns the watch. */
napi_value watch(napi_env env, napi_callback_info info);

/* hold(watch, 0 or 1): whether the watch keeps the process alive. */
napi_value hold(napi_env env, napi_callback_info info);

/* unwatch(watch): ends it. The watch must not be used again. */
napi_value unwatch(napi_env env, napi_callback_info info);

#endif
