/*
 * check.c: are the members fit to keep locks? Belongs to lane 0's thread.
 *
 * First the client tries its rights by a transaction that never writes. Then every member is asked for its status, by a
 * channel of its own that lasts until the examination is over. A member that is down is a finding.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/secret.h"
#include "kinds.h"

enum { CONNECTS = 1000, PERMISSION_DENIED = 7 };

/* One member. */
struct part {
    struct dli_grpc grpc;
    struct dli_grpc_call call;
    struct dli_etcd_exam *exam;
    int over;
};

struct dli_etcd_exam {
    struct dli_link link;
    struct dli_etcd *etcd;
    struct dli_job *job;
    struct dli_budget budget;
    char *token;         /* a copy: the client may forget its own meanwhile. NULL: none */
    dlock_error silence; /* why a member did not answer */
    int count, answered, failed;
    struct part part[];
};

static void add(struct dli_etcd_exam *exam, int32_t code, const char *where, const char *detail)
{
    struct dli_finding *finding = dli_findings_add(exam->job->request.check.found, code);
    const char *secrets[] = {exam->etcd->password, exam->etcd->token};
    struct dli_said said = {detail, strlen(detail), 0};

    exam->failed |= !finding;
    if (!finding)
        return;
    dli_mask(finding->detail, sizeof finding->detail, &said, secrets, 2);
    snprintf(finding->where, sizeof finding->where, "%.*s", DLI_FINDING_WHERE - 1, where);
}

/* ---- a member's status */

static void judge_version(struct dli_etcd_exam *exam, const char *where, const struct dli_etcd_status *status)
{
    int major = status->part[0], minor = status->part[1], patch = status->part[2];

    if (status->parts < 2)
        return;
    if (major == 3 && minor == 5 && patch <= 2)
        add(exam, DLOCK_FINDING_FAULTY_VERSION, where, status->version);
    else if (major < 3 || (major == 3 && minor < 5))
        add(exam, DLOCK_FINDING_OLD_VERSION, where, status->version);
}

static void judge(struct dli_etcd_exam *exam, const char *where, const struct dli_etcd_status *status)
{
    exam->answered++;
    judge_version(exam, where, status);
    if (!status->has_leader)
        add(exam, DLOCK_FINDING_NO_LEADER, where, "");
    if (strstr(status->errors, "NOSPACE") || strstr(status->errors, "CORRUPT"))
        add(exam, DLOCK_FINDING_ALARM, where, status->errors);
}

static void silent(struct part *part, const dlock_error *reason)
{
    part->over = 1;
    part->exam->silence = *reason;
    add(part->exam, DLOCK_FINDING_NO_ANSWER, part->grpc.member->target.text, reason->message);
}

static void status_ended(struct dli_grpc_call *call)
{
    struct part *part = DLI_OBJECT(call, struct part, call);
    dlock_error none = {.code = DLOCK_PROTOCOL_ERROR, .message = "The server sent what is no answer of etcd."};
    struct dli_etcd_talk talk = dli_etcd_talk_of(call);
    struct dli_etcd_status status;

    part->over = 1;
    if (call->status == DLOCK_OK && dli_etcd_decode_status(&talk, &status) == 0)
        judge(part->exam, part->grpc.member->target.text, &status);
    else
        silent(part, call->status == DLOCK_OK ? &none : &call->reason);
}

/* ---- the examination */

static void ignore(void *part)
{
    (void)part;
}

static void exam_free(struct dli_etcd_exam *exam)
{
    for (int i = 0; i < exam->count; i++) {
        struct part *part = &exam->part[i];

        dli_grpc_cancel(&part->call);
        dli_grpc_shut(&part->grpc);
        dli_grpc_fini(&part->grpc);
        dli_grpc_call_free(&part->call);
    }
    if (exam->token)
        explicit_bzero(exam->token, strlen(exam->token));
    free(exam->token);
    dli_budget_fini(&exam->budget);
    dli_list_remove(&exam->link);
    free(exam);
}

