/*
 * scenario_locks.c: locks of all kinds, events, waits and grants, for the C runner of the scenario table. See scenario.c.
 */
#include "scenario.h"

struct waiting {
    struct lock *lock;
    int64_t owner, wait_ms, tag, token;
    dlock_status status;
    pthread_t thread;
    int threaded;
};

struct grant {
    uint8_t bytes[2048];
    size_t size;
};

int64_t last_tag;

/* ---- events */

static int is_answer(const struct seen *seen)
{
    return seen->type == DLOCK_EVENT_DONE ||
           (seen->type >= DLOCK_EVENT_ACQUIRED && seen->type <= DLOCK_EVENT_RELEASE_FAILED);
}

static int fetch(struct client *client)
{
    dlock_event *event = dlock_event_new();
    int64_t fields[DLOCK_FIELD_COUNT];
    int fetched = client->seen_count < SEEN &&
                  dlock_client_next(client->handle, PATIENCE_MS, event, NULL) == DLOCK_OK &&
                  dlock_event_unpack(event, fields, DLOCK_FIELD_COUNT, NULL, NULL) == DLOCK_OK;

    if (fetched)
        client->seen[client->seen_count++] =
            (struct seen){fields[DLOCK_FIELD_TYPE], fields[DLOCK_FIELD_STATUS], fields[DLOCK_FIELD_TAG],
                          fields[DLOCK_FIELD_TOKEN], fields[DLOCK_FIELD_CAUSE]};
    dlock_event_free(event);
    return fetched;
}

int next_of(struct client *client, int64_t tag, struct seen *ret)
{
    for (int i = 0; i < client->seen_count || fetch(client); i++) {
        struct seen *seen = &client->seen[i];

        if (tag ? is_answer(seen) && seen->tag == tag : seen->type == DLOCK_EVENT_LOST) {
            *ret = *seen;
            memmove(seen, seen + 1, (size_t)(--client->seen_count - i) * sizeof(*seen));
            return 1;
        }
    }
    return 0;
}

dlock_status answer_to(struct client *client, int64_t tag, int64_t *ret_token)
{
    struct seen seen;

    if (!next_of(client, tag, &seen))
        return DLOCK_NO_EVENT;
    if (ret_token)
        *ret_token = seen.token;
    return (dlock_status)seen.status;
}

dlock_status acquire(struct lock *lock, int64_t owner, int64_t wait_ms, int64_t *ret_token)
{
    dlock_status status;

    if (!by_events)
        return dlock_lock_acquire(lock->handle, owner, wait_ms, ret_token, box);
    status = dlock_lock_submit_acquire(lock->handle, owner, wait_ms, ++last_tag, box);
    return status == DLOCK_OK ? answer_to(lock->client, last_tag, ret_token) : status;
}

dlock_status release(struct lock *lock, int64_t owner)
{
    dlock_status status;

    if (!by_events)
        return dlock_lock_release(lock->handle, owner, box);
    status = dlock_lock_submit_release(lock->handle, owner, ++last_tag, box);
    return status == DLOCK_OK ? answer_to(lock->client, last_tag, NULL) : status;
}

/* ---- locks */

dlock_lock *handle_of(struct word name)
{
    return ((struct lock *)find(name))->handle;
}

static int32_t kind_of(const char *name)
{
    static const char *const names[] = {"mutex", "fair", "read", "write", "semaphore", "permit_semaphore",
                                        "latch"}; /* in the order of their numbers */

    for (int32_t i = 0; i < DLOCK_KIND_LATCH; i++)
        if (strcmp(names[i], name) == 0)
            return i + 1;
    return 0;
}

static void drop_lock(void *thing)
{
    dlock_lock_free(((struct lock *)thing)->handle);
}

static dlock_status do_lock(struct word *w)
{
    struct client *client = find(w[0]);
    int32_t kind = kind_of(w[2].text);
    dlock_options *options;
    struct lock *lock;
    dlock_status status;

    if (kind == 0) {
        printf("ABSENT");
        return SAID;
    }
    status = options_of(w + 4, &options);
    if (status != DLOCK_OK)
        return status;
    lock = name_it(w[1], sizeof(*lock), drop_lock);
    lock->client = client;
    status = dlock_lock_new(client->handle, kind, w[3].text, w[3].size, options, &lock->handle, box);
    dlock_options_free(options);
    return status;
}

static dlock_status do_multi(struct word *w)
{
    struct lock *lock = name_it(w[1], sizeof(*lock), drop_lock);
    dlock_lock *members[WORDS];
    size_t count = 0;

    lock->client = find(w[0]);
    for (struct word *word = w + 2; word->size > 0; word++)
        members[count++] = handle_of(*word);
    return dlock_lock_new_multi(lock->client->handle, members, count, &lock->handle, box);
}

static dlock_status do_acquire(struct word *w)
{
    int64_t token = 0;
    dlock_status status = acquire(find(w[0]), number(w[1]), number(w[2]), &token);

    return with_token(status, token);
}

static dlock_status do_release(struct word *w)
{
    return release(find(w[0]), number(w[1]));
}

static dlock_status do_token(struct word *w)
{
    int64_t token = 0;
    dlock_status status = dlock_lock_token(handle_of(w[0]), number(w[1]), &token, box);

    return valued(status, "token", token);
}

