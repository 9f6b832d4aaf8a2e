/*
 * transfer.c: grants that leave one process and are adopted by another. Mutexes: see core.h.
 *
 * A grant is one line of text: "dlock2 <token> <lease ms> <owner id> <secret> <lock name>". Before the owner gives it away,
 * the server gets all of it but the name: the proof. It compares the proof of each adoption with what it has, so a line with
 * any other byte is refused, and token and lease come from the server. The name makes sure that the grant is adopted for its
 * own lock. The owner goes on to hold until the server has confirmed the proof. If it does not, the line is forgotten, and
 * nobody can adopt.
 *
 * The first process that adopts the grant replaces the owner's id there by one of its own, the heir. When the outcome of an
 * adoption is unknown, it is undone in the background by the heir's id. Then the grant is what it was before, and any process
 * that has the bytes may adopt it.
 */
#include "operation.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "sys/sys.h"

enum { SECRET_BYTES = 16, SECRET_DIGITS = 2 * SECRET_BYTES };

#define NUMBER_LIMIT (INT64_C(1) << 53)

/* ---- export */

static const char hex[] = "0123456789abcdef";

/* A new secret, terminated. 0, or -1: there is no randomness. */
static int make_secret(char out[SECRET_DIGITS + 1])
{
    uint8_t bytes[SECRET_BYTES];

    if (dli_random(bytes, sizeof bytes))
        return -1;
    for (int i = 0; i < SECRET_BYTES; i++) {
        out[2 * i] = hex[bytes[i] >> 4];
        out[2 * i + 1] = hex[bytes[i] & 15];
    }
    out[SECRET_DIGITS] = '\0';
    explicit_bzero(bytes, sizeof bytes);
    return 0;
}

/* The bytes that an export gives away. 0; -1: there is no memory. */
static int write_grant(struct dli_operation *operation)
{
    const struct dli_name *name = &operation->entry->name;
    size_t proof = strlen(operation->transfer->proof);

    operation->value = (int64_t)(proof + 1 + name->size);
    if (operation->room && operation->value > operation->room)
        return 0;
    if (!(operation->grant = malloc((size_t)operation->value)))
        return -1;
    memcpy(operation->grant, operation->transfer->proof, proof);
    operation->grant[proof] = ' ';
    memcpy(operation->grant + proof + 1, name->text, name->size);
    return 0;
}

/* entry.mutex held: the proof of the holder's grant, which is then being exported. */
static dlock_status offer(struct dli_operation *operation, int64_t now)
{
    struct dli_mutex *m = &operation->entry->m;
    struct dli_transfer *transfer = operation->transfer;
    char secret[SECRET_DIGITS + 1];
    dlock_status status = dli_mutex_may_export(m, operation->owner, now);

    if (status != DLOCK_OK)
        return status;
    if (make_secret(secret))
        return dli_fail(&operation->reason, DLOCK_OUT_OF_MEMORY, "the kernel has no random bytes");
    operation->number = m->want.number;
    operation->token = transfer->token = m->holder->token;
    operation->lease = transfer->lease = m->grant.lease;
    operation->row.last = m->tokens.end - 1;
    transfer->attempt = now;
    dli_entry_owner(operation->entry, operation->number, operation->row.owner);
    dli_print(transfer->proof, sizeof transfer->proof, "dlock2 %" PRId64 " %" PRId64 " %s %s", transfer->token,
              transfer->lease / DLI_MS, operation->row.owner, secret);
    explicit_bzero(secret, sizeof secret);
    if (write_grant(operation))
        return DLOCK_OUT_OF_MEMORY;
    if (!operation->grant)
        return DLOCK_BUFFER_TOO_SMALL;
    dli_mutex_begin_export(m);
    return DLOCK_OK;
}

static int prepare_export(struct dli_operation *operation)
{
    struct dli_entry *entry = operation->entry;

    dli_entry_lock(entry);
    operation->status = offer(operation, dli_now());
    dli_entry_pump(entry, dli_now());
    dli_entry_unlock(entry);
    if (operation->status != DLOCK_OK)
        return 0;
    dli_operation_renewal(operation, entry, operation->lease);
    operation->row.transfer = operation->transfer;
    return 1;
}

/* What the server said of the offer: 1 it stands; 0 the hold is lost; -1 unknown. */
static int confirmed(struct dli_operation *operation)
{
    int kept = operation->status == DLOCK_OK && !operation->transfer->forged ? operation->row.kept : -1;

    if (kept < 0 && operation->status == DLOCK_OK)
        operation->status = dli_fail(&operation->reason, DLOCK_UNREACHABLE, "the export was not confirmed");
    return kept;
}

