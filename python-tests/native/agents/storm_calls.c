/*
 * storm_calls.c: the calls of storm.c, as dlock.h permits them.
 */
#include <stdio.h>
#include <string.h>

#include "storm.h"

enum { OWNERS = 6, LONGEST_WAIT = 12 };

static const struct {
    int32_t kind;
    const char *name;
} names[PLACES] = {
    {DLOCK_KIND_MUTEX, "storm m0"},
    {DLOCK_KIND_MUTEX, "storm m1"},
    {DLOCK_KIND_MUTEX, "storm {t}m2"},
    {DLOCK_KIND_MUTEX, "storm m0"},
    {DLOCK_KIND_FAIR, "storm f0"},
    {DLOCK_KIND_FAIR, "storm f1"},
    {DLOCK_KIND_READ, "storm rw"},
    {DLOCK_KIND_WRITE, "storm rw"},
    {DLOCK_KIND_SEMAPHORE, "storm s"},
    {DLOCK_KIND_SEMAPHORE, "storm s1"},
    {DLOCK_KIND_PERMIT_SEMAPHORE, "storm p"},
    {DLOCK_KIND_LATCH, "storm l"},
    {DLOCK_KIND_MULTI, NULL},
    {DLOCK_KIND_WRITE, "storm m1"},
};

/* ---- tags */

/* 0 when all are used up: no more calls are submitted. */
static int64_t tag_of(struct side *side)
{
    uint32_t tag = __atomic_fetch_add(&side->tags, 1, __ATOMIC_SEQ_CST) + 1;

    if (tag >= TAGS)
        return 0;
    __atomic_store_n(&side->tag[tag], TAG_ASKED, __ATOMIC_SEQ_CST);
    return tag;
}

