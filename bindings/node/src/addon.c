/*
 * addon.c: the frame of the addon: instances, arguments and results of calls, and opening a client.
 *
 * dlock_client_open runs in libuv's pool, since with the option checks it asks the servers. What it uses belongs to its
 * opening until it is done.
 */
#include "addon.h"
#include "watch.h"

#include <stdlib.h>
#include <string.h>

call begin(napi_env env, napi_callback_info info)
{
    call c = {.env = env};
    size_t count = ARGUMENTS;
    void *own = NULL;

    napi_get_cb_info(env, info, &count, c.given, NULL, &own);
    c.own = own;
    return c;
}

void *handle(const call *c, size_t place)
{
    void *pointer = NULL;

    return napi_get_value_external(c->env, c->given[place], &pointer) == napi_ok ? pointer : NULL;
}

int64_t number(const call *c, size_t place)
{
    int64_t value = 0;
    bool lossless;

    if (napi_get_value_int64(c->env, c->given[place], &value) == napi_number_expected)
        napi_get_value_bigint_int64(c->env, c->given[place], &value, &lossless);
    return value;
}

void *bytes(const call *c, size_t place)
{
    void *data = NULL;

    napi_get_typedarray_info(c->env, c->given[place], NULL, NULL, &data, NULL, NULL);
    return data ? data : ""; /* an empty array may have no memory */
}

size_t size(const call *c, size_t place)
{
    size_t length = 0;

    napi_get_typedarray_info(c->env, c->given[place], NULL, &length, NULL, NULL, NULL);
    return length;
}

size_t members(call *c, size_t place)
{
    uint32_t count = 0;
    napi_value one;

    napi_get_array_length(c->env, c->given[place], &count);
    if (count > MEMBERS)
        count = MEMBERS;
    for (uint32_t i = 0; i < count; i++) {
        c->members[i] = NULL;
        if (napi_get_element(c->env, c->given[place], i, &one) == napi_ok)
            napi_get_value_external(c->env, one, &c->members[i]);
    }
    return count;
}

napi_value whole(const call *c, double value)
{
    napi_value made = NULL;

    napi_create_double(c->env, value, &made);
    return made;
}

napi_value text(const call *c, const char *value)
{
    napi_value made = NULL;

    if (value)
        napi_create_string_utf8(c->env, value, NAPI_AUTO_LENGTH, &made);
    return made;
}

napi_value nothing(const call *c)
{
    (void)c;
    return NULL;
}

napi_value external(const call *c, dlock_status status, void *pointer, napi_finalize finalize)
{
    napi_value made = NULL;

    if (!pointer)
        return whole(c, status == DLOCK_OK ? DLOCK_OUT_OF_MEMORY : status);
    if (napi_create_external(c->env, pointer, finalize, NULL, &made) != napi_ok)
        finalize(c->env, pointer, NULL);
    return made;
}

void outs(const call *c, const int64_t *values, size_t count)
{
    for (size_t i = 0; i < count && i < OUTS; i++)
        c->own->out[i] = (double)values[i];
}

/* ---- opening a client */

typedef struct opening {
    napi_async_work work;
    napi_deferred deferred;
    napi_ref options; /* keeps them alive */
    dlock_options *values;
    char *url;
    dlock_client *client;
    dlock_error *error;
    dlock_status status;
} opening;

static void run_open(napi_env env, void *data)
{
    opening *o = data;

    (void)env;
    o->status = dlock_client_open(o->url, o->values, &o->client, o->error);
}

static void free_client(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    dlock_client_free(data);
}

static napi_value reason(napi_env env, const opening *o)
{
    napi_value message, made = NULL, status;
    const char *said = dlock_error_message(o->error);

    napi_create_string_utf8(env, *said ? said : dlock_status_text(o->status), NAPI_AUTO_LENGTH, &message);
    napi_create_error(env, NULL, message, &made);
    napi_create_int32(env, o->status, &status);
    napi_set_named_property(env, made, "status", status);
    return made;
}

