/*
 * scenario.c: the C runner of the scenario table, which uses the public ABI only. It runs the lines of its standard
 * input and answers each with one line; python-tests/scenarios/README.md lists them. Started with "calls" it uses
 * blocking calls; with "events" it submits its calls and takes the answers from the event queue.
 *
 * One thread reads lines. In the form "calls" each "begin" has a thread of its own, which uses only its struct waiting.
 */
#include "scenario.h"

enum { THINGS = 64 };

/* A thing that a scenario has named: a client, a lock, ... */
struct thing {
    char name[64];
    void *what;
    void (*drop)(void *thing);
};

static struct thing things[THINGS];
static int thing_count;

dlock_error *box;
int by_events;

int64_t number(struct word word)
{
    return strtoll(word.text, NULL, 10);
}

void *find(struct word name)
{
    for (int i = thing_count - 1; i >= 0; i--)
        if (strcmp(things[i].name, name.text) == 0)
            return things[i].what;
    fprintf(stderr, "there is no %s\n", name.text);
    exit(2);
}

void *name_it(struct word name, size_t size, void (*drop)(void *thing))
{
    struct thing *thing = &things[thing_count];

    if (thing_count == THINGS)
        abort();
    thing->what = calloc(1, size);
    if (!thing->what)
        abort();
    thing->drop = drop;
    snprintf(thing->name, sizeof(thing->name), "%s", name.text);
    thing_count++;
    return thing->what;
}

dlock_status options_of(const struct word *words, dlock_options **ret)
{
    *ret = dlock_options_new();
    for (; words->size > 0; words++) {
        char *value = strchr(words->text, '=');
        dlock_status status;

        *value++ = '\0';
        status = dlock_options_set(*ret, words->text, value, box);
        if (status != DLOCK_OK) {
            dlock_options_free(*ret);
            return status;
        }
    }
    return DLOCK_OK;
}

dlock_status valued(dlock_status status, const char *name, int64_t value)
{
    printf("%s", dlock_status_name(status));
    if (status == DLOCK_OK)
        printf(" %s=%" PRId64, name, value);
    return SAID;
}

dlock_status with_token(dlock_status status, int64_t token)
{
    return token > 0 ? valued(status, "token", token) : status;
}

/* Free everything, the newest first, waits before all others. */
static dlock_status do_reset(struct word *w)
{
    dlock_status worst = DLOCK_OK;

    (void)w;
    for (int i = 0; i < thing_count; i++)
        if (things[i].drop == NULL) {
            dlock_client *client = ((struct client *)things[i].what)->handle;
            dlock_status status = client ? dlock_client_close(client, 5000, NULL) : DLOCK_OK;

            worst = status != DLOCK_OK ? status : worst;
        }
    while (thing_count > 0) {
        struct thing *thing = &things[--thing_count];

        if (thing->drop)
            thing->drop(thing->what);
        else
            dlock_client_free(((struct client *)thing->what)->handle);
        free(thing->what);
    }
    return worst;
}

static const struct verb own_verbs[] = {{"reset", do_reset}, {NULL, NULL}};

static verb_function *verb_of(const char *name)
{
    const struct verb *const tables[] = {own_verbs, client_verbs, lock_verbs, counter_verbs, txn_verbs};

    for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
        for (const struct verb *verb = tables[i]; verb->name; verb++)
            if (strcmp(verb->name, name) == 0)
                return verb->call;
    return NULL;
}

int main(int count, char **arguments)
{
    static char line[1 << 16];
    struct word words[WORDS + 1];

    by_events = count > 1 && strcmp(arguments[1], "events") == 0;
    box = dlock_error_new();
    while (fgets(line, sizeof(line), stdin)) {
        verb_function *call;
        dlock_status status;

        split(line, words);
        call = verb_of(words[0].text);
        status = call ? call(words + 1) : SAID;
        if (!call)
            printf("ABSENT");
        else if (status != SAID)
            printf("%s", dlock_status_name(status));
        printf("\n");
        fflush(stdout);
    }
    do_reset(NULL);
    dlock_error_free(box);
    return 0;
}
