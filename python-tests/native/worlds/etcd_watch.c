/*
 * etcd_watch.c: watches, and the news that they hear. See etcd.h.
 */
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

/* A watch of a client. */
struct watch {
    struct watch *next;
    struct e_call *call;
    int64_t id, from; /* from: the revision of its next event */
    int no_puts;
    size_t size, end_size;
    char key[W_KEY], end[W_KEY];
};

static struct watch *watches;

static void send_news(const struct watch *watch, const struct e_event *event, int64_t compacted, int created)
{
    Etcd__WatchResponse response = ETCD__WATCH_RESPONSE__INIT;
    Etcd__Header head = e_header();
    Etcd__Event one = ETCD__EVENT__INIT, *all[1] = {&one};
    Etcd__KeyValue kv = ETCD__KEY_VALUE__INIT;

    response.header = &head;
    response.watch_id = watch->id;
    response.created = created;
    response.canceled = compacted > 0;
    response.compact_revision = compacted;
    if (event) {
        kv.key = e_data_of(event->name, event->size);
        kv.mod_revision = event->revision;
        one.type = event->deleted;
        one.kv = &kv;
        response.events = all;
        response.n_events = 1;
    }
    e_answer(watch->call, &response.base, 0);
}

static void tell(struct watch *watch)
{
    for (int i = 0; i < e.events; i++) {
        const struct e_event *event = &e.history[i];

        if (event->revision < watch->from || (watch->no_puts && !event->deleted))
            continue;
        if (e_matches(event->name, event->size, (struct e_bytes){watch->key, watch->size},
                      (struct e_bytes){watch->end, watch->end_size}))
            send_news(watch, event, 0, 0);
    }
    watch->from = e.revision + 1;
}

void e_commit(int64_t revision)
{
    if (e.events == 0 || e.history[e.events - 1].revision != revision)
        return; /* nothing has changed */
    e.revision = revision;
    for (struct watch *watch = watches; watch; watch = watch->next)
        tell(watch);
}

void e_unwatch(const struct e_call *call, int64_t id)
{
    for (struct watch **at = &watches; *at;) {
        struct watch *watch = *at;

        if (watch->call != call || (id && watch->id != id)) {
            at = &watch->next;
            continue;
        }
        *at = watch->next;
        free(watch);
    }
}

void e_call_gone(const struct e_call *call)
{
    e_unwatch(call, 0);
}

int e_watched(void)
{
    int count = 0;

    for (const struct watch *watch = watches; watch; watch = watch->next)
        count += watch->call->wire->conn && !watch->call->wire->silent && !watch->call->wire->process->crashed &&
                 w_latch_of(watch->key, watch->size) >= 0;
    return count;
}

void e_watches_end(void)
{
    while (watches)
        e_unwatch(watches->call, 0);
}

void e_watch_for(struct e_call *call, const Etcd__WatchCreateRequest *request)
{
    struct watch *watch;

    if (request->key.len >= W_KEY || request->range_end.len >= W_KEY) {
        w_violated("wire: a watch of a key with %d bytes", (int)request->key.len);
        return;
    }
    watch = calloc(1, sizeof *watch);
    if (!watch)
        abort();
    watch->call = call;
    watch->id = request->watch_id;
    watch->no_puts = request->n_filters > 0;
    watch->from = request->start_revision ? request->start_revision : e.revision + 1;
    watch->size = request->key.len;
    watch->end_size = request->range_end.len;
    memcpy(watch->key, request->key.data, watch->size);
    if (watch->end_size)
        memcpy(watch->end, request->range_end.data, watch->end_size);
    w_trace("process %d watches %.*s from %lld", call->wire->process->index, (int)watch->size, watch->key,
            (long long)watch->from);
    send_news(watch, NULL, 0, 1);
    if (watch->from <= e.compacted) {
        send_news(watch, NULL, e.compacted, 0);
        free(watch);
        return;
    }
    watch->next = watches;
    watches = watch;
    tell(watch);
}
