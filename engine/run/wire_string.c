#include "run/wire_string.h"

#include <string.h>

static uint32_t u32_read(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void u32_write(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)(v & 0xFF);
    p[1] = (unsigned char)(v >> 8 & 0xFF);
    p[2] = (unsigned char)(v >> 16 & 0xFF);
    p[3] = (unsigned char)(v >> 24 & 0xFF);
}

enum pen_status wire_string_decode(struct rt_arena *arena, const void *wire, size_t bytes, size_t count,
                                   struct string_view **ret_items, struct pen_error *reterr)
{
    if (count > bytes / 4) {
        return pen_error_set(reterr, PEN_ERR_SHAPE,
                             "a string tensor of %zu elements needs at least %zu bytes of lengths, got %zu", count,
                             count * 4, bytes);
    }
    struct string_view *items = rt_arena_alloc(arena, (count + 1) * sizeof *items);
    if (items == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %zu strings", count);
    }
    const unsigned char *p = wire;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (bytes - at < 4 || u32_read(p + at) > bytes - at - 4) {
            return pen_error_set(reterr, PEN_ERR_SHAPE, "string element %zu of %zu reaches past the end of its tensor",
                                 i, count);
        }
        items[i] = (struct string_view){.text = (const char *)p + at + 4, .bytes = u32_read(p + at)};
        at += 4 + items[i].bytes;
    }
    *ret_items = items;
    return PEN_OK;
}

enum pen_status wire_string_encode(struct rt_arena *arena, const struct string_view *items, size_t count,
                                   void **ret_wire, size_t *ret_bytes, struct pen_error *reterr)
{
    size_t bytes = count * 4;
    for (size_t i = 0; i < count; i++) {
        bytes += items[i].bytes;
    }
    unsigned char *wire = rt_arena_alloc(arena, bytes);
    if (wire == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for a string output of %zu bytes", bytes);
    }
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        u32_write(wire + at, (uint32_t)items[i].bytes);
        if (items[i].bytes > 0) {
            memcpy(wire + at + 4, items[i].text, items[i].bytes);
        }
        at += 4 + items[i].bytes;
    }
    *ret_wire = wire;
    *ret_bytes = bytes;
    return PEN_OK;
}
