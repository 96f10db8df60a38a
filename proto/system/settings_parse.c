/* settings_parse.c - parses texts into fields; an error says what was expected. */
#include "settings_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct suffix {
    const char *name;
    int64_t factor;
};

/* The first row of each size is the form that we print. KB, MB ... are decimal; K, M ... are read as binary, as in
   systemd and Docker. */
static const struct suffix byte_suffixes[] = {
    {"TiB", INT64_C(1) << 40},
    {"GiB", INT64_C(1) << 30},
    {"MiB", INT64_C(1) << 20},
    {"KiB", 1024},
    {"T", INT64_C(1) << 40},
    {"G", INT64_C(1) << 30},
    {"M", INT64_C(1) << 20},
    {"K", 1024},
    {"TB", 1000000000000},
    {"GB", 1000000000},
    {"MB", 1000000},
    {"KB", 1000},
    {"B", 1},
    {NULL, 0},
};

static const struct suffix time_suffixes[] = {
    {"h", 3600000000}, {"min", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1}, {NULL, 0},
};

void setting_range(const struct setting *setting, int64_t *ret_min, int64_t *ret_max)
{
    bool open = setting->min == 0 && setting->max == 0;
    *ret_min = setting->min;
    *ret_max = open ? INT64_MAX : setting->max;
}

static const struct suffix *suffixes_of(const struct setting *setting)
{
    return setting->type == SETTING_BYTES ? byte_suffixes : setting->type == SETTING_DURATION ? time_suffixes : NULL;
}

const char *setting_value_text(const struct setting *setting, int64_t value, char *text, size_t bytes)
{
    const struct suffix *suffix = suffixes_of(setting);
    for (; suffix && suffix->name && value != 0; suffix++) {
        if (value % suffix->factor == 0) {
            snprintf(text, bytes, "%" PRId64 "%s", value / suffix->factor, suffix->name);
            return text;
        }
        if (strcmp(suffix->name, "KiB") == 0)
            break;
    }
    snprintf(text, bytes, "%" PRId64, value);
    return text;
}

/* " from 1 to 64KiB", " of at least 0": the end of the sentence about a number. */
static const char *range_text(const struct setting *setting, char *text, size_t bytes)
{
    char low[40], high[40];
    int64_t min, max;
    setting_range(setting, &min, &max);
    setting_value_text(setting, min, low, sizeof low);
    setting_value_text(setting, max, high, sizeof high);
    if (max == INT64_MAX)
        snprintf(text, bytes, "of at least %s", low);
    else
        snprintf(text, bytes, "from %s to %s", low, high);
    return text;
}

static enum pen_status refuse(const struct setting *setting, const char *value, const char *where, const char *expected,
                              struct pen_error *reterr)
{
    char range[96];
    const char *unit = setting->type == SETTING_INT && setting->unit ? setting->unit : "";
    bool ranged = setting->type == SETTING_INT || setting->type == SETTING_BYTES || setting->type == SETTING_DURATION;
    return pen_error_set(reterr, PEN_ERR_INVALID, "%s: '%.200s' does not fit; give %s%s%s%s%s", where, value, expected,
                         ranged ? " " : "", ranged ? range_text(setting, range, sizeof range) : "", *unit ? " " : "",
                         unit);
}

static const struct suffix *suffix_find(const struct suffix *suffixes, const char *name)
{
    for (; suffixes->name; suffixes++)
        if (strcasecmp(suffixes->name, name) == 0)
            return suffixes;
    return NULL;
}

/* A decimal whole number with an optional sign, and nothing before it. *end is where it stops; -1 when there is none or it overflows. */
static int whole_parse(const char *text, const char **end, int64_t *ret_value)
{
    const char *first = *text == '-' || *text == '+' ? text + 1 : text;
    char *stop;
    if (*first < '0' || *first > '9')
        return -1;
    errno = 0;
    long long value = strtoll(text, &stop, 10);
    if (errno != 0)
        return -1;
    *end = stop;
    *ret_value = value;
    return 0;
}

/* `at` stands on the '.' of "1.5s": digits, then the suffix. The fraction is in units of 1e-9 so that no rounding of doubles shows. */
static int fraction_parse(const char *at, const char **end, int64_t *ret_billionths)
{
    int64_t value = 0, weight = 100000000;
    if (*at < '0' || *at > '9')
        return -1;
    for (; *at >= '0' && *at <= '9'; at++, weight /= 10)
        value += (*at - '0') * weight;
    *end = at;
    *ret_billionths = value;
    return 0;
}

