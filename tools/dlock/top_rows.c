/*
 * top_rows.c: the rows of dlock top. Names come from rounds of dlock_client_list; each row is looked at in turn. Both
 * stop when the time of a refresh is over, and go on with the next one. See top.h.
 */
#include <stdlib.h>
#include <string.h>

#include "top.h"

enum { NAMES_EVERY_MS = 3000, AVERAGE_MS = 3000 };

/* ---- trouble with the server */

static int works(struct top *top, dlock_status status)
{
    if (status == DLOCK_OK) {
        top->trouble[0] = '\0';
        return 1;
    }
    if (!top->trouble[0])
        top->trouble_since = tool_now();
    snprintf(top->trouble, sizeof top->trouble, "%s", dlock_error_message(top->tool->error));
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
    top->at = 0;
    top->names_at = tool_now();
}

/* 0: the server does not answer. */
static int list_names(struct top *top, int64_t until)
{
    if (top->names.cursor == 0 && top->names_at && tool_now() - top->names_at < NAMES_EVERY_MS)
        return 1;
    do {
        if (!works(top, tool_names_more(top->tool, top->glob, &top->names)))
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

/* 0: the server does not answer. */
static int look_at(struct top *top, struct top_row *row)
{
    struct tool_look look;
    dlock_status status = tool_look(top->tool, row->kind, row->name, &look);
    int64_t now = tool_now();

    if (status == DLOCK_WRONG_KIND || status == DLOCK_INVALID_NAME) { /* another kind now, or another program's key */
        row->looked = row->kind = 0;
        return 1;
    }
    if (!works(top, status))
        return 0;
    count_grants(row, &look, now);
    row->kind = look.holder[0] || look.counts ? look.kind : 0;
    row->look = look;
    row->at = now;
    row->looked = 1;
    return 1;
}

static void look_around(struct top *top, int64_t until)
{
    size_t page = top_page();

    for (size_t i = top->first; i < top->shown_count && i < top->first + page && until != INT64_MAX; i++)
        if (!look_at(top, top->shown[i]))
            return;
    for (size_t i = 0; i < top->count; i++) {
        if (top->at >= top->count)
            top->at = 0;
        if (!look_at(top, &top->row[top->at++]) || tool_now() >= until)
            return;
    }
}

void top_refresh(struct top *top, int64_t budget_ms)
{
    int64_t now = tool_now();

    if (list_names(top, budget_ms < 0 ? INT64_MAX : now + budget_ms / 2))
        look_around(top, budget_ms < 0 ? INT64_MAX : now + budget_ms);
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
