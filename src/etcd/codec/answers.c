/*
 * answers.c: the answers about leases, watches, a login and a member, and numbers in values, checked. See codec.h. No state.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "wire.h"

enum { TOKEN_MAX = 8192, PUT = 0, DELETED = 1 };

/* ---- leases */

struct lease {
    int64_t revision, term, id, ttl;
};

static int lease_field(void *into, const struct dli_etcd_field *field)
{
    struct lease *lease = into;

    switch (field->number) {
    case 1:
        return dli_etcd_read_header(field, &lease->revision, &lease->term);
    case 2:
        return dli_etcd_wire_number(field, INT64_MIN, INT64_MAX, &lease->id);
    case 3:
        return dli_etcd_wire_number(field, -1, DLI_ETCD_TTL_MAX, &lease->ttl);
    default:
        return 0;
    }
}

/* The first field of our request: the time of a grant, the id of a lease. */
static int64_t first_number(const struct dli_etcd_talk *talk)
{
    struct dli_etcd_bytes asked = talk->asked;
    struct dli_etcd_wire wire;
    struct dli_etcd_field field;

    if (asked.size <= DLI_ETCD_FRAME)
        return 0;
    wire = dli_etcd_wire_of((struct dli_etcd_bytes){asked.bytes + DLI_ETCD_FRAME, asked.size - DLI_ETCD_FRAME});
    return dli_etcd_wire_next(&wire, &field) > 0 && field.number == 1 && field.is_number ? (int64_t)field.value : 0;
}

static int read_lease(struct dli_etcd_bytes answer, struct lease *lease)
{
    memset(lease, 0, sizeof *lease);
    return answer.bytes ? dli_etcd_wire_each(dli_etcd_wire_of(answer), lease_field, lease) : -1;
}

int dli_etcd_decode_grant(const struct dli_etcd_talk *talk, struct dli_etcd_lease *lease)
{
    struct lease read;

    if (read_lease(talk->answer, &read) || read.id <= 0 || read.ttl < 1 || read.ttl < first_number(talk) ||
        !read.revision)
        return -1;
    *lease = (struct dli_etcd_lease){read.revision, read.term, read.id, read.ttl};
    return 0;
}

int dli_etcd_decode_alive(struct dli_etcd_bytes answer, struct dli_etcd_lease *lease)
{
    struct lease read;

    if (read_lease(answer, &read) || read.id <= 0 || read.ttl < 0)
        return -1;
    *lease = (struct dli_etcd_lease){read.revision, read.term, read.id, read.ttl};
    return 0;
}

int dli_etcd_decode_lease_left(const struct dli_etcd_talk *talk, int64_t *seconds)
{
    struct lease read;

    if (read_lease(talk->answer, &read) || read.id != first_number(talk))
        return -1;
    *seconds = read.ttl;
    return 0;
}

/* ---- watches */

static int event_key(void *into, const struct dli_etcd_field *field)
{
    struct dli_etcd_event *event = into;

    if (field->number == 1)
        return dli_etcd_wire_text(field, &event->key);
    return field->number == 5 ? dli_etcd_wire_text(field, &event->value) : 0;
}

static int event_field(void *into, const struct dli_etcd_field *field)
{
    struct dli_etcd_event *event = into;
    int64_t kind;

    if (field->number == 2)
        return field->is_bytes ? dli_etcd_wire_each(field->bytes, event_key, event) : -1;
    if (field->number != 1)
        return 0;
    if (dli_etcd_wire_number(field, PUT, DELETED, &kind))
        return -1;
    event->deleted = kind == DELETED;
    return 0;
}

static int read_event(const struct dli_etcd_field *field, struct dli_etcd_event *event)
{
    memset(event, 0, sizeof *event);
    return field->is_bytes && dli_etcd_wire_each(field->bytes, event_field, event) == 0 && event->key.size > 0 ? 0 : -1;
}

/* Numbers that say yes or no. */
static int note(const struct dli_etcd_field *field, int64_t most, int *flag)
{
    int64_t number;

    if (dli_etcd_wire_number(field, 0, most, &number))
        return -1;
    *flag |= number > 0;
    return 0;
}

static int news_field(void *into, const struct dli_etcd_field *field)
{
    struct dli_etcd_news *news = into;
    struct dli_etcd_event event;

    switch (field->number) {
    case 1:
        return dli_etcd_read_header(field, &news->revision, NULL);
    case 2: /* looked up among those that we have given */
        return dli_etcd_wire_number(field, INT64_MIN, INT64_MAX, &news->id);
    case 3:
        return note(field, 1, &news->created);
    case 4:
        return note(field, 1, &news->ended);
    case 5:
        return note(field, DLI_ETCD_REVISION_MAX, &news->ended);
    case 11:
        news->events++;
        return read_event(field, &event);
    default:
        return 0;
    }
}

