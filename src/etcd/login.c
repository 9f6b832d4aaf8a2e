/*
 * login.c: the connection comes up or goes down; user and password give a token that all calls carry. Belongs to lane 0's
 * thread.
 */
#include <stdlib.h>
#include <string.h>

#include "inner.h"

static void answered(struct dli_grpc_call *call);

static const struct dli_grpc_method method = {
    .path = "/etcdserverpb.Auth/Authenticate", .secret = 1, .ended = answered};

static void forget_token(struct dli_etcd *etcd)
{
    if (etcd->token)
        explicit_bzero(etcd->token, strlen(etcd->token));
    free(etcd->token);
    etcd->grpc.token = etcd->token = NULL;
}

/* Calls may go out. */
static void ready(struct dli_etcd *etcd)
{
    etcd->grpc.hold = 0;
    etcd->gates_refused = 0;
    dli_etcd_sessions_doubt(etcd);
    dli_etcd_hint_stale(etcd);
}

static void refused(struct dli_etcd *etcd, const struct dli_grpc_call *call)
{
    if (dli_grpc_says(call, "not enabled"))
        dli_grpc_refuse(&etcd->grpc, DLOCK_DENIED, "has authentication switched off: enable it, or give no user");
    else if (call->code > 0 && call->status != DLOCK_UNREACHABLE)
        dli_grpc_refuse(&etcd->grpc, DLOCK_DENIED, "refused the user name or password");
    else
        dli_grpc_refuse(&etcd->grpc, DLOCK_UNREACHABLE, "did not accept the login now");
}

static void answered(struct dli_grpc_call *call)
{
    struct dli_etcd *etcd = DLI_OBJECT(call, struct dli_etcd, login);
    struct dli_etcd_talk talk = dli_etcd_talk_of(call);

    forget_token(etcd);
    if (call->status == DLOCK_OK && dli_etcd_decode_login(&talk, &etcd->token) == 0)
        etcd->grpc.token = etcd->token;
    if (etcd->grpc.token)
        ready(etcd);
    else if (etcd->grpc.session)
        refused(etcd, call);
}

void dli_etcd_login(struct dli_etcd *etcd)
{
    struct dli_grpc_call *call = &etcd->login;

    if (call->grpc)
        return;
    call->method = &method;
    call->deadline = dli_now() + etcd->patience;
    dli_buffer_drop(&call->out, call->out.size);
    if (dli_etcd_encode_login(&call->out, etcd->user, etcd->password))
        dli_grpc_refuse(&etcd->grpc, DLOCK_OUT_OF_MEMORY, "cannot be logged in to: no memory");
    else
        dli_grpc_begin_first(&etcd->grpc, call);
}

void dli_etcd_logout(struct dli_etcd *etcd)
{
    if (etcd->grpc.hold)
        return;
    forget_token(etcd);
    etcd->grpc.hold = 1;
    dli_etcd_login(etcd);
}

void dli_etcd_up(void *owner)
{
    struct dli_etcd *etcd = owner;

    etcd->lanes.ups++;
    dli_etcd_sessions_up(etcd);
    if (!etcd->user[0]) {
        ready(etcd);
        return;
    }
    etcd->grpc.hold = 1;
    dli_etcd_login(etcd);
}

void dli_etcd_down(void *owner)
{
    struct dli_etcd *etcd = owner;

    forget_token(etcd);
    if (!etcd->grpc.shut)
        etcd->store.hooks->log(etcd->store.owner, etcd->grpc.reason.code, etcd->grpc.reason.message);
}
