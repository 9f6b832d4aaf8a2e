/*
 * list.c: walks of base/list.h, by what the callee does: every set of nodes that one visit may remove, move or add, in lists of up to
 * five nodes; walks inside walks; and long random ones. What is removed is freed: a sanitizer sees a walk that goes on from it.
 */
#include "base.h"

#include "base/list.h"

enum { MOST = 5, SEEDS = 20000, LONG = 40 };

struct node {
    struct dli_link link;
    int number, met;
};

/* What visits do. */
static struct {
    struct dli_link list, other;
    struct node *node[LONG + 1];
    int count, visits, at;   /* at: the visit that acts */
    unsigned removes, moves; /* bit n: node n */
    int adds, inner;         /* the same visit adds one; walks the list itself, and removes within that */
    uint64_t noise;
} w;

static struct node *node_of(struct dli_link *link)
{
    return DLI_OBJECT(link, struct node, link);
}

static struct node *add(int number)
{
    struct node *node = calloc(1, sizeof *node);

    REQUIRE(node != NULL);
    node->number = number;
    dli_list_append(&w.list, &node->link);
    return node;
}

static void fill(int count)
{
    dli_list_init(&w.list);
    dli_list_init(&w.other);
    w.count = count;
    w.visits = 0;
    for (int i = 0; i < count; i++)
        w.node[i] = add(i);
}

static void gone(int i)
{
    if (!w.node[i])
        return;
    dli_list_remove(&w.node[i]->link);
    free(w.node[i]);
    w.node[i] = NULL;
}

static void clear(void)
{
    struct dli_link *link;

    while ((link = dli_list_pop(&w.list)))
        free(node_of(link));
    while ((link = dli_list_pop(&w.other)))
        free(node_of(link));
}

static void act(void)
{
    for (int i = 0; i < w.count; i++) {
        if (w.removes >> i & 1)
            gone(i);
        else if (w.moves >> i & 1) {
            dli_list_remove(&w.node[i]->link);
            dli_list_append(i % 2 ? &w.other : &w.list, &w.node[i]->link);
        }
    }
    if (w.adds)
        add(MOST);
}

static void act_within(void *owner, struct dli_link *link)
{
    (void)owner;
    (void)link;
    if (w.inner) {
        w.inner = 0;
        act();
    }
}

static void meet(void *owner, struct dli_link *link)
{
    struct node *node = node_of(link);

    REQUIRE(owner == &w);
    REQUIRE(node->number < MOST && !node->met); /* none that was added; each once */
    node->met = 1;
    if (w.visits++ != w.at)
        return;
    if (w.inner)
        dli_list_each(&w.list, act_within, NULL);
    else
        act();
}

/* Whether node i is met, when nodes before it and it itself are handled in visit at. */
static int is_due(int i)
{
    return i <= w.at || !((w.removes | w.moves) >> i & 1);
}

static void one(int count, int at, unsigned removes, unsigned moves)
{
    int due = 0;

    w.at = at;
    w.removes = removes;
    w.moves = moves & ~removes;
    fill(count);
    for (int i = 0; i < count; i++)
        due += is_due(i);
    dli_list_each(&w.list, meet, &w);
    REQUIRE(w.visits == due);
    for (int i = 0; i < count; i++)
        REQUIRE(!w.node[i] || w.node[i]->met == is_due(i));
    REQUIRE(!dli_walks);
    clear();
}

static void every_way(int count)
{
    for (int at = 0; at < count; at++)
        for (unsigned removes = 0; removes < 1U << count; removes++)
            for (unsigned moves = 0; moves < 1U << count; moves++)
                for (int more = 0; more < 4; more++) {
                    w.adds = more & 1;
                    w.inner = more >> 1;
                    one(count, at, removes, moves);
                }
}

/* ---- long ones */

static int draw(int below)
{
    w.noise = w.noise * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((w.noise >> 33) % (unsigned)below);
}

/* Remove some, also this one, and walk within. */
static void at_random(void *owner, struct dli_link *link)
{
    int depth = *(int *)owner + 1;

    node_of(link)->met++;
    for (int i = draw(4); i > 0; i--)
        gone(draw(w.count));
    if (depth < 3 && draw(8) == 0)
        dli_list_each(&w.list, at_random, &depth);
    if (draw(4) == 0)
        add(LONG);
}

void lists(void)
{
    for (int count = 0; count <= MOST; count++)
        every_way(count);
    for (int seed = 0; seed < SEEDS; seed++) {
        int depth = 0;

        w.noise = (uint64_t)seed;
        fill(1 + draw(LONG));
        dli_list_each(&w.list, at_random, &depth);
        REQUIRE(!dli_walks);
        clear();
    }
}
