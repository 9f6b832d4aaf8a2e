/*
 * transfer.c: grants that leave one process and are adopted by another. Mutexes: see core.h.
 *
 * A grant is one line of text: "dlock1 <token> <lease ms> <owner id> <lock name>". The name makes sure that the grant
 * is adopted for its own lock. The server compares the id. The first process that adopts the grant replaces the id
 * there by one of its own, the heir. When the outcome of an adoption is unknown, it is undone in the background by the
 * heir's id. Then the grant is what it was before, and any process that has the bytes may adopt it.
 */
#include "operation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sys/sys.h"

enum { LEASE_LEAST_MS = 100, LEASE_MOST_MS = 86400000 };

#define NUMBER_LIMIT (INT64_C(1) << 53)

dlock_status dli_transfer_export(struct dli_entry *entry, int64_t owner, uint8_t *out, size_t room, size_t *size)
{
    char line[DLI_GRANT_MAX], id[DLI_OWNER_MAX];
    struct dli_mutex *m = &entry->m;
    dlock_status status = DLOCK_OK;
    int64_t now = dli_now();
    int32_t state;

    dli_entry_lock(entry);
    state = dli_mutex_state(m, owner, now);
    if (state != DLOCK_STATE_HELD && state != DLOCK_STATE_AT_RISK) {
        status = state == DLOCK_STATE_LOST ? DLOCK_LOST : DLOCK_NOT_HELD;
    } else if (m->holder->count > 1) {
        status = DLOCK_BUSY;
    } else {
        size_t head;

        dli_entry_owner(entry, m->want.number, id);
        head = dli_print(line, sizeof line, "dlock1 %" PRId64 " %" PRId64 " %s ", m->holder->token,
                         m->grant.lease / DLI_MS, id);
        *size = head + entry->name.size;
        status = *size > room ? DLOCK_BUFFER_TOO_SMALL : dli_active_make(m) ? DLOCK_OUT_OF_MEMORY : DLOCK_OK;
        if (status == DLOCK_OK) {
            struct dli_waiter *waiter = DLI_OBJECT(m->holder, struct dli_waiter, claim);

            memcpy(out, line, head);
            memcpy(out + head, entry->name.text, entry->name.size);
            dli_metrics_hold(&entry->client->metrics, now - m->holder->held_since, -1);
            dli_mutex_let_go(m, now);
            dli_waiter_deliver(entry, now); /* it may still have something to report */
            dli_waiter_unref(waiter);
        }
    }
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return status;
}

/* A decimal number below NUMBER_LIMIT, followed by a space; -1 when there is none. */
static int64_t number(const char **at)
{
    int64_t value = 0;
    const char *start = *at;

    while (**at >= '0' && **at <= '9' && value < NUMBER_LIMIT)
        value = value * 10 + (*(*at)++ - '0');
    if (*at == start || **at != ' ' || value >= NUMBER_LIMIT)
        return -1;
    (*at)++;
    return value;
}

/* Whether the bytes up to end are an owner id: a UUID, ":" and a decimal number. */
static int owner_id(const char *at, const char *end)
{
    if (end - at < DLI_UUID_SIZE + 2 || end - at >= DLI_OWNER_MAX || at[DLI_UUID_SIZE] != ':')
        return 0;
    for (const char *digit = at + DLI_UUID_SIZE + 1; digit < end; digit++)
        if (*digit < '0' || *digit > '9')
            return 0;
    return 1;
}

/* Parse a grant. 0, or -1 when it is not one of this lock. */
static int parse(const struct dli_entry *entry, const uint8_t *grant, size_t size, int64_t *token, int64_t *lease_ms,
                 char id[DLI_OWNER_MAX])
{
    char line[DLI_GRANT_MAX + 1024 + 1];
    const char *at = line + 7, *space;

    if (!grant || size > sizeof line - 1)
        return -1;
    memcpy(line, grant, size);
    line[size] = '\0';
    if (strncmp(line, "dlock1 ", 7) != 0 || (*token = number(&at)) <= 0 || (*lease_ms = number(&at)) <= 0)
        return -1;
    space = strchr(at, ' ');
    if (!space || !owner_id(at, space) || *lease_ms < LEASE_LEAST_MS || *lease_ms > LEASE_MOST_MS)
        return -1;
    memset(id, 0, DLI_OWNER_MAX);
    memcpy(id, at, (size_t)(space - at));
    space++;
    return (size_t)(line + size - space) == entry->name.size && memcmp(space, entry->name.text, entry->name.size) == 0
               ? 0
               : -1;
}

/*
 * entry.mutex held: keep others out while the request is under way. DLOCK_OK; DLOCK_BUSY when the lock is in use here,
 * or when the adoption of another grant is being undone; DLOCK_OUT_OF_MEMORY.
 */
