/* calls.c: the calls of dlock.h that never block, for JavaScript. Written by abi/gen.py from abi/dlock.json: do not edit. */
/* clang-format off */
#include "addon.h"

static void free_dlock_lock(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    dlock_lock_free(data);
}

static void free_dlock_options(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    dlock_options_free(data);
}

static void free_dlock_txn(napi_env env, void *data, void *hint)
{
    (void)env;
    (void)hint;
    dlock_txn_free(data);
}

static napi_value js_version(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_version());
}

static napi_value js_version_string(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return text(&c, dlock_version_string());
}

static napi_value js_supports(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_supports(bytes(&c, 0)));
}

static napi_value js_status_count(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_status_count());
}

static napi_value js_status_at(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_status_at((size_t)number(&c, 0)));
}

static napi_value js_status_name(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return text(&c, dlock_status_name((dlock_status)number(&c, 0)));
}

static napi_value js_status_text(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return text(&c, dlock_status_text((dlock_status)number(&c, 0)));
}

static napi_value js_status_retryable(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_status_retryable((dlock_status)number(&c, 0)));
}

static napi_value js_error_code(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_error_code(c.own->error));
}

static napi_value js_error_message(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return text(&c, dlock_error_message(c.own->error));
}

static napi_value js_error_retryable(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_error_retryable(c.own->error));
}

static napi_value js_options_new(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return external(&c, DLOCK_OUT_OF_MEMORY, dlock_options_new(), free_dlock_options);
}

