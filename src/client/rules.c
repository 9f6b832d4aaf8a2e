/*
 * rules.c: the rules of entries, shared by those that have the same ones. client.mutex guards the list; the rules in it
 * are constant. Most clients have one set of rules for each kind of lock. A client with many sets stops sharing: only
 * the newest are compared.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

enum { COMPARED = 8 };

static struct dli_shared_rules *find(struct dli_client *client, const struct dli_mutex_rules *rules)
{
    int compared = 0;

    for (struct dli_link *link = client->rules.next; link != &client->rules && compared < COMPARED; link = link->next) {
        struct dli_shared_rules *shared = DLI_OBJECT(link, struct dli_shared_rules, link);

        if (memcmp(&shared->rules, rules, sizeof *rules) == 0)
            return shared;
        compared++;
    }
    return NULL;
}

const struct dli_mutex_rules *dli_rules_get(struct dli_client *client, const struct dli_mutex_rules *rules)
{
    struct dli_shared_rules *shared = find(client, rules);

    if (!shared) {
        if (!(shared = malloc(sizeof *shared)))
            return NULL;
        shared->rules = *rules;
        shared->entries = 0;
        dli_list_append(client->rules.next, &shared->link); /* in front */
    }
    shared->entries++;
    return &shared->rules;
}

void dli_rules_put(const struct dli_mutex_rules *rules)
{
    struct dli_shared_rules *shared = DLI_OBJECT(rules, struct dli_shared_rules, rules);

    if (--shared->entries > 0)
        return;
    dli_list_remove(&shared->link);
    free(shared);
}