static dlock_status reserve(struct dli_entry *entry, const char *giver)
{
    struct dli_aside *aside;

    if (!dli_mutex_may_adopt(&entry->m) ||
        (entry->m.active->drop.number && strcmp(entry->aside->adoption->giver, giver) != 0))
        return DLOCK_BUSY;
    if (!(aside = dli_entry_aside(entry)))
        return DLOCK_OUT_OF_MEMORY;
    if (!aside->adoption && !(aside->adoption = malloc(sizeof *aside->adoption)))
        return DLOCK_OUT_OF_MEMORY;
    return dli_mutex_begin_adopt(&entry->m) ? DLOCK_OUT_OF_MEMORY : DLOCK_OK;
}

/*
 * entry.mutex held: mint the number of the heir. While earlier adoptions of the same grant are being undone, one of
 * their heirs may have it. The new heir takes the grant from that heir or from the owner.
 */
static void name_heir(struct dli_operation *operation, struct dli_entry *entry)
{
    memcpy(entry->aside->adoption->giver, operation->row.owner, DLI_OWNER_MAX);
    entry->aside->adoption->heir = dli_mutex_mint(&entry->m);
    operation->row.first = entry->m.active->drop.number ? entry->m.active->drop.first : entry->aside->adoption->heir;
    dli_entry_owner(entry, entry->aside->adoption->heir, operation->row.heir);
}

static int prepare_adopt(struct dli_operation *operation)
{
    struct dli_entry *entry = operation->entry;

    dli_entry_lock(entry);
    operation->status = reserve(entry, operation->row.owner);
    if (operation->status == DLOCK_OK)
        name_heir(operation, entry);
    dli_entry_unlock(entry);
    if (operation->status != DLOCK_OK)
        return 0;
    dli_operation_renewal(operation, entry, operation->lease);
    return 1;
}

/*
 * entry.mutex held: the server has confirmed the grant, and the machine takes it over. 0 when it came too late, when
 * its token falls or when the machine is closed.
 */
static int take_over(struct dli_operation *operation, int64_t now)
{
    struct dli_entry *entry = operation->entry;

    operation->waiter->claim.lease = operation->lease;
    return dli_mutex_adopt(&entry->m, &operation->waiter->claim, entry->aside->adoption->heir, operation->value,
                           operation->stamp, now);
}

/* Whether the server may have given the grant to the heir, or may still do so. */
static int in_doubt(const struct dli_operation *operation)
{
    const struct dli_request *request = operation->request;

    if (operation->status == DLOCK_OK)
        return request->repeated && !operation->row.kept;
    return !request->refused && (request->sent || request->repeated || operation->status == DLOCK_NOT_REPLICATED);
}

/* entry.mutex held: the reason why a grant was not adopted although the server answered. */
static dlock_status adopt_failure(const struct dli_operation *operation)
{
    const struct dli_mutex *m = &operation->entry->m;

    if (m->closed)
        return DLOCK_CLOSED;
    return operation->row.kept && dli_mutex_falls(m, operation->value) ? DLOCK_SERVER_FORGOT : DLOCK_LOST;
}

static int answered_adopt(struct dli_operation *operation)
{
    struct dli_entry *entry = operation->entry;
    struct dli_waiter *waiter = operation->waiter;
    int64_t now = dli_now();
    int kept;

    dli_entry_lock(entry);
    entry->m.adopting = 0;
    if (in_doubt(operation))
        dli_mutex_disown(&entry->m, entry->aside->adoption->heir, operation->lease, now);
    kept = operation->status == DLOCK_OK && operation->row.kept && take_over(operation, now);
    if (!kept) {
        if (operation->status == DLOCK_OK)
            operation->status = adopt_failure(operation);
        dli_waiter_unref(waiter);
    }
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    operation->waiter = NULL;
    dli_waiter_unref(waiter);
    return 0;
}

dlock_status dli_transfer_adopt(struct dli_entry *entry, const struct dli_terms *terms, int64_t owner,
                                const uint8_t *grant, size_t size, struct dli_operation **ret)
{
    static const struct dli_task task = {prepare_adopt, answered_adopt};
    char id[DLI_OWNER_MAX];
    int64_t token, lease_ms;
    struct dli_operation *operation;

    *ret = NULL;
    if (parse(entry, grant, size, &token, &lease_ms, id))
        return DLOCK_INVALID_GRANT;
    if (!(operation = dli_operation_about(entry, entry->kind, NULL, &task)))
        return DLOCK_OUT_OF_MEMORY;
    if (!(operation->waiter = dli_acquire_waiter(entry, terms, owner, 0, dli_now()))) {
        dli_operation_free(operation);
        return DLOCK_OUT_OF_MEMORY;
    }
    operation->owner = owner;
    operation->value = token;
    operation->lease = lease_ms * DLI_MS;
    operation->row.last = token;
    memcpy(operation->row.owner, id, sizeof id);
    *ret = operation;
    return DLOCK_OK;
}
