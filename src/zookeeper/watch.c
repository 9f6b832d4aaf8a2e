/*
 * watch.c: what watches tell. Belongs to lane 0's thread.
 *
 * A number in line watches the node before its own, which goes when it may be its turn, and its own node, which goes when
 * its session ends or an operator deletes it. Either makes it look again, unless that was the only node before it: see
 * exchange.c. A number that is held watches its own node, from its first renewal on; a hold of several permits watches the
 * node of each. A watch tells once. Those of a connection end with it.
 */
#include "base/tree.h"

#include "kinds.h"

/* The number looks again. Its next request finds it here. */
static void hint(struct dli_zk *zk, const struct dli_zk_entry *entry)
{
    struct dli_message_target target = {entry->family, entry->name, entry->size, entry->number > 0 ? entry->number : 0};

    zk->store.hooks->hint(zk->store.owner, &target);
}

void dli_zk_event(struct dli_zk_session *session, int32_t type, struct dli_zk_text path)
{
    struct dli_zk *zk = session->zk;
    struct dli_zk_spot *spot;

    if (dli_zk_rung(session, path))
        return;
    while ((spot = dli_zk_spot(zk, path))) {
        struct dli_zk_watch *watch = DLI_OBJECT(spot->watches.next, struct dli_zk_watch, link);
        struct dli_zk_entry *entry = watch->entry;

        dli_zk_unwatch(zk, watch);
        entry->first |= entry->next && watch == &entry->watch[0] && type == DLI_ZK_EVENT_DELETED;
        if (entry->held && type == DLI_ZK_EVENT_DELETED)
            entry->gone = 1;
        hint(zk, entry);
    }
}

static void doubt(void *owner, void *item)
{
    struct dli_zk_session *session = owner;
    struct dli_zk_entry *entry = item;

    if (entry->session != session->number)
        return;
    dli_zk_unwatch_all(session->zk, entry);
    if (!entry->held)
        hint(session->zk, entry);
}

void dli_zk_entries_doubt(struct dli_zk_session *session)
{
    dli_tree_each(session->zk->entries, doubt, session);
}

static void hint_orphan(void *owner, void *item)
{
    const struct dli_zk_entry *entry = item;

    if (!entry->held && !dli_zk_session(owner, entry->session))
        hint(owner, entry);
}

void dli_zk_hint_orphans(struct dli_zk *zk)
{
    dli_tree_each(zk->entries, hint_orphan, zk);
}