/* The channel of one member, with its question. 0, or -1 without memory. */
static int part_begin(struct dli_etcd_exam *exam, int64_t deadline)
{
    static const struct dli_grpc_method method = {.path = "/etcdserverpb.Maintenance/Status", .ended = status_ended};
    struct part *part = &exam->part[exam->count];

    part->exam = exam;
    part->grpc.member = &exam->etcd->member[exam->count];
    part->grpc.count = 1;
    part->grpc.budget = &exam->budget;
    part->grpc.token = exam->token;
    part->grpc.password = exam->etcd->password;
    part->grpc.up = part->grpc.down = ignore;
    part->grpc.owner = part;
    part->call.method = &method;
    part->call.deadline = deadline;
    if (dli_grpc_init(&part->grpc))
        return -1;
    exam->count++;
    if (dli_etcd_encode_status(&part->call.out))
        return -1;
    dli_grpc_begin(&part->grpc, &part->call);
    return 0;
}

static void finish(struct dli_etcd_exam *exam)
{
    struct dli_job *job = exam->job;
    dlock_error silence = exam->silence;
    int answered = exam->answered, failed = exam->failed;

    exam_free(exam);
    if (failed)
        dli_etcd_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for what was found");
    else if (!answered)
        dli_etcd_fail(job, silence.code, silence.message);
    else
        dli_etcd_finish(job);
}

static void examine(struct dli_etcd_exam *exam)
{
    struct dli_etcd *etcd = exam->etcd;
    int64_t now = dli_now(), deadline = now + (exam->job->request.deadline - now) / 4 * 3;

    if (etcd->token && !(exam->token = strdup(etcd->token)))
        exam->failed = 1;
    for (int i = 0; i < etcd->members && !exam->failed; i++)
        exam->failed = part_begin(exam, deadline) != 0;
    dli_list_append(&etcd->exams, &exam->link);
}

static int step_part(struct part *part, int64_t now)
{
    if (part->over)
        return 1;
    dli_grpc_step(&part->grpc, now);
    if (!part->over && !part->grpc.session && part->grpc.reason.code != DLOCK_OK) {
        dli_grpc_cancel(&part->call);
        silent(part, &part->grpc.reason);
    }
    return part->over;
}

static void step_exam(void *owner, struct dli_link *link)
{
    struct dli_etcd_exam *exam = DLI_OBJECT(link, struct dli_etcd_exam, link);
    const int64_t *now = owner;
    int over = 0;

    for (int i = 0; i < exam->count; i++)
        over += step_part(&exam->part[i], *now);
    if (over == exam->count || exam->failed)
        finish(exam);
}

void dli_etcd_exams_step(struct dli_etcd *etcd, int64_t now)
{
    dli_list_each(&etcd->exams, step_exam, &now);
}

int64_t dli_etcd_exams_alarm(const struct dli_etcd *etcd)
{
    int64_t at = INT64_MAX;

    for (const struct dli_link *link = etcd->exams.next; link != &etcd->exams; link = link->next) {
        const struct dli_etcd_exam *exam = DLI_OBJECT(link, struct dli_etcd_exam, link);

        if (exam->failed)
            return 0;
        for (int i = 0; i < exam->count; i++) {
            int64_t other = exam->part[i].over ? INT64_MAX : dli_grpc_alarm(&exam->part[i].grpc);

            at = other < at ? other : at;
        }
    }
    return at;
}

int dli_etcd_exams_poll(const struct dli_etcd *etcd, struct pollfd *fds, int used)
{
    for (const struct dli_link *link = etcd->exams.next; link != &etcd->exams; link = link->next) {
        const struct dli_etcd_exam *exam = DLI_OBJECT(link, struct dli_etcd_exam, link);

        for (int i = 0; i < exam->count && used < DLI_LANE_FDS; i++)
            if (!exam->part[i].over)
                fds[used++] = dli_conn_poll(exam->part[i].grpc.conn);
    }
    return used;
}

