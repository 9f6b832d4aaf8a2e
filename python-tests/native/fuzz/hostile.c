/*
 * hostile.c: one run of the library over a hostile cluster: see hostile.h.
 *
 * What must hold: no sentence has the password or control bytes; each submitted call ends with exactly one event; a lock is
 * acquired only with a number that the server has said; a client that is closed is closed in time; its memory stays bounded;
 * and no thread is woken again and again with nothing to do. The sanitizers see the rest. With DLOCK_FUZZ_TRACE in the
 * environment a run tells what happens.
 */
#include "hostile.h"
#include "watchdog/watchdog.h"

enum { CALLS = 48, EVENTS = 6000, MOST = 32 << 20, PROCESSES = 2, SAID = 16, FORGED = 256, LAST = 40, TOKENS = 128 };

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

const struct hostile_server *hostile;
static struct fuzz in;
static size_t memory;

static struct {
    struct w_process *process;
    int open, makes_token;
} calls[H_TAGS + 1];
static int64_t tags;
static int has_password[PROCESSES];

static int64_t said[SAID], forged[FORGED];
static int said_count, forged_count, garbled;

/* ---- the input */

unsigned h_call(void)
{
    return fuzz_byte(&in);
}

unsigned h_spoil(void)
{
    return in.left > 0 ? in.at[--in.left] : 0;
}

unsigned h_spoil_below(unsigned limit)
{
    return h_spoil() % limit;
}

int h_over(void)
{
    return in.left == 0;
}

void h_said(int64_t number)
{
    said[said_count++ % SAID] = number;
}

void h_forged(int64_t number)
{
    if (forged_count < FORGED)
        forged[forged_count++] = number;
    else
        garbled = 1;
}

/* A grant brings up to TOKENS tokens, which the process gives out one after the other. */
int h_was_forged(int64_t number)
{
    for (int i = 0; i < forged_count; i++)
        if ((uint64_t)number - (uint64_t)forged[i] < TOKENS)
            return 1;
    return garbled;
}

void h_garbled(void)
{
    garbled = 1;
}

int64_t h_number(void)
{
    static const int64_t edges[] = {0,          1,         -1,        2,         -2,        127,       128,
                                    4096,       1 << 20,   INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, INT64_MAX - 1,
                                    UINT32_MAX, 1LL << 53, 1LL << 56, 1LL << 57, 1LL << 62, -1000};
    unsigned kind = h_spoil();
    int64_t known = said[(said_count + SAID - 1 - (int)(kind / 4 % SAID)) % SAID];
    uint64_t number = 0;

    if (kind < 80)
        return edges[kind % 20];
    if (kind < 200)
        return kind % 4 == 0 ? known : (int64_t)((uint64_t)known + (kind % 4 == 1) - (kind % 4 == 2) * 1UL);
    for (unsigned i = 0; i < 1 + kind % 8; i++)
        number = number << 8 | h_spoil();
    return (int64_t)number;
}

struct h_text h_text(void)
{
    static char long_text[1501];
    static const char *const texts[] = {"",
                                        "/",
                                        "lock",
                                        SECRET,
                                        "0",
                                        "-1",
                                        "9223372036854775807",
                                        "a/b/",
                                        "\xff\xfe",
                                        "\033[31m",
                                        "\xe2\x80\xae",
                                        "%s%n",
                                        "\r\n",
                                        "dlock-0000000001",
                                        "18446744073709551616",
                                        "01234567-89ab-8def-0123-456789abcdef:1"};
    unsigned which = h_spoil();
    size_t size;

    if (which < 200) {
        const char *text = texts[which % 16];

        return (struct h_text){text, strlen(text)};
    }
    memset(long_text, 'k', sizeof long_text);
    size = which >= 240 ? which - 240 : which < 220 ? 16 * h_spoil() % (sizeof long_text - 1) : h_spoil();
    for (unsigned i = 240; i < which; i++)
        long_text[i - 240] = (char)h_spoil();
    long_text[size] = '\0';
    return (struct h_text){long_text, size};
}

/* ---- what the models ask of the rules of ../worlds, which do not hold here */

void w_judge_turn(struct w_process *process)
{
    (void)process;
}

void w_judge_freed(int64_t claim, int forced)
{
    (void)claim, (void)forced;
}

void w_judge_forced(int64_t claim)
{
    (void)claim;
}

void w_judge_counted(const struct w_process *by, int lock, int64_t count, int64_t number)
{
    (void)by, (void)lock, (void)count, (void)number;
}

int w_latch_of(const char *key, size_t size)
{
    (void)key, (void)size;
    return -1;
}

int64_t w_latch_number(const char *value, size_t size)
{
    (void)value, (void)size;
    return 0;
}

/* ---- calls and their events */

int64_t h_tag(struct w_process *process)
{
    if (tags == H_TAGS)
        return 0;
    tags++;
    calls[tags].makes_token = 0;
    calls[tags].process = process;
    calls[tags].open = 1;
    return tags;
}

void h_makes_token(int64_t tag)
{
    calls[tag].makes_token = 1;
}

void h_not_called(int64_t tag)
{
    calls[tag].open = 0;
}

static void check_text(const struct w_process *process, const char *text)
{
    if (!fuzz_printable(text) || (has_password[process->index] && strstr(text, SECRET)))
        fuzz_broken(text, __FILE__, __LINE__);
}

static void ended(const struct w_process *process, int64_t type, int64_t tag, int64_t token)
{
    REQUIRE(tag > 0 && tag <= tags && calls[tag].process == process && calls[tag].open);
    calls[tag].open = 0;
    if (type == DLOCK_EVENT_ACQUIRED && calls[tag].makes_token)
        REQUIRE(token > 0 && hostile->granted(token));
}

