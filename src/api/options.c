/*
 * options.c: option sets and the table behind them.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/options.h"

dlock_options *dlock_options_new(void)
{
    dlock_options *options = malloc(sizeof *options);

    if (options)
        dli_options_init(options);
    return options;
}

void dlock_options_free(dlock_options *options)
{
    if (!options)
        return;
    dli_options_fini(options);
    free(options);
}

dlock_status dlock_options_set(dlock_options *options, const char *name, const char *value, dlock_error *reterr)
{
    char shown[80];
    int option;

    if (!options || !name || !value)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "an option needs a set, a name and a value");
    option = dli_option_find(name, strlen(name));
    if (option < 0)
        return dli_fail(reterr, DLOCK_UNKNOWN_OPTION, "there is no option '%s'",
                        dli_escape(shown, sizeof shown, name, strlen(name)));
    return dli_options_put(options, option, value, strlen(value), reterr);
}

static void print(const dlock_options *options, int option, char *text, size_t size)
{
    switch (dli_option_table[option].type) {
    case DLI_TYPE_INTEGER:
        snprintf(text, size, "%lld", (long long)options->number[option]);
        break;
    case DLI_TYPE_BOOL:
        snprintf(text, size, "%s", options->number[option] ? "true" : "false");
        break;
    case DLI_TYPE_SECRET:
        snprintf(text, size, "%s", *dli_options_text(options, option) ? "***" : "");
        break;
    default:
        snprintf(text, size, "%s", dli_options_text(options, option));
    }
}

dlock_status dlock_options_get(const dlock_options *options, const char *name, char *buffer, size_t size,
                               size_t *ret_size, dlock_error *reterr)
{
    char text[DLI_TEXT_MAX + 1];
    int option;

    if (!options || !name || !buffer)
        return dli_fail(reterr, DLOCK_INVALID_ARGUMENT, "reading an option needs a set, a name and a buffer");
    option = dli_option_find(name, strlen(name));
    if (option < 0)
        return dli_fail(reterr, DLOCK_UNKNOWN_OPTION, "there is no such option");
    print(options, option, text, sizeof text);
    if (strlen(text) + 1 > size)
        return dli_fail(reterr, DLOCK_BUFFER_TOO_SMALL, "option %s needs %zu bytes", dli_option_table[option].name,
                        strlen(text) + 1);
    memcpy(buffer, text, strlen(text) + 1);
    if (ret_size)
        *ret_size = strlen(text);
    return DLOCK_OK;
}

size_t dlock_option_count(void)
{
    return DLI_OPT_COUNT;
}

const char *dlock_option_name(size_t index)
{
    return index < DLI_OPT_COUNT ? dli_option_table[index].name : NULL;
}

const char *dlock_option_type(size_t index)
{
    return index < DLI_OPT_COUNT ? dli_option_table[index].type_text : NULL;
}

const char *dlock_option_default(size_t index)
{
    return index < DLI_OPT_COUNT ? dli_option_table[index].preset : NULL;
}

const char *dlock_option_help(size_t index)
{
    return index < DLI_OPT_COUNT ? dli_option_table[index].help : NULL;
}
