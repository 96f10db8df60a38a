/* job_id.c - text form, comparison and hash of job ids, and the random numbers that make sessions unique. */
#include "job_id.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define CLIENT_DIGITS 16

const char *job_id_text(struct job_id id, char text[JOB_ID_TEXT_BYTES])
{
    static const char hex[] = "0123456789abcdef";
    char digits[20];
    size_t count = 0, used = 0;
    for (int shift = 60; shift >= 0; shift -= 4)
        text[used++] = hex[id.client >> shift & 15];
    text[used++] = '-';
    do {
        digits[count++] = (char)('0' + id.sequence % 10);
        id.sequence /= 10;
    } while (id.sequence != 0);
    while (count > 0)
        text[used++] = digits[--count];
    text[used] = '\0';
    return text;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return -1;
}

/* Decimal without sign, blanks or leading zeros, so that each id has one text. */
static int sequence_parse(const char *text, uint64_t *ret_value)
{
    uint64_t value = 0;
    if (*text < '1' || *text > '9')
        return -1;
    for (; *text; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(value, (uint64_t)10, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*text - '0'), &value))
            return -1;
    }
    *ret_value = value;
    return 0;
}

int job_id_parse(const char *text, struct job_id *ret_id)
{
    struct job_id id = {0, 0};
    if (!text)
        return -1;
    for (unsigned i = 0; i < CLIENT_DIGITS; i++) {
        int digit = hex_value(text[i]); /* stops at the end of a short text: NUL is no digit */
        if (digit < 0)
            return -1;
        id.client = id.client << 4 | (unsigned)digit;
    }
    if (text[CLIENT_DIGITS] != '-' || id.client == 0 || sequence_parse(text + CLIENT_DIGITS + 1, &id.sequence) != 0)
        return -1;
    *ret_id = id;
    return 0;
}

bool job_id_equal(struct job_id a, struct job_id b)
{
    return a.client == b.client && a.sequence == b.sequence;
}

/* The finaliser of SplitMix64: every input bit reaches every output bit. */
static uint64_t mix(uint64_t x)
{
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

uint64_t job_id_hash(struct job_id id)
{
    return mix(id.client ^ mix(id.sequence + 0x9E3779B97F4A7C15u));
}

/* Where a sandbox forbids getrandom: unequal across processes and calls, though guessable. */
static uint64_t random_weak(void)
{
    struct timespec real, mono;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_MONOTONIC, &mono);
    uint64_t x = mix((uint64_t)real.tv_sec * 1000000000u + (uint64_t)real.tv_nsec);
    x = mix(x ^ (uint64_t)mono.tv_nsec << 32 ^ (uint64_t)getpid());
    return mix(x ^ (uint64_t)(uintptr_t)&x);
}

uint64_t random_u64(void)
{
    uint64_t value = 0;
    while (value == 0) {
        ssize_t n = getrandom(&value, sizeof value, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n != (ssize_t)sizeof value)
            value = random_weak();
    }
    return value;
}
