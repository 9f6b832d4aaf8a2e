/*
 * subscriber.c: the subscriber connection, see subscriber.h, which also says what mutex guards.
 */
#include "subscriber.h"

#include <string.h>

#include "sys/sys.h"

enum { IDLE_MAX = 5000000, REFUSED_PAUSE = 1000000 };

int dli_subscriber_init(struct dli_subscriber *sub, const struct dli_conn_config *config, struct dli_budget *budget,
                        const struct dli_ears *ears, int wake_fd, int64_t patience)
{
    memset(sub, 0, sizeof *sub);
    pthread_mutex_init(&sub->mutex, NULL);
    sub->conn = dli_conn_new(config);
    sub->budget = budget;
    sub->ears = ears;
    sub->wake_fd = wake_fd;
    sub->patience = patience;
    return sub->conn ? 0 : -1;
}

void dli_subscriber_fini(struct dli_subscriber *sub)
{
    dli_conn_free(sub->conn);
    dli_buffer_free(&sub->commands);
    pthread_mutex_destroy(&sub->mutex);
}

void dli_subscriber_want(struct dli_subscriber *sub, int news)
{
    int first =
        !__atomic_load_n(&sub->wanted, __ATOMIC_ACQUIRE) && !__atomic_exchange_n(&sub->wanted, 1, __ATOMIC_ACQ_REL);

    if (first || news)
        dli_wake_set(sub->wake_fd);
}

static int encode(struct dli_buffer *out, const char *verb, const char *channel, size_t size)
{
    const char *words[2] = {verb, channel};
    size_t sizes[2] = {strlen(verb), size};

    return dli_encode(out, 2, words, sizes);
}

void dli_subscriber_subscribe(struct dli_subscriber *sub, const char *channel, size_t size, int on, int64_t *listeners)
{
    int changed;

    pthread_mutex_lock(&sub->mutex);
    changed = on ? ++*listeners == 1 : --*listeners == 0;
    if (changed && encode(&sub->commands, on ? "SUBSCRIBE" : "UNSUBSCRIBE", channel, size) == 0)
        sub->owed[on != 0]++;
    pthread_mutex_unlock(&sub->mutex);
    if (changed)
        dli_wake_set(sub->wake_fd);
}

void dli_subscriber_send(struct dli_subscriber *sub, int sharded, const char *channel, size_t size, int on)
{
    static const char *const verbs[2][2] = {{"UNSUBSCRIBE", "SUBSCRIBE"}, {"SUNSUBSCRIBE", "SSUBSCRIBE"}};

    pthread_mutex_lock(&sub->mutex);
    if (encode(&sub->commands, verbs[sharded != 0][on != 0], channel, size) == 0 && !sharded)
        sub->owed[on != 0]++;
    pthread_mutex_unlock(&sub->mutex);
    dli_wake_set(sub->wake_fd);
}

/* With the connection, all that was asked for is lost. */
static void forget_commands(struct dli_subscriber *sub)
{
    pthread_mutex_lock(&sub->mutex);
    sub->commands.size = 0;
    sub->owed[0] = sub->owed[1] = 0;
    pthread_mutex_unlock(&sub->mutex);
}

void dli_subscriber_disconnect(struct dli_subscriber *sub)
{
    __atomic_store_n(&sub->wanted, 0, __ATOMIC_RELEASE);
    dli_conn_close(sub->conn);
    forget_commands(sub);
    sub->up = sub->failed = 0;
}

void dli_subscriber_forget(struct dli_subscriber *sub, int64_t *listeners)
{
    pthread_mutex_lock(&sub->mutex);
    --*listeners;
    pthread_mutex_unlock(&sub->mutex);
}

/* The connection is lost: no grants are received until it is up again. */
static void connection_lost(struct dli_subscriber *sub, int64_t now)
{
    dli_conn_close(sub->conn);
    sub->try_at = now + sub->pause;
    sub->pause = 0;
    forget_commands(sub);
    if (sub->up || !sub->failed) {
        sub->up = 0;
        sub->failed = 1;
        sub->hooks->down(sub->owner);
    }
}

