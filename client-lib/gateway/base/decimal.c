#include "decimal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef unsigned __int128 wide;

#define DIGITS_MAX 19 /* 10^19 - 1 fits 64 bits */
#define POWER_MAX  27 /* 5^27 fits 64 bits */
#define TEXT_BYTES 128

static const uint64_t fives[POWER_MAX + 1] = {1u,
                                              5u,
                                              25u,
                                              125u,
                                              625u,
                                              3125u,
                                              15625u,
                                              78125u,
                                              390625u,
                                              1953125u,
                                              9765625u,
                                              48828125u,
                                              244140625u,
                                              1220703125u,
                                              6103515625u,
                                              30517578125u,
                                              152587890625u,
                                              762939453125u,
                                              3814697265625u,
                                              19073486328125u,
                                              95367431640625u,
                                              476837158203125u,
                                              2384185791015625u,
                                              11920928955078125u,
                                              59604644775390625u,
                                              298023223876953125u,
                                              1490116119384765625u,
                                              7450580596923828125u};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- reading ---- */

/* Takes digits as long as there are; `places` counts those behind the point. */
static const char *scan_digits(const char *at, const char *end, struct decimal *number, int *count, int32_t *places)
{
    for (; at < end && is_digit(*at); at++) {
        if (*count < DIGITS_MAX) {
            number->digits = number->digits * 10 + (uint64_t)(*at - '0');
            *count += number->digits != 0;
            *places -= 1;
        } else if (*at != '0') {
            number->cut = true;
        }
    }
    return at;
}

/* At 'e' or 'E'. NULL: no digit follows. An exponent beyond any double stays there. */
static const char *scan_exponent(const char *at, const char *end, struct decimal *number)
{
    int32_t power = 0;
    bool down = ++at < end && *at == '-';
    at += at < end && (*at == '-' || *at == '+');
    if (at == end || !is_digit(*at))
        return NULL;
    for (; at < end && is_digit(*at); at++)
        power = power < 100000 ? power * 10 + (*at - '0') : power;
    number->power += down ? -power : power;
    number->whole = false;
    return at;
}

bool decimal_scan(const char **from, const char *end, struct decimal *ret_number)
{
    const char *at = *from, *first;
    struct decimal number = {.text = at, .whole = true};
    int32_t places = 0;
    int count = 0;
    number.negative = at < end && *at == '-';
    at += number.negative;
    first = at;
    if (at == end || !is_digit(*at))
        return false;
    at = scan_digits(at, end, &number, &count, &places);
    if (*first == '0' && at - first > 1)
        return false;
    number.power =
        (int32_t)(at - first < 1000000 ? at - first : 1000000) + places; /* digits left out before the point */
    if (at < end && *at == '.') {
        places = 0;
        first = ++at;
        at = scan_digits(at, end, &number, &count, &places);
        if (at == first)
            return false;
        number.power += places;
        number.whole = false;
    }
    if (at < end && (*at == 'e' || *at == 'E') && !(at = scan_exponent(at, end, &number)))
        return false;
    number.bytes = (size_t)(at - number.text);
    *ret_number = number;
    *from = at;
    return true;
}

/* strtod needs a 0 behind the text. Without memory for a very long text its first digits must do. */
static double slow_value(const struct decimal *number, bool single)
{
    char small[TEXT_BYTES], *text = number->bytes < sizeof small ? small : malloc(number->bytes + 1);
    if (text) {
        memcpy(text, number->text, number->bytes);
        text[number->bytes] = '\0';
    } else {
        text = small;
        snprintf(small, sizeof small, "%s%llue%d", number->negative ? "-" : "", (unsigned long long)number->digits,
                 number->power);
    }
    double value = single ? (double)strtof(text, NULL) : strtod(text, NULL);
    if (text != small)
        free(text);
    return value;
}

