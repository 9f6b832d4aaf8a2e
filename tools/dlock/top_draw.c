/*
 * top_draw.c: the table of dlock top, as text, as JSON, and on a terminal by ANSI sequences. See top.h.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "top.h"

enum { HEAD_LINES = 3, FOOT_LINES = 1, WIDTH = 80, HEIGHT = 24 };

const struct tool_word top_columns[] = {
    {"name", TOP_NAME},       {"holder", TOP_HOLDER}, {"held", TOP_HELD}, {"left", TOP_LEFT},
    {"waiting", TOP_WAITERS}, {"grants", TOP_RATE},   {NULL, 0},
};

static const struct column {
    const char *head;
    int width; /* 0: a part of what the others leave */
} columns[TOP_COLUMNS] = {
    [TOP_NAME] = {"NAME", 0}, [TOP_HOLDER] = {"HOLDER", 0},   [TOP_HELD] = {"HELD FOR", 9},
    [TOP_LEFT] = {"LEFT", 9}, [TOP_WAITERS] = {"WAITING", 7}, [TOP_RATE] = {"GRANTS/S", 8},
};

static struct winsize screen(void)
{
    struct winsize size = {.ws_row = HEIGHT, .ws_col = WIDTH};

    if (ioctl(1, TIOCGWINSZ, &size) != 0 || size.ws_row < HEAD_LINES + FOOT_LINES + 1 || size.ws_col < 40)
        size = (struct winsize){.ws_row = HEIGHT, .ws_col = WIDTH};
    return size;
}

size_t top_page(void)
{
    return (size_t)screen().ws_row - HEAD_LINES - FOOT_LINES;
}

/* ---- one line */

/* The text in a cell of that width, cut where it is longer. Control characters were made printable before. */
static void cell(const char *text, int width)
{
    int used = tool_print_width(stdout, text, strlen(text), width);

    printf("%*s", width - used, "");
}

static void head_line(int name, int holder, const struct top *top)
{
    for (int i = 0; i < TOP_COLUMNS; i++) {
        char text[16];

        snprintf(text, sizeof text, "%s%s", columns[i].head, i == top->sort ? (top->reverse ? "^" : "*") : "");
        cell(text, i == TOP_NAME ? name : i == TOP_HOLDER ? holder : columns[i].width);
        if (i + 1 < TOP_COLUMNS)
            fputc(' ', stdout);
    }
}

static void row_line(int name, int holder, const struct top_row *row)
{
    const struct tool_look *look = &row->look;
    char text[TOOL_SPAN];

    cell(row->name, name);
    fputc(' ', stdout);
    if (look->counts)
        snprintf(text, sizeof text, "(%" PRId64 " free)", look->number);
    cell(look->counts ? text : look->holder[0] ? look->holder : "-", holder);
    fputc(' ', stdout);
    cell(tool_span(text, top_held(row)), columns[TOP_HELD].width);
    fputc(' ', stdout);
    cell(tool_span(text, top_left(row)), columns[TOP_LEFT].width);
    snprintf(text, sizeof text, "%" PRId64, look->waiters > 0 ? look->waiters : 0);
    fputc(' ', stdout);
    cell(text, columns[TOP_WAITERS].width);
    snprintf(text, sizeof text, "%.1f", row->rate);
    fputc(' ', stdout);
    cell(text, columns[TOP_RATE].width);
}

/* Half of what the other columns leave for the name, or more when the screen is wide enough for a whole holder. */
static void widths(int all, int *name, int *holder)
{
    int left = all - (TOP_COLUMNS - 1), whole = 44;

    for (int i = 0; i < TOP_COLUMNS; i++)
        left -= columns[i].width;
    *holder = left / 2 > whole ? whole : left / 2;
    *name = left - *holder;
}

/* ---- once */

static void print_json(const struct top_row *row)
{
    const struct tool_look *look = &row->look;

    tool_json_begin(stdout);
    tool_json_text(stdout, "name", row->name);
    tool_json_text(stdout, "kind", tool_kind_name(look->kind));
    tool_json_text(stdout, "holder", look->holder);
    tool_json_known(stdout, "held_for_ms", top_held(row));
    tool_json_known(stdout, "remaining_ms", top_left(row));
    tool_json_known(stdout, "waiters", look->waiters);
    if (look->counts)
        tool_json_number(stdout, "available", look->number);
    tool_json_end(stdout);
}

void top_print(const struct top *top)
{
    int name, holder;

    widths(isatty(1) ? screen().ws_col : 120, &name, &holder);
    if (!top->tool->json) {
        head_line(name, holder, top);
        fputc('\n', stdout);
    }
    for (size_t i = 0; i < top->shown_count; i++) {
        if (top->tool->json) {
            print_json(top->shown[i]);
        } else {
            row_line(name, holder, top->shown[i]);
            fputc('\n', stdout);
        }
    }
}

/* ---- the screen */

static void title(const struct top *top, int width)
{
    char text[256], span[TOOL_SPAN];
    size_t held = 0;

    for (size_t i = 0; i < top->count; i++)
        held += top->row[i].looked && top->row[i].look.holder[0] != '\0';
    snprintf(text, sizeof text, "dlock top: %zu known, %zu held, %zu shown%s%s", top->count, held, top->shown_count,
             top->filter[0] || top->typing ? ", filter: " : "", top->filter);
    cell(text, width);
    fputs("\r\n", stdout);
    if (top->trouble[0]) {
        snprintf(text, sizeof text, "no answer for %s: ", tool_span(span, tool_now() - top->trouble_since));
        fputs("\033[7m", stdout);
        cell(text, (int)strlen(text));
        cell(top->trouble, width - (int)strlen(text));
        fputs("\033[0m", stdout);
    } else {
        cell(top->names.cursor ? "(the list of names is under way)" : "", width);
    }
    fputs("\r\n", stdout);
}

void top_draw(struct top *top)
{
    static const char keys[] = "q quit  s sort  r reverse  / filter  a all or held  j k space b scroll";
    struct winsize size = screen();
    int name, holder;
    size_t page = top_page();

    widths(size.ws_col, &name, &holder);
    fputs("\033[H", stdout);
    title(top, size.ws_col);
    fputs("\033[1m", stdout);
    head_line(name, holder, top);
    fputs("\033[0m\033[K\r\n", stdout);
    for (size_t i = 0; i < page; i++) {
        if (top->first + i < top->shown_count)
            row_line(name, holder, top->shown[top->first + i]);
        fputs("\033[K\r\n", stdout);
    }
    cell(top->typing ? "type a part of the names, then Enter; Esc drops it" : keys, size.ws_col - 1);
    fputs("\033[J", stdout);
    fflush(stdout);
}
