/*
 * check.c: checks every server of the cluster, primaries and replicas, each over a connection of its own. The map is
 * refreshed first.
 *
 * The caller pushes a survey under the cluster's mutex. From then on the survey belongs to lane 0's thread.
 */
#include "inner.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "store/store.h"
#include "redis/replicas/replicas.h"
#include "sys/sys.h"

enum { NAMES_MOST = 200000 };

/* The check of one server. */
struct probe {
    struct dli_survey *survey;
    struct dli_conn_config config;
    struct dli_budget budget;
    struct dli_replicas line; /* its connection */
    struct dli_request *request;
    struct dli_place *place;
    struct dli_findings found;
    dlock_error reason;
};

struct dli_survey {
    struct dli_survey *next;
    struct dli_cluster *cluster;
    struct dli_request *original;
    uint32_t version; /* of the map, when the survey was pushed */
    int count, left;  /* number of probes; of those without an answer */
    struct probe *probe;
    uint32_t carried, done; /* carried: its caller sleeps on the futex done */
};

/* ---- the end */

static void probe_fini(struct probe *probe)
{
    dli_replicas_fini(&probe->line);
    dli_budget_fini(&probe->budget);
    dli_job_free(probe->request);
    dli_place_free(probe->place);
    dli_findings_free(&probe->found);
}

/* The survey is off the list. A caller that sleeps on it frees it. */
static void finish(struct dli_survey *survey, dlock_status status)
{
    struct dli_request *original = survey->original;

    for (int i = 0; i < survey->count; i++)
        probe_fini(&survey->probe[i]);
    free(survey->probe);
    original->status = status;
    original->sent = original->refused = original->repeated = 0;
    if (survey->carried) {
        __atomic_store_n(&survey->done, 1, __ATOMIC_RELEASE); /* the survey is its caller's from here on */
        dli_futex_wake(&survey->done, 1);
        return;
    }
    free(survey);
    original->done(original);
}

/* Join the findings of all servers. It fails when no server answered. */
static dlock_status sum(struct dli_survey *survey)
{
    struct dli_request *original = survey->original;
    dlock_status status = DLOCK_OK;
    int answers = 0;

    original->check.found->count = 0;
    for (int i = 0; i < survey->count && status == DLOCK_OK; i++) {
        struct probe *probe = &survey->probe[i];

        answers += probe->request->status == DLOCK_OK;
        status = dli_check_sum(original, probe->request, &probe->found, &probe->reason, probe->config.target.text);
    }
    if (status != DLOCK_OK || answers > 0)
        return status;
    return dli_fail(original->reason, DLOCK_UNREACHABLE, "no server of the cluster answers");
}

/* ---- the probes of a survey */

/* A name in a slot of the node. If there is none, or node < 0: any name, and *keyless is set. */
static struct dli_place *place_for(const struct dli_survey *survey, int node, int *keyless)
{
    const struct dli_place *base = survey->original->place;
    const struct dli_kind *kind = survey->original->kind;
    char name[DLI_NAME_MAX + 16];
    int same = -1;

    for (int i = 0; i < NAMES_MOST && node >= 0; i++) {
        size_t size = dli_print(name, sizeof name, "%.*s:%d", (int)base->size, dli_place_name(base), i);
        int slot = dli_slot_of(name, size);

        if (dli_cluster_owner(survey->cluster, slot) == node)
            return dli_place_new(kind, name, size);
        if (i > 0 && slot == same)
            break; /* braces: all such names are in one slot */
        same = i == 0 ? slot : -1;
    }
    *keyless = 1;
    return dli_place_new(kind, dli_place_name(base), base->size);
}

static void answered(struct dli_request *request)
{
    struct probe *probe = request->context;

    probe->survey->left--;
}

