/*
 * text.c: OpenMetrics text of the numbers of one client; the buckets. See metrics.h.
 */
#include "metrics.h"

#include <inttypes.h>

#include "base/text.h"

/* Bounds are 1, 2 and 5 times a power of ten: from 10 us to 200 s, and from 1 to 1000 hand-overs. */
const int64_t dli_time_bound[DLI_BUCKETS] = {
    10,     20,     50,     100,     200,     500,     1000,     2000,     5000,     10000,     20000,     50000,
    100000, 200000, 500000, 1000000, 2000000, 5000000, 10000000, 20000000, 50000000, 100000000, 200000000, INT64_MAX,
};

static const char *const time_text[DLI_BUCKETS] = {
    "1e-05", "2e-05", "5e-05", "0.0001", "0.0002", "0.0005", "0.001", "0.002", "0.005", "0.01",  "0.02",  "0.05",
    "0.1",   "0.2",   "0.5",   "1.0",    "2.0",    "5.0",    "10.0",  "20.0",  "50.0",  "100.0", "200.0", "+Inf",
};

const uint8_t dli_time_first[64] = {
    0,  0,  0,  0,  0,  1,  2,  3,  4,  5,  6,  7,  8,  8,  9,  10, 11, 12, 13, 14, 15, 16,
    17, 17, 18, 19, 20, 21, 22, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23,
    23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23,
};

const int64_t dli_turn_bound[DLI_BUCKETS] = {0, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, INT64_MAX};

static const char *const turn_text[DLI_BUCKETS] = {"0.0",  "1.0",   "2.0",   "5.0",   "10.0",   "20.0",
                                                   "50.0", "100.0", "200.0", "500.0", "1000.0", "+Inf"};

/* ---- reading */

static int64_t look(const int64_t *number)
{
    return __atomic_load_n(number, __ATOMIC_ACQUIRE);
}

void dli_metrics_read(const struct dli_metrics *metrics, struct dli_metrics *seen)
{
    for (int what = 0; what < DLI_MEASURES; what++) {
        for (int i = 0; i < DLI_BUCKETS; i++)
            seen->of[what].bucket[i] = look(&metrics->of[what].bucket[i]);
        seen->of[what].sum = look(&metrics->of[what].sum);
    }
    seen->asked = look(&metrics->asked);
}

int64_t dli_metrics_count(const struct dli_histogram *histogram)
{
    int64_t count = 0;

    for (int i = 0; i < DLI_BUCKETS; i++)
        count += histogram->bucket[i];
    return count;
}

int64_t dli_metrics_waiting(const struct dli_metrics *seen)
{
    return seen->asked - dli_metrics_count(&seen->of[DLI_WAIT_GRANTED]) - dli_metrics_count(&seen->of[DLI_WAIT_ENDED]);
}

/* ---- writing */

static void put_head(struct dli_text *text, const char *name, const char *type, const char *unit, const char *help)
{
    dli_text_print(text, "# TYPE dlock_%s %s\n", name, type);
    if (unit)
        dli_text_print(text, "# UNIT dlock_%s %s\n", name, unit);
    dli_text_print(text, "# HELP dlock_%s %s\n", name, help);
}

struct number {
    int stat;
    const char *name, *help;
};

static const struct number counters[] = {
    {DLOCK_STAT_ACQUIRED, "acquired", "Grants to owners, without re-entry."},
    {DLOCK_STAT_WIRE_GRANTS, "wire_grants", "Grants in the answer to a request."},
    {DLOCK_STAT_PUSHED_GRANTS, "pushed_grants", "Grants that the server pushed to a waiting process."},
    {DLOCK_STAT_HANDOVERS, "handovers", "Grants within the process, without the server."},
    {DLOCK_STAT_RELEASED, "released", "Confirmed releases."},
    {DLOCK_STAT_LOST, "lost", "Holds that were lost."},
    {DLOCK_STAT_RENEWED, "renewed", "Renewals that the server confirmed."},
    {DLOCK_STAT_RENEWALS_LATE, "renewals_late", "Renewals sent after half of the lease."},
    {DLOCK_STAT_RENEWAL_SCRIPTS, "renewal_scripts", "Requests that carried renewals."},
    {DLOCK_STAT_UNDONE, "undone", "Grants given back because nobody wanted them any more."},
    {DLOCK_STAT_COMMANDS, "commands", "Commands sent to servers."},
    {DLOCK_STAT_CONNECTS, "connects", "Connections made."},
    {DLOCK_STAT_CONNECT_FAILURES, "connect_failures", "Connections that could not be made."},
    {DLOCK_STAT_SCRIPT_RELOADS, "script_reloads", "Scripts that a server did not have any more."},
    {DLOCK_STAT_EVENTS_DROPPED, "events_dropped", "Events dropped because nobody read the queue."},
};

