/*
 * client.c: the life of a client core. Mutexes: see core.h.
 */
#include "multi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

void dli_client_count(struct dli_client *client, int stat, int64_t by)
{
    __atomic_add_fetch(&client->stats[stat], by, __ATOMIC_RELAXED);
}

static void log_line(struct dli_client *client, const struct dli_site *site, const char *what)
{
    char text[DLI_EVENT_TEXT];

    snprintf(text, sizeof text, "%.150s: %s", site->target.text, what);
    dli_events_log(&client->events, DLOCK_OK, text);
}

/* Log what makes TLS worth less than it seems: a server that need not prove who it is, a key that is no secret. */
static void log_trust(struct dli_client *client, const struct dli_site *site)
{
    const char *key = dli_options_text(&client->options, DLI_OPT_TLS_KEY_FILE);

    if (!*key)
        key = dli_options_text(&client->options, DLI_OPT_TLS_CERT_FILE);
    if (site->target.tls && !client->options.number[DLI_OPT_TLS_VERIFY])
        log_line(client, site, "tls_verify is off, anybody may answer in its place");
    if (site->target.tls && *key && dli_file_is_public(key))
        log_line(client, site, "every user of this machine may read the private key (tls_key_file, tls_cert_file)");
}

int dli_client_may_lease(const struct dli_client *client, int64_t lease_ms)
{
    int64_t longest = client->options.number[DLI_OPT_QUARANTINE_MS];

    return longest == 0 || lease_ms <= longest;
}

/*
 * In the child after a fork. Another thread of the parent may have held the mutex of an entry. When nobody had used
 * the client, all machines were idle and are intact, so new mutexes will do.
 */
static void begin_child(struct dli_fork_guard *guard)
{
    struct dli_client *client = DLI_OBJECT(guard, struct dli_client, guard);

    for (struct dli_link *link = client->entries.next; !client->started && link != &client->entries; link = link->next)
        dli_short_init(&DLI_OBJECT(link, struct dli_entry, link)->mutex);
}

dlock_status dli_client_new(const struct dlock_options *options, const struct dli_site *site, struct dli_client **ret,
                            dlock_error *box)
{
    struct dli_client *client = calloc(1, sizeof *client);
    dlock_status status;

    if (!client)
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "no memory for a client");
    dli_options_init(&client->options);
    if ((status = dli_options_overlay(&client->options, options, box)) != DLOCK_OK)
        goto fail_options;
    if (dli_events_init(&client->events, options->number[DLI_OPT_EVENT_LIMIT],
                        &client->stats[DLOCK_STAT_EVENTS_DROPPED])) {
        status = dli_fail(box, DLOCK_SYSTEM_ERROR, "no descriptor for the event queue");
        goto fail_options;
    }
    if ((status = dli_store_open(&client->options, site, &client->store, box)) != DLOCK_OK)
        goto fail_store;
    client->store->hooks = &dli_line_hooks;
    client->store->owner = client;
    client->store->uuid = client->uuid;
    client->store->secret = &client->secret;
    client->watchdog = (struct dli_watchdog){client->store, &dli_client_watchdog_hooks, client, client->stats};
    log_trust(client, site);
    pthread_mutex_init(&client->mutex, NULL);
    client->guard = (struct dli_fork_guard){.mutex = &client->mutex, .child = begin_child};
    client->line = dli_store_can(client->store, DLI_CAN_WAKE) ? DLI_LINE_READY : DLI_LINE_ABSENT;
    client->refs = 1;
    client->generation = dli_fork_generation();
    dli_list_init(&client->entries);
    dli_entry_table(&client->table);
    dli_list_init(&client->rules);
    dli_list_init(&client->terms);
    dli_fork_guard(&client->guard);
    *ret = client;
    return DLOCK_OK;

fail_store:
    dli_events_fini(&client->events);
fail_options:
    dli_options_fini(&client->options);
    free(client);
    return status;
}

void dli_client_ref(struct dli_client *client)
{
    __atomic_add_fetch(&client->refs, 1, __ATOMIC_RELAXED);
}

