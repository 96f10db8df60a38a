#include "env/rows.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "precisions.h"
#include "words.h"

const struct pen_flag_row rows[ROWS_COUNT] = {
#define PEN_FLAG(name_, option_, type_, field_, def_, least_, most_, choices_, use_, meaning_)                         \
    {.name = #name_,                                                                                                   \
     .option = option_,                                                                                                \
     .type = PEN_FLAG_##type_,                                                                                         \
     .def = def_,                                                                                                      \
     .least = least_,                                                                                                  \
     .most = most_,                                                                                                    \
     .choices = choices_,                                                                                              \
     .meaning = meaning_},
#include "penstock/flags.def"
#undef PEN_FLAG
};

const struct row_field row_fields[ROWS_COUNT] = {
#define PEN_FLAG(name_, option_, type_, field_, ...)                                                                   \
    {offsetof(struct pen_engine_options, field_), sizeof(((struct pen_engine_options *)0)->field_)},
#include "penstock/flags.def"
#undef PEN_FLAG
};

const struct pen_flag_row *pen_flag_rows(size_t *ret_count)
{
    *ret_count = ROWS_COUNT;
    return rows;
}

const struct pen_flag_row *pen_flag_find(const char *name)
{
    size_t row = row_find(name, strlen(name));
    return row < ROWS_COUNT ? &rows[row] : NULL;
}

static bool same_name(const char *known, const char *name, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (known[i] == '\0' || known[i] != (name[i] == '-' ? '_' : name[i])) {
            return false;
        }
    }
    return known[bytes] == '\0';
}

size_t row_find(const char *name, size_t bytes)
{
    size_t row = 0;
    while (row < ROWS_COUNT && !same_name(rows[row].name, name, bytes)) {
        row++;
    }
    return row;
}

/* ---- texts to values ---- */

#define SHOWN 80 /* bytes of a wrong value that a sentence repeats */

static enum pen_status misfit(size_t row, const char *text, const char *where, const char *expected,
                              struct pen_error *reterr)
{
    return pen_error_set(reterr, PEN_ERR_INVALID, "flag %s%s%s%s: '%.*s' does not fit; give %s", rows[row].name,
                         where[0] != '\0' ? " (" : "", where, where[0] != '\0' ? ")" : "", SHOWN, text, expected);
}

bool row_choice(const char *choices, const char *text, uint64_t *ret_number)
{
    size_t bytes = strlen(text);
    *ret_number = 0;
    for (const char *at = choices; bytes > 0; (*ret_number)++) {
        size_t length = strcspn(at, "|");
        if (length == bytes && memcmp(at, text, bytes) == 0) {
            return true;
        }
        if (at[length] == '\0') {
            return false;
        }
        at += length + 1;
    }
    return false;
}

/* The choice nearest to what was written, copied into `word`; "" when none is near. */
static const char *choice_near(const char *choices, const char *text, char *word, size_t bytes)
{
    static const size_t most = 64;
    char copy[512];
    struct nearest nearest;
    word[0] = '\0';
    if (strlen(choices) >= sizeof copy || strlen(text) > most) {
        return word;
    }
    memcpy(copy, choices, strlen(choices) + 1);
    nearest_begin(&nearest, text, strlen(text));
    char *rest = NULL;
    for (char *one = strtok_r(copy, "|", &rest); one != NULL; one = strtok_r(NULL, "|", &rest)) {
        nearest_offer_begun(&nearest, one);
    }
    if (nearest.found != NULL) {
        snprintf(word, bytes, "%s", nearest.found);
    }
    return word;
}

static enum pen_status choice_parse(size_t row, const char *text, const char *where, struct row_value *ret_value,
                                    struct pen_error *reterr)
{
    char expected[400], near[64];
    if (row_choice(rows[row].choices, text, &ret_value->number)) {
        ret_value->text = text;
        return PEN_OK;
    }
    choice_near(rows[row].choices, text, near, sizeof near);
    snprintf(expected, sizeof expected, "one of %s%s%s%s", rows[row].choices, near[0] != '\0' ? "; did you mean '" : "",
             near, near[0] != '\0' ? "'?" : "");
    return misfit(row, text, where, expected, reterr);
}