static void add_probe(struct dli_survey *survey, const struct dli_target *target, int node)
{
    struct dli_cluster *cluster = survey->cluster;
    struct probe *probe = &survey->probe[survey->count++];
    int keyless = 0;

    probe->survey = survey;
    probe->config = cluster->config;
    probe->config.target = *target;
    dli_budget_init(&probe->budget, cluster->connects_per_second, (uint64_t)survey->count);
    dli_replicas_init(&probe->line, &probe->config, &probe->budget, cluster->lane[0]->wake_fd, 0, &cluster->reloads);
    probe->place = place_for(survey, node, &keyless);
    if (!probe->place || !(probe->request = dli_job_new()))
        return;
    *probe->request = *survey->original;
    probe->request->place = probe->place;
    probe->request->check.found = &probe->found;
    probe->request->check.keyless = keyless;
    probe->request->done = answered;
    probe->request->context = probe;
    probe->request->reason = &probe->reason;
    dli_job_of(probe->request)->form = dli_cluster_form(cluster, 0);
}

static void add_replica(struct dli_survey *survey, const struct dli_map_replica *replica)
{
    struct dli_target target = {.port = replica->port, .tls = survey->cluster->config.tls != NULL};

    memcpy(target.host, replica->host, sizeof target.host);
    snprintf(target.text, sizeof target.text, strchr(replica->host, ':') ? "[%s]:%d" : "%s:%d", replica->host,
             replica->port);
    dli_target_hide(survey->cluster, &target);
    add_probe(survey, &target, -1);
}

/* 0, or -1 without memory. */
static int send_out(struct dli_survey *survey)
{
    struct dli_cluster *cluster = survey->cluster;
    int nodes = dli_cluster_count(cluster);

    if (!(survey->probe = calloc((size_t)nodes + (size_t)cluster->replicas, sizeof *survey->probe)))
        return -1;
    for (int i = 0; i < nodes; i++)
        if (__atomic_load_n(&cluster->node[i]->listed, __ATOMIC_ACQUIRE))
            add_probe(survey, &cluster->node[i]->config.target, i);
    for (int i = 0; i < cluster->replicas; i++)
        if (cluster->replica[i].of != DLI_NOBODY)
            add_replica(survey, &cluster->replica[i]);
    for (int i = 0; i < survey->count; i++)
        if (!survey->probe[i].request)
            return -1;
    survey->left = survey->count;
    for (int i = 0; i < survey->count; i++) {
        struct dli_job *job = dli_job_of(survey->probe[i].request);

        if (dli_job_begin(job) || dli_replicas_push(&survey->probe[i].line, job, 0))
            dli_job_fail(job, DLOCK_OUT_OF_MEMORY);
    }
    return 0;
}

/* ---- any thread */

static struct dli_survey *begin(struct dli_cluster *cluster, struct dli_request *request, int carried)
{
    struct dli_survey *survey = calloc(1, sizeof *survey);

    if (!survey)
        return NULL;
    survey->cluster = cluster;
    survey->original = request;
    survey->carried = (uint32_t)carried;
    survey->version = __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE);
    return survey;
}

/* 0, or -1 when the lanes are shut. */
static int enlist(struct dli_survey *survey)
{
    struct dli_cluster *cluster = survey->cluster;
    int shut;

    pthread_mutex_lock(&cluster->mutex);
    shut = cluster->surveys_shut;
    if (!shut) {
        survey->next = cluster->surveys;
        cluster->surveys = survey;
        dli_wake_set(cluster->lane[0]->wake_fd);
    }
    pthread_mutex_unlock(&cluster->mutex);
    if (!shut)
        dli_refresh_want(cluster);
    return shut ? -1 : 0;
}

dlock_status dli_survey_push(struct dli_cluster *cluster, struct dli_request *request)
{
    struct dli_survey *survey = begin(cluster, request, 0);

    if (!survey)
        return DLOCK_OUT_OF_MEMORY;
    if (enlist(survey) == 0)
        return DLOCK_OK;
    free(survey);
    return DLOCK_CLOSED;
}

void dli_survey_execute(struct dli_cluster *cluster, struct dli_request *request)
{
    struct dli_survey *survey = begin(cluster, request, 1);

    request->status = survey ? DLOCK_CLOSED : DLOCK_OUT_OF_MEMORY;
    if (survey && enlist(survey) == 0)
        while (!__atomic_load_n(&survey->done, __ATOMIC_ACQUIRE))
            dli_futex_sleep(&survey->done, 0);
    free(survey);
}

