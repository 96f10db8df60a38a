/* bands.glsl - which tile a workgroup makes, where they run in bands of SWIZZLE rows of tiles: neighbours in time then share weights and rows in the cache. */
/* The tile of this workgroup: of rows, of outputs. */
uvec2 tile_choose()
{
    uvec2 at = gl_WorkGroupID.xy, count = gl_NumWorkGroups.xy;
    if (SWIZZLE == 0u) {
        return at;
    }
    uint id = at.y * count.x + at.x, band = id / (SWIZZLE * count.y), rest = id - band * SWIZZLE * count.y;
    uint high = min(SWIZZLE, count.x - band * SWIZZLE);
    return uvec2(band * SWIZZLE + rest % high, rest / high);
}
