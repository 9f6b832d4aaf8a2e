/*
 * fuzz_grant.c: grants as bytes: "NAME LF GRANT". An accepted grant is adopted as if the server had agreed, is exported
 * again, and is accepted by another client: token, lease and name stay the same, and the owner is the one that exported
 * it. The clients have no threads and no server.
 */
#include <inttypes.h>

#include "api/handles.h"
#include "fuzz.h"
#include "sys/sys.h"
#include "client/acquire.h"

enum { OWNER = 5 };

struct side {
    dlock_client *client;
    dlock_lock *lock;
};

static int begin(struct side *side, const char *uuid, const char *name, size_t size)
{
    dlock_status status;

    REQUIRE(dlock_client_open("redis+unix:///none", NULL, &side->client, NULL) == DLOCK_OK);
    strcpy(side->client->core->uuid, uuid); /* the first use would set it */
    status = dlock_lock_new(side->client, DLOCK_KIND_MUTEX, name, size, NULL, &side->lock, NULL);
    REQUIRE(status == DLOCK_OK || status == DLOCK_INVALID_NAME);
    return status == DLOCK_OK;
}

static void end(struct side *side)
{
    dlock_lock_free(side->lock);
    dlock_client_free(side->client);
}

static struct dli_operation *take(struct side *side, const uint8_t *grant, size_t size)
{
    struct dli_operation *order = NULL;
    dlock_status status = dli_transfer_adopt(side->lock->entry, &side->lock->terms, OWNER, grant, size, &order);

    REQUIRE(status == DLOCK_OK ? order != NULL : status == DLOCK_INVALID_GRANT && !order);
    return order;
}

/* The bytes that describe a parsed operation. */
static size_t print(char *to, const struct dli_operation *order, const char *name, size_t size)
{
    size_t head = (size_t)sprintf(to, "dlock1 %" PRId64 " %" PRId64 " %s ", order->value, order->lease / DLI_MS,
                                  order->row.owner);

    memcpy(to + head, name, size);
    return head + size;
}

static void check_order(const struct dli_operation *order)
{
    REQUIRE(order->value > 0 && order->value < INT64_C(1) << 53);
    REQUIRE(order->lease >= 100 * DLI_MS && order->lease <= INT64_C(86400000) * DLI_MS);
    REQUIRE(strlen(order->row.owner) > DLI_UUID_SIZE && order->row.owner[DLI_UUID_SIZE] == ':');
}

/* As if the server had answered. Returns whether the grant is held now. */
static int take_over(struct side *side, struct dli_operation *order)
{
    int32_t state = DLOCK_STATE_NONE;

    REQUIRE(order->task->ask(order) == 1);
    order->status = DLOCK_OK;
    order->row.kept = 1;
    REQUIRE(order->task->heard(order) == 0);
    dlock_lock_state(side->lock, OWNER, &state, NULL);
    REQUIRE(order->status == DLOCK_OK || order->status == DLOCK_LOST);
    return order->status == DLOCK_OK && (state == DLOCK_STATE_HELD || state == DLOCK_STATE_AT_RISK);
}

static void pass_on(struct side *from, struct side *to, const struct dli_operation *first, const char *name,
                    size_t size)
{
    uint8_t text[DLI_GRANT_MAX + DLI_NAME_MAX];
    size_t length = 0;
    dlock_status status = dlock_lock_export_grant(from->lock, OWNER, text, size, &length, NULL);
    struct dli_operation *order;

    REQUIRE(status == DLOCK_BUFFER_TOO_SMALL || status == DLOCK_LOST);
    status = dlock_lock_export_grant(from->lock, OWNER, text, sizeof text, &length, NULL);
    REQUIRE(status == DLOCK_OK || status == DLOCK_LOST);
    if (status != DLOCK_OK)
        return;
    REQUIRE(length <= sizeof text && length > size && memcmp(text + length - size, name, size) == 0);
    REQUIRE(dlock_lock_export_grant(from->lock, OWNER, text, sizeof text, NULL, NULL) == DLOCK_INVALID_ARGUMENT ||
            dlock_lock_export_grant(from->lock, OWNER, text, sizeof text, &length, NULL) == DLOCK_NOT_HELD);
    order = take(to, text, length);
    REQUIRE(order && order->value == first->value && order->lease == first->lease);
    REQUIRE(strcmp(order->row.owner, first->row.heir) == 0);
    dli_operation_free(order);
    for (size_t cut = 0; cut < length - size; cut++) /* a part of a grant is not a grant */
        REQUIRE(!take(to, text, cut));
}

static void fuzz(struct side *a, struct side *b, const char *name, size_t size, const uint8_t *grant, size_t length)
{
    struct dli_operation *order = take(a, grant, length), *again;
    char *text;

    if (!order)
        return;
    check_order(order);
    text = malloc(DLI_GRANT_MAX + size);
    REQUIRE(text);
    again = take(b, (const uint8_t *)text, print(text, order, name, size));
    REQUIRE(again && again->value == order->value && again->lease == order->lease);
    REQUIRE(strcmp(again->row.owner, order->row.owner) == 0);
    dli_operation_free(again);
    free(text);
    if (take_over(a, order))
        pass_on(a, b, order, name, size);
    dli_operation_free(order);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz in = {data, size};
    struct side a = {NULL, NULL}, b = {NULL, NULL};
    size_t name_size;
    const char *name = fuzz_until(&in, '\n', &name_size);
    uint8_t *grant = (uint8_t *)fuzz_text((const char *)in.at, in.left);

    if (begin(&a, "aaaaaaaa-0000-8000-8000-000000000000", name, name_size) &&
        begin(&b, "bbbbbbbb-0000-8000-8000-000000000000", name, name_size))
        fuzz(&a, &b, name, name_size, grant, in.left);
    end(&a);
    end(&b);
    free(grant);
    return 0;
}
