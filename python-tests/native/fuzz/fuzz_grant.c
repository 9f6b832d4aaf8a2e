/*
 * fuzz_grant.c: grants as bytes: "NAME LF GRANT". An accepted grant is adopted as if the server had agreed, is exported
 * again, and is accepted by another client: the name stays the same, token and lease are what the server said, and the owner
 * is the one that exported it. All but the name is the proof that the server compares: not one byte is left out. The clients
 * have no threads and no server.
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
    size_t head = (size_t)sprintf(to, "%s ", operation->transfer->proof);

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
    operation->transfer->token = operation->value + 1; /* not what the bytes say */
    operation->transfer->lease =
        operation->lease > 200 * DLI_MS ? operation->lease / 2 / DLI_MS * DLI_MS : operation->lease;
    REQUIRE(operation->task->answered(operation) == 0);
    REQUIRE(operation->status != DLOCK_OK || operation->value == operation->transfer->token);
    dlock_lock_state(side->lock, OWNER, &state, NULL);
    REQUIRE(operation->status == DLOCK_OK || operation->status == DLOCK_LOST);
    return operation->status == DLOCK_OK && (state == DLOCK_STATE_HELD || state == DLOCK_STATE_AT_RISK);
}

/* Export with so much room, as if the server had agreed. */
static struct dli_operation *give(struct side *side, size_t room)
{
    struct dli_operation *operation = dli_transfer_export(side->lock->entry, OWNER, room);

    REQUIRE(operation);
    if (!operation->task->prepare(operation))
        return operation;
    operation->status = DLOCK_OK;
    operation->row.kept = 1;
    REQUIRE(operation->task->answered(operation) == 0);
    return operation;
}

static void check_given(struct side *to, const struct dli_operation *given, const struct dli_operation *first,
                        const char *name, size_t size)
{
    const uint8_t *bytes = (const uint8_t *)given->grant;
    size_t length = (size_t)given->value;
    struct dli_operation *operation = take(to, bytes, length);

    REQUIRE(length > size && memcmp(bytes + length - size, name, size) == 0);
    REQUIRE(operation && operation->value == first->transfer->token && operation->lease == first->transfer->lease);
    REQUIRE(strcmp(operation->row.owner, first->transfer->heir) == 0);
    REQUIRE(strcmp(operation->transfer->proof, given->transfer->proof) == 0);
    dli_operation_free(operation);
    for (size_t cut = 0; cut < length - size; cut++) /* a part of a grant is not a grant */
        REQUIRE(!take(to, bytes, cut));
}

/* Every other byte: no grant, or another proof. */
static void check_altered(struct side *to, const struct dli_operation *given)
{
    size_t length = (size_t)given->value;
    uint8_t *bytes = (uint8_t *)fuzz_text(given->grant, length);

    for (size_t at = 0; at < length; at++) {
        struct dli_operation *operation;

        bytes[at] ^= (uint8_t)(1 << at % 8);
        if ((operation = take(to, bytes, length))) {
            REQUIRE(strcmp(operation->transfer->proof, given->transfer->proof) != 0);
            dli_operation_free(operation);
        }
        bytes[at] ^= (uint8_t)(1 << at % 8);
    }
    free(bytes);
}

static void pass_on(struct side *from, struct side *to, const struct dli_operation *first, const char *name,
                    size_t size)
{
    struct dli_operation *given = give(from, size), *again;

    REQUIRE((given->status == DLOCK_BUFFER_TOO_SMALL || given->status == DLOCK_LOST) && !given->grant);
    dli_operation_free(given);
    given = give(from, 0);
    REQUIRE(given->status == DLOCK_OK || given->status == DLOCK_LOST);
    if (given->status == DLOCK_OK) {
        again = give(from, 0);
        REQUIRE(again->status == DLOCK_NOT_HELD && !again->grant);
        dli_operation_free(again);
        check_given(to, given, first, name, size);
        check_altered(to, given);
    }
    dli_operation_free(given);
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