void dli_etcd_exams_end(struct dli_etcd *etcd)
{
    struct dli_link *link;

    while ((link = etcd->exams.next) != &etcd->exams) {
        struct dli_etcd_exam *exam = DLI_OBJECT(link, struct dli_etcd_exam, link);
        struct dli_job *job = exam->job;

        exam_free(exam);
        dli_etcd_fail(job, DLOCK_CLOSED, "the client was closed");
    }
}

/* ---- the rights */

/* What the attempt says. Returns whether the members shall be examined. */
static int judge_rights(struct dli_etcd_exam *exam, const struct dli_grpc_call *call)
{
    if (call->status == DLOCK_OK && exam->etcd->anonymous)
        add(exam, DLOCK_FINDING_OPEN, "", "");
    else if (call->status == DLOCK_DENIED && call->code == PERMISSION_DENIED)
        add(exam, DLOCK_FINDING_COMMAND_DENIED, "", "KV.Txn");
    else if (call->status == DLOCK_SERVER_OUT_OF_MEMORY || call->status == DLOCK_SERVER_ERROR)
        add(exam, DLOCK_FINDING_WRITE_REFUSED, "", call->text);
    return call->status == DLOCK_OK || call->status == DLOCK_UNREACHABLE || call->code == PERMISSION_DENIED ||
           call->status == DLOCK_SERVER_OUT_OF_MEMORY || call->status == DLOCK_SERVER_ERROR;
}

static void tried(struct dli_grpc_call *call)
{
    struct dli_job *job = DLI_OBJECT(call, struct dli_job, call);
    struct dli_etcd *etcd = dli_etcd_at(job->base.lane);
    struct dli_etcd_exam *exam;

    if (call->status == DLOCK_CLOSED) {
        dli_etcd_fail(job, call->status, call->reason.message);
        return;
    }
    exam = calloc(1, sizeof *exam + (size_t)etcd->members * sizeof exam->part[0]);
    if (!exam) {
        dli_etcd_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for the check");
        return;
    }
    dli_list_init(&exam->link);
    exam->etcd = etcd;
    exam->job = job;
    dli_budget_init(&exam->budget, CONNECTS, (uint64_t)dli_now());
    if (judge_rights(exam, call)) {
        examine(exam);
        return;
    }
    exam_free(exam);
    dli_etcd_fail(job, call->status, call->reason.message);
}

void dli_etcd_check(struct dli_job *job)
{
    static const struct dli_grpc_method method = {.path = "/etcdserverpb.KV/Txn", .ended = tried};
    static const struct dli_etcd_bytes mark = {"dlock_mark/0", sizeof "dlock_mark/0" - 1};
    struct dli_etcd_bytes key = dli_etcd_prefix(job->request.place);
    char gate[DLI_ETCD_KEY_MAX];
    struct dli_etcd_txn txn = {0};
    int64_t now = dli_now();

    dli_etcd_test(&txn, DLI_ETCD_CREATED, key, -1);
    dli_etcd_then(&txn, DLI_ETCD_PUT, key);
    dli_etcd_then(&txn, DLI_ETCD_PUT, mark);
    dli_etcd_otherwise(&txn, DLI_ETCD_RANGE, dli_etcd_gate_key(job->request.place, gate));
    dli_buffer_drop(&job->call.out, job->call.out.size);
    if (dli_etcd_encode_txn(&job->call.out, &txn)) {
        dli_etcd_fail(job, DLOCK_OUT_OF_MEMORY, "no memory for the command");
        return;
    }
    job->call.method = &method;
    job->call.deadline = now + (job->request.deadline - now) / 3;
    dli_grpc_begin(&dli_etcd_at(job->base.lane)->grpc, &job->call);
}