/* So many locks take some megabytes. */
enum { MANY = 10000 };

void dli_client_unref(struct dli_client *client)
{
    int large;

    if (__atomic_sub_fetch(&client->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    dli_fork_unguard(&client->guard);
    for (int i = 0; i < client->loop_count; i++)
        dli_loop_free(client->loops[i]);
    client->store->ops->free(client->store);
    dli_events_fini(&client->events);
    dli_options_fini(&client->options);
    dli_findings_free(&client->found);
    pthread_mutex_destroy(&client->mutex);
    large = client->most_entries >= MANY;
    free(client);
    if (large)
        dli_memory_trim();
}

dlock_status dli_client_usable(const struct dli_client *client, dlock_error *box)
{
    if (__atomic_load_n(&client->started, __ATOMIC_ACQUIRE) &&
        __atomic_load_n(&client->generation, __ATOMIC_RELAXED) != dli_fork_generation())
        return dli_fail(box, DLOCK_FORKED, "this client of %s was used before the fork; open another one in the child",
                        client->store->text);
    if (__atomic_load_n(&client->closed, __ATOMIC_ACQUIRE))
        return dli_fail(box, DLOCK_CLOSED, "the client of %s was closed", client->store->text);
    return DLOCK_OK;
}

/* ---- start */

/* client.mutex held. */
static int part_locked(struct dli_client *client)
{
    if (client->started || client->generation == dli_fork_generation())
        return 0;
    if (dli_events_part(&client->events))
        return -1;
    __atomic_store_n(&client->generation, dli_fork_generation(), __ATOMIC_RELEASE);
    return 0;
}

int dli_client_part(struct dli_client *client)
{
    int result;

    if (__atomic_load_n(&client->generation, __ATOMIC_ACQUIRE) == dli_fork_generation())
        return 0;
    pthread_mutex_lock(&client->mutex);
    result = part_locked(client);
    pthread_mutex_unlock(&client->mutex);
    return result;
}

static int make_loops(struct dli_client *client, int count)
{
    while (client->loop_count < count) {
        if (dli_loop_new(&client->watchdog, client->loop_count, &client->loops[client->loop_count]))
            return -1;
        client->loop_count++;
    }
    return 0;
}

static void unmake_loops(struct dli_client *client)
{
    while (client->loop_count > 0)
        dli_loop_free(client->loops[--client->loop_count]);
}

/*
 * client.mutex held: start as many threads as the system allows. DLOCK_OK when there is at least one. Loops without a
 * thread are freed.
 */
static dlock_status start_threads(struct dli_client *client, dlock_error *box)
{
    char name[16];
    int error = 0;

    while (client->threads < client->loop_count && !error) {
        snprintf(name, sizeof name, "dlock-watch-%d", client->threads & 0xff);
        dli_client_ref(client);
        error = dli_thread_start(name, dli_loop_run, client->loops[client->threads]);
        if (error)
            dli_client_unref(client);
        else
            client->threads++;
    }
    if (client->threads == 0)
        return dli_fail(box, error == ENOMEM ? DLOCK_OUT_OF_MEMORY : DLOCK_SYSTEM_ERROR, "no thread for the watchdog");
    while (client->loop_count > client->threads)
        dli_loop_free(client->loops[--client->loop_count]);
    return DLOCK_OK;
}

/* client.mutex held. */
static void adopt_entries(struct dli_client *client)
{
    for (struct dli_link *link = client->entries.next; link != &client->entries; link = link->next) {
        struct dli_entry *entry = DLI_OBJECT(link, struct dli_entry, link);

        dli_short_lock(&entry->mutex);
        entry->loop = (int8_t)(entry->id % client->loop_count);
        dli_short_unlock(&entry->mutex);
    }
}

/* A random UUID of version 8 as text with terminator. 0, or -1 when the system has no randomness. */
static int make_uuid(char out[DLI_UUID_SIZE + 1])
{
    uint8_t b[16];

    if (dli_random(b, sizeof b))
        return -1;
    b[6] = 0x80; /* version 8; for its other digits see base/id.h */
    b[7] = 0;
    b[8] = (uint8_t)((b[8] & 0x3f) | 0x80);
    snprintf(out, DLI_UUID_SIZE + 1, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
    return 0;
}

static dlock_status start_locked(struct dli_client *client, dlock_error *box)
{
    dlock_status status;

    if (client->started)
        return DLOCK_OK;
    if (client->closed)
        return dli_fail(box, DLOCK_CLOSED, "the client of %s was closed", client->store->text);
    if (make_uuid(client->uuid) || dli_random(&client->secret, sizeof client->secret))
        return dli_fail(box, DLOCK_SYSTEM_ERROR, "the system gives no random bytes");
    if (part_locked(client) || make_loops(client, (int)client->options.number[DLI_OPT_WATCHDOG_THREADS])) {
        status = errno == ENOMEM ? DLOCK_OUT_OF_MEMORY : DLOCK_SYSTEM_ERROR;
        unmake_loops(client);
        return dli_fail(box, status, "no descriptors or memory for the watchdog");
    }
    status = start_threads(client, box);
    if (status != DLOCK_OK) {
        unmake_loops(client);
        return status;
    }
    adopt_entries(client);
    __atomic_store_n(&client->started, 1, __ATOMIC_RELEASE);
    return DLOCK_OK;
}

dlock_status dli_client_start(struct dli_client *client, dlock_error *box)
{
    dlock_status status = dli_client_usable(client, box);

    if (status != DLOCK_OK || __atomic_load_n(&client->started, __ATOMIC_ACQUIRE))
        return status;
    pthread_mutex_lock(&client->mutex);
    status = start_locked(client, box);
    pthread_mutex_unlock(&client->mutex);
    return status;
}

/* ---- all entries */

enum { ROUND = 64 };

/* Up to ROUND entries after last (NULL: from the start), each with a ref. */
static int some_entries(struct dli_client *client, struct dli_entry *last, struct dli_entry *out[ROUND])
{
    struct dli_link *link;
    int count = 0;

    pthread_mutex_lock(&client->mutex);
    link = last ? last->link.next : client->entries.next;
    for (; link != &client->entries && count < ROUND; link = link->next) {
        out[count] = DLI_OBJECT(link, struct dli_entry, link);
        dli_entry_ref(out[count++]);
    }
    pthread_mutex_unlock(&client->mutex);
    return count;
}

int dli_client_some(struct dli_client *client, struct dli_entry **last,
                    void (*visit)(struct dli_entry *entry, int64_t now))
{
    struct dli_entry *some[ROUND];
    int count = some_entries(client, *last, some);

    if (*last)
        dli_entry_unref(*last);
    for (int i = 0; i < count; i++) {
        int64_t now = dli_now();

        dli_entry_lock(some[i]);
        visit(some[i], now);
        dli_entry_pump(some[i], now);
        dli_entry_unlock(some[i]);
        if (i + 1 < count)
            dli_entry_unref(some[i]);
    }
    *last = count > 0 ? some[count - 1] : NULL;
    return count > 0;
}

void dli_client_each(struct dli_client *client, void (*visit)(struct dli_entry *entry, int64_t now))
{
    struct dli_entry *last = NULL;

    while (dli_client_some(client, &last, visit))
        continue;
}

/* ---- what handles have in common */

const struct dli_terms *dli_terms_get(struct dli_client *client, const struct dli_terms *terms)
{
    const struct dli_terms *shared;

    pthread_mutex_lock(&client->mutex);
    shared = dli_share_get(&client->terms, terms, sizeof *terms);
    pthread_mutex_unlock(&client->mutex);
    return shared;
}

void dli_terms_put(struct dli_client *client, const struct dli_terms *terms)
{
    pthread_mutex_lock(&client->mutex);
    dli_share_put(terms);
    pthread_mutex_unlock(&client->mutex);
}
