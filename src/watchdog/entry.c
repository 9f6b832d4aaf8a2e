/*
 * entry.c: one lock name in this process: its life, and carrying out what its machine wants. Mutexes: see client.h.
 */
#include "client.h"

#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sys.h"

static int compare(const void *a, const void *b)
{
    const struct dli_names *x = &((const struct dli_entry *)a)->names, *y = &((const struct dli_entry *)b)->names;

    if (x->lock_size != y->lock_size)
        return x->lock_size < y->lock_size ? -1 : 1;
    return memcmp(x->lock, y->lock, x->lock_size);
}

void dli_entry_lock(struct dli_entry *entry)
{
    pthread_mutex_lock(&entry->mutex);
}

void dli_entry_unlock(struct dli_entry *entry)
{
    struct dli_waiter *woken = entry->woken;
    int surplus = entry->surplus;

    entry->surplus = 0;
    entry->woken = NULL;
    pthread_mutex_unlock(&entry->mutex);
    if (woken) {
        dli_futex_wake(&woken->settled, 1);
        dli_waiter_unref(woken);
    }
    while (surplus-- > 0)
        dli_entry_unref(entry);
}

void dli_entry_ref(struct dli_entry *entry)
{
    __atomic_add_fetch(&entry->refs, 1, __ATOMIC_RELAXED);
}

static void entry_free(struct dli_entry *entry)
{
    dli_buffer_free(&entry->call.command);
    free((void *)entry->names.lock);
    pthread_mutex_destroy(&entry->mutex);
    free(entry);
}

