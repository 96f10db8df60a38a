/* Source: the description of FarmHash "na" (G. Pike, 2014): constants, rotations and the order of its steps. Numbers are read as little-endian. */
#include "backend/reference/fingerprint.h"

#include <string.h>

#define K0 UINT64_C(0xc3a5c85c97cb3127)
#define K1 UINT64_C(0xb492b66fbe98f273)
#define K2 UINT64_C(0x9ae16a3b2f90404f)

struct two {
    uint64_t a, b;
};

static uint64_t word(const uint8_t *s)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) {
        v = v << 8 | s[i];
    }
    return v;
}

static uint64_t half_word(const uint8_t *s)
{
    return (uint64_t)s[0] | (uint64_t)s[1] << 8 | (uint64_t)s[2] << 16 | (uint64_t)s[3] << 24;
}

static uint64_t turn(uint64_t v, int by)
{
    return v >> by | v << (64 - by);
}

static uint64_t fold(uint64_t v)
{
    return v ^ v >> 47;
}

static uint64_t join(uint64_t u, uint64_t v, uint64_t by)
{
    return fold((v ^ fold((u ^ v) * by)) * by) * by;
}

static uint64_t up_to_16(const uint8_t *s, size_t n)
{
    uint64_t by = K2 + 2 * n;
    if (n >= 8) {
        uint64_t a = word(s) + K2, b = word(s + n - 8);
        return join(turn(b, 37) * by + a, (turn(a, 25) + b) * by, by);
    }
    if (n >= 4) {
        return join(n + (half_word(s) << 3), half_word(s + n - 4), by);
    }
    if (n == 0) {
        return K2;
    }
    uint64_t y = s[0] + ((uint64_t)s[n / 2] << 8), z = n + ((uint64_t)s[n - 1] << 2);
    return fold(y * K2 ^ z * K0) * K2;
}

static uint64_t up_to_32(const uint8_t *s, size_t n)
{
    uint64_t by = K2 + 2 * n, a = word(s) * K1, b = word(s + 8), c = word(s + n - 8) * by, d = word(s + n - 16) * K2;
    return join(turn(a + b, 43) + turn(c, 30) + d, a + turn(b + K2, 18) + c, by);
}

static uint64_t up_to_64(const uint8_t *s, size_t n)
{
    uint64_t by = K2 + 2 * n, a = word(s) * K2, b = word(s + 8), c = word(s + n - 8) * by, d = word(s + n - 16) * K2;
    uint64_t y = turn(a + b, 43) + turn(c, 30) + d, z = join(y, a + turn(b + K2, 18) + c, by);
    uint64_t e = word(s + 16) * by, f = word(s + 24), g = (y + word(s + n - 32)) * by, h = (z + word(s + n - 24)) * by;
    return join(turn(e + f, 43) + turn(g, 30) + h, e + turn(f + a, 18) + g, by);
}

static struct two mixed(const uint8_t *s, uint64_t a, uint64_t b)
{
    uint64_t z = word(s + 24);
    a += word(s);
    b = turn(b + a + z, 21);
    uint64_t first = a;
    a += word(s + 8) + word(s + 16);
    return (struct two){a + z, b + turn(a, 44) + first};
}

/* What a long text's hash carries from block to block. */
struct state {
    uint64_t x, y, z;
    struct two v, w;
};

/* One block of 64 bytes; the last one weighs some parts `more`. */
static void block(struct state *t, const uint8_t *s, uint64_t by, uint64_t more)
{
    t->x = turn(t->x + t->y + t->v.a + word(s + 8), 37) * by;
    t->y = turn(t->y + t->v.b + word(s + 48), 42) * by;
    t->x ^= t->w.b * more;
    t->y += t->v.a * more + word(s + 40);
    t->z = turn(t->z + t->w.a, 33) * by;
    t->v = mixed(s, t->v.b * by, t->x + t->w.a);
    t->w = mixed(s + 32, t->z + t->w.b, t->y + word(s + 16));
    uint64_t swap = t->z;
    t->z = t->x;
    t->x = swap;
}

static uint64_t longer(const uint8_t *s, size_t n)
{
    const uint64_t seed = 81;
    struct state t = {.x = seed * K2 + word(s), .y = seed * K1 + 113};
    size_t rest = (n - 1) & 63, whole = n - 1 - rest;
    t.z = fold(t.y * K2 + 113) * K2;
    for (size_t at = 0; at < whole; at += 64) {
        block(&t, s + at, K1, 1);
    }
    uint64_t by = K1 + ((t.z & 255) << 1);
    t.w.a += rest;
    t.v.a += t.w.a;
    t.w.a += t.v.a;
    block(&t, s + n - 64, by, 9);
    return join(join(t.v.a, t.w.a, by) + fold(t.y) * K0 + t.z, join(t.v.b, t.w.b, by) + t.x, by);
}

uint64_t fingerprint64(const void *text, size_t bytes)
{
    const uint8_t *s = text;
    return bytes <= 16   ? up_to_16(s, bytes)
           : bytes <= 32 ? up_to_32(s, bytes)
           : bytes <= 64 ? up_to_64(s, bytes)
                         : longer(s, bytes);
}
