/*
 * decimal.h - numbers between text and memory: the hot part of JSON tensors.
 *
 * Conversions are exact: to the nearest value, ties to even, as strtod(3) does. Up to 19 digits and powers of ten up to 27 go through one 128-bit product or
 * quotient, whose bits behind the last place decide the rounding; the rest is left to strtod. What is written is the shortest text of at most 9 (f32)
 * or 17 (f64) digits that reads back as the same value.
 * Threads: any.
 */
#ifndef DECIMAL_H
#define DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct decimal {
    const char *text; /* where it stands */
    size_t bytes;
    uint64_t digits; /* its first 19 significant digits as a number */
    int32_t power;   /* of ten, that `digits` is multiplied by */
    bool negative;
    bool whole; /* neither fraction nor exponent */
    bool cut;   /* there are more digits than `digits` has */
};

/* Reads a number as RFC 8259 has it. False: there is none at *at; else *at is behind it. */
bool decimal_scan(const char **at, const char *end, struct decimal *ret_number);

double decimal_f64(const struct decimal *number); /* may be infinite */
float decimal_f32(const struct decimal *number);
/* False: it is not whole, or outside min..max. */
bool decimal_i64(const struct decimal *number, int64_t min, int64_t max, int64_t *ret_value);
bool decimal_u64(const struct decimal *number, uint64_t max, uint64_t *ret_value);

/* Writes without a 0 behind; returns the bytes. NaN, Infinity and -Infinity as JavaScript and Python call them. */
#define DECIMAL_BYTES 32
size_t decimal_write_f32(float value, char text[DECIMAL_BYTES]);
size_t decimal_write_f64(double value, char text[DECIMAL_BYTES]);
size_t decimal_write_i64(int64_t value, char text[DECIMAL_BYTES]);
size_t decimal_write_u64(uint64_t value, char text[DECIMAL_BYTES]);

#endif