/* A call with a tag was answered; promised: an event will follow. */
static void submitted(struct self *self, struct side *side, int64_t tag, dlock_status status, dlock_status promised)
{
    uint8_t asked = TAG_ASKED;

    storm_said(self, status);
    if (status != promised &&
        !__atomic_compare_exchange_n(&side->tag[tag], &asked, TAG_NONE, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        storm_wrong("an event of a call that was refused", status);
}

/* ---- one lock */

static int64_t owner_of(struct self *self)
{
    return storm_draw(self, 16) ? (int64_t)storm_draw(self, OWNERS) : -7;
}

static int64_t wait_of(struct self *self)
{
    return storm_draw(self, 64) ? (int64_t)storm_draw(self, LONGEST_WAIT) : -2;
}

static int may_acquire(const struct place *place)
{
    return place->kind != DLOCK_KIND_SEMAPHORE || !storm_keep_permits;
}

static void use_blocking(struct self *self, struct place *place)
{
    int64_t owner = owner_of(self), number;
    dlock_lock *lock = place->lock;

    switch (storm_draw(self, 10)) {
    case 0:
    case 1:
    case 2:
        if (may_acquire(place) &&
            storm_said(self, dlock_lock_acquire(lock, owner, wait_of(self), &number, self->why)) == DLOCK_OK)
            storm_said(self, dlock_lock_release(lock, owner, self->why));
        break;
    case 3:
        if (may_acquire(place))
            storm_said(self, dlock_lock_acquire(lock, owner, wait_of(self), NULL, self->why));
        break;
    case 4:
    case 5:
        storm_said(self, dlock_lock_release(lock, owner, self->why));
        break;
    case 6:
        if (may_acquire(place))
            storm_said(self, dlock_lock_acquire_local(lock, owner, &number, self->why));
        break;
    case 7:
        storm_said(self, dlock_lock_release_local(lock, owner, self->why));
        break;
    case 8:
        storm_said(self, dlock_lock_extend(lock, owner, (int64_t)storm_draw(self, 4000), self->why));
        break;
    default:
        storm_said(self, dlock_lock_cancel(lock, owner, self->why));
    }
}

static void use_submitted(struct self *self, struct side *side, struct place *place)
{
    int64_t owner = owner_of(self), tag = tag_of(side), number;
    dlock_lock *lock = place->lock;
    uint32_t what = storm_draw(self, 10);

    if (!tag)
        return;
    if (!may_acquire(place) && (what < 3 || what == 4))
        what = 3;
    switch (what) {
    case 0:
    case 1:
    case 2:
        submitted(self, side, tag, dlock_lock_submit_acquire(lock, owner, wait_of(self), tag, self->why), DLOCK_OK);
        break;
    case 3:
        submitted(self, side, tag, dlock_lock_submit_release(lock, owner, tag, self->why), DLOCK_OK);
        break;
    case 4:
        submitted(self, side, tag, dlock_lock_begin_acquire(lock, owner, wait_of(self), tag, &number, self->why),
                  DLOCK_WOULD_BLOCK);
        break;
    case 5:
        submitted(self, side, tag, dlock_lock_begin_release(lock, owner, tag, self->why), DLOCK_WOULD_BLOCK);
        break;
    case 6:
        submitted(self, side, tag,
                  dlock_lock_submit_extend(lock, owner, (int64_t)storm_draw(self, 4000), tag, self->why), DLOCK_OK);
        break;
    case 7:
        submitted(self, side, tag, dlock_lock_submit_force_release(lock, tag, self->why), DLOCK_OK);
        break;
    case 8:
        submitted(self, side, tag, dlock_lock_submit_inspect(lock, tag, self->why), DLOCK_OK);
        break;
    default:
        submitted(self, side, tag,
                  dlock_lock_submit_adopt_grant(lock, owner, self->grant, self->grant_size, tag, self->why), DLOCK_OK);
    }
}

/* Calls without a server, force, inspection, and grants that move. */
static void use_quietly(struct self *self, struct place *place)
{
    int64_t owner = owner_of(self), number;
    dlock_lock *lock = place->lock;
    char text[64];
    int32_t state;

    switch (storm_draw(self, 10)) {
    case 0:
        if (storm_said(self, dlock_lock_state(lock, owner, &state, self->why)) == DLOCK_OK && (state < 0 || state > 4))
            storm_wrong("a state that is none", state);
        break;
    case 1:
        storm_said(self, dlock_lock_remaining_ms(lock, owner, &number, self->why));
        break;
    case 2:
        if (storm_said(self, dlock_lock_token(lock, owner, &number, self->why)) == DLOCK_OK && number <= 0)
            storm_wrong("a token that is none", number);
        break;
    case 3:
        storm_said(self, dlock_lock_hold_count(lock, owner, &number, self->why));
        break;
    case 4:
        storm_said(self, dlock_lock_inspect(lock, self->event, self->why));
        break;
    case 5:
        storm_said(self, dlock_lock_force_release(lock, self->why));
        break;
    case 6:
        if (storm_said(self, dlock_lock_export_grant(lock, owner, self->grant, sizeof self->grant, &self->grant_size,
                                                     self->why)) != DLOCK_OK)
            break;
        /* fallthrough */
    case 7:
        storm_said(self, dlock_lock_adopt_grant(lock, owner, self->grant, self->grant_size, &number, self->why));
        break;
    case 8:
        storm_said(self, dlock_semaphore_permit(lock, owner, (int64_t)storm_draw(self, 3), text,
                                                storm_draw(self, 2) * 64, self->why));
        break;
    default:
        if (dlock_lock_id(lock) <= 0)
            storm_wrong("a lock without a number", dlock_lock_id(lock));
    }
}

/* Gates, semaphores and latches. The permits of "storm s" are counted afterwards: no call adds any. */
static void use_counter(struct self *self, struct side *side, const struct place *place)
{
    dlock_lock *lock = place->lock;
    int64_t number, tag = tag_of(side), some = (int64_t)storm_draw(self, 5) - 1;

    if (!tag)
        return;
    switch (place == &side->place[8] ? storm_draw(self, 5) : storm_draw(self, 14)) {
    case 0:
        storm_said(self, dlock_lock_close_gate(lock, 1 + (int64_t)storm_draw(self, 10), self->why));
        break;
    case 1:
        submitted(self, side, tag, dlock_lock_submit_open_gate(lock, tag, self->why), DLOCK_OK);
        return;
    case 2:
        submitted(self, side, tag, dlock_semaphore_submit_available(lock, tag, self->why), DLOCK_OK);
        return;
    case 3:
        storm_said(self, dlock_lock_open_gate(lock, self->why));
        break;
    case 4:
        storm_said(self, dlock_semaphore_available(lock, &number, self->why));
        break;
    case 5:
        storm_said(self, dlock_semaphore_set(lock, 20, self->why));
        break;
    case 6:
        submitted(self, side, tag, dlock_semaphore_submit_add(lock, some, tag, self->why), DLOCK_OK);
        return;
    case 7:
        storm_said(self, dlock_semaphore_add(lock, some, &number, self->why));
        break;
    case 8:
        storm_said(self, dlock_semaphore_drain(lock, &number, self->why));
        break;
    case 9:
        storm_said(self, dlock_latch_set(lock, 2, self->why));
        break;
    case 10:
        submitted(self, side, tag, dlock_latch_submit_count_down(lock, some, tag, self->why), DLOCK_OK);
        return;
    case 11:
        storm_said(self, dlock_latch_count_down(lock, 1, &number, self->why));
        break;
    case 12:
        submitted(self, side, tag, dlock_latch_submit_count(lock, tag, self->why), DLOCK_OK);
        return;
    default:
        submitted(self, side, tag, dlock_lock_submit_close_gate(lock, some, tag, self->why), DLOCK_OK);
        return;
    }
    submitted(self, side, tag, dlock_lock_submit_close_gate(NULL, 1, tag, self->why),
              DLOCK_OK); /* the tag was not used */
}

/* ---- handles */

/* Three locks as one. Nobody uses its members' handles in the meantime. */
static dlock_lock *new_multi(struct self *self, struct side *side)
{
    dlock_lock *member[3] = {NULL}, *multi = NULL;
    size_t count = 1 + storm_draw(self, 3);

    for (size_t i = 0; i < count; i++) {
        uint32_t at = storm_draw(self, 12);
        storm_said(self, dlock_lock_new(side->client, names[at].kind, names[at].name, strlen(names[at].name), NULL,
                                        &member[i], self->why));
    }
    storm_said(self, dlock_lock_new_multi(side->client, member, count, &multi, self->why));
    for (size_t i = 0; i < count; i++)
        dlock_lock_free(member[i]);
    return multi;
}

/* A new handle in the place of the old one, if nobody uses that now. */
static void renew_handle(struct self *self, struct side *side)
{
    uint32_t at = storm_draw(self, PLACES);
    struct place *place = &side->place[at];

    if (pthread_rwlock_trywrlock(&place->mutex))
        return;
    if (storm_draw(self, 4) == 0 || !place->lock) {
        dlock_lock_free(place->lock);
        place->lock = NULL;
        place->kind = names[at].kind;
        pthread_rwlock_rdlock(&side->mutex);
        if (side->client && place->kind == DLOCK_KIND_MULTI)
            place->lock = new_multi(self, side);
        else if (side->client)
            storm_said(self, dlock_lock_new(side->client, place->kind, names[at].name, strlen(names[at].name), NULL,
                                            &place->lock, self->why));
        pthread_rwlock_unlock(&side->mutex);
    }
    pthread_rwlock_unlock(&place->mutex);
}

static void use_lock(struct self *self, struct side *side)
{
    struct place *place = &side->place[storm_draw(self, PLACES)];

    pthread_rwlock_rdlock(&place->mutex);
    if (place->lock) {
        switch (storm_draw(self, 5)) {
        case 0:
        case 1:
            use_blocking(self, place);
            break;
        case 2:
            use_submitted(self, side, place);
            break;
        case 3:
            use_quietly(self, place);
            break;
        default:
            use_counter(self, side, place);
        }
    }
    pthread_rwlock_unlock(&place->mutex);
}

/* ---- clients and transactions */

static void use_client(struct self *self, struct side *side)
{
    int64_t stats[DLOCK_STAT_COUNT + 2], tag;
    dlock_client *client;
    size_t count;
    int32_t fd;

    pthread_rwlock_rdlock(&side->mutex);
    client = side->client;
    if (!client) {
        pthread_rwlock_unlock(&side->mutex);
        return;
    }
    switch (storm_draw(self, 8)) {
    case 0:
        storm_said(self, dlock_client_ping(client, 50, self->why));
        break;
    case 1:
        if ((tag = tag_of(side)))
            submitted(self, side, tag, dlock_client_submit_ping(client, 50, tag, self->why), DLOCK_OK);
        break;
    case 2:
        storm_said(self, dlock_client_stats(client, stats, storm_draw(self, DLOCK_STAT_COUNT + 2), &count, self->why));
        break;
    case 3:
        storm_said(self, dlock_client_wake(client, self->why));
        break;
    case 4:
        storm_said(self, dlock_client_fd(client, &fd, self->why));
        break;
    case 5:
        if (storm_draw(self, 8) == 0)
            storm_said(self, dlock_client_check(client, 50, &count, self->why));
        else
            storm_said(self, dlock_client_finding(client, storm_draw(self, 3), self->event, self->why));
        break;
    case 6:
        if (storm_draw(self, 8) == 0 && (tag = tag_of(side)))
            submitted(self, side, tag, dlock_client_submit_check(client, 50, tag, self->why), DLOCK_OK);
        break;
    default:
        storm_said(self, dlock_client_provision(client, 50, self->why));
    }
    pthread_rwlock_unlock(&side->mutex);
}

static void step_txn(struct self *self, struct side *side, dlock_txn *txn)
{
    const uint8_t value[] = "1";
    uint8_t buffer[8];
    int64_t tag = tag_of(side);
    char key[16];
    size_t size = (size_t)snprintf(key, sizeof key, "storm k%u", storm_draw(self, 3)), count;

    if (!tag)
        return;
    switch (storm_draw(self, 10)) {
    case 0:
        storm_said(self, dlock_txn_watch(txn, key, size, self->why));
        break;
    case 1:
        submitted(self, side, tag, dlock_txn_submit_watch(txn, key, size, tag, self->why), DLOCK_OK);
        return;
    case 2:
        storm_said(self, dlock_txn_get(txn, key, size, buffer, storm_draw(self, sizeof buffer), &count, self->why));
        break;
    case 3:
        submitted(self, side, tag, dlock_txn_submit_get(txn, key, size, tag, self->why), DLOCK_OK);
        return;
    case 4:
        storm_said(self, dlock_txn_set(txn, key, size, value, 1, storm_draw(self, 2) ? -1 : 1000, self->why));
        break;
    case 5:
        storm_said(self, dlock_txn_incr(txn, key, size, 3, self->why));
        break;
    case 6:
        storm_said(self, dlock_txn_delete(txn, key, size, self->why));
        break;
    case 7:
        storm_said(self, dlock_txn_commit(txn, self->why));
        break;
    case 8:
        submitted(self, side, tag, dlock_txn_submit_commit(txn, tag, self->why), DLOCK_OK);
        return;
    default:
        storm_said(self, dlock_txn_rollback(txn, self->why));
    }
    submitted(self, side, tag, dlock_client_submit_ping(NULL, 1, tag, self->why), DLOCK_OK);
}

static void use_txn(struct self *self, int which)
{
    struct side *side = &storm_side[which];

    if (storm_draw(self, 10) == 0) {
        dlock_txn_free(self->txn[which]);
        self->txn[which] = NULL;
    }
    if (!self->txn[which]) {
        pthread_rwlock_rdlock(&side->mutex);
        if (side->client)
            storm_said(self, dlock_txn_new(side->client, &self->txn[which], self->why));
        pthread_rwlock_unlock(&side->mutex);
    }
    if (self->txn[which])
        step_txn(self, side, self->txn[which]);
}

static void use_options(struct self *self)
{
    static const char *const values[] = {"", "0", "1", "-1", "true", "300", "99999999999999999999", SECRET};
    const char *name = dlock_option_name(storm_draw(self, 64)), *value = values[storm_draw(self, 8)];
    char text[64];
    size_t size;

    storm_said(self, dlock_options_set(self->options, name, value, self->why));
    storm_said(self, dlock_options_get(self->options, name, text, storm_draw(self, sizeof text), &size, self->why));
}

void storm_call(struct self *self)
{
    int which = storm_draw(self, 10) == 0 ? DEAD : LIVE;

    switch (storm_draw(self, 16)) {
    case 0:
        use_client(self, &storm_side[which]);
        break;
    case 1:
    case 2:
        use_txn(self, which);
        break;
    case 3:
        use_options(self);
        break;
    case 4:
        storm_nothing(self);
        break;
    case 5:
    case 6:
    case 7:
        renew_handle(self, &storm_side[which]);
        break;
    default:
        use_lock(self, &storm_side[which]);
    }
}
