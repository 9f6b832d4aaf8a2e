/*
 * sim_store.c: keys and fields. See sim_store.h.
 */
#include "sim_store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_word sim_word(const char *text)
{
    return (struct sim_word){text, strlen(text)};
}

int sim_same(const struct sim_text *text, struct sim_word word)
{
    return text->size == word.size && memcmp(text->at, word.at, word.size) == 0;
}

void sim_set_text(struct sim_text *text, struct sim_word word)
{
    if (word.size > SIM_TEXT_MAX) {
        fprintf(stderr, "sim_store: a text of %zu bytes is too long\n", word.size);
        exit(2);
    }
    text->size = (uint16_t)word.size;
    memcpy(text->at, word.at, word.size);
}

void sim_store_reset(struct sim_store *store)
{
    store->count = 0;
}

void sim_store_free(struct sim_store *store)
{
    for (int i = 0; i < SIM_KEYS_MAX; i++)
        free(store->keys[i].fields);
    free(store->items);
}

void sim_drop_key(struct sim_store *store, struct sim_key *key)
{
    struct sim_key *last = &store->keys[--store->count];
    struct sim_key gone = *key;

    *key = *last; /* the fields' memory stays with the free slot */
    *last = gone;
}

struct sim_key *sim_find_key(struct sim_store *store, struct sim_word name)
{
    for (int i = 0; i < store->count; i++) {
        struct sim_key *key = &store->keys[i];

        if (!sim_same(&key->name, name))
            continue;
        if (key->expires < 0 || store->now / 1000 <= key->expires)
            return key;
        sim_drop_key(store, key);
        return NULL;
    }
    return NULL;
}

struct sim_key *sim_make_key(struct sim_store *store, struct sim_word name, enum sim_type type)
{
    struct sim_key *key = &store->keys[store->count];

    if (store->count == SIM_KEYS_MAX) {
        fprintf(stderr, "sim_store: more than %d keys\n", SIM_KEYS_MAX);
        exit(2);
    }
    store->count++;
    sim_set_text(&key->name, name);
    key->type = type;
    key->expires = -1;
    key->count = 0;
    return key;
}

struct sim_field *sim_find_field(struct sim_key *key, struct sim_word name)
{
    for (int i = 0; i < key->count; i++)
        if (sim_same(&key->fields[i].name, name))
            return &key->fields[i];
    return NULL;
}

struct sim_field *sim_insert_field(struct sim_key *key, int at, struct sim_word name)
{
    struct sim_field *field;

    if (key->count == key->room) {
        key->room = key->room ? 2 * key->room : 8;
        key->fields = realloc(key->fields, (size_t)key->room * sizeof *key->fields);
        if (!key->fields)
            exit(2);
    }
    field = &key->fields[at];
    memmove(field + 1, field, (size_t)(key->count - at) * sizeof *field);
    key->count++;
    sim_set_text(&field->name, name);
    field->value.size = 0;
    return field;
}

void sim_drop_field(struct sim_store *store, struct sim_key *key, struct sim_field *field)
{
    int at = (int)(field - key->fields);

    memmove(field, field + 1, (size_t)(key->count - at - 1) * sizeof *field);
    if (--key->count == 0)
        sim_drop_key(store, key);
}
