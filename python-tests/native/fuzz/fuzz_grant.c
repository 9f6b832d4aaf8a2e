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
    struct dli_operation *operation = NULL;
    dlock_status status = dli_transfer_adopt(side->lock->entry, side->lock->terms, OWNER, grant, size, &operation);

    REQUIRE(status == DLOCK_OK ? operation != NULL : status == DLOCK_INVALID_GRANT && !operation);
    return operation;
}

/* The bytes that describe a parsed operation. */
static size_t print(char *to, const struct dli_operation *operation, const char *name, size_t size)
{
    size_t head = (size_t)sprintf(to, "dlock1 %" PRId64 " %" PRId64 " %s ", operation->value, operation->lease / DLI_MS,
                                  operation->row.owner);

    memcpy(to + head, name, size);
    return head + size;
}

static void check_order(const struct dli_operation *operation)
{
    REQUIRE(operation->value > 0 && operation->value < INT64_C(1) << 53);
    REQUIRE(operation->lease >= 100 * DLI_MS && operation->lease <= INT64_C(86400000) * DLI_MS);
    REQUIRE(strlen(operation->row.owner) > DLI_UUID_SIZE && operation->row.owner[DLI_UUID_SIZE] == ':');
}

/* As if the server had answered. Returns whether the grant is held now. */
static int take_over(struct side *side, struct dli_operation *operation)
{
    int32_t state = DLOCK_STATE_NONE;

    REQUIRE(operation->task->prepare(operation) == 1);
    operation->status = DLOCK_OK;
    operation->row.kept = 1;
    REQUIRE(operation->task->answered(operation) == 0);
    dlock_lock_state(side->lock, OWNER, &state, NULL);
    REQUIRE(operation->status == DLOCK_OK || operation->status == DLOCK_LOST);
    return operation->status == DLOCK_OK && (state == DLOCK_STATE_HELD || state == DLOCK_STATE_AT_RISK);
}

static void pass_on(struct side *from, struct side *to, const struct dli_operation *first, const char *name,
                    size_t size)
{
    uint8_t text[DLI_GRANT_MAX + DLI_NAME_MAX];
    size_t length = 0;
    dlock_status status = dlock_lock_export_grant(from->lock, OWNER, text, size, &length, NULL);
    struct dli_operation *operation;

    REQUIRE(status == DLOCK_BUFFER_TOO_SMALL || status == DLOCK_LOST);
    status = dlock_lock_export_grant(from->lock, OWNER, text, sizeof text, &length, NULL);
    REQUIRE(status == DLOCK_OK || status == DLOCK_LOST);
    if (status != DLOCK_OK)
        return;
    REQUIRE(length <= sizeof text && length > size && memcmp(text + length - size, name, size) == 0);
    REQUIRE(dlock_lock_export_grant(from->lock, OWNER, text, sizeof text, NULL, NULL) == DLOCK_INVALID_ARGUMENT ||
            dlock_lock_export_grant(from->lock, OWNER, text, sizeof text, &length, NULL) == DLOCK_NOT_HELD);
    operation = take(to, text, length);
    REQUIRE(operation && operation->value == first->value && operation->lease == first->lease);
    REQUIRE(strcmp(operation->row.owner, first->row.heir) == 0);
    dli_operation_free(operation);
    for (size_t cut = 0; cut < length - size; cut++) /* a part of a grant is not a grant */
        REQUIRE(!take(to, text, cut));
}

static void fuzz(struct side *a, struct side *b, const char *name, size_t size, const uint8_t *grant, size_t length)
{
    struct dli_operation *operation = take(a, grant, length), *again;
    char *text;

    if (!operation)
        return;
    check_order(operation);
    text = malloc(DLI_GRANT_MAX + size);
    REQUIRE(text);
    again = take(b, (const uint8_t *)text, print(text, operation, name, size));
    REQUIRE(again && again->value == operation->value && again->lease == operation->lease);
    REQUIRE(strcmp(again->row.owner, operation->row.owner) == 0);
    dli_operation_free(again);
    free(text);
    if (take_over(a, operation))
        pass_on(a, b, operation, name, size);
    dli_operation_free(operation);
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
