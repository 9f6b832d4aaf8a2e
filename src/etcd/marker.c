/*
 * marker.c: markers of commits, see round.h. Belongs to lane 0's thread.
 *
 * A marker is dlock_txn/<lease of a session>/<number>. A client has as many as it has had commits under way at a time. They end
 * with their session; a late commit then fails, because its lease is gone.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "round.h"

struct dli_etcd_marker *dli_etcd_marker_take(struct dli_etcd *etcd, const struct dli_etcd_session *session)
{
    struct dli_link *link = dli_list_pop(&etcd->markers);
    struct dli_etcd_marker *marker = link ? DLI_OBJECT(link, struct dli_etcd_marker, link) : calloc(1, sizeof *marker);

    if (!marker)
        return NULL;
    if (marker->session == session->id)
        return marker;
    dli_list_init(&marker->link);
    marker->session = session->id;
    marker->revision = 0;
    marker->number = ++etcd->marker_numbers;
    return marker;
}

void dli_etcd_marker_give(struct dli_etcd *etcd, struct dli_etcd_marker *marker)
{
    dli_list_append(&etcd->markers, &marker->link);
}

struct dli_etcd_bytes dli_etcd_marker_key(const struct dli_etcd_marker *marker, char out[DLI_ETCD_MARKER_MAX])
{
    return dli_etcd_text(out, dli_print(out, DLI_ETCD_MARKER_MAX, "dlock_txn/%" PRIx64 "/%" PRId64,
                                        (uint64_t)marker->session, marker->number));
}

struct dli_etcd_bytes dli_etcd_verdict(const struct dli_etcd_round *round, int done, char out[DLI_ETCD_VERDICT_MAX])
{
    return dli_etcd_text(
        out, dli_print(out, DLI_ETCD_VERDICT_MAX, "%" PRId64 " %s", round->number, done ? "done" : "undone"));
}

void dli_etcd_markers_free(struct dli_etcd *etcd)
{
    struct dli_link *link;

    while ((link = dli_list_pop(&etcd->markers)))
        free(DLI_OBJECT(link, struct dli_etcd_marker, link));
}

/* ---- leases of values that were not written */

static void revoked(struct dli_grpc_call *call)
{
    dli_grpc_call_free(call);
    free(call);
}

void dli_etcd_term_end(struct dli_etcd *etcd, int64_t id)
{
    static const struct dli_grpc_method method = {.path = "/etcdserverpb.Lease/LeaseRevoke", .ended = revoked};
    struct dli_grpc_call *call = calloc(1, sizeof *call);

    if (!call)
        return;
    call->method = &method;
    call->deadline = dli_now() + etcd->patience;
    if (etcd->grpc.shut || dli_etcd_encode_lease(&call->out, id))
        revoked(call);
    else
        dli_grpc_begin(&etcd->grpc, call);
}