/* value * factor + billionths of factor, away from 0 when negative; -1 on overflow. */
static int scale(int64_t value, int64_t billionths, bool negative, int64_t factor, int64_t *ret_scaled)
{
    int64_t whole, part = (int64_t)((double)billionths * 1e-9 * (double)factor + 0.5);
    if (__builtin_mul_overflow(value, factor, &whole))
        return -1;
    return __builtin_add_overflow(whole, negative ? -part : part, ret_scaled) ? -1 : 0;
}

/* The outcome of scaled_parse. BARE: a time other than 0 without a unit. */
enum scaled { SCALED_MISFIT = -1, SCALED_DONE = 0, SCALED_BARE = 1 };

static enum scaled scaled_parse(const struct setting *setting, const char *text, int64_t *ret_value)
{
    const struct suffix *suffixes = suffixes_of(setting);
    const char *end = NULL;
    int64_t value, billionths = 0;
    if (whole_parse(text, &end, &value) != 0)
        return SCALED_MISFIT;
    if (*end == '.' && fraction_parse(end + 1, &end, &billionths) != 0)
        return SCALED_MISFIT;
    while (*end == ' ')
        end++;
    bool bare = *end == '\0';
    if (bare && setting->type == SETTING_DURATION && (value != 0 || billionths != 0))
        return SCALED_BARE;
    const struct suffix *suffix = bare ? NULL : suffix_find(suffixes, end);
    if (!bare && !suffix)
        return SCALED_MISFIT;
    return scale(value, billionths, *text == '-', suffix ? suffix->factor : 1, ret_value) == 0 ? SCALED_DONE
                                                                                               : SCALED_MISFIT;
}

/* "3 what? write 3s or 3ms": a bare number does not say which unit was meant. */
static enum pen_status refuse_bare(const char *value, const char *where, struct pen_error *reterr)
{
    int shown = (int)strcspn(value, " ");
    shown = shown > 60 ? 60 : shown;
    return pen_error_set(reterr, PEN_ERR_INVALID, "%s: %.*s what? write %.*ss or %.*sms", where, shown, value, shown,
                         value, shown, value);
}

static enum pen_status int_apply(const struct setting *setting, const char *value, const char *where, int64_t *field,
                                 struct pen_error *reterr)
{
    const char *expected = setting->type == SETTING_INT     ? "a whole number"
                           : setting->type == SETTING_BYTES ? "a size such as 64KiB, 1MiB or 10MB"
                                                            : "a time such as 250us, 5ms or 2s";
    const char *end = "";
    int64_t parsed = 0, min, max;
    int failed =
        setting->type == SETTING_INT ? whole_parse(value, &end, &parsed) : (int)scaled_parse(setting, value, &parsed);
    if (setting->type == SETTING_DURATION && failed == SCALED_BARE)
        return refuse_bare(value, where, reterr);
    setting_range(setting, &min, &max);
    if (failed || (setting->type == SETTING_INT && *end != '\0') || parsed < min || parsed > max)
        return refuse(setting, value, where, expected, reterr);
    *field = parsed;
    return PEN_OK;
}

static enum pen_status flag_apply(const struct setting *setting, const char *value, const char *where, bool *field,
                                  struct pen_error *reterr)
{
    static const char *const words[2][5] = {{"false", "no", "off", "0", NULL}, {"true", "yes", "on", "1", NULL}};
    for (int truth = 0; truth < 2; truth++) {
        for (const char *const *word = words[truth]; *word; word++) {
            if (strcasecmp(value, *word) == 0) {
                *field = truth == 1;
                return PEN_OK;
            }
        }
    }
    return refuse(setting, value, where, "true or false", reterr);
}

static enum pen_status number_apply(const struct setting *setting, const char *value, const char *where, double *field,
                                    struct pen_error *reterr)
{
    char expected[96], *end;
    bool ranged = setting->min != 0 || setting->max != 0;
    errno = 0;
    double parsed = strtod(value, &end);
    bool misfit = end == value || *end != '\0' || !isfinite(parsed);
    if (!misfit && !(ranged && (parsed < (double)setting->min || parsed > (double)setting->max))) {
        *field = parsed;
        return PEN_OK;
    }
    if (ranged)
        snprintf(expected, sizeof expected, "a number from %" PRId64 " to %" PRId64, setting->min, setting->max);
    return refuse(setting, value, where, ranged ? expected : "a number", reterr);
}

