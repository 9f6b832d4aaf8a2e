/*
 * check.c: DLI_VERB_CHECK: each member says how it is. Belongs to lane 0's thread.
 *
 * It asks by the word "srvr" on a connection of its own, one member after the other: a member without a leader begins no
 * session, but answers that. Servers may have switched the word off; then it is enough that they answer.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "kinds.h"

enum { PIECE = 4096, MOST = 64 * 1024 };

struct dli_zk_check {
    struct dli_link link; /* in zk.checks */
    struct dli_job *job;
    struct dli_conn *conn; /* to member at */
    int at, asked, served;
    int64_t until; /* for this member */
    struct dli_buffer in;
    dlock_error reason; /* of the last member that did not answer */
};

static void add(struct dli_zk_check *check, int32_t code, const char *detail)
{
    const char *where = dli_zk_at(check->job->base.lane)->member[check->at].target.text;
    struct dli_finding *finding = dli_findings_add(check->job->request.check.found, code);
    struct dli_said said = {detail, strlen(detail), 0};

    if (!finding)
        return;
    dli_mask(finding->detail, sizeof finding->detail, &said, &dli_zk_at(check->job->base.lane)->password, 1);
    snprintf(finding->where, sizeof finding->where, "%.*s", DLI_FINDING_WHERE - 1, where);
}

static void judge_version(struct dli_zk_check *check, const char *text)
{
    static const char head[] = "Zookeeper version: ";
    const char *at = strstr(text, head);
    char detail[64];
    long major, minor;
    char *end;

    if (!at)
        return;
    major = strtol(at + sizeof head - 1, &end, 10);
    if (end == at + sizeof head - 1 || *end != '.')
        return;
    minor = strtol(end + 1, NULL, 10);
    if (major > 3 || (major == 3 && minor >= 5))
        return;
    snprintf(detail, sizeof detail, "it is older than 3.5 (%ld.%ld)", major, minor);
    add(check, DLOCK_FINDING_WRITE_REFUSED, detail);
}

/* The member has said all. */
static void judge(struct dli_zk_check *check)
{
    const char *text = dli_buffer_add(&check->in, "", 1) ? "" : check->in.bytes;

    if (strstr(text, "not currently serving")) {
        add(check, DLOCK_FINDING_NO_ANSWER, "it has no leader");
        dli_fail(&check->reason, DLOCK_UNREACHABLE, "The member %s has no leader.",
                 dli_zk_at(check->job->base.lane)->member[check->at].target.text);
        return;
    }
    judge_version(check, text);
    if (strstr(text, "Mode: read-only"))
        add(check, DLOCK_FINDING_NO_ANSWER, "it is out of touch with most of its cluster, and only reads");
    else
        check->served++;
}

static void silent(struct dli_zk_check *check)
{
    check->reason = check->conn->reason;
    if (check->conn->state != DLI_CONN_FAILED)
        dli_fail(&check->reason, DLOCK_UNREACHABLE, "The member %s did not answer in time.", check->conn->target->text);
    add(check, DLOCK_FINDING_NO_ANSWER, check->reason.message);
}

/* All members have been asked. */
static void end(struct dli_zk_check *check)
{
    struct dli_job *job = check->job;
    dlock_error reason = check->reason;
    int served = check->served;

    dli_list_remove(&check->link);
    dli_buffer_free(&check->in);
    free(check);
    job->request.sent = 1;
    if (!served) {
        dli_zk_fail(job, DLOCK_UNREACHABLE, reason.message);
        return;
    }
    job->request.status = DLOCK_OK;
    dli_zk_finish(job);
}

