/*
 * sim_heap.c: random numbers, events in order of time, and the memory of a run. See sim.h.
 */
#include "sim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 65536 };

uint64_t sim_random(struct sim *s)
{
    uint64_t z = (s->random += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

int64_t sim_below(struct sim *s, int64_t limit)
{
    return limit > 0 ? (int64_t)(sim_random(s) % (uint64_t)limit) : 0;
}

int64_t sim_between(struct sim *s, int64_t low, int64_t high)
{
    return low + sim_below(s, high - low + 1);
}

int sim_percent(struct sim *s, int percent)
{
    return sim_below(s, 100) < percent;
}

void sim_fired(struct sim *s, enum sim_fault fault)
{
    s->stats.fired[fault]++;
}

int sim_fault(struct sim *s, enum sim_fault fault)
{
    if (!s->faults_on || s->plan.chance[fault] == 0 || sim_below(s, 1000000) >= s->plan.chance[fault])
        return 0;
    sim_fired(s, fault);
    return 1;
}

void sim_mix(struct sim *s, uint64_t value)
{
    s->hash = (s->hash ^ value) * 0x100000001b3u;
    s->hash ^= s->hash >> 29;
}

static int before(const struct sim_event *a, const struct sim_event *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void sift_up(struct sim_heap *heap, int at)
{
    struct sim_event event = heap->events[at];

    while (at > 0 && before(&event, &heap->events[(at - 1) / 2])) {
        heap->events[at] = heap->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    heap->events[at] = event;
}

static void sift_down(struct sim_heap *heap, int at)
{
    struct sim_event event = heap->events[at];

    for (;;) {
        int child = 2 * at + 1;

        if (child >= heap->count)
            break;
        if (child + 1 < heap->count && before(&heap->events[child + 1], &heap->events[child]))
            child++;
        if (!before(&heap->events[child], &event))
            break;
        heap->events[at] = heap->events[child];
        at = child;
    }
    heap->events[at] = event;
}

static void push(struct sim *s, struct sim_event event)
{
    struct sim_heap *heap = &s->heap;

    if (heap->count == heap->room) {
        heap->room = heap->room ? 2 * heap->room : 1024;
        heap->events = realloc(heap->events, (size_t)heap->room * sizeof *heap->events);
        if (!heap->events)
            exit(2);
    }
    event.order = heap->order++;
    heap->events[heap->count] = event;
    sift_up(heap, heap->count++);
}

void sim_at(struct sim *s, int64_t at, enum sim_kind kind, int who, int64_t number, void *what)
{
    push(s, (struct sim_event){.at = at, .kind = kind, .who = who, .number = number, .what = what});
}

void sim_defer(struct sim *s, struct sim_event event, int64_t at)
{
    event.at = at;
    event.deferred = 1;
    push(s, event);
}

int sim_next(struct sim *s, struct sim_event *event)
{
    struct sim_heap *heap = &s->heap;

    if (heap->count == 0)
        return 0;
    *event = heap->events[0];
    heap->events[0] = heap->events[--heap->count];
    if (heap->count > 0)
        sift_down(heap, 0);
    return 1;
}

static int is_message(const struct sim_event *event)
{
    return event->kind == SIM_ARRIVE || event->kind == SIM_REPLY || event->kind == SIM_PUSH ||
           event->kind == SIM_SUB_ARRIVE || event->kind == SIM_SUB_CONFIRM || event->kind == SIM_SUB_GONE ||
           event->kind == SIM_SUB_NOTICED || event->kind == SIM_SUB_RETRY;
}

void sim_hurry(struct sim *s, int64_t at)
{
    int count = 0;
    struct sim_event *all = malloc((size_t)s->heap.count * sizeof *all + 1);

    if (!all)
        exit(2);
    while (sim_next(s, &all[count]))
        count++;
    for (int i = 0; i < count; i++) { /* visited in order of time, which stays the order */
        if (all[i].kind == SIM_ARRIVE && ((struct sim_request *)all[i].what)->copy)
            continue;
        if (all[i].deferred && all[i].at > s->now)
            all[i].at = s->now;
        else if (is_message(&all[i]) && all[i].at > at)
            all[i].at = at;
        push(s, all[i]);
    }
    free(all);
}

void *sim_alloc(struct sim *s, size_t size)
{
    struct sim_arena *arena = &s->arena;
    char *memory;

    size = (size + 15) & ~(size_t)15;
    if (arena->used + size > BLOCK || arena->blocks == 0) {
        if (arena->blocks > 0)
            arena->current++;
        if (arena->current == arena->blocks) {
            if (arena->blocks == SIM_BLOCKS || !(arena->block[arena->blocks++] = malloc(BLOCK))) {
                fprintf(stderr, "sim_heap: seed %" PRIu64 " needs more memory than there is\n", s->seed);
                exit(2);
            }
        }
        arena->used = 0;
    }
    memory = arena->block[arena->current] + arena->used;
    arena->used += size;
    memset(memory, 0, size);
    return memory;
}
