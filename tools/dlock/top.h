/*
 * top.h: dlock top: the table of locks (top_rows.c), its picture (top_draw.c), and keys and time (top.c).
 */
#ifndef TOP_H
#define TOP_H

#include "tool.h"

enum top_column { TOP_NAME, TOP_HOLDER, TOP_HELD, TOP_LEFT, TOP_WAITERS, TOP_RATE, TOP_COLUMNS };

struct top_row {
    char *name;
    int32_t kind; /* 0: not known yet */
    int looked;   /* look is from the last round */
    int fresh;    /* listed in the round that is under way */
    int64_t at;
    struct tool_look look;
    double rate; /* grants a second that were seen, an average of some seconds */
};

struct top {
    struct tool *tool;
    int32_t sort;           /* enum top_column */
    int reverse, all, once; /* all: free locks, too */
    const char *glob;
    int64_t every;

    struct top_row *row;       /* all names */
    size_t count, room, at;    /* at: the row to be looked at next */
    struct tool_names names;   /* of the round of names that is under way */
    int64_t names_at;          /* when the last round ended */
    struct top_row **shown;    /* those that are shown, in their order */
    size_t shown_count, first; /* first: scrolled to */

    char filter[64];   /* names must contain this */
    int typing;        /* keys go to the filter */
    char trouble[512]; /* why the server does not answer; "": it does */
    int64_t trouble_since;
};

extern const struct tool_word top_columns[];

/* ---- top_rows.c */

/* List and look for up to budget_ms; budget_ms < 0: once around. What is shown goes first. */
void top_refresh(struct top *top, int64_t budget_ms);

/* What a look says, at this moment: milliseconds, -1 unknown. */
int64_t top_held(const struct top_row *row);
int64_t top_left(const struct top_row *row);

/* Choose and sort what is shown. */
void top_arrange(struct top *top);
void top_free(struct top *top);

/* ---- top_draw.c */

/* The table as plain text, or as JSON. */
void top_print(const struct top *top);

/* The screen. */
void top_draw(struct top *top);

/* How many rows of the table fit. */
size_t top_page(void);

#endif
