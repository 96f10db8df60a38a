/*
 * taps.glsl - places in a window, passed one after the other along the depth. TAP_UNITS: units of depth that a place has in a group, channels or words of four.
 */
struct Tap {
    uint y, x, unit;
};

void tap_forward(inout Tap t, uint units)
{
    t.unit += units;
    while (t.unit >= TAP_UNITS && t.y < p.kernel_h) {
        t.unit -= TAP_UNITS;
        t.x++;
        if (t.x == p.kernel_w) {
            t.x = 0u;
            t.y++;
        }
    }
}

Tap tap_at(uint k)
{
    uint t = k / TAP_UNITS;
    return Tap(t / p.kernel_w, t % p.kernel_w, k - t * TAP_UNITS);
}

/* Where the pixel's channels begin in x; false outside of the image. */
bool tap_pixel(Pixel pixel, Tap t, out uint at)
{
    int iy = pixel.y + int(t.y * p.dilation_h), ix = pixel.x + int(t.x * p.dilation_w);
    at = ((pixel.image * p.in_h + uint(iy)) * p.in_w + uint(ix)) * p.in_c;
    return iy >= 0 && ix >= 0 && iy < int(p.in_h) && ix < int(p.in_w);
}
