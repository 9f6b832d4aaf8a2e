/*
 * watch.c: the descriptor of a client in libuv's loop, so that no thread waits for events.
 *
 * A watch ends by unwatch or with its environment, whichever comes first. The environment waits for its hook, and that for libuv,
 * before it goes. All of this runs on the thread of the environment.
 */
#include "watch.h"
#include "addon.h"

#include <stdlib.h>
#include <uv.h>

typedef struct watching {
    napi_env env;
    napi_ref function;
    napi_async_context context;
    napi_async_cleanup_hook_handle hook;
    uv_poll_t *poll; /* of the size that this libuv has */
} watching;

static void call_back(uv_poll_t *poll, int status, int events)
{
    watching *w = poll->data;
    napi_handle_scope scope;
    napi_value function, receiver, thrown;

    (void)status;
    (void)events;
    if (napi_open_handle_scope(w->env, &scope) != napi_ok)
        return;
    if (napi_get_reference_value(w->env, w->function, &function) == napi_ok &&
        napi_get_global(w->env, &receiver) == napi_ok &&
        napi_make_callback(w->env, w->context, receiver, function, 0, NULL, NULL) == napi_pending_exception &&
        napi_get_and_clear_last_exception(w->env, &thrown) == napi_ok)
        napi_fatal_exception(w->env, thrown);
    napi_close_handle_scope(w->env, scope);
}

static void closed(uv_handle_t *poll)
{
    watching *w = poll->data;

    napi_remove_async_cleanup_hook(w->hook);
    free(w->poll);
    free(w);
}

static void end(watching *w)
{
    if (uv_is_closing((uv_handle_t *)w->poll))
        return;
    uv_poll_stop(w->poll);
    uv_close((uv_handle_t *)w->poll, closed);
    napi_delete_reference(w->env, w->function);
    napi_async_destroy(w->env, w->context);
}

static void end_with_environment(napi_async_cleanup_hook_handle hook, void *data)
{
    (void)hook;
    end(data);
}

static int polls(watching *w, int fd)
{
    uv_loop_t *loop;

    w->poll = calloc(1, uv_handle_size(UV_POLL));
    if (!w->poll || napi_get_uv_event_loop(w->env, &loop) != napi_ok || uv_poll_init(loop, w->poll, fd))
        return 0;
    w->poll->data = w;
    uv_poll_start(w->poll, UV_READABLE, call_back);
    uv_unref((uv_handle_t *)w->poll);
    return 1;
}

napi_value watch(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    napi_value name, made = NULL;
    watching *w = calloc(1, sizeof *w);

    if (w)
        w->env = env;
    if (!w || !polls(w, (int)number(&c, 0))) {
        if (w)
            free(w->poll);
        free(w);
        napi_throw_error(env, NULL, "the descriptor of the client cannot be watched");
        return NULL;
    }
    napi_create_string_utf8(env, "dlock", NAPI_AUTO_LENGTH, &name);
    napi_async_init(env, NULL, name, &w->context);
    napi_create_reference(env, c.given[1], 1, &w->function);
    napi_add_async_cleanup_hook(env, end_with_environment, w, &w->hook);
    napi_create_external(env, w, NULL, NULL, &made);
    return made;
}

napi_value hold(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    watching *w = handle(&c, 0);

    if (number(&c, 1))
        uv_ref((uv_handle_t *)w->poll);
    else
        uv_unref((uv_handle_t *)w->poll);
    return NULL;
}

napi_value unwatch(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    end(handle(&c, 0));
    return NULL;
}