int dli_etcd_decode_watch(struct dli_etcd_bytes answer, struct dli_etcd_news *news)
{
    memset(news, 0, sizeof *news);
    news->rest = answer;
    return dli_etcd_wire_each(dli_etcd_wire_of(answer), news_field, news);
}

int dli_etcd_next_event(struct dli_etcd_news *news, struct dli_etcd_event *event)
{
    struct dli_etcd_wire wire = dli_etcd_wire_of(news->rest);
    struct dli_etcd_field field;

    while (dli_etcd_wire_next(&wire, &field) > 0) {
        news->rest = dli_etcd_wire_bytes(wire);
        if (field.number == 11)
            return read_event(&field, event) == 0;
    }
    return 0;
}

/* Whether a key begins with a name and '/', which may be the name's own, and goes on behind it. */
static int is_below(struct dli_etcd_bytes key, struct dli_etcd_bytes name)
{
    size_t front = name.size + (name.size > 0 && name.bytes[name.size - 1] != '/');

    return key.size > front && memcmp(key.bytes, name.bytes, name.size) == 0 &&
           (front == 0 || key.bytes[front - 1] == '/');
}

int dli_etcd_news_below(const struct dli_etcd_news *news, struct dli_etcd_bytes name)
{
    struct dli_etcd_news walk = *news;
    struct dli_etcd_event event;

    while (dli_etcd_next_event(&walk, &event))
        if (!is_below(event.key, name))
            return 0;
    return 1;
}

/* ---- the server */

static int login_field(void *into, const struct dli_etcd_field *field)
{
    return field->number == 2 ? dli_etcd_wire_text(field, into) : 0;
}

/* It becomes a header of calls. */
static int is_token(struct dli_etcd_bytes token)
{
    for (size_t i = 0; i < token.size; i++)
        if (token.bytes[i] <= ' ' || token.bytes[i] > '~')
            return 0;
    return token.size > 0 && token.size <= TOKEN_MAX;
}

int dli_etcd_decode_login(const struct dli_etcd_talk *talk, char **token)
{
    struct dli_etcd_bytes text = {0};

    if (!talk->answer.bytes || dli_etcd_wire_each(dli_etcd_wire_of(talk->answer), login_field, &text) ||
        !is_token(text))
        return -1;
    *token = strndup(text.bytes, text.size);
    return *token ? 0 : -1;
}

static void add_error(struct dli_etcd_status *status, struct dli_etcd_bytes error)
{
    size_t used = strlen(status->errors);

    if (used + 2 < sizeof status->errors)
        dli_escape(status->errors + used, sizeof status->errors - used, error.bytes, error.size);
}

/* "3.5.9" */
static void read_version(struct dli_etcd_status *status, struct dli_etcd_bytes text)
{
    const char *at = text.bytes, *end = at + text.size;
    int part = 0;

    dli_escape(status->version, sizeof status->version, text.bytes, text.size);
    for (; at < end && part < 3; at++) {
        if (*at >= '0' && *at <= '9' && status->part[part] < 1000000)
            status->part[part] = status->part[part] * 10 + (*at - '0');
        else if (*at != '.')
            break;
        else
            part++;
    }
    status->parts = text.size > 0 && *text.bytes >= '0' && *text.bytes <= '9' ? part + 1 : 0;
}

static int status_field(void *into, const struct dli_etcd_field *field)
{
    struct dli_etcd_status *status = into;
    struct dli_etcd_bytes text;

    if (field->number != 2 && field->number != 4 && field->number != 8)
        return 0;
    if (field->number == 4) {
        status->has_leader = field->value != 0;
        return field->is_number ? 0 : -1;
    }
    if (dli_etcd_wire_text(field, &text))
        return -1;
    if (field->number == 2)
        read_version(status, text);
    else
        add_error(status, text);
    return 0;
}

int dli_etcd_decode_status(const struct dli_etcd_talk *talk, struct dli_etcd_status *status)
{
    memset(status, 0, sizeof *status);
    return talk->answer.bytes ? dli_etcd_wire_each(dli_etcd_wire_of(talk->answer), status_field, status) : -1;
}

/* ---- numbers in values */

int dli_etcd_read_number(struct dli_etcd_bytes text, int64_t least, int64_t most, int64_t *number)
{
    size_t at = text.size > 0 && text.bytes[0] == '-', first = at;
    int64_t read = 0;

    for (; at < text.size && text.bytes[at] >= '0' && text.bytes[at] <= '9'; at++) {
        if (read > DLI_ETCD_NUMBER_MAX / 10)
            return -1;
        read = read * 10 + (text.bytes[at] - '0');
    }
    if (at == first || (at < text.size && text.bytes[at] != ' '))
        return -1;
    *number = first ? -read : read;
    return *number >= least && *number <= most ? 0 : -1;
}