void w_owner_told(struct w_process *process, const int64_t *field)
{
    int64_t type = field[DLOCK_FIELD_TYPE];

    REQUIRE(dlock_status_name((dlock_status)field[DLOCK_FIELD_STATUS]));
    check_text(process, dlock_event_text(process->event));
    if (type == DLOCK_EVENT_ACQUIRED || type == DLOCK_EVENT_ACQUIRE_FAILED || type == DLOCK_EVENT_RELEASED ||
        type == DLOCK_EVENT_RELEASE_FAILED || type == DLOCK_EVENT_DONE)
        ended(process, type, field[DLOCK_FIELD_TAG], field[DLOCK_FIELD_TOKEN]);
    else
        REQUIRE(type == DLOCK_EVENT_AT_RISK || type == DLOCK_EVENT_LOST || type == DLOCK_EVENT_LOG);
}

/* ---- the world */

static void check_memory(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        REQUIRE(__sanitizer_get_current_allocated_bytes() < memory + MOST);
}

static void run_for(int64_t time)
{
    int64_t until = w.now + time;

    while (w.stats.events < EVENTS && w_step(until)) {
        w.current = NULL;
        check_memory();
    }
    if (w.failed && strncmp(w.why, "wire:", 5) != 0) /* breaches of protocol are the server's own fault here */
        fuzz_broken(w.why, __FILE__, __LINE__);
    w.failed = 0;
}

static void set_number(dlock_options *options, const char *name, int64_t number)
{
    char text[32];

    snprintf(text, sizeof text, "%lld", (long long)number);
    REQUIRE(dlock_options_set(options, name, text, NULL) == DLOCK_OK);
}

void h_start(struct w_process *process)
{
    unsigned how = h_call();
    dlock_options *options = dlock_options_new();
    dlock_error *box = dlock_error_new();

    w.current = process;
    set_number(options, "lease_ms", how & 4 ? 1000 : 5000);
    set_number(options, "connects_per_second", 50);
    set_number(options, "command_timeout_ms", how & 8 ? 200 : 2000);
    if (how & 16)
        set_number(options, "event_limit", 16);
    has_password[process->index] = strstr(hostile->urls[how % 4], SECRET) != NULL;
    process->event = dlock_event_new();
    if (dlock_client_open(hostile->urls[how % 4], options, &process->client, box) != DLOCK_OK)
        fuzz_broken(dlock_error_message(box), __FILE__, __LINE__);
    dlock_options_free(options);
    dlock_error_free(box);
    w.current = NULL;
}

void h_end(struct w_process *process, int locks_first)
{
    if (!process->client)
        return;
    w.current = process;
    process->busy = 1;
    process->crashed = 1;
    if (locks_first)
        h_locks_free(process);
    dlock_client_free(process->client);
    if (process->loop)
        dli_loop_turn(process->loop, &process->next);
    if (!locks_first)
        h_locks_free(process);
    dlock_event_free(process->event);
    process->client = NULL;
    process->loop = NULL;
    process->alarm++;
    w.current = NULL;
    for (int64_t i = 1; i <= tags; i++)
        calls[i].open &= calls[i].process != process;
}

static int all_closed(void)
{
    for (int i = 0; i < PROCESSES; i++)
        if (w.process[i].client && !w.process[i].closed)
            return 0;
    return 1;
}

static void close_all(void)
{
    for (int i = 0; i < PROCESSES; i++) {
        struct w_process *process = &w.process[i];

        if (!process->client)
            continue;
        w.current = process;
        if (!process->closing)
            REQUIRE(dlock_client_submit_close(process->client, 3000, NULL) == DLOCK_OK);
        process->closing = 1;
        w_process_turn(process);
        w.current = NULL;
    }
    w.stats.events = 0;
    for (int i = 0; i < LAST && !all_closed(); i++)
        run_for(W_SECOND);
    REQUIRE(all_closed());
    for (int64_t i = 1; i <= tags; i++)
        REQUIRE(!calls[i].open);
}

static void begin(unsigned how)
{
    memset(&w, 0, sizeof w);
    memset(calls, 0, sizeof calls);
    tags = said_count = forged_count = garbled = 0;
    memset(said, 0, sizeof said);
    w.model = hostile->model;
    w.random = 1;
    w.verbose = getenv("DLOCK_FUZZ_TRACE") != NULL;
    w.now = 1000 * (int64_t)W_SECOND;
    w.plan = (struct w_plan){.processes = PROCESSES, .delay = how & 2 ? 3 * W_MS : 60, .lease = 5 * W_SECOND};
    for (int i = 0; i < PROCESSES; i++)
        w.process[i] = (struct w_process){.index = i, .offset = 100 * (int64_t)W_SECOND};
    w.model->begin();
    hostile->begin();
    h_calls_begin();
    h_start(&w.process[0]);
    if (how & 1)
        h_start(&w.process[1]);
}

int hostile_run(const struct hostile_server *server, const uint8_t *data, size_t size)
{
    static const int64_t times[] = {3 * W_MS, 0, 100, W_MS, 30 * W_MS, 400 * W_MS, 3 * W_SECOND, 20 * W_SECOND};
    unsigned how, pace;

    hostile = server;
    in = (struct fuzz){data, size};
    memory = __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
    how = h_call();
    begin(how);
    for (int i = 0; i < CALLS && !h_over() && w.stats.events < EVENTS; i++) {
        pace = h_call();
        h_call_library(&w.process[pace / 8 % PROCESSES]);
        run_for(times[pace % 8]);
    }
    in.left = 0; /* from here on the server behaves, and time alone ends what is left */
    close_all();
    w.over = 1;
    for (int i = 0; i < PROCESSES; i++)
        h_end(&w.process[i], how & 4);
    w_events_end();
    w_wires_end();
    w.model->end();
    return 0;
}