static enum pen_status bool_parse(size_t row, const char *text, const char *where, struct row_value *ret_value,
                                  struct pen_error *reterr)
{
    static const char *const words[2][5] = {{"off", "false", "no", "0", NULL}, {"on", "true", "yes", "1", NULL}};
    for (unsigned truth = 0; truth < 2; truth++) {
        for (size_t i = 0; words[truth][i] != NULL; i++) {
            if (strcasecmp(words[truth][i], text) == 0) {
                ret_value->number = truth;
                ret_value->text = words[truth][0];
                return PEN_OK;
            }
        }
    }
    return misfit(row, text, where, "on or off", reterr);
}

static uint64_t suffix_of(const char *text)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } suffixes[] = {{"", 1},
                    {"B", 1},
                    {"K", 1024},
                    {"M", UINT64_C(1) << 20},
                    {"G", UINT64_C(1) << 30},
                    {"T", UINT64_C(1) << 40},
                    {"KiB", 1024},
                    {"MiB", UINT64_C(1) << 20},
                    {"GiB", UINT64_C(1) << 30},
                    {"TiB", UINT64_C(1) << 40},
                    {"KB", 1000},
                    {"MB", 1000000},
                    {"GB", 1000000000},
                    {"TB", 1000000000000}};
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        if (strcasecmp(suffixes[i].name, text) == 0) {
            return suffixes[i].factor;
        }
    }
    return 0;
}

static enum pen_status number_parse(size_t row, const char *text, const char *where, struct row_value *ret_value,
                                    struct pen_error *reterr)
{
    const struct pen_flag_row *r = &rows[row];
    bool bytes = r->type == PEN_FLAG_BYTES;
    char *end = NULL, expected[120];
    errno = 0;
    unsigned long long number = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
    uint64_t factor = end == NULL ? 0 : bytes ? suffix_of(end) : *end == '\0', value = 0;
    if (factor != 0 && errno == 0 && !__builtin_mul_overflow((uint64_t)number, factor, &value) && value >= r->least &&
        value <= r->most) {
        ret_value->number = value;
        snprintf(ret_value->digits, sizeof ret_value->digits, "%" PRIu64, value);
        ret_value->text = ret_value->digits;
        return PEN_OK;
    }
    if (r->most >= INT64_MAX) {
        snprintf(expected, sizeof expected, "%s of at least %" PRIu64, bytes ? "a size such as 64KiB" : "a number",
                 r->least);
    } else {
        snprintf(expected, sizeof expected, "%s from %" PRIu64 " to %" PRIu64,
                 bytes ? "a size such as 64KiB" : "a number", r->least, r->most);
    }
    return misfit(row, text, where, expected, reterr);
}

/* At most ROW_LIST_MAX items. */
static enum pen_status list_parse(size_t row, const char *text, const char *where, struct row_value *ret_value,
                                  struct pen_error *reterr)
{
    char expected[64];
    size_t items = 1;
    for (const char *at = text; *at != '\0'; at++) {
        items += *at == ',';
    }
    if (items > ROW_LIST_MAX) {
        snprintf(expected, sizeof expected, "at most %u items", ROW_LIST_MAX);
        return misfit(row, text, where, expected, reterr);
    }
    ret_value->text = text;
    return PEN_OK;
}