/* value * 2^power, rounded to `bits` significant bits; `rest`: more than that, but less than its last place. Not for subnormals. */
static double round_bits(wide value, bool rest, int power, int bits)
{
    uint64_t high = (uint64_t)(value >> 64);
    int length = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)value);
    int drop = length - bits;
    if (drop > 0) {
        wide last = (wide)1 << drop, half = last >> 1, behind = value & (last - 1);
        value >>= drop;
        if (behind > half || (behind == half && (rest || (value & 1))))
            value++;
        power += drop;
    }
    return ldexp((double)(uint64_t)value, power);
}

static bool is_easy(const struct decimal *number)
{
    return !number->cut && number->power >= -POWER_MAX && number->power <= POWER_MAX;
}

/* 2^power, at most 2^63 either way. */
static double power_of_two(int power)
{
    uint64_t bits = (uint64_t)(1023 + power) << 52;
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double easy_value(const struct decimal *number, int bits)
{
    int power = number->power;
    if (power >= 0)
        return round_bits((wide)number->digits * fives[power], false, power, bits);
    /* digits / 10^n = digits * 2^shift / 5^n * 2^(-n - shift): the shift leaves more bits in the quotient than are kept. */
    uint64_t by = fives[-power];
    int shift = __builtin_clzll(number->digits);
    uint64_t top = number->digits << shift;
    uint64_t first = top / by, left = top % by;
    wide second = ((wide)left << 64) / by;
    bool rest = second * by != (wide)left << 64;
    return round_bits(((wide)first << 64) + second, rest, power - shift - 64, bits);
}

double decimal_f64(const struct decimal *number)
{
    double value;
    if (number->digits == 0)
        value = 0.0;
    else if (is_easy(number) && number->digits <= (UINT64_C(1) << 53) && number->power >= -22 && number->power <= 0)
        value = (double)number->digits / ((double)fives[-number->power] *
                                          power_of_two(-number->power)); /* both exact: one rounding (Clinger 1990) */
    else if (is_easy(number))
        value = easy_value(number, 53);
    else
        return slow_value(number, false);
    return number->negative ? -value : value;
}

float decimal_f32(const struct decimal *number)
{
    double value;
    if (number->digits == 0)
        value = 0.0;
    else if (is_easy(number))
        value = easy_value(number, 24);
    else
        return (float)slow_value(number, true);
    return (float)(number->negative ? -value : value);
}

bool decimal_u64(const struct decimal *number, uint64_t max, uint64_t *ret_value)
{
    uint64_t value = number->digits;
    if (!number->whole || number->power > 1 || number->power < 0 || (number->negative && value != 0))
        return false;
    if (number->power == 1) { /* 20 digits: the last one is in the text */
        uint64_t last = (uint64_t)(number->text[number->bytes - 1] - '0');
        if (value > (UINT64_MAX - last) / 10)
            return false;
        value = value * 10 + last;
    }
    if (value > max)
        return false;
    *ret_value = value;
    return true;
}

bool decimal_i64(const struct decimal *number, int64_t min, int64_t max, int64_t *ret_value)
{
    struct decimal size = *number;
    uint64_t value;
    size.negative = false;
    if (!decimal_u64(&size, number->negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX, &value))
        return false;
    int64_t found = number->negative ? (int64_t)(0 - value) : (int64_t)value;
    if (found < min || found > max)
        return false;
    *ret_value = found;
    return true;
}

/* ---- writing ---- */

static size_t write_whole(uint64_t value, char *text)
{
    char back[DECIMAL_BYTES];
    size_t count = 0;
    do
        back[count++] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    for (size_t i = 0; i < count; i++)
        text[i] = back[count - 1 - i];
    return count;
}

size_t decimal_write_u64(uint64_t value, char text[DECIMAL_BYTES])
{
    return write_whole(value, text);
}

size_t decimal_write_i64(int64_t value, char text[DECIMAL_BYTES])
{
    if (value >= 0)
        return write_whole((uint64_t)value, text);
    text[0] = '-';
    return 1 + write_whole(0 - (uint64_t)value, text + 1);
}

static size_t write_odd(double value, char *text)
{
    const char *name = isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
    memcpy(text, name, strlen(name));
    return strlen(name);
}

/* The number digits * 10^power, not negative: plain where that is short, else with an exponent. */
static size_t write_digits(uint64_t digits, int power, char *text)
{
    char plain[DECIMAL_BYTES];
    while (digits % 10 == 0) {
        digits /= 10;
        power++;
    }
    int count = (int)write_whole(digits, plain), point = count + power; /* digits before the point */
    if (point > 17 || point < -4) {
        int bytes = snprintf(text, DECIMAL_BYTES - 1, "%c%s%.*se%d", plain[0], count > 1 ? "." : "", count - 1,
                             plain + 1, point - 1);
        return (size_t)bytes;
    }
    size_t used = 0;
    for (int i = point <= 0 ? point - 1 : 0; i < count || i < point; i++) { /* i = 0: the first digit */
        if (i == point)
            text[used++] = '.';
        text[used++] = i < 0 || i >= count ? '0' : plain[i];
    }
    if (point >= count) {
        text[used++] = '.';
        text[used++] = '0';
    }
    return used;
}

static const long double tens_exact[POWER_MAX + 1] = {
    1e0L,  1e1L,  1e2L,  1e3L,  1e4L,  1e5L,  1e6L,  1e7L,  1e8L,  1e9L,  1e10L, 1e11L, 1e12L, 1e13L,
    1e14L, 1e15L, 1e16L, 1e17L, 1e18L, 1e19L, 1e20L, 1e21L, 1e22L, 1e23L, 1e24L, 1e25L, 1e26L, 1e27L};

/* value / 10^power, rounded; off by one at most, which reading it back finds. */
static uint64_t scale_digits(double value, int power)
{
    long double scale = tens_exact[power < 0 ? -power : power];
    return (uint64_t)((power < 0 ? (long double)value * scale : (long double)value / scale) + 0.5L);
}

/* The shortest of `fewest` to `most` digits that reads back as `value`, which is positive; 0: none was found the quick way. */
static size_t write_shortest(double value, int fewest, int most, bool single, char *text)
{
    static const uint64_t tens[] = {1, 10, 100};
    if (!(value > 1e-9 && value < 1e17))
        return 0;
    int binary;
    frexp(value, &binary);
    int tenth = ((binary - 1) * 1233) >> 12,
        power = tenth - (most - 1); /* 1233 / 4096 = log10(2): at most one too low */
    uint64_t digits = scale_digits(value, power);
    if (digits >= (single ? UINT64_C(1000000000) : UINT64_C(100000000000000000)))
        digits = scale_digits(value, ++power);
    for (int keep = fewest; keep <= most; keep++) {
        uint64_t cut = tens[most - keep];
        struct decimal number = {.digits = (digits + cut / 2) / cut, .power = power + most - keep};
        if (is_easy(&number) && (single ? (double)decimal_f32(&number) : decimal_f64(&number)) == value)
            return write_digits(number.digits, number.power, text);
    }
    return 0;
}

static size_t write_float(double value, int fewest, int most, bool single, char *text)
{
    if (!isfinite(value))
        return write_odd(value, text);
    if (signbit(value)) {
        *text = '-';
        return 1 + write_float(-value, fewest, most, single, text + 1);
    }
    if (value < 1e6 && value == (double)(uint32_t)value) {
        size_t used = write_whole((uint64_t)value, text);
        text[used] = '.';
        text[used + 1] = '0';
        return used + 2;
    }
    size_t used = write_shortest(value, fewest, most, single, text);
    if (used == 0)
        used = (size_t)snprintf(text, DECIMAL_BYTES - 1, "%.*g", most, value);
    return used;
}

size_t decimal_write_f32(float value, char text[DECIMAL_BYTES])
{
    return write_float((double)value, 7, 9, true, text);
}

size_t decimal_write_f64(double value, char text[DECIMAL_BYTES])
{
    return write_float(value, 15, 17, false, text);
}