/* ---- lane 0's thread */

static void take_off(struct dli_survey *survey)
{
    struct dli_cluster *cluster = survey->cluster;
    struct dli_survey **link = &cluster->surveys;

    pthread_mutex_lock(&cluster->mutex);
    while (*link != survey)
        link = &(*link)->next;
    *link = survey->next;
    pthread_mutex_unlock(&cluster->mutex);
}

static dlock_status no_map(struct dli_survey *survey)
{
    struct dli_cluster *cluster = survey->cluster;
    dlock_error reason;

    pthread_mutex_lock(&cluster->mutex);
    reason = cluster->reason;
    pthread_mutex_unlock(&cluster->mutex);
    if (reason.code == DLOCK_OK)
        return dli_fail(survey->original->reason, DLOCK_UNREACHABLE, "no server described the slots in time");
    return dli_fail(survey->original->reason, reason.code, "%s", reason.message);
}

/* 1: the survey has ended with *status. */
static int go_on(struct dli_survey *survey, int64_t now, dlock_status *status)
{
    struct dli_cluster *cluster = survey->cluster;
    uint32_t version = __atomic_load_n(&cluster->version, __ATOMIC_ACQUIRE);

    if (!survey->probe) {
        if (version == survey->version && now < survey->original->deadline)
            return 0;
        *status = version == survey->version || __atomic_load_n(&cluster->failed, __ATOMIC_ACQUIRE) == version
                      ? no_map(survey)
                      : DLOCK_OK;
        if (*status != DLOCK_OK)
            return 1;
        if (send_out(survey)) {
            *status = dli_fail(survey->original->reason, DLOCK_OUT_OF_MEMORY, "no memory for the check of the cluster");
            return 1;
        }
    }
    for (int i = 0; i < survey->count; i++)
        dli_replicas_step(&survey->probe[i].line, now);
    if (survey->left > 0)
        return 0;
    *status = sum(survey);
    return 1;
}

static struct dli_survey *first(struct dli_cluster *cluster)
{
    struct dli_survey *survey;

    pthread_mutex_lock(&cluster->mutex);
    survey = cluster->surveys;
    pthread_mutex_unlock(&cluster->mutex);
    return survey;
}

void dli_survey_step(struct dli_cluster *cluster, int64_t now)
{
    struct dli_survey *survey = first(cluster);
    dlock_status status;

    while (survey) {
        if (go_on(survey, now, &status)) {
            take_off(survey);
            finish(survey, status);
            survey = first(cluster); /* the list may be another one now */
        } else {
            survey = survey->next;
        }
    }
}

int64_t dli_survey_alarm(struct dli_cluster *cluster)
{
    int64_t at = INT64_MAX;

    for (struct dli_survey *survey = first(cluster); survey; survey = survey->next) {
        at = survey->original->deadline < at ? survey->original->deadline : at;
        for (int i = 0; i < survey->count; i++) {
            int64_t other = dli_replicas_alarm(&survey->probe[i].line);

            at = other < at ? other : at;
        }
    }
    return at;
}

/* Probes that find no room in fds are stepped when the lane wakes for another reason. */
int dli_survey_fds(struct dli_cluster *cluster, struct pollfd *fds, int room)
{
    int count = 0;

    for (struct dli_survey *survey = first(cluster); survey; survey = survey->next)
        for (int i = 0; i < survey->count && count + DLI_REPLICAS_CONNS <= room; i++)
            count += dli_replicas_fds(&survey->probe[i].line, fds + count);
    return count;
}

void dli_survey_shut(struct dli_cluster *cluster)
{
    struct dli_survey *survey;

    pthread_mutex_lock(&cluster->mutex);
    cluster->surveys_shut = 1;
    pthread_mutex_unlock(&cluster->mutex);
    while ((survey = first(cluster))) {
        for (int i = 0; i < survey->count; i++)
            dli_replicas_shut(&survey->probe[i].line);
        take_off(survey);
        finish(survey, dli_fail(survey->original->reason, DLOCK_CLOSED, "the client was closed"));
    }
}
