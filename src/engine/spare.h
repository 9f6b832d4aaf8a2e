/*
 * spare.h: the tokens that a process has reserved for turns of the machines of one name, see handover.c. The caller guards
 * them.
 */
#ifndef DLI_ENGINE_SPARE_H
#define DLI_ENGINE_SPARE_H

#include <stdint.h>

#include "mutex.h"

/* The newest block. It is above all tokens that were used. */
struct dli_spare {
    int64_t next, end;
};

/* A grant has just been answered: keep what it has reserved besides its own token. */
void dli_spare_keep(struct dli_spare *spare, const struct dli_tokens *tokens);

/* Whether a token is left, above highest: the highest of the process. And the next token, if one is left. */
int dli_spare_left(const struct dli_spare *spare, int64_t highest);
int64_t dli_spare_take(struct dli_spare *spare);

#endif