static void end_open(napi_env env, napi_status ended, void *data)
{
    opening *o = data;
    napi_value client;

    if (ended == napi_ok && o->status == DLOCK_OK && o->client) {
        if (napi_create_external(env, o->client, free_client, NULL, &client) == napi_ok) {
            o->client = NULL;
            napi_resolve_deferred(env, o->deferred, client);
        }
    } else if (ended == napi_ok) {
        napi_reject_deferred(env, o->deferred, reason(env, o));
    }
    dlock_client_free(o->client);
    dlock_error_free(o->error);
    napi_delete_reference(env, o->options);
    napi_delete_async_work(env, o->work);
    free(o->url);
    free(o);
}

/* open(url, options): a promise of a client. */
static napi_value open_client(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    napi_value promise = NULL, name;
    opening *o = calloc(1, sizeof *o);
    char *url = strdup(bytes(&c, 0));

    if (!o || !url) {
        free(o);
        free(url);
        napi_throw_error(env, NULL, "out of memory");
        return NULL;
    }
    o->url = url;
    o->values = handle(&c, 1);
    o->error = dlock_error_new();
    napi_create_reference(env, c.given[1], 1, &o->options);
    napi_create_promise(env, &o->deferred, &promise);
    napi_create_string_utf8(env, "dlock.open", NAPI_AUTO_LENGTH, &name);
    napi_create_async_work(env, NULL, name, run_open, end_open, o, &o->work);
    napi_queue_async_work(env, o->work);
    return promise;
}

/* next(client): the status of dlock_client_next without a wait; out has the fields of the event. */
static napi_value next(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    int64_t field[DLOCK_FIELD_COUNT];
    dlock_status status = dlock_client_next(handle(&c, 0), 0, c.own->event, c.own->error);

    if (status == DLOCK_OK && dlock_event_unpack(c.own->event, field, DLOCK_FIELD_COUNT, NULL, NULL) == DLOCK_OK)
        outs(&c, field, DLOCK_FIELD_COUNT);
    return whole(&c, status);
}

/* ---- instances */

static void free_instance(napi_env env, void *data, void *hint)
{
    instance *own = data;

    (void)env;
    (void)hint;
    dlock_error_free(own->error);
    dlock_event_free(own->event);
    free(own);
}

static napi_status add(napi_env env, napi_value exports, instance *own, const char *name, napi_callback function)
{
    napi_property_descriptor row = {.utf8name = name, .method = function, .attributes = napi_enumerable, .data = own};

    return napi_define_properties(env, exports, 1, &row);
}

/* The Float64Array that calls write numbers to lives as long as the instance: it is a property of the addon. */
static napi_status add_out(napi_env env, napi_value exports, instance *own)
{
    napi_value memory, view;
    napi_ref kept;
    void *data;

    if (napi_create_arraybuffer(env, OUTS * sizeof(double), &data, &memory) != napi_ok ||
        napi_create_typedarray(env, napi_float64_array, OUTS, memory, 0, &view) != napi_ok ||
        napi_create_reference(env, memory, 1, &kept) != napi_ok)
        return napi_generic_failure;
    own->out = data;
    return napi_set_named_property(env, exports, "out", view);
}

NAPI_MODULE_INIT()
{
    static const export_row own_calls[] = {
        {"open", open_client}, {"next", next}, {"watch", watch}, {"unwatch", unwatch}, {"hold", hold},
    };
    instance *own = calloc(1, sizeof *own);
    napi_status status = own ? napi_set_instance_data(env, own, free_instance, NULL) : napi_generic_failure;

    if (status == napi_ok) {
        own->error = dlock_error_new();
        own->event = dlock_event_new();
        status = own->error && own->event ? add_out(env, exports, own) : napi_generic_failure;
    }
    for (size_t i = 0; status == napi_ok && i < calls_count; i++)
        status = add(env, exports, own, calls[i].name, calls[i].function);
    for (size_t i = 0; status == napi_ok && i < sizeof own_calls / sizeof *own_calls; i++)
        status = add(env, exports, own, own_calls[i].name, own_calls[i].function);
    if (status != napi_ok)
        napi_throw_error(env, NULL, "the addon of dlock could not be set up");
    return exports;
}
