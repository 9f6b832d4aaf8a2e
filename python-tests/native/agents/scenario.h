/*
 * scenario.h: shared parts of the C runner of the scenario table. See scenario.c.
 *
 * Each verb gets the words after its name and returns a status, or SAID when it has written its answer itself.
 */
#ifndef SCENARIO_H
#define SCENARIO_H

#include <inttypes.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dlock.h"
#include "words.h"

enum { SEEN = 256, SAID = -1, PATIENCE_MS = 20000 };

typedef dlock_status verb_function(struct word *w);

struct verb {
    const char *name;
    verb_function *call;
};

/* An event from the queue; type is NONE once its waiter has it. */
struct seen {
    int64_t type, status, tag, token, cause;
};

struct client {
    dlock_client *handle;
    struct seen seen[SEEN];
    int seen_count;
};

struct lock {
    dlock_lock *handle;
    struct client *client;
};

extern dlock_error *box;
extern int by_events;
extern int64_t last_tag; /* of the last submitted call */

extern const struct verb client_verbs[], lock_verbs[], counter_verbs[], txn_verbs[];

/* A zeroed object with a name. drop frees its content, not the object; NULL marks a client. */
void *name_it(struct word name, size_t size, void (*drop)(void *thing));

/* The object with this name; the process ends when there is none. */
void *find(struct word name);

/* The lock of this name. */
dlock_lock *handle_of(struct word name);

int64_t number(struct word word);

/* Options from words "name=value". The caller frees *ret when DLOCK_OK is returned. */
dlock_status options_of(const struct word *words, dlock_options **ret);

/* Answer with a status and, when it is DLOCK_OK, a number. */
dlock_status valued(dlock_status status, const char *name, int64_t value);

/* The same with a token, if there is one: a latch has none. */
dlock_status with_token(dlock_status status, int64_t token);

/* The client's first event that is the answer with this tag or, when tag is 0, a loss. 0 when none comes. */
int next_of(struct client *client, int64_t tag, struct seen *ret);

/* The status and, if token is not NULL, the token of the answer with this tag. */
dlock_status answer_to(struct client *client, int64_t tag, int64_t *ret_token);

/* Acquire or release in the form with which the runner was started. */
dlock_status acquire(struct lock *lock, int64_t owner, int64_t wait_ms, int64_t *ret_token);
dlock_status release(struct lock *lock, int64_t owner);

#endif