/* The last ref goes under client.mutex, so that nobody finds an entry that is on its way out. */
void dli_entry_unref(struct dli_entry *entry)
{
    struct dli_client *client = entry->client;
    int64_t refs = __atomic_load_n(&entry->refs, __ATOMIC_RELAXED);

    while (refs > 1)
        if (__atomic_compare_exchange_n(&entry->refs, &refs, refs - 1, 1, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
            return;
    pthread_mutex_lock(&client->mutex);
    refs = __atomic_sub_fetch(&entry->refs, 1, __ATOMIC_ACQ_REL);
    if (refs == 0) {
        tdelete(entry, &client->table, compare);
        dli_list_remove(&entry->link);
        client->entry_count--;
    }
    pthread_mutex_unlock(&client->mutex);
    if (refs == 0) {
        entry_free(entry);
        dli_client_unref(client);
    }
}

static struct dli_entry *entry_new(struct dli_client *client, const char *name, size_t size,
                                   const struct dli_mutex_rules *rules)
{
    struct dli_entry *entry = calloc(1, sizeof *entry);

    if (!entry)
        return NULL;
    if (dli_names_make(&entry->names, name, size))
        goto fail_names;
    if (pthread_mutex_init(&entry->mutex, NULL))
        goto fail_mutex;
    entry->client = client;
    entry->id = ++client->ids;
    entry->loop = client->loop_count ? client->loops[entry->id % client->loop_count] : NULL;
    entry->rules = *rules;
    entry->timer_at = DLI_NEVER;
    entry->timer.fire = dli_entry_tick;
    dli_list_init(&entry->timer.link);
    dli_list_init(&entry->link);
    dli_mutex_init(&entry->m, &entry->rules, (uint64_t)entry->id * UINT64_C(0x9e3779b97f4a7c15) ^ (uint64_t)dli_now());
    return entry;

fail_mutex:
    free((void *)entry->names.lock);
fail_names:
    free(entry);
    return NULL;
}

static struct dli_entry *find(struct dli_client *client, const char *name, size_t size)
{
    struct dli_entry key = {.names = {.lock = name, .lock_size = size}};
    void *node = tfind(&key, &client->table, compare);

    return node ? *(struct dli_entry **)node : NULL;
}

struct dli_entry *dli_entry_find(struct dli_client *client, const char *name, size_t size)
{
    struct dli_entry *entry;

    pthread_mutex_lock(&client->mutex);
    entry = find(client, name, size);
    if (entry)
        dli_entry_ref(entry);
    pthread_mutex_unlock(&client->mutex);
    return entry;
}

/* client.mutex held: into the table and the list. 0 or -1 without memory. */
static int enlist(struct dli_client *client, struct dli_entry *entry)
{
    if (!tsearch(entry, &client->table, compare))
        return -1;
    dli_list_append(&client->entries, &entry->link);
    client->entry_count++;
    dli_client_ref(client);
    return 0;
}

struct dli_entry *dli_entry_get(struct dli_client *client, const char *name, size_t size,
                                const struct dli_mutex_rules *rules)
{
    struct dli_entry *entry;

    pthread_mutex_lock(&client->mutex);
    entry = find(client, name, size);
    if (entry) {
        dli_entry_ref(entry);
    } else if ((entry = entry_new(client, name, size, rules))) {
        entry->refs = 1;
        if (enlist(client, entry)) {
            entry_free(entry);
            entry = NULL;
        }
    }
    pthread_mutex_unlock(&client->mutex);
    if (entry)
        dli_entry_handle(entry, 1);
    return entry;
}

void dli_entry_owner(const struct dli_entry *entry, int64_t number, char out[DLI_OWNER_MAX])
{
    if (number && number == entry->adopted_number)
        memcpy(out, entry->adopted, DLI_OWNER_MAX);
    else {
        memcpy(out, entry->client->uuid, DLI_UUID_SIZE);
        out[DLI_UUID_SIZE] = ':';
        dli_decimal(out + DLI_UUID_SIZE + 1, number);
    }
}

/* Nobody will ask any more and nothing is left to do: the timer goes, and with it its ref. */
static void retire(struct dli_entry *entry)
{
    if (entry->timer_at != DLI_NEVER && entry->loop && dli_loop_stop_timer(entry->loop, &entry->timer))
        entry->surplus++;
    entry->timer_at = DLI_NEVER;
    dli_mutex_forget_lost(&entry->m);
    dli_waiter_deliver(entry, dli_now());
}

void dli_entry_handle(struct dli_entry *entry, int by)
{
    dli_entry_lock(entry);
    entry->handles += by;
    if (entry->handles == 0 && dli_mutex_idle(&entry->m))
        retire(entry);
    dli_entry_unlock(entry);
}

static void set_timer(struct dli_entry *entry, int64_t now)
{
    int64_t at = dli_mutex_alarm(&entry->m);

    if (at >= entry->timer_at || !entry->loop)
        return;
    entry->timer_at = at;
    dli_entry_ref(entry);
    if (!dli_loop_set_timer(entry->loop, &entry->timer, at, now))
        entry->surplus++;
}

void dli_entry_pump(struct dli_entry *entry, int64_t now)
{
    struct dli_client *client = entry->client;
    struct dli_wish wish;

    dli_waiter_deliver(entry, now);
    dli_line_follow(entry);
    if (entry->loop && dli_mutex_wish(&entry->m, __atomic_load_n(&client->line, __ATOMIC_ACQUIRE), now, &wish)) {
        dli_exchange_submit(entry, &wish, now);
        dli_waiter_deliver(entry, now);
    }
    set_timer(entry, now);
    if (!dli_mutex_idle(&entry->m))
        return;
    if (entry->handles == 0)
        retire(entry);
    if (__atomic_load_n(&client->closed, __ATOMIC_ACQUIRE)) {
        __atomic_add_fetch(&client->progress, 1, __ATOMIC_RELEASE);
        dli_futex_wake(&client->progress, 1);
    }
}

void dli_entry_tick(struct dli_timer *timer, int64_t now)
{
    struct dli_entry *entry = DLI_OBJECT(timer, struct dli_entry, timer);

    dli_entry_lock(entry);
    entry->timer_at = DLI_NEVER;
    entry->surplus++;
    dli_mutex_tick(&entry->m, now);
    if (dli_mutex_renewal(&entry->m, now))
        dli_renew_queue(entry);
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
}
