/*
 * quantise.glsl - rounding as the reference has it, whatever the device's own division and conversions do: whole numbers to f32 to nearest, quotients of
 * f32 to nearest, ties to even, then saturation.
 */

/* To nearest, ties to even. */
float size_to_float(uint a)
{
    int drop = findMSB(a) - 23;
    if (drop <= 0) {
        return float(a);
    }
    uint kept = a >> drop, rest = a & ((1u << drop) - 1u), tie = 1u << (drop - 1);
    kept += rest > tie || (rest == tie && (kept & 1u) != 0u) ? 1u : 0u;
    return float(kept) * float(1u << drop);
}

float whole_to_float(int v)
{
    return v < 0 ? -size_to_float(uint(-v)) : size_to_float(uint(v));
}

/* |u + v|, which may need 32 bits; below: is the sum negative? */
uint sum_size(int u, int v, out bool below)
{
    int t = u + v;
    bool over = ((u ^ t) & (v ^ t)) < 0;
    below = over ? u < 0 : t < 0;
    return below ? uint(-t) : uint(t);
}

/* saturate(v + zero) of a v without a fraction. */
int saturated(float v, int zero, int low, int high)
{
    return int(clamp(v, float(low - zero), float(high - zero))) + zero;
}

/* saturate(round(+-size * scale) + zero), the product rounded to f32 first. */
int requantised(uint size, bool below, float scale, int zero, int low, int high)
{
    precise float scaled = size_to_float(size) * scale;
    return saturated(roundEven(below ? -scaled : scaled), zero, low, high);
}

/* 2^n; 0 and a huge number where f32 has none. */
float power_of_two(int n)
{
    return n < -126 ? 0.0 : uintBitsToFloat(uint(min(n, 127) + 127) << 23);
}

/* |x / s| cut to 24 bits, times 2^-n; rest: what the cut left, of s's fraction. Of usual x and s, without their signs. */
uint quotient_cut(float x, float s, out int n, out uint rest, out uint divisor)
{
    uint ux = floatBitsToUint(x) & 0x7FFFFFFFu, us = floatBitsToUint(s) & 0x7FFFFFFFu;
    uint mx = (ux & 0x7FFFFFu) | 0x800000u, ms = (us & 0x7FFFFFu) | 0x800000u, shift = mx >= ms ? 23u : 24u;
    uint q = uint(float(mx) / float(ms) * float(1u << shift)); /* a few units off at most */
    int r = int((mx << shift) - q * ms);                       /* what is missing is small: the low words have it */
    for (int i = 0; i < 16 && r < 0; i++) {
        q--;
        r += int(ms);
    }
    for (int i = 0; i < 16 && r >= int(ms); i++) {
        q++;
        r -= int(ms);
    }
    n = int(ux >> 23) - int(us >> 23) - int(shift);
    rest = uint(r);
    divisor = ms;
    return q;
}

bool is_usual(float x)
{
    uint e = (floatBitsToUint(x) >> 23) & 255u;
    return e != 0u && e != 255u;
}

/* x / s to the nearest f32. */
float quotient(float x, float s)
{
    if (!is_usual(x) || !is_usual(s)) {
        return x / s;
    }
    int n;
    uint rest, divisor, q = quotient_cut(x, s, n, rest, divisor);
    q += 2u * rest > divisor || (2u * rest == divisor && (q & 1u) != 0u) ? 1u : 0u;
    precise float v = float(q) * power_of_two(n);
    return (floatBitsToUint(x) ^ floatBitsToUint(s)) >> 31 != 0u ? -v : v;
}

/* round(x / s) of the true quotient, x and s above 0. */
float quotient_rounded(float x, float s)
{
    if (!is_usual(x) || !is_usual(s)) {
        return 0.0;
    }
    int n;
    uint rest, divisor, q = quotient_cut(x, s, n, rest, divisor);
    precise float v = float(q) * power_of_two(n);
    float below = floor(v);
    return rest != 0u && v - below == 0.5 ? below + 1.0 : roundEven(v);
}

/* saturate(round(x / scale) + zero); NaN becomes the zero point. */
int quantised(float x, float scale, int zero, int low, int high)
{
    if (is_nan(x)) {
        return zero;
    }
    if ((floatBitsToUint(x) & 0x7FFFFFFFu) == 0x7F800000u) {
        return (floatBitsToUint(x) ^ floatBitsToUint(scale)) >> 31 != 0u ? low : high;
    }
    return x == 0.0 ? clamp(zero, low, high) : saturated(roundEven(quotient(x, scale)), zero, low, high);
}