/* Begin with the member at. 0, or -1 without memory. */
static int begin(struct dli_zk_check *check, int64_t now)
{
    struct dli_zk *zk = dli_zk_at(check->job->base.lane);
    int64_t left = (check->job->request.deadline - now) / (zk->members - check->at);
    const struct dli_conn_config *config = &zk->member[check->at];

    check->asked = 0;
    check->until = now + (left < config->connect_timeout ? left : config->connect_timeout);
    dli_buffer_drop(&check->in, check->in.size);
    if (!(check->conn = dli_conn_new(config)))
        return -1;
    dli_conn_start(check->conn, now);
    return 0;
}

static void next(struct dli_zk_check *check, int64_t now)
{
    dli_conn_free(check->conn);
    check->conn = NULL;
    if (++check->at >= dli_zk_at(check->job->base.lane)->members || begin(check, now))
        end(check);
}

/* 1: the member has said all. -1: it will not. 0: not yet. */
static int listen_to(struct dli_zk_check *check)
{
    char piece[PIECE];
    ssize_t size;

    while (check->in.size < MOST && (size = dli_conn_read(check->conn, piece, sizeof piece)) > 0)
        if (dli_buffer_add(&check->in, piece, (size_t)size))
            return -1;
    if (check->in.size >= MOST)
        return -1;
    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    return check->in.size > 0 ? 1 : -1;
}

static void step(void *owner, struct dli_link *link)
{
    struct dli_zk_check *check = DLI_OBJECT(link, struct dli_zk_check, link);
    struct dli_conn *conn = check->conn;
    int64_t now = *(const int64_t *)owner;
    int said = 0;

    if (dli_conn_under_way(conn))
        dli_conn_step(conn, now);
    if (conn->state == DLI_CONN_READY && !check->asked) {
        check->asked = 1;
        if (dli_buffer_add(&conn->out, "srvr", 4))
            said = -1;
    }
    if (conn->state == DLI_CONN_READY && said == 0) {
        dli_conn_flush(conn);
        said = conn->state == DLI_CONN_READY ? listen_to(check) : -1;
    }
    if (said > 0)
        judge(check);
    else if (said < 0 || conn->state == DLI_CONN_FAILED || now >= check->until)
        silent(check);
    else
        return;
    next(check, now);
}

void dli_zk_checks_step(struct dli_zk *zk, int64_t now)
{
    dli_list_each(&zk->checks, step, &now);
}

int64_t dli_zk_checks_alarm(const struct dli_zk *zk)
{
    int64_t at = INT64_MAX;

    for (const struct dli_link *link = zk->checks.next; link != &zk->checks; link = link->next) {
        const struct dli_zk_check *check = DLI_OBJECT(link, struct dli_zk_check, link);
        int64_t other = dli_conn_under_way(check->conn) && check->conn->deadline < check->until ? check->conn->deadline
                                                                                                : check->until;

        at = check->conn->state == DLI_CONN_READY && !check->asked ? 0 : other < at ? other : at;
    }
    return at;
}

int dli_zk_checks_poll(const struct dli_zk *zk, struct pollfd *fds, int count)
{
    for (const struct dli_link *link = zk->checks.next; link != &zk->checks && count < DLI_LANE_FDS; link = link->next)
        fds[count++] = dli_conn_poll(DLI_OBJECT(link, struct dli_zk_check, link)->conn);
    return count;
}

void dli_zk_checks_end(struct dli_zk *zk)
{
    struct dli_link *link;

    while ((link = dli_list_pop(&zk->checks))) {
        struct dli_zk_check *check = DLI_OBJECT(link, struct dli_zk_check, link);

        dli_conn_free(check->conn);
        dli_fail(&check->reason, DLOCK_CLOSED, "the client was closed");
        check->served = 0;
        end(check);
    }
}

void dli_zk_check(struct dli_job *job)
{
    struct dli_zk_check *check = calloc(1, sizeof *check);

    if (!check || (check->job = job, begin(check, dli_now()))) {
        free(check);
        dli_zk_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for a check");
        return;
    }
    dli_list_init(&check->link);
    dli_list_append(&dli_zk_at(job->base.lane)->checks, &check->link);
}
