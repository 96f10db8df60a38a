/*
 * exact.glsl - a ratio of large whole numbers rounded to nearest, ties to even, with no more than 32-bit integers: how results that the reference computes in
 * double are made here. Numbers of 96 bits are three words, the lowest first.
 */

uvec3 big_times(uvec3 a, uint b)
{
    uint high0, low0, high1, low1, carry;
    umulExtended(a.x, b, high0, low0);
    umulExtended(a.y, b, high1, low1);
    uint middle = uaddCarry(low1, high0, carry);
    return uvec3(low0, middle, a.z * b + high1 + carry);
}

/* a * b for two words of b: all that fits. */
uvec3 big_product(uint a, uvec2 b)
{
    return big_times(uvec3(b, 0u), a);
}

uvec3 big_shift(uvec3 a, int n)
{
    for (; n >= 32; n -= 32) {
        a = uvec3(0u, a.xy);
    }
    return n <= 0 ? a : uvec3(a.x << n, a.y << n | a.x >> (32 - n), a.z << n | a.y >> (32 - n));
}

/* -1, 0, 1 */
int big_compare(uvec3 a, uvec3 b)
{
    return a.z != b.z ? (a.z < b.z ? -1 : 1)
           : a.y != b.y ? (a.y < b.y ? -1 : 1)
           : a.x != b.x ? (a.x < b.x ? -1 : 1)
                        : 0;
}

/*
 * round(top 2^e / bottom), where `near` is that ratio to six digits: only close to a tie do the numbers themselves decide. They must leave room: twice the top,
 * shifted, below 2^96 there. Results of 1024 and more are only said to be so.
 */
float ratio_rounded(float near, uvec3 top, int e, uvec3 bottom)
{
    float below = floor(near), part = near - below;
    if (near >= 1024.0 || abs(part - 0.5) > 0.01) {
        return min(roundEven(near), 1024.0);
    }
    uvec3 left = big_shift(top, max(e, 0) + 1), right = big_shift(big_times(bottom, 2u * uint(below) + 1u), max(-e, 0));
    int order = big_compare(left, right);
    return order > 0 || (order == 0 && (uint(below) & 1u) != 0u) ? below + 1.0 : below;
}
