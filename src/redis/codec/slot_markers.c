/*
 * slot_markers.c: the markers of quarantine.lua: "dlock_memory"; on a cluster "dlock_memory:{NUMBER}", where NUMBER hashes to the
 * slot. Behind it ":" and the namespace, if there is one.
 * once guards the table while it is filled; after that it is constant.
 */
#include <pthread.h>

#include "base/id.h"
#include "base/text.h"
#include "cluster_map.h"
#include "commands.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static uint32_t numbers[DLI_SLOTS]; /* the number plus one; 0: not found yet */

/* Find the smallest number of each slot. All are below 200,000. */
static void make(void)
{
    char text[24];

    for (uint32_t number = 0, found = 0; found < DLI_SLOTS; number++) {
        uint32_t *at = &numbers[dli_slot_of(text, dli_decimal(text, number))];

        if (*at)
            continue;
        *at = number + 1;
        found++;
    }
}

const char *dli_slot_marker(char out[DLI_MARKER_MAX], int slot, const char *space, size_t space_size)
{
    const char *colon = space_size > 0 ? ":" : "";

    if (slot >= 0) {
        pthread_once(&once, make);
        dli_print(out, DLI_MARKER_MAX, "dlock_memory:{%u}%s%.*s", numbers[slot] - 1, colon, (int)space_size, space);
    } else {
        dli_print(out, DLI_MARKER_MAX, "dlock_memory%s%.*s", colon, (int)space_size, space);
    }
    return out;
}