enum pen_status row_parse(size_t row, const char *text, const char *where, struct row_value *ret_value,
                          struct pen_error *reterr)
{
    *ret_value = (struct row_value){.number = 0};
    if (strlen(text) > PEN_FLAG_VALUE_BYTES) {
        return misfit(row, text, where, "a shorter value", reterr);
    }
    switch (rows[row].type) {
    case PEN_FLAG_BOOL:
        return bool_parse(row, text, where, ret_value, reterr);
    case PEN_FLAG_INT:
    case PEN_FLAG_BYTES:
        return number_parse(row, text, where, ret_value, reterr);
    case PEN_FLAG_ENUM:
    case PEN_FLAG_WORD:
        return choice_parse(row, text, where, ret_value, reterr);
    case PEN_FLAG_LIST:
        return list_parse(row, text, where, ret_value, reterr);
    case PEN_FLAG_TEXT:
        break;
    }
    ret_value->text = text;
    return PEN_OK;
}

/* ---- fields ---- */

/* The word of a choice, by its number. It is a part of the list, so it is cut off at most once per row: kept here. */
static bool choice_word(size_t row, uint64_t number, struct row_value *ret_value)
{
    const char *at = rows[row].choices;
    for (; number > 0; number--) {
        at = strchr(at, '|');
        if (at == NULL) {
            return false;
        }
        at++;
    }
    size_t length = strcspn(at, "|");
    if (length >= sizeof ret_value->digits) {
        return false;
    }
    memcpy(ret_value->digits, at, length);
    ret_value->digits[length] = '\0';
    ret_value->text = ret_value->digits;
    return true;
}

static uint64_t number_read(const void *field, size_t bytes)
{
    uint64_t wide = 0;
    uint32_t narrow = 0;
    bool truth = false;
    if (bytes == sizeof wide) {
        memcpy(&wide, field, sizeof wide);
        return wide;
    }
    if (bytes == sizeof narrow) {
        memcpy(&narrow, field, sizeof narrow);
        return narrow;
    }
    memcpy(&truth, field, sizeof truth);
    return truth;
}

bool row_read(size_t row, const struct pen_engine_options *options, struct row_value *ret_value)
{
    const void *field = (const char *)options + row_fields[row].offset;
    const char *text = NULL;
    *ret_value = (struct row_value){.number = 0};
    switch (rows[row].type) {
    case PEN_FLAG_TEXT:
    case PEN_FLAG_WORD:
    case PEN_FLAG_LIST:
        memcpy(&text, field, sizeof text);
        ret_value->text = text != NULL ? text : rows[row].def;
        return true;
    case PEN_FLAG_BOOL:
        ret_value->number = number_read(field, row_fields[row].bytes);
        ret_value->text = ret_value->number != 0 ? "on" : "off";
        return true;
    case PEN_FLAG_ENUM:
        ret_value->number = number_read(field, row_fields[row].bytes);
        return choice_word(row, ret_value->number, ret_value);
    case PEN_FLAG_INT:
    case PEN_FLAG_BYTES:
        break;
    }
    ret_value->number = number_read(field, row_fields[row].bytes);
    snprintf(ret_value->digits, sizeof ret_value->digits, "%" PRIu64, ret_value->number);
    ret_value->text = ret_value->digits;
    return true;
}

void row_write(size_t row, const struct row_value *value, struct pen_engine_options *options)
{
    void *field = (char *)options + row_fields[row].offset;
    uint32_t narrow = (uint32_t)value->number;
    bool truth = value->number != 0;
    switch (rows[row].type) {
    case PEN_FLAG_TEXT:
    case PEN_FLAG_WORD:
        memcpy(field, &value->text, sizeof value->text);
        return;
    case PEN_FLAG_LIST:
        return;
    case PEN_FLAG_BOOL:
    case PEN_FLAG_INT:
    case PEN_FLAG_BYTES:
    case PEN_FLAG_ENUM:
        break;
    }
    if (row_fields[row].bytes == sizeof value->number) {
        memcpy(field, &value->number, sizeof value->number);
    } else if (row_fields[row].bytes == sizeof narrow) {
        memcpy(field, &narrow, sizeof narrow);
    } else {
        memcpy(field, &truth, sizeof truth);
    }
}