static napi_value js_options_set(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_options_set(handle(&c, 0), bytes(&c, 1), bytes(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_options_get(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    size_t ret_size = 0;
    dlock_status status = dlock_options_get(handle(&c, 0), bytes(&c, 1), bytes(&c, 2), size(&c, 2), &ret_size, c.own->error);

    c.own->out[0] = (double)ret_size;
    return whole(&c, status);
}

static napi_value js_option_count(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_option_count());
}

static napi_value js_option_name(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return text(&c, dlock_option_name((size_t)number(&c, 0)));
}

static napi_value js_option_type(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return text(&c, dlock_option_type((size_t)number(&c, 0)));
}

static napi_value js_option_default(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return text(&c, dlock_option_default((size_t)number(&c, 0)));
}

static napi_value js_option_help(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return text(&c, dlock_option_help((size_t)number(&c, 0)));
}

static napi_value js_client_submit_close(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_client_submit_close(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_client_fd(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    int32_t ret_fd = 0;
    dlock_status status = dlock_client_fd(handle(&c, 0), &ret_fd, c.own->error);

    c.own->out[0] = (double)ret_fd;
    return whole(&c, status);
}

static napi_value js_client_wake(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_client_wake(handle(&c, 0), c.own->error);

    return whole(&c, status);
}

static napi_value js_client_stats(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    int64_t values[OUTS] = {0};
    dlock_status status = dlock_client_stats(handle(&c, 0), values, OUTS, NULL, c.own->error);

    outs(&c, values, OUTS);
    return whole(&c, status);
}

static napi_value js_client_metrics(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    size_t ret_size = 0;
    dlock_status status = dlock_client_metrics(handle(&c, 0), bytes(&c, 1), size(&c, 1), &ret_size, c.own->error);

    c.own->out[0] = (double)ret_size;
    return whole(&c, status);
}

static napi_value js_client_submit_ping(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_client_submit_ping(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_client_submit_provision(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_client_submit_provision(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_client_submit_list(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_client_submit_list(handle(&c, 0), number(&c, 1), number(&c, 2), number(&c, 3), c.own->error);

    return whole(&c, status);
}

static napi_value js_client_fault(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_client_fault(handle(&c, 0), bytes(&c, 1), bytes(&c, 2), size(&c, 2), number(&c, 3), c.own->error);

    return whole(&c, status);
}

static napi_value js_client_submit_check(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_client_submit_check(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_client_finding(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_client_finding(handle(&c, 0), (size_t)number(&c, 1), c.own->event, c.own->error);

    return whole(&c, status);
}

static napi_value js_finding_name(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return text(&c, dlock_finding_name((int32_t)number(&c, 0)));
}

static napi_value js_lock_new(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_lock *ret_lock = NULL;
    dlock_status status = dlock_lock_new(handle(&c, 0), (int32_t)number(&c, 1), bytes(&c, 2), size(&c, 2), handle(&c, 3), &ret_lock, c.own->error);

    return external(&c, status, ret_lock, free_dlock_lock);
}

static napi_value js_lock_new_multi(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    size_t members_count = members(&c, 1);
    dlock_lock *ret_lock = NULL;
    dlock_status status = dlock_lock_new_multi(handle(&c, 0), (dlock_lock **)c.members, members_count, &ret_lock, c.own->error);

    return external(&c, status, ret_lock, free_dlock_lock);
}

static napi_value js_lock_id(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_lock_id(handle(&c, 0)));
}

static napi_value js_lock_acquire_local(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    int64_t ret_token = 0;
    dlock_status status = dlock_lock_acquire_local(handle(&c, 0), number(&c, 1), &ret_token, c.own->error);

    c.own->out[0] = (double)ret_token;
    return whole(&c, status);
}

static napi_value js_lock_release_local(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_release_local(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_submit_acquire(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_submit_acquire(handle(&c, 0), number(&c, 1), number(&c, 2), number(&c, 3), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_submit_release(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_submit_release(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_begin_acquire(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    int64_t ret_token = 0;
    dlock_status status = dlock_lock_begin_acquire(handle(&c, 0), number(&c, 1), number(&c, 2), number(&c, 3), &ret_token, c.own->error);

    c.own->out[0] = (double)ret_token;
    return whole(&c, status);
}

static napi_value js_lock_begin_release(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_begin_release(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_cancel(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_cancel(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_submit_extend(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_submit_extend(handle(&c, 0), number(&c, 1), number(&c, 2), number(&c, 3), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_submit_force_release(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_submit_force_release(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_state(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    int32_t ret_state = 0;
    dlock_status status = dlock_lock_state(handle(&c, 0), number(&c, 1), &ret_state, c.own->error);

    c.own->out[0] = (double)ret_state;
    return whole(&c, status);
}

static napi_value js_lock_remaining_ms(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    int64_t ret_remaining_ms = 0;
    dlock_status status = dlock_lock_remaining_ms(handle(&c, 0), number(&c, 1), &ret_remaining_ms, c.own->error);

    c.own->out[0] = (double)ret_remaining_ms;
    return whole(&c, status);
}

static napi_value js_lock_token(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    int64_t ret_token = 0;
    dlock_status status = dlock_lock_token(handle(&c, 0), number(&c, 1), &ret_token, c.own->error);

    c.own->out[0] = (double)ret_token;
    return whole(&c, status);
}

static napi_value js_lock_hold_count(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    int64_t ret_count = 0;
    dlock_status status = dlock_lock_hold_count(handle(&c, 0), number(&c, 1), &ret_count, c.own->error);

    c.own->out[0] = (double)ret_count;
    return whole(&c, status);
}

static napi_value js_lock_submit_inspect(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_submit_inspect(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_submit_export_grant(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_submit_export_grant(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_submit_adopt_grant(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_submit_adopt_grant(handle(&c, 0), number(&c, 1), bytes(&c, 2), size(&c, 2), number(&c, 3), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_submit_close_gate(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_submit_close_gate(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_lock_submit_open_gate(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_lock_submit_open_gate(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_semaphore_submit_set(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_semaphore_submit_set(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_semaphore_submit_add(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_semaphore_submit_add(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_semaphore_submit_drain(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_semaphore_submit_drain(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_semaphore_submit_reclaim(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_semaphore_submit_reclaim(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_semaphore_submit_available(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_semaphore_submit_available(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_semaphore_permit(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_semaphore_permit(handle(&c, 0), number(&c, 1), number(&c, 2), bytes(&c, 3), size(&c, 3), c.own->error);

    return whole(&c, status);
}

static napi_value js_latch_submit_set(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_latch_submit_set(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_latch_submit_count_down(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_latch_submit_count_down(handle(&c, 0), number(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_latch_submit_count(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_latch_submit_count(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_event_type(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_event_type(c.own->event));
}

static napi_value js_event_unpack(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    int64_t values[OUTS] = {0};
    dlock_status status = dlock_event_unpack(c.own->event, values, OUTS, NULL, c.own->error);

    outs(&c, values, OUTS);
    return whole(&c, status);
}

static napi_value js_event_text(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return text(&c, dlock_event_text(c.own->event));
}

static napi_value js_event_data(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    size_t ret_size = 0;
    dlock_status status = dlock_event_data(c.own->event, bytes(&c, 0), size(&c, 0), &ret_size, c.own->error);

    c.own->out[0] = (double)ret_size;
    return whole(&c, status);
}

static napi_value js_txn_new(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_txn *ret_txn = NULL;
    dlock_status status = dlock_txn_new(handle(&c, 0), &ret_txn, c.own->error);

    return external(&c, status, ret_txn, free_dlock_txn);
}

static napi_value js_txn_submit_watch(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_txn_submit_watch(handle(&c, 0), bytes(&c, 1), size(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_txn_submit_get(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_txn_submit_get(handle(&c, 0), bytes(&c, 1), size(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_txn_set(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_txn_set(handle(&c, 0), bytes(&c, 1), size(&c, 1), bytes(&c, 2), size(&c, 2), number(&c, 3), c.own->error);

    return whole(&c, status);
}

static napi_value js_txn_incr(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_txn_incr(handle(&c, 0), bytes(&c, 1), size(&c, 1), number(&c, 2), c.own->error);

    return whole(&c, status);
}

static napi_value js_txn_delete(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_txn_delete(handle(&c, 0), bytes(&c, 1), size(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_txn_submit_commit(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_txn_submit_commit(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_txn_submit_rollback(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);
    dlock_status status = dlock_txn_submit_rollback(handle(&c, 0), number(&c, 1), c.own->error);

    return whole(&c, status);
}

static napi_value js_txn_pause_ms(napi_env env, napi_callback_info info)
{
    call c = begin(env, info);

    return whole(&c, dlock_txn_pause_ms((int32_t)number(&c, 0)));
}

const export_row calls[] = {
    {"version", js_version},
    {"version_string", js_version_string},
    {"supports", js_supports},
    {"status_count", js_status_count},
    {"status_at", js_status_at},
    {"status_name", js_status_name},
    {"status_text", js_status_text},
    {"status_retryable", js_status_retryable},
    {"error_code", js_error_code},
    {"error_message", js_error_message},
    {"error_retryable", js_error_retryable},
    {"options_new", js_options_new},
    {"options_set", js_options_set},
    {"options_get", js_options_get},
    {"option_count", js_option_count},
    {"option_name", js_option_name},
    {"option_type", js_option_type},
    {"option_default", js_option_default},
    {"option_help", js_option_help},
    {"client_submit_close", js_client_submit_close},
    {"client_fd", js_client_fd},
    {"client_wake", js_client_wake},
    {"client_stats", js_client_stats},
    {"client_metrics", js_client_metrics},
    {"client_submit_ping", js_client_submit_ping},
    {"client_submit_provision", js_client_submit_provision},
    {"client_submit_list", js_client_submit_list},
    {"client_fault", js_client_fault},
    {"client_submit_check", js_client_submit_check},
    {"client_finding", js_client_finding},
    {"finding_name", js_finding_name},
    {"lock_new", js_lock_new},
    {"lock_new_multi", js_lock_new_multi},
    {"lock_id", js_lock_id},
    {"lock_acquire_local", js_lock_acquire_local},
    {"lock_release_local", js_lock_release_local},
    {"lock_submit_acquire", js_lock_submit_acquire},
    {"lock_submit_release", js_lock_submit_release},
    {"lock_begin_acquire", js_lock_begin_acquire},
    {"lock_begin_release", js_lock_begin_release},
    {"lock_cancel", js_lock_cancel},
    {"lock_submit_extend", js_lock_submit_extend},
    {"lock_submit_force_release", js_lock_submit_force_release},
    {"lock_state", js_lock_state},
    {"lock_remaining_ms", js_lock_remaining_ms},
    {"lock_token", js_lock_token},
    {"lock_hold_count", js_lock_hold_count},
    {"lock_submit_inspect", js_lock_submit_inspect},
    {"lock_submit_export_grant", js_lock_submit_export_grant},
    {"lock_submit_adopt_grant", js_lock_submit_adopt_grant},
    {"lock_submit_close_gate", js_lock_submit_close_gate},
    {"lock_submit_open_gate", js_lock_submit_open_gate},
    {"semaphore_submit_set", js_semaphore_submit_set},
    {"semaphore_submit_add", js_semaphore_submit_add},
    {"semaphore_submit_drain", js_semaphore_submit_drain},
    {"semaphore_submit_reclaim", js_semaphore_submit_reclaim},
    {"semaphore_submit_available", js_semaphore_submit_available},
    {"semaphore_permit", js_semaphore_permit},
    {"latch_submit_set", js_latch_submit_set},
    {"latch_submit_count_down", js_latch_submit_count_down},
    {"latch_submit_count", js_latch_submit_count},
    {"event_type", js_event_type},
    {"event_unpack", js_event_unpack},
    {"event_text", js_event_text},
    {"event_data", js_event_data},
    {"txn_new", js_txn_new},
    {"txn_submit_watch", js_txn_submit_watch},
    {"txn_submit_get", js_txn_submit_get},
    {"txn_set", js_txn_set},
    {"txn_incr", js_txn_incr},
    {"txn_delete", js_txn_delete},
    {"txn_submit_commit", js_txn_submit_commit},
    {"txn_submit_rollback", js_txn_submit_rollback},
    {"txn_pause_ms", js_txn_pause_ms},
};

const size_t calls_count = sizeof calls / sizeof *calls;
