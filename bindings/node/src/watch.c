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

enum { USES, HELD };

typedef struct watching {
    napi_env env;
    napi_ref function;
    napi_ref memory; /* of alive */
    napi_async_context context;
    napi_async_cleanup_hook_handle hook;
    int32_t *alive;
    uv_poll_t *poll; /* this and rest have the sizes of this libuv */
    uv_prepare_t *rest;
    int open; /* of these two */
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

/* The loop comes round. A hold is given up here and not when its use ends, since short uses follow each other. */
static void come_round(uv_prepare_t *rest)
{
    watching *w = rest->data;

    if (!w->alive[HELD] || w->alive[USES])
        return;
    w->alive[HELD] = 0;
    uv_unref((uv_handle_t *)w->poll);
}

static void free_watch(watching *w)
{
    free(w->poll);
    free(w->rest);
    free(w);
}

static void closed(uv_handle_t *one)
{
    watching *w = one->data;

    if (--w->open)
        return;
    napi_remove_async_cleanup_hook(w->hook);
    free_watch(w);
}

static void end(watching *w)
{
    if (uv_is_closing((uv_handle_t *)w->poll))
        return;
    uv_close((uv_handle_t *)w->poll, closed);
    uv_close((uv_handle_t *)w->rest, closed);
    napi_delete_reference(w->env, w->function);
    napi_delete_reference(w->env, w->memory);
    napi_async_destroy(w->env, w->context);
}

static void end_with_environment(napi_async_cleanup_hook_handle hook, void *data)
{
    (void)hook;
    end(data);
}

/* Only the first step can fail, so that nothing has to be undone. */
static int polls(watching *w, int fd)
{
    uv_loop_t *loop;

    w->poll = calloc(1, uv_handle_size(UV_POLL));
    w->rest = calloc(1, uv_handle_size(UV_PREPARE));
    if (!w->poll || !w->rest || napi_get_uv_event_loop(w->env, &loop) != napi_ok || uv_poll_init(loop, w->poll, fd))
        return 0;
    uv_prepare_init(loop, w->rest);
    w->poll->data = w->rest->data = w;
    w->open = 2;
    uv_poll_start(w->poll, UV_READABLE, call_back);
    uv_prepare_start(w->rest, come_round);
    uv_unref((uv_handle_t *)w->poll);
    uv_unref((uv_handle_t *)w->rest);
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
            free_watch(w);
        napi_throw_error(env, NULL, "the descriptor of the client cannot be watched");
        return NULL;
    }
    napi_create_string_utf8(env, "dlock", NAPI_AUTO_LENGTH, &name);
    napi_async_init(env, NULL, name, &w->context);
    napi_create_reference(env, c.given[1], 1, &w->function);
    napi_create_reference(env, c.given[2], 1, &w->memory);
    w->alive = bytes(&c, 2);
    napi_add_async_cleanup_hook(env, end_with_environment, w, &w->hook);
    napi_create_external(env, w, NULL, NULL, &made);
    return made;
}

napi_value hold(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    watching *w = handle(&c, 0);

    w->alive[HELD] = 1;
    uv_ref((uv_handle_t *)w->poll);
    return NULL;
}

napi_value unwatch(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    end(handle(&c, 0));
    return NULL;
}
