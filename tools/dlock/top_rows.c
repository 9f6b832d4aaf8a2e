/*
 * top_rows.c: the rows of dlock top. Names come from rounds of dlock_client_list; each row is looked at in turn. Both
 * stop when the time of a refresh is over, and go on with the next one. See top.h.
 */
#include <stdlib.h>
#include <string.h>

#include "top.h"

enum { NAMES_EVERY_MS = 3000, AVERAGE_MS = 3000, AT_ONCE = 64, PATIENCE_MS = 10000 };

/* ---- trouble with the server */

static int works(struct top *top, dlock_status status, const char *text)
{
    if (status == DLOCK_OK) {
        top->trouble[0] = '\0';
        return 1;
    }
    if (!top->trouble[0])
        top->trouble_since = tool_now();
    snprintf(top->trouble, sizeof top->trouble, "%s", text);
    return 0;
}

/* ---- names */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct top_row *)a)->name, ((const struct top_row *)b)->name);
}

/* Without memory the row is left out. */
static void add_row(struct top *top, char *name)
{
    if (top->count == top->room) {
        size_t room = top->room ? 2 * top->room : 256;
        struct top_row *larger = realloc(top->row, room * sizeof *larger);

        if (!larger) {
            free(name);
            return;
        }
        top->row = larger;
        top->room = room;
    }
    top->row[top->count++] = (struct top_row){.name = name, .fresh = 1};
}

/* The round of names is over: rows that were not listed go, new ones come. Rows are sorted by name. */
static void merge(struct top *top)
{
    size_t old = top->count, kept = 0;

    tool_names_sort(&top->names);
    for (size_t i = 0; i < old; i++)
        top->row[i].fresh = 0;
    for (size_t i = 0; i < top->names.count; i++) {
        struct top_row key = {.name = top->names.name[i]}, *row;

        row = old ? bsearch(&key, top->row, old, sizeof key, by_name) : NULL;
        if (row) {
            row->fresh = 1;
            free(key.name);
        } else {
            add_row(top, key.name);
        }
    }
    top->names.count = 0; /* the rows have them */
    for (size_t i = 0; i < top->count; i++) {
        if (top->row[i].fresh)
            top->row[kept++] = top->row[i];
        else
            free(top->row[i].name);
    }
    top->count = kept;
    if (kept > 0)
        qsort(top->row, kept, sizeof top->row[0], by_name);
    top->shown_count = 0; /* pointers into the rows */
    top->names_at = tool_now();
}

/* 0: the server does not answer. */
static int list_names(struct top *top, int64_t until)
{
    if (top->names.cursor == 0 && top->names_at && tool_now() - top->names_at < NAMES_EVERY_MS)
        return 1;
    do {
        dlock_status status = tool_names_more(top->tool, top->glob, &top->names);

        if (!works(top, status, dlock_error_message(top->tool->error)))
            return 0;
        if (top->names.cursor == 0) {
            merge(top);
            return 1;
        }
    } while (tool_now() < until);
    return 1;
}

/* ---- looks */

/* One grant for each new holder that is seen, over the time since the last look. */
static void count_grants(struct top_row *row, const struct tool_look *look, int64_t now)
{
    int64_t since = now - row->at;
    double weight = since >= AVERAGE_MS ? 1 : (double)since / AVERAGE_MS, seen = 0;

    if (!row->looked || since <= 0)
        return;
    if (look->holder[0] && strcmp(look->holder, row->look.holder) != 0)
        seen = 1000.0 / (double)since;
    row->rate += (seen - row->rate) * weight;
}

/* What to ask next about a name whose keys were no lock of that kind; 0: nothing else is left. */
static int32_t another_kind(int32_t kind)
{
    return kind == DLOCK_KIND_MUTEX || kind == DLOCK_KIND_FAIR ? DLOCK_KIND_WRITE
           : kind == DLOCK_KIND_WRITE                          ? DLOCK_KIND_SEMAPHORE
                                                               : 0;
}

/* A mutex and a fair lock look alike but for their lines: a held one without waiters is asked for both in turn. */
static int32_t next_kind(const struct tool_look *look)
{
    if (look->kind == DLOCK_KIND_FAIR && look->waiters <= 0)
        return DLOCK_KIND_MUTEX;
    if (look->kind == DLOCK_KIND_MUTEX && look->holder[0] && look->waiters == 0)
        return DLOCK_KIND_FAIR;
    return look->kind;
}

/* An answer. 0: the server does not answer. */
static int hear(struct top *top, struct top_row *row, dlock_status status, const char *text)
{
    struct tool_look look;
    int64_t now = tool_now();

    if (status == DLOCK_WRONG_KIND) {
        row->kind = another_kind(row->kind);
        row->looked = row->looked && row->kind;
        return 1;
    }
    if (status != DLOCK_OK)
        return works(top, status, text);
    works(top, DLOCK_OK, "");
    tool_look_read(top->tool->event, row->kind, &look);
    count_grants(row, &look, now);
    row->kind = next_kind(&look);
    tool_look_name_kind(&look);
    row->look = look;
    row->at = now;
    row->looked = 1;
    return 1;
}

/* Looks that are under way. */
struct looks {
    int busy, failed;
};

