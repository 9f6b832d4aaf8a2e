/*
 * options.c: sets of options: parsing, defaults, layers, and the rules between options.
 *
 * No message repeats a value: it may be a credential that was given to the wrong option.
 */
#include "options.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "url.h"

_Static_assert(DLI_OPT_COUNT <= 64, "one bit of given per option");

static int is_text(int option)
{
    enum dli_option_type type = dli_option_table[option].type;
    return type == DLI_TYPE_TEXT || type == DLI_TYPE_SECRET;
}

/* Parse decimal digits with an optional minus. 0; -1 for anything else, or when the number does not fit. */
static int parse_integer(const char *value, size_t size, int64_t *out)
{
    int minus = size > 0 && value[0] == '-';
    int64_t number = 0;
    if (size == (size_t)minus)
        return -1;
    for (size_t i = (size_t)minus; i < size; i++) {
        if (value[i] < '0' || value[i] > '9')
            return -1;
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_sub_overflow(number, value[i] - '0', &number))
            return -1;
    }
    if (!minus && __builtin_sub_overflow(0, number, &number))
        return -1;
    *out = number;
    return 0;
}

static int parse_bool(const char *value, size_t size, int64_t *out)
{
    static const char *const words[] = {"false", "true", "0", "1", "no", "yes", "off", "on"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strlen(words[i]) == size && memcmp(words[i], value, size) == 0) {
            *out = (int64_t)(i & 1);
            return 0;
        }
    }
    return -1;
}

static int parse_number(const struct dli_option_row *row, const char *value, size_t size, int64_t *out)
{
    if (row->type == DLI_TYPE_BOOL)
        return parse_bool(value, size, out);
    int64_t number;
    if (parse_integer(value, size, &number) || number < row->low || number > row->high)
        return -1;
    *out = number;
    return 0;
}

static void drop_text(struct dlock_options *set, int option)
{
    char *text = set->text[option];
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
    set->text[option] = NULL;
}

static dlock_status store_text(struct dlock_options *set, int option, const char *value, size_t size, dlock_error *box)
{
    char *copy = malloc(size + 1);
    if (!copy)
        return dli_fail(box, DLOCK_OUT_OF_MEMORY, "No memory for the option %s.", dli_option_table[option].name);
    memcpy(copy, value, size);
    copy[size] = '\0';
    drop_text(set, option);
    set->text[option] = copy;
    set->given |= UINT64_C(1) << option;
    return DLOCK_OK;
}

static int printable_word(const char *value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (value[i] < '!' || value[i] > '~')
            return 0;
    }
    return 1;
}

static dlock_status put_text(struct dlock_options *set, int option, const char *value, size_t size, dlock_error *box)
{
    const struct dli_option_row *row = &dli_option_table[option];
    if (size > (size_t)row->high || memchr(value, '\0', size))
        return dli_fail(box, DLOCK_INVALID_OPTION, "The option %s takes at most %d bytes of text without NUL.",
                        row->name, (int)row->high);
    if ((option == DLI_OPT_CLIENT_NAME || option == DLI_OPT_QUORUM_NAME) && !printable_word(value, size))
        return dli_fail(box, DLOCK_INVALID_OPTION,
                        "The option %s takes at most %d printable ASCII characters without spaces.", row->name,
                        (int)row->high);
    return store_text(set, option, value, size, box);
}

void dli_options_init(struct dlock_options *set)
{
    memset(set, 0, sizeof *set);
    for (int i = 0; i < DLI_OPT_COUNT; i++) {
        const struct dli_option_row *row = &dli_option_table[i];
        if (!is_text(i))
            parse_number(row, row->preset, strlen(row->preset), &set->number[i]);
    }
}

void dli_options_fini(struct dlock_options *set)
{
    for (int i = 0; i < DLI_OPT_COUNT; i++)
        drop_text(set, i);
    set->given = 0;
}

int dli_option_find(const char *name, size_t size)
{
    for (int i = 0; i < DLI_OPT_COUNT; i++) {
        const char *known = dli_option_table[i].name;
        if (strlen(known) == size && memcmp(known, name, size) == 0)
            return i;
    }
    return -1;
}

dlock_status dli_options_put(struct dlock_options *set, int option, const char *value, size_t size, dlock_error *box)
{
    if (option < 0 || option >= DLI_OPT_COUNT)
        return dli_fail(box, DLOCK_UNKNOWN_OPTION, "There is no option of this name.");
    if (is_text(option))
        return put_text(set, option, value, size, box);

    const struct dli_option_row *row = &dli_option_table[option];
    if (parse_number(row, value, size, &set->number[option]) == 0) {
        set->given |= UINT64_C(1) << option;
        return DLOCK_OK;
    }
    if (row->type == DLI_TYPE_BOOL)
        return dli_fail(box, DLOCK_INVALID_OPTION, "The option %s takes true, false, yes, no, on, off, 1 or 0.",
                        row->name);
    return dli_fail(box, DLOCK_INVALID_OPTION, "The option %s takes an integer from %lld to %lld.", row->name,
                    (long long)row->low, (long long)row->high);
}

dlock_status dli_options_overlay(struct dlock_options *set, const struct dlock_options *over, dlock_error *box)
{
    for (int i = 0; over && i < DLI_OPT_COUNT; i++) {
        if (!(over->given >> i & 1))
            continue;
        if (is_text(i)) {
            const char *text = dli_options_text(over, i);
            dlock_status status = store_text(set, i, text, strlen(text), box);
            if (status)
                return status;
        }
        set->number[i] = over->number[i];
        set->given |= UINT64_C(1) << i;
    }
    return DLOCK_OK;
}