static void subscription_up(struct dli_subscriber *sub, const struct dli_ear *ear)
{
    sub->unheard--;
    if (sub->up)
        sub->hooks->heard(sub->owner, ear);
    if (sub->up || sub->unheard > 0)
        return;
    sub->ups++;
    sub->up = 1;
    sub->failed = 0;
    sub->hooks->up(sub->owner);
}

static int is(const struct dli_reply *word, const char *text)
{
    return word->size == strlen(text) && memcmp(word->text, text, word->size) == 0;
}

/* The server does what nobody asked for, or refuses what was asked for. */
static void leave(struct dli_subscriber *sub)
{
    sub->conn->state = DLI_CONN_FAILED;
    sub->pause = REFUSED_PAUSE;
}

static int is_owed(struct dli_subscriber *sub, int sharded, int on)
{
    int owed = sharded;

    pthread_mutex_lock(&sub->mutex);
    if (!sharded && sub->owed[on] > 0)
        owed = sub->owed[on]-- > 0;
    pthread_mutex_unlock(&sub->mutex);
    return owed;
}

/* A subscription to a channel has begun (on), or ended. */
static void confirmed(struct dli_subscriber *sub, int sharded, int on, const struct dli_reply *channel)
{
    const struct dli_ear *own = on && !sharded ? dli_ears_find(sub->ears, channel->text, channel->size) : NULL;

    if (own ? sub->unheard == 0 : !is_owed(sub, sharded, on))
        leave(sub);
    else if (own)
        subscription_up(sub, own);
    else
        (on ? sub->hooks->subscribed : sub->hooks->unsubscribed)(sub->owner, sharded, channel->text, channel->size);
}

static void handle_reply(struct dli_subscriber *sub, const struct dli_reply *reply)
{
    const struct dli_reply *word = reply->items;
    struct dli_reply verb;
    int sharded = 0;

    sub->pinged_at = 0;
    if (reply->type != DLI_REPLY_ARRAY || reply->size < 2 || word[0].type != DLI_REPLY_TEXT ||
        word[1].type != DLI_REPLY_TEXT)
        return;
    verb = word[0];
    if (verb.size > 1 && verb.text[0] == 's' && (verb.text[1] == 's' || verb.text[1] == 'm' || verb.text[1] == 'u') &&
        !is(&verb, "subscribe")) { /* a reply about a sharded channel, such as smessage */
        verb.text++;
        verb.size--;
        sharded = 1;
    }
    if (reply->size == 3 && is(&verb, "message") && word[2].type == DLI_REPLY_TEXT) {
        sub->hooks->message(sub->owner, word[1].text, word[1].size, word[2].text, word[2].size);
    } else if (is(&verb, "subscribe") || is(&verb, "unsubscribe")) {
        confirmed(sub, sharded, is(&verb, "subscribe"), &word[1]);
    }
}

/* Whether an attempt began; it may also have ended already. */
static int begin(struct dli_subscriber *sub, int64_t now)
{
    int64_t later;

    if (now < sub->try_at)
        return 0;
    later = dli_budget_take(sub->budget, now);
    if (later)
        sub->try_at = later;
    else
        dli_conn_start(sub->conn, now);
    return !later;
}

static void go_on_connecting(struct dli_subscriber *sub, int64_t now)
{
    if (dli_conn_under_way(sub->conn))
        dli_conn_step(sub->conn, now);
    if (sub->conn->state == DLI_CONN_READY) {
        dli_budget_result(sub->budget, 1, now);
        sub->received_at = sub->made_at = now;
        sub->pinged_at = 0;
        sub->asked = NULL;
        sub->unheard = 0;
    } else if (sub->conn->state == DLI_CONN_FAILED) {
        dli_budget_failed(sub->budget, &sub->conn->reason, now);
        connection_lost(sub, now);
    }
}