static void ask(struct top *top, struct top_row *row, struct looks *looks)
{
    dlock_status status;

    if (row->kind == 0)
        row->kind = DLOCK_KIND_MUTEX;
    status = tool_look_submit(top->tool, row->kind, row->name, row - top->row);
    if (status == DLOCK_OK)
        looks->busy++;
    else if (status != DLOCK_INVALID_NAME && status != DLOCK_UNSUPPORTED)
        looks->failed |= !works(top, status, dlock_error_message(top->tool->error));
}

/* Take answers until at most that many looks are under way. Each has an answer, within the command's timeout. */
static void take_answers(struct top *top, struct looks *looks, int most)
{
    int64_t field[DLOCK_FIELD_COUNT];

    while (looks->busy > most &&
           dlock_client_next(top->tool->client, PATIENCE_MS, top->tool->event, top->tool->error) == DLOCK_OK) {
        dlock_event_unpack(top->tool->event, field, DLOCK_FIELD_COUNT, NULL, NULL);
        if (field[DLOCK_FIELD_TYPE] != DLOCK_EVENT_DONE)
            continue;
        looks->busy--;
        if (field[DLOCK_FIELD_TAG] < 0 || field[DLOCK_FIELD_TAG] >= (int64_t)top->count)
            continue;
        looks->failed |= !hear(top, &top->row[field[DLOCK_FIELD_TAG]], (dlock_status)field[DLOCK_FIELD_STATUS],
                               dlock_event_text(top->tool->event));
    }
}

static void look_at(struct top *top, struct top_row *row, struct looks *looks)
{
    ask(top, row, looks);
    take_answers(top, looks, AT_ONCE - 1);
}

static void look_around(struct top *top, int64_t until)
{
    size_t page = top_page();
    struct looks looks = {0, 0};

    for (size_t i = top->first; i < top->shown_count && i < top->first + page && !looks.failed; i++)
        look_at(top, top->shown[i], &looks);
    for (size_t i = 0; i < top->count && tool_now() < until && !looks.failed; i++) {
        if (top->at >= top->count)
            top->at = 0;
        look_at(top, &top->row[top->at++], &looks);
    }
    take_answers(top, &looks, 0);
}

/* Once around: until every name is known, or is known to be no lock. */
static void look_at_all(struct top *top)
{
    enum { KINDS = 4 };

    for (int i = 0; i < KINDS && !top->trouble[0]; i++)
        look_around(top, INT64_MAX);
}

void top_refresh(struct top *top, int64_t budget_ms)
{
    int64_t now = tool_now();

    if (!list_names(top, budget_ms < 0 ? INT64_MAX : now + budget_ms / 2))
        return;
    if (budget_ms < 0)
        look_at_all(top);
    else
        look_around(top, now + budget_ms);
}

/* ---- what is shown */

int64_t top_held(const struct top_row *row)
{
    return row->look.counts || row->look.held_ms < 0 ? -1 : row->look.held_ms + tool_now() - row->at;
}

int64_t top_left(const struct top_row *row)
{
    int64_t left = row->look.left_ms - (tool_now() - row->at);

    return row->look.counts || row->look.left_ms < 0 ? -1 : left < 0 ? 0 : left;
}

static const struct top *arranging; /* for compare; there is one thread */

static int of_numbers(double a, double b)
{
    return a > b ? -1 : a < b; /* the larger one first */
}

static int compare(const void *left, const void *right)
{
    const struct top_row *a = *(struct top_row *const *)left, *b = *(struct top_row *const *)right;
    int order = 0;

    switch (arranging->sort) {
    case TOP_HOLDER:
        order = strcmp(a->look.holder, b->look.holder);
        break;
    case TOP_HELD:
        order = of_numbers((double)top_held(a), (double)top_held(b));
        break;
    case TOP_LEFT:
        order = -of_numbers((double)top_left(a), (double)top_left(b));
        break;
    case TOP_WAITERS:
        order = of_numbers((double)a->look.waiters, (double)b->look.waiters);
        break;
    case TOP_RATE:
        order = of_numbers(a->rate, b->rate);
        break;
    default:
        break;
    }
    if (order == 0)
        order = strcmp(a->name, b->name);
    return arranging->reverse ? -order : order;
}

static int is_shown(const struct top *top, const struct top_row *row)
{
    return row->looked && (top->all || row->look.holder[0] || row->look.counts) &&
           (!top->filter[0] || strstr(row->name, top->filter));
}

void top_arrange(struct top *top)
{
    struct top_row **shown = realloc(top->shown, (top->count + 1) * sizeof(void *));

    top->shown_count = 0;
    if (!shown)
        return;
    top->shown = shown;
    for (size_t i = 0; i < top->count; i++)
        if (is_shown(top, &top->row[i]))
            shown[top->shown_count++] = &top->row[i];
    arranging = top;
    qsort(shown, top->shown_count, sizeof(void *), compare);
    if (top->first >= top->shown_count)
        top->first = 0;
}

void top_free(struct top *top)
{
    for (size_t i = 0; i < top->count; i++)
        free(top->row[i].name);
    free(top->row);
    free(top->shown);
    tool_names_free(&top->names);
}