static int differs(const struct dlock_options *a, const struct dlock_options *b, int option)
{
    return is_text(option) ? strcmp(dli_options_text(a, option), dli_options_text(b, option)) != 0
                           : a->number[option] != b->number[option];
}

dlock_status dli_options_overlay_lock(struct dlock_options *set, const struct dlock_options *over, dlock_error *box)
{
    for (int i = DLI_OPT_OF_CLIENTS; over && i < DLI_OPT_COUNT; i++)
        if (over->given >> i & 1 && differs(set, over, i))
            return dli_fail(box, DLOCK_INVALID_OPTION,
                            "The option %s belongs to the client: a lock cannot have another one.",
                            dli_option_table[i].name);
    return dli_options_overlay(set, over, box);
}

static int word_of(const struct dlock_options *set, int option, const char *const words[3])
{
    for (int i = 0; i < 3; i++)
        if (strcmp(dli_options_text(set, option), words[i]) == 0)
            return i;
    return -1;
}

int dli_options_checks(const struct dlock_options *set)
{
    static const char *const words[] = {
        [DLI_CHECKS_OFF] = "off", [DLI_CHECKS_WARN] = "warn", [DLI_CHECKS_REFUSE] = "refuse"};

    return word_of(set, DLI_OPT_CHECKS, words);
}

int dli_options_pubsub(const struct dlock_options *set)
{
    static const char *const words[] = {
        [DLI_PUBSUB_AUTO] = "auto", [DLI_PUBSUB_PLAIN] = "plain", [DLI_PUBSUB_BOTH] = "both"};

    return word_of(set, DLI_OPT_CLUSTER_PUBSUB, words);
}

int dli_options_replicas(const struct dlock_options *set)
{
    enum { MOST = 64 };
    const char *text = dli_options_text(set, DLI_OPT_REPLICAS);
    int number = 0;

    if (strcmp(text, "none") == 0)
        return 0;
    if (strcmp(text, "all") == 0)
        return -1;
    for (size_t i = 0; text[i]; i++) {
        if (text[i] < '0' || text[i] > '9')
            return -2;
        number = number * 10 + text[i] - '0';
    }
    return *text && number <= MOST ? number : -2;
}

static dlock_status check_tls(const struct dlock_options *set, dlock_error *box)
{
    const char *name = dli_options_text(set, DLI_OPT_TLS_SERVER_NAME);

    if (!*dli_options_text(set, DLI_OPT_TLS_CERT_FILE) &&
        (*dli_options_text(set, DLI_OPT_TLS_KEY_FILE) || *dli_options_text(set, DLI_OPT_TLS_KEY_PASSWORD)))
        return dli_fail(box, DLOCK_INVALID_OPTION,
                        "The options tls_key_file and tls_key_password need a certificate: set tls_cert_file.");
    if (*name && !dli_is_certified_name(name))
        return dli_fail(box, DLOCK_INVALID_OPTION,
                        "The option tls_server_name takes one host name, without a dot in front and without '*', or an "
                        "IP address without brackets and zone.");
    return DLOCK_OK;
}

/* The rules of quarantine_ms, and of the options that take one of several texts. */
static dlock_status check_memory(const struct dlock_options *set, dlock_error *box)
{
    int64_t lasts = set->number[DLI_OPT_LEASE_MS] + set->number[DLI_OPT_LOCK_DELAY_MS];

    if (set->number[DLI_OPT_QUARANTINE_MS] > 0 && set->number[DLI_OPT_QUARANTINE_MS] < lasts)
        return dli_fail(box, DLOCK_INVALID_OPTION,
                        "The option quarantine_ms must be at least lease_ms and lock_delay_ms together (%" PRId64 ").",
                        lasts);
    if (dli_options_checks(set) < 0)
        return dli_fail(box, DLOCK_INVALID_OPTION, "The option checks takes off, warn or refuse.");
    if (dli_options_pubsub(set) < 0)
        return dli_fail(box, DLOCK_INVALID_OPTION, "The option cluster_pubsub takes auto, plain or both.");
    if (dli_options_replicas(set) == -2)
        return dli_fail(box, DLOCK_INVALID_OPTION, "The option replicas takes none, a number up to 64, or all.");
    return DLOCK_OK;
}

dlock_status dli_options_check(const struct dlock_options *set, dlock_error *box)
{
    int64_t lease = set->number[DLI_OPT_LEASE_MS];
    if (set->number[DLI_OPT_RENEW] && lease < 500)
        return dli_fail(box, DLOCK_INVALID_OPTION,
                        "With renew the option lease_ms must be at least 500, and is %lld: the renewal needs time.",
                        (long long)lease);
    if (set->number[DLI_OPT_MAX_HOLD_MS] == 0)
        return dli_fail(box, DLOCK_INVALID_OPTION, "The option max_hold_ms takes -1 for no limit, or at least 1.");
    if (set->number[DLI_OPT_TOKEN_TTL_MS] / 10 < lease)
        return dli_fail(
            box, DLOCK_INVALID_OPTION,
            "The option token_ttl_ms must be at least 10 times lease_ms (%lld): tokens outlive every lease.",
            (long long)lease);
    if (check_tls(set, box))
        return DLOCK_INVALID_OPTION;
    return check_memory(set, box);
}

dlock_status dli_options_fit(const struct dlock_options *set, uint64_t refused, const char *where, dlock_error *box)
{
    for (int i = 0; i < DLI_OPT_COUNT; i++)
        if (set->given & refused & UINT64_C(1) << i)
            return dli_fail(box, DLOCK_INVALID_OPTION, "%s: the option %s means nothing to this server.", where,
                            dli_option_table[i].name);
    return DLOCK_OK;
}

const char *dli_options_text(const struct dlock_options *set, int option)
{
    return set->text[option] ? set->text[option] : dli_option_table[option].preset;
}