static const struct number gauges[] = {
    {DLOCK_STAT_HELD, "held", "Locks held."},
    {DLOCK_STAT_WAITING, "waiting", "Requests that wait for a lock."},
    {DLOCK_STAT_LOCKS, "locks", "Names in use."},
};

static void put_numbers(struct dli_text *text, const int64_t *stats)
{
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
        put_head(text, counters[i].name, "counter", NULL, counters[i].help);
        dli_text_print(text, "dlock_%s_total %" PRId64 "\n", counters[i].name, stats[counters[i].stat]);
    }
    for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++) {
        put_head(text, gauges[i].name, "gauge", NULL, gauges[i].help);
        dli_text_print(text, "dlock_%s %" PRId64 "\n", gauges[i].name, stats[gauges[i].stat]);
    }
}

/* label is NAME="VALUE" or "". The count is that of the buckets, whatever is measured meanwhile. */
static void put_times(struct dli_text *text, const char *name, const char *label, const struct dli_histogram *seen)
{
    const char *comma = *label ? "," : "", *open = *label ? "{" : "", *close = *label ? "}" : "";
    int64_t count = 0;

    for (int i = 0; i < DLI_BUCKETS; i++) {
        count += seen->bucket[i];
        dli_text_print(text, "dlock_%s_bucket{%s%sle=\"%s\"} %" PRId64 "\n", name, label, comma, time_text[i], count);
    }
    dli_text_print(text, "dlock_%s_sum%s%s%s %" PRId64 ".%06" PRId64 "\n", name, open, label, close,
                   seen->sum / 1000000, seen->sum % 1000000);
    dli_text_print(text, "dlock_%s_count%s%s%s %" PRId64 "\n", name, open, label, close, count);
}

static void put_turns(struct dli_text *text, const char *name, const struct dli_histogram *seen)
{
    int64_t count = 0;

    for (int i = 0; i < DLI_BUCKETS && turn_text[i]; i++) {
        count += seen->bucket[i];
        dli_text_print(text, "dlock_%s_bucket{le=\"%s\"} %" PRId64 "\n", name, turn_text[i], count);
    }
    dli_text_print(text, "dlock_%s_sum %" PRId64 "\ndlock_%s_count %" PRId64 "\n", name, seen->sum, name, count);
}

static void put_histograms(struct dli_text *text, const struct dli_metrics *seen)
{
    put_head(text, "wait_seconds", "histogram", "seconds", "How long requests waited for a lock, by how that ended.");
    put_times(text, "wait_seconds", "outcome=\"granted\"", &seen->of[DLI_WAIT_GRANTED]);
    put_times(text, "wait_seconds", "outcome=\"ended\"", &seen->of[DLI_WAIT_ENDED]);
    put_head(text, "hold_seconds", "histogram", "seconds", "How long locks were held.");
    put_times(text, "hold_seconds", "", &seen->of[DLI_HOLD]);
    put_head(text, "renewal_delay_seconds", "histogram", "seconds", "How long after it was due a renewal was sent.");
    put_times(text, "renewal_delay_seconds", "", &seen->of[DLI_RENEWAL_DELAY]);
    put_head(text, "renewal_left_seconds", "histogram", "seconds", "What was left of a lease when it was renewed.");
    put_times(text, "renewal_left_seconds", "", &seen->of[DLI_RENEWAL_LEFT]);
    put_head(text, "grant_handovers", "histogram", NULL, "Hand-overs within the process that one grant served.");
    put_turns(text, "grant_handovers", &seen->of[DLI_HANDOVERS]);
}

static void put_server(struct dli_text *text, const char *version, const char *server)
{
    put_head(text, "client_info", "gauge", NULL, "1, for the version of the library and the server.");
    dli_text_print(text, "dlock_client_info{version=\"%s\",server=\"", version);
    for (; *server; server++) {
        if (*server == '\n') /* not in the text of a store, which is escaped; but it would end the line */
            dli_text_print(text, "\\n");
        else
            dli_text_print(text, *server == '"' || *server == '\\' ? "\\%c" : "%c", *server);
    }
    dli_text_print(text, "\"} 1\n");
}

size_t dli_metrics_text(const struct dli_metrics *seen, const int64_t *stats, const char *version, const char *server,
                        char *buffer, size_t size)
{
    struct dli_text text = dli_text_in(buffer, size);

    put_server(&text, version, server);
    put_numbers(&text, stats);
    put_histograms(&text, seen);
    dli_text_print(&text, "# EOF\n");
    return text.whole;
}