static int answered_export(struct dli_operation *operation)
{
    struct dli_entry *entry = operation->entry;
    struct dli_claim *claim;
    int64_t now = dli_now();
    int kept = confirmed(operation);
    dlock_status status;

    dli_entry_lock(entry);
    claim = entry->m.holder;
    status = dli_mutex_exported(&entry->m, operation->owner, operation->number, operation->token, kept,
                                operation->lease, operation->stamp, now);
    if (status == DLOCK_OK) {
        struct dli_waiter *waiter = DLI_OBJECT(claim, struct dli_waiter, claim);

        dli_metrics_hold(&entry->client->metrics, now - claim->held_since, -1);
        dli_waiter_deliver(entry, now); /* it may still have something to report */
        dli_waiter_unref(waiter);
    }
    if (kept >= 0 || status == DLOCK_LOST)
        operation->status = status;
    dli_entry_pump(entry, now);
    dli_entry_unlock(entry);
    return 0;
}

/* A new operation with a transfer, or NULL without memory. */
static struct dli_operation *new_transfer(struct dli_entry *entry, const struct dli_task *task)
{
    struct dli_operation *operation = dli_operation_about(entry, entry->kind, NULL, task);

    if (operation && !(operation->transfer = calloc(1, sizeof *operation->transfer))) {
        dli_operation_free(operation);
        return NULL;
    }
    return operation;
}

struct dli_operation *dli_transfer_export(struct dli_entry *entry, int64_t owner, size_t room)
{
    static const struct dli_task task = {prepare_export, answered_export};
    struct dli_operation *operation = new_transfer(entry, &task);

    if (!operation)
        return NULL;
    operation->owner = owner;
    operation->room = room > INT64_MAX ? INT64_MAX : (int64_t)room;
    return operation;
}

/* ---- adoption */

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

/* Whether the bytes up to end are a secret. */
static int is_secret(const char *at, const char *end)
{
    return end - at == SECRET_DIGITS && (long)strspn(at, hex) >= SECRET_DIGITS;
}

/* Parse a grant. 0, or -1 when it is not one of this lock. All but the proof is only what the bytes say. */
static int parse(const struct dli_entry *entry, const uint8_t *grant, size_t size, struct dli_operation *operation)
{
    char line[DLI_GRANT_MAX + 1024 + 1];
    const char *at = line + 7, *secret, *name;
    int64_t lease_ms;

    if (!grant || size > sizeof line - 1)
        return -1;
    memcpy(line, grant, size);
    line[size] = '\0';
    if (strncmp(line, "dlock2 ", 7) != 0 || (operation->value = number(&at)) <= 0 ||
        (lease_ms = number(&at)) < DLI_LEASE_LEAST_MS || lease_ms > DLI_LEASE_MOST_MS || !(secret = strchr(at, ' ')) ||
        !owner_id(at, secret) || !(name = strchr(secret + 1, ' ')) || !is_secret(secret + 1, name) ||
        name - line >= DLI_PROOF_MAX)
        return -1;
    operation->lease = lease_ms * DLI_MS;
    memcpy(operation->row.owner, at, (size_t)(secret - at));
    memcpy(operation->transfer->proof, line, (size_t)(name - line));
    name++;
    return (size_t)(line + size - name) == entry->name.size && memcmp(name, entry->name.text, entry->name.size) == 0
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
    operation->transfer->first =
        entry->m.active->drop.number ? entry->m.active->drop.first : entry->aside->adoption->heir;
    dli_entry_owner(entry, entry->aside->adoption->heir, operation->transfer->heir);
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
    operation->row.transfer = operation->transfer;
    operation->row.last = operation->value;
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
    if (operation->transfer->forged)
        return DLOCK_INVALID_GRANT;
    return operation->row.kept && dli_mutex_falls(m, operation->value) ? DLOCK_SERVER_FORGOT : DLOCK_LOST;
}

static int answered_adopt(struct dli_operation *operation)
{
    struct dli_entry *entry = operation->entry;
    struct dli_waiter *waiter = operation->waiter;
    int64_t now = dli_now();
    int kept;

    if (operation->status == DLOCK_OK && operation->row.kept) { /* what the server says, not what the bytes said */
        operation->value = operation->transfer->token;
        operation->lease = operation->transfer->lease;
    }
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
    struct dli_operation *operation = new_transfer(entry, &task);

    *ret = NULL;
    if (!operation)
        return DLOCK_OUT_OF_MEMORY;
    if (parse(entry, grant, size, operation)) {
        dli_operation_free(operation);
        return DLOCK_INVALID_GRANT;
    }
    if (!(operation->waiter = dli_acquire_waiter(entry, terms, owner, 0, dli_now()))) {
        dli_operation_free(operation);
        return DLOCK_OUT_OF_MEMORY;
    }
    operation->owner = owner;
    *ret = operation;
    return DLOCK_OK;
}
