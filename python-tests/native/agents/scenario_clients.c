/*
 * scenario_clients.c: clients, and queries about their servers, for the C runner of the scenario table. See scenario.c.
 */
#include "scenario.h"

static dlock_client *client_of(struct word name)
{
    return ((struct client *)find(name))->handle;
}

static dlock_status do_client(struct word *w)
{
    dlock_options *options;
    dlock_status status = options_of(w + 2, &options);

    if (status != DLOCK_OK)
        return status;
    status = dlock_client_open(w[1].text, options,
                               &((struct client *)name_it(w[0], sizeof(struct client), NULL))->handle, box);
    dlock_options_free(options);
    return status;
}

static dlock_status do_close(struct word *w)
{
    return dlock_client_close(client_of(w[0]), 5000, box);
}

static dlock_status do_ping(struct word *w)
{
    return dlock_client_ping(client_of(w[0]), -1, box);
}

static dlock_status do_stats(struct word *w)
{
    int64_t values[DLOCK_STAT_COUNT] = {0};
    dlock_status status = dlock_client_stats(client_of(w[0]), values, DLOCK_STAT_COUNT, NULL, box);

    if (status != DLOCK_OK)
        return status;
    printf("OK held=%" PRId64 " waiting=%" PRId64, values[DLOCK_STAT_HELD], values[DLOCK_STAT_WAITING]);
    return SAID;
}

static dlock_status do_metric(struct word *w)
{
    static char text[32768];
    dlock_status status = dlock_client_metrics(client_of(w[0]), text, sizeof text, NULL, box);

    if (status != DLOCK_OK)
        return status;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (strncmp(line, w[1].text, w[1].size) == 0 && line[w[1].size] == ' ') {
            printf("OK value=%s", line + w[1].size + 1);
            return SAID;
        }
    return DLOCK_NOT_FOUND;
}

static dlock_status do_lost(struct word *w)
{
    static const char *const causes[] = {"NONE", "EXPIRED", "TAKEN", "MAX_HOLD", "CLOSED"};
    struct seen seen;

    if (!next_of(find(w[0]), 0, &seen))
        return DLOCK_NO_EVENT;
    printf("OK token=%" PRId64 " cause=%s", seen.token, causes[seen.cause]);
    return SAID;
}

static dlock_status do_provision(struct word *w)
{
    struct client *client = find(w[0]);
    dlock_status status;

    if (!by_events)
        return dlock_client_provision(client->handle, -1, box);
    status = dlock_client_submit_provision(client->handle, -1, ++last_tag, box);
    return status == DLOCK_OK ? answer_to(client, last_tag, NULL) : status;
}

static dlock_status do_fault(struct word *w)
{
    return dlock_client_fault(client_of(w[0]), w[1].text, w[2].text, w[2].size, strtoll(w[3].text, NULL, 10), box);
}

static dlock_status look(struct client *client)
{
    dlock_status status;

    if (!by_events)
        return dlock_client_check(client->handle, -1, NULL, box);
    status = dlock_client_submit_check(client->handle, -1, ++last_tag, box);
    return status == DLOCK_OK ? answer_to(client, last_tag, NULL) : status;
}

static dlock_status do_check(struct word *w)
{
    struct client *client = find(w[0]);
    dlock_status status = look(client);
    dlock_event *event = dlock_event_new();
    int64_t fields[DLOCK_FIELD_COUNT];
    size_t count = 0;

    if (status == DLOCK_OK)
        printf("OK found=");
    while (status == DLOCK_OK && dlock_client_finding(client->handle, count, event, box) == DLOCK_OK) {
        dlock_event_unpack(event, fields, DLOCK_FIELD_COUNT, NULL, NULL);
        printf("%s%s", count++ > 0 ? "," : "", dlock_finding_name((int32_t)fields[DLOCK_FIELD_VALUE]));
    }
    if (status == DLOCK_OK && count == 0)
        printf("none");
    dlock_event_free(event);
    return status == DLOCK_OK ? SAID : status;
}

const struct verb client_verbs[] = {
    {"client", do_client}, {"close", do_close},         {"ping", do_ping},   {"stats", do_stats},   {"lost", do_lost},
    {"check", do_check},   {"provision", do_provision}, {"fault", do_fault}, {"metric", do_metric}, {NULL, NULL}};
