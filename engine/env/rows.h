/*
 * rows.h - the rows of flags.def with the places of their fields, and texts to and from these fields. Only this room includes it.
 * Threads: any (pure functions).
 */
#ifndef ENV_ROWS_H
#define ENV_ROWS_H

#include "penstock/engine.h"
#include "penstock/env.h"

enum {
#define PEN_FLAG(name, ...) ROW_##name,
#include "penstock/flags.def"
#undef PEN_FLAG
    ROWS_COUNT
};

/* Where a flag's value lies in pen_engine_options. */
struct row_field {
    size_t offset, bytes;
};
extern const struct pen_flag_row rows[ROWS_COUNT];
extern const struct row_field row_fields[ROWS_COUNT];

/* The row's number by a name of so many bytes, '-' as '_'; ROWS_COUNT = none. */
size_t row_find(const char *name, size_t bytes);

/* The number of a word in "auto|direct|gemm"; false where it is none of them. */
bool row_choice(const char *choices, const char *text, uint64_t *ret_number);

#define ROW_LIST_MAX 16u /* items of a LIST */

/* A value in its typed form. TEXT, WORD and LIST are their text. */
struct row_value {
    uint64_t number;  /* BOOL, INT, BYTES, ENUM: the number of the choice */
    const char *text; /* canonical: "on", "64", "gemm" */
    char digits[24];  /* what text points to, where it is a number */
};
/* Reads a text. INVALID with a sentence that begins with the flag and `where`. value->text may point into `text`. */
enum pen_status row_parse(size_t row, const char *text, const char *where, struct row_value *ret_value,
                          struct pen_error *reterr);
/* The value that a field holds; false where the number is no choice. LIST has none here. */
bool row_read(size_t row, const struct pen_engine_options *options, struct row_value *ret_value);
/* Writes it. Texts are borrowed. LIST is not written here. */
void row_write(size_t row, const struct row_value *value, struct pen_engine_options *options);

#endif
