/* pixel.glsl - where the window of output pixel m begins; p has the sizes and steps. */
struct Pixel {
    uint image;
    int y, x; /* of the window's first tap, may be outside */
};

Pixel pixel_of(uint m)
{
    uint row = m / p.out_w;
    uint image = row / p.out_h;
    return Pixel(image, int((row - image * p.out_h) * p.stride_h) - p.pad_top,
                 int((m - row * p.out_w) * p.stride_w) - p.pad_left);
}
