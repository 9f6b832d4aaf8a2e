/*
 * etcd_rest.c: calls that keep no locks: logging in, a member's status, what is left of a lease. See etcd.h.
 */
#include <string.h>

#include "etcd.h"

static void authenticate(struct e_call *call)
{
    Etcd__AuthenticateResponse response = ETCD__AUTHENTICATE_RESPONSE__INIT;
    Etcd__Header header = e_header();

    response.header = &header;
    response.token = (char *)(uintptr_t) "token.1";
    e_answer(call, &response.base, 1);
}

static void status(struct e_call *call)
{
    Etcd__StatusResponse response = ETCD__STATUS_RESPONSE__INIT;
    Etcd__Header header = e_header();

    response.header = &header;
    response.version = (char *)(uintptr_t) "3.5.16";
    response.db_size = response.db_size_in_use = 20480;
    response.leader = 1;
    response.raft_index = response.raft_applied_index = (uint64_t)e.revision;
    response.raft_term = 2;
    e_answer(call, &response.base, 1);
}

static void time_to_live(struct e_call *call, const uint8_t *bytes, size_t size)
{
    Etcd__LeaseKeepAliveRequest *request = etcd__lease_keep_alive_request__unpack(NULL, size, bytes);
    Etcd__LeaseTimeToLiveResponse response = ETCD__LEASE_TIME_TO_LIVE_RESPONSE__INIT;
    Etcd__Header header = e_header();
    const struct e_lease *lease = request ? e_lease(request->id) : NULL;

    response.header = &header;
    response.id = request ? request->id : 0;
    response.ttl = lease ? (lease->expires - w.now) / W_SECOND : -1;
    response.granted_ttl = lease ? lease->ttl : 0;
    etcd__lease_keep_alive_request__free_unpacked(request, NULL);
    e_answer(call, &response.base, 1);
}

int e_serve_rest(struct e_call *call, const uint8_t *bytes, size_t size)
{
    if (strcmp(call->path, "/etcdserverpb.Auth/Authenticate") == 0)
        authenticate(call);
    else if (strcmp(call->path, "/etcdserverpb.Maintenance/Status") == 0)
        status(call);
    else if (strcmp(call->path, "/etcdserverpb.Lease/LeaseTimeToLive") == 0)
        time_to_live(call, bytes, size);
    else
        return 0;
    return 1;
}