static dlock_status do_remaining(struct word *w)
{
    int64_t remaining = 0;
    dlock_status status = dlock_lock_remaining_ms(handle_of(w[0]), number(w[1]), &remaining, box);

    return valued(status, "remaining", remaining);
}

static dlock_status do_holds(struct word *w)
{
    int64_t holds = 0;
    dlock_status status = dlock_lock_hold_count(handle_of(w[0]), number(w[1]), &holds, box);

    return valued(status, "holds", holds);
}

static dlock_status do_state(struct word *w)
{
    static const char *const names[] = {"NONE", "WAITING", "HELD", "AT_RISK", "LOST"};
    int32_t state = 0;
    dlock_status status = dlock_lock_state(handle_of(w[0]), number(w[1]), &state, box);

    if (status != DLOCK_OK)
        return status;
    printf("OK state=%s", names[state]);
    return SAID;
}

static dlock_status do_extend(struct word *w)
{
    return dlock_lock_extend(handle_of(w[0]), number(w[1]), number(w[2]), box);
}

static dlock_status do_force(struct word *w)
{
    return dlock_lock_force_release(handle_of(w[0]), box);
}

static dlock_status do_inspect(struct word *w)
{
    dlock_event *event = dlock_event_new();
    int64_t fields[DLOCK_FIELD_COUNT];
    dlock_status status = dlock_lock_inspect(handle_of(w[0]), event, box);

    if (status == DLOCK_OK) {
        dlock_event_unpack(event, fields, DLOCK_FIELD_COUNT, NULL, NULL);
        printf("OK free=%d waiters=%" PRId64 " foreign=%" PRId64, dlock_event_text(event)[0] == '\0',
               fields[DLOCK_FIELD_WAITERS], fields[DLOCK_FIELD_FOREIGN]);
    }
    dlock_event_free(event);
    return status == DLOCK_OK ? SAID : status;
}

static dlock_status do_close_gate(struct word *w)
{
    return dlock_lock_close_gate(handle_of(w[0]), number(w[1]), box);
}

static dlock_status do_open_gate(struct word *w)
{
    return dlock_lock_open_gate(handle_of(w[0]), box);
}

/* ---- waits and grants */

static void drop_waiting(void *thing)
{
    struct waiting *waiting = thing;

    if (waiting->threaded)
        pthread_join(waiting->thread, NULL);
}

static void *wait_in_thread(void *data)
{
    struct waiting *waiting = data;

    waiting->status =
        dlock_lock_acquire(waiting->lock->handle, waiting->owner, waiting->wait_ms, &waiting->token, NULL);
    return NULL;
}

static dlock_status do_begin(struct word *w)
{
    struct waiting *waiting = name_it(w[0], sizeof(*waiting), drop_waiting);

    waiting->lock = find(w[1]);
    waiting->owner = number(w[2]);
    waiting->wait_ms = number(w[3]);
    waiting->tag = ++last_tag;
    if (by_events)
        return dlock_lock_submit_acquire(waiting->lock->handle, waiting->owner, waiting->wait_ms, waiting->tag, box);
    waiting->threaded = pthread_create(&waiting->thread, NULL, wait_in_thread, waiting) == 0;
    return waiting->threaded ? DLOCK_OK : DLOCK_SYSTEM_ERROR;
}

static dlock_status do_end(struct word *w)
{
    struct waiting *waiting = find(w[0]);

    if (waiting->threaded)
        pthread_join(waiting->thread, NULL);
    else
        waiting->status = answer_to(waiting->lock->client, waiting->tag, &waiting->token);
    waiting->threaded = 0;
    return with_token(waiting->status, waiting->token);
}

static dlock_status do_cancel(struct word *w)
{
    struct waiting *waiting = find(w[0]);

    return dlock_lock_cancel(waiting->lock->handle, waiting->owner, box);
}

/* A grant is only its bytes. */
static void drop_grant(void *thing)
{
    (void)thing;
}

static dlock_status do_export(struct word *w)
{
    struct grant *grant = name_it(w[2], sizeof(*grant), drop_grant);

    return dlock_lock_export_grant(handle_of(w[0]), number(w[1]), grant->bytes, sizeof(grant->bytes), &grant->size,
                                   box);
}

static dlock_status do_adopt(struct word *w)
{
    struct grant *grant = find(w[2]);
    int64_t token = 0;
    dlock_status status = dlock_lock_adopt_grant(handle_of(w[0]), number(w[1]), grant->bytes, grant->size, &token, box);

    return valued(status, "token", token);
}

const struct verb lock_verbs[] = {{"lock", do_lock},
                                  {"multi", do_multi},
                                  {"acquire", do_acquire},
                                  {"release", do_release},
                                  {"token", do_token},
                                  {"holds", do_holds},
                                  {"state", do_state},
                                  {"remaining", do_remaining},
                                  {"extend", do_extend},
                                  {"force", do_force},
                                  {"inspect", do_inspect},
                                  {"close_gate", do_close_gate},
                                  {"open_gate", do_open_gate},
                                  {"begin", do_begin},
                                  {"end", do_end},
                                  {"cancel", do_cancel},
                                  {"export", do_export},
                                  {"adopt", do_adopt},
                                  {NULL, NULL}};
