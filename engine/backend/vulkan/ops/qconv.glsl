/* Family `simple` of products of bytes: no shared memory. One invocation makes 4 outputs of TILE neighbouring rows. */
layout(local_size_x = LOCAL) in;

void main()
{
    uint id = linear_id(), columns = p.groups * p.group_out4;
    uint block = id / columns, column = id - block * columns;
    uint g = column / p.group_out4, o4 = column - g * p.group_out4, m0 = block * TILE;
    if (m0 >= p.m) {
        return;
    }
    int xz = x_zero(), all[TILE];
    uint zeros = (uint(xz) & 255u) * 0x01010101u, depth = p.kernel_h * p.kernel_w * p.group_in4;
    ivec4 sum[TILE];
    Pixel pixel[TILE];
    for (uint t = 0; t < TILE; t++) {
        sum[t] = ivec4(0);
        all[t] = 0;
        pixel[t] = pixel_of(min(m0 + t, p.m - 1u));
    }
    uint wi = g * depth * p.group_out4 + o4;
    for (uint k = 0; k < depth; k++) {
        uvec4 four = w[wi];
        wi += p.group_out4;
        for (uint t = 0; t < TILE; t++) {
            uint word = taken(pixel[t], min(m0 + t, p.m - 1u), g, k, zeros);
            sum[t] += products(word, four);
            if (W_ZEROS) {
                all[t] += DOT4(word, ones_of(k));
            }
        }
    }
    for (uint t = 0; t < TILE; t++) {
        if (m0 + t < p.m) {
            row_store(m0 + t, g, o4, sum[t], all[t], xz);
        }
    }
}