/* Send PING to a server that was silent for IDLE_MAX. If it does not answer within patience, drop the connection. */
static void check_alive(struct dli_subscriber *sub, int64_t now)
{
    if (!sub->pinged_at && now - sub->received_at >= IDLE_MAX) {
        const char *word = "PING";
        size_t size = 4;

        dli_encode(&sub->conn->out, 1, &word, &size);
        sub->pinged_at = now;
    } else if (sub->pinged_at && now - sub->pinged_at >= sub->patience) {
        sub->conn->state = DLI_CONN_FAILED;
    }
}

/* Subscribe to the own channels that this connection has not asked for yet. */
static void ask_for_ears(struct dli_subscriber *sub)
{
    struct dli_ear *ear;

    while ((ear = dli_ears_next(sub->ears, sub->asked)) &&
           encode(&sub->conn->out, "SUBSCRIBE", ear->name, ear->size) == 0) {
        sub->asked = ear;
        sub->unheard++;
    }
}

static void send_commands(struct dli_subscriber *sub)
{
    pthread_mutex_lock(&sub->mutex);
    if (sub->commands.size > 0 && dli_buffer_add(&sub->conn->out, sub->commands.bytes, sub->commands.size) == 0)
        sub->commands.size = 0;
    pthread_mutex_unlock(&sub->mutex);
}

int dli_subscriber_receives(const struct dli_subscriber *sub)
{
    return sub->up && sub->conn->state == DLI_CONN_READY;
}

/* An error reply, which the connection does not survive unless the owner says so. */
static void handle_error(struct dli_subscriber *sub, const struct dli_reply *reply)
{
    if (sub->hooks->refused && sub->hooks->refused(sub->owner, reply))
        return;
    leave(sub);
}

void dli_subscriber_receive(struct dli_subscriber *sub, int64_t now)
{
    const struct dli_reply *reply;

    for (int round = 0; round < 4 && dli_conn_receive(sub->conn) > 0; round++) {
        sub->received_at = now;
        while (sub->conn->state == DLI_CONN_READY && dli_conn_next(sub->conn, &reply) == 1) {
            if (reply->type == DLI_REPLY_ERROR)
                handle_error(sub, reply);
            else
                handle_reply(sub, reply);
        }
        if (sub->conn->drained)
            return;
    }
}

void dli_subscriber_step(struct dli_subscriber *sub, int64_t now)
{
    struct dli_conn *conn = sub->conn;
    int begun;

    if (!__atomic_load_n(&sub->wanted, __ATOMIC_ACQUIRE))
        return;
    if (conn->state == DLI_CONN_FAILED) /* a listener has noticed it */
        connection_lost(sub, now);
    begun = conn->state == DLI_CONN_IDLE && begin(sub, now);
    if (begun || dli_conn_under_way(conn))
        go_on_connecting(sub, now);
    if (conn->state != DLI_CONN_READY)
        return;
    dli_subscriber_receive(sub, now);
    if (conn->state == DLI_CONN_READY) {
        check_alive(sub, now);
        ask_for_ears(sub);
        send_commands(sub);
        if (conn->out.size > 0)
            dli_conn_flush(conn);
    }
    if (conn->state == DLI_CONN_FAILED)
        connection_lost(sub, now);
}

void dli_subscriber_leave(struct dli_subscriber *sub, int64_t at)
{
    if (sub->conn->state == DLI_CONN_READY && sub->made_at < at)
        sub->conn->state = DLI_CONN_FAILED;
}

int64_t dli_subscriber_alarm(const struct dli_subscriber *sub)
{
    if (!__atomic_load_n(&sub->wanted, __ATOMIC_ACQUIRE))
        return INT64_MAX;
    if (sub->conn->state == DLI_CONN_IDLE || sub->conn->state == DLI_CONN_FAILED)
        return sub->try_at;
    if (sub->conn->state != DLI_CONN_READY)
        return sub->conn->deadline;
    return sub->pinged_at ? sub->pinged_at + sub->patience : sub->received_at + IDLE_MAX;
}