static bool choice_matches(const char *choices, const char *value)
{
    size_t bytes = strlen(value);
    for (const char *at = choices; at; at = strchr(at, '|')) {
        at += *at == '|';
        if (strncmp(at, value, bytes) == 0 && (at[bytes] == '|' || at[bytes] == '\0'))
            return bytes > 0 && !strchr(value, '|');
    }
    return false;
}

static enum pen_status list_add(const char *item, size_t bytes, const char *where, struct setting_list *list,
                                struct settings_store *store, struct pen_error *reterr)
{
    while (bytes > 0 && (*item == ' ' || *item == '\t')) {
        item++;
        bytes--;
    }
    while (bytes > 0 && (item[bytes - 1] == ' ' || item[bytes - 1] == '\t'))
        bytes--;
    if (bytes == 0)
        return PEN_OK;
    if (list->count == SETTING_LIST_MAX)
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s: more than %d items; leave some out", where,
                             SETTING_LIST_MAX);
    const char *kept = settings_store_text(store, item, bytes);
    if (!kept)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: out of memory", where);
    list->items[list->count++] = kept;
    return PEN_OK;
}

static enum pen_status list_apply(const char *value, bool split, const char *where, struct setting_list *list,
                                  struct settings_store *store, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    while (status == PEN_OK && *value) {
        size_t bytes = split ? strcspn(value, ",") : strlen(value);
        status = list_add(value, bytes, where, list, store, reterr);
        value += bytes;
        value += *value == ',';
    }
    return status;
}

void setting_clear(const struct setting *setting, void *options)
{
    if (setting->offset == SETTING_KEPT)
        return;
    void *field = (char *)options + setting->offset;
    switch (setting->type) {
    case SETTING_FLAG:
        *(bool *)field = false;
        break;
    case SETTING_INT:
    case SETTING_BYTES:
    case SETTING_DURATION:
        *(int64_t *)field = 0;
        break;
    case SETTING_NUMBER:
        *(double *)field = 0;
        break;
    case SETTING_TEXT:
    case SETTING_CHOICE:
        *(const char **)field = "";
        break;
    case SETTING_LIST:
        *(struct setting_list *)field = (struct setting_list){.count = 0};
        break;
    }
}

static enum pen_status text_apply(const struct setting *setting, const char *text, bool split, const char *where,
                                  void *field, struct settings_store *store, struct pen_error *reterr)
{
    switch (setting->type) {
    case SETTING_FLAG:
        return flag_apply(setting, text, where, field, reterr);
    case SETTING_INT:
    case SETTING_BYTES:
    case SETTING_DURATION:
        return int_apply(setting, text, where, field, reterr);
    case SETTING_NUMBER:
        return number_apply(setting, text, where, field, reterr);
    case SETTING_CHOICE:
        if (!choice_matches(setting->choices, text))
            return pen_error_set(reterr, PEN_ERR_INVALID, "%s: '%.200s' does not fit; give one of %s", where, text,
                                 setting->choices);
        break;
    case SETTING_LIST:
        return list_apply(text, split, where, field, store, reterr);
    case SETTING_TEXT:
        break;
    }
    *(const char **)field = text;
    return PEN_OK;
}

enum pen_status setting_apply(const struct setting *setting, const char *value, size_t bytes, bool split,
                              const char *where, void *options, struct settings_store *store, struct pen_error *reterr)
{
    if (memchr(value, '\0', bytes))
        return pen_error_set(reterr, PEN_ERR_INVALID, "%s: the value contains a zero byte", where);
    const char *text = settings_store_text(store, value, bytes);
    if (!text)
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: out of memory", where);
    union {
        bool truth;
        int64_t whole;
        double number;
        const char *text;
        struct setting_list list;
    } nowhere = {.list.count = 0}; /* for a value that is only checked */
    bool kept = setting->offset == SETTING_KEPT;
    enum pen_status status = text_apply(setting, text, split, where,
                                        kept ? (void *)&nowhere : (char *)options + setting->offset, store, reterr);
    if (status == PEN_OK && !settings_store_given(store, setting, text, where))
        status = pen_error_set(reterr, PEN_ERR_NO_MEMORY, "%s: out of memory", where);
    return status;
}
