/*
 * escape.c: the text of an error reply, escaped and without the password, for our own messages.
 */
#include "errors.h"

#include "base/secret.h"

const char *dli_escape_error(char *out, size_t out_size, const struct dli_reply *error)
{
    return dli_mask(out, out_size, &(struct dli_said){error->text, error->size, 0}, &error->secret, 1);
}
