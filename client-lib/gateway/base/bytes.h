/*
 * bytes.h - text and bytes that grow, up to a limit. A failed buffer takes no more and says so once, at the end.
 * Threads: one-at-a-time.
 */
#ifndef BYTES_H
#define BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bytes {
    char *data;
    size_t used, size;
    size_t limit; /* 0 = BYTES_LIMIT */
    bool failed;  /* no memory, or beyond the limit */
};

#define BYTES_LIMIT ((size_t)1 << 30)

void bytes_fini(struct bytes *bytes); /* leaves it empty */
/* Room for `more` bytes at data + used; false: failed. */
bool bytes_reserve(struct bytes *bytes, size_t more);
void bytes_add(struct bytes *bytes, const void *data, size_t count);
void bytes_text(struct bytes *bytes, const char *text);
void bytes_unsigned(struct bytes *bytes, uint64_t number); /* in decimal digits */
void bytes_signed(struct bytes *bytes, int64_t number);
__attribute__((format(printf, 2, 3))) void bytes_format(struct bytes *bytes, const char *format, ...);
/* A JSON string with its quotes; bytes that are no UTF-8 become U+FFFD. */
void bytes_json(struct bytes *bytes, const char *text, size_t count);
void bytes_json_text(struct bytes *bytes, const char *text);

/* A text in a place of a fixed size. What does not fit is left out whole, and `full` says so. It always ends with a NUL. */
struct fixed_text {
    char *data;
    size_t used, size;
    bool full;
};

void fixed_begin(struct fixed_text *text, char *data, size_t size); /* size: at least 1 */
void fixed_add(struct fixed_text *text, const char *part);
void fixed_unsigned(struct fixed_text *text, uint64_t number);

/* How many bytes the UTF-8 character at `at` has; 0: it is none. */
size_t utf8_length(const char *at, const char *end);
bool utf8_valid(const char *text, size_t count);

#endif
