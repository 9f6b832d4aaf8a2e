/*
 * events.c: events in order of time. See worlds.h.
 */
#include <stdlib.h>

#include "worlds.h"

struct event {
    int64_t at;
    uint64_t order;
    w_run *run;
    void *what;
    int64_t number;
};

static struct {
    struct event *event;
    int count, room;
    uint64_t order;
} heap;

static int before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

void w_at(int64_t at, w_run *run, void *what, int64_t number)
{
    struct event event = {at < w.now ? w.now : at, heap.order++, run, what, number};
    int i = heap.count;

    if (heap.count == heap.room) {
        heap.room = heap.room ? 2 * heap.room : 256;
        heap.event = realloc(heap.event, (size_t)heap.room * sizeof event);
        if (!heap.event)
            abort();
    }
    heap.count++;
    for (; i > 0 && before(&event, &heap.event[(i - 1) / 2]); i = (i - 1) / 2)
        heap.event[i] = heap.event[(i - 1) / 2];
    heap.event[i] = event;
}

static struct event pop(void)
{
    struct event first = heap.event[0], last = heap.event[--heap.count];
    int i = 0, child;

    while ((child = 2 * i + 1) < heap.count) {
        child += child + 1 < heap.count && before(&heap.event[child + 1], &heap.event[child]);
        if (!before(&heap.event[child], &last))
            break;
        heap.event[i] = heap.event[child];
        i = child;
    }
    heap.event[i] = last;
    return first;
}

int w_step(int64_t until)
{
    struct event event;

    if (heap.count == 0 || heap.event[0].at > until) {
        w.now = until > w.now ? until : w.now;
        return 0;
    }
    event = pop();
    w.now = event.at;
    w.stats.events++;
    event.run(event.what, event.number);
    return 1;
}

void w_events_end(void)
{
    while (heap.count > 0) { /* what they hold is freed by their owners, who see that the run is over */
        struct event event = pop();

        event.run(event.what, INT64_MIN);
    }
    free(heap.event);
    heap.event = NULL;
    heap.room = 0;
    heap.order = 0;
}
