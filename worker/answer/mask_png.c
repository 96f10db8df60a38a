/* mask_png.c - a mask as a PNG of 8 bits of grey. */
#include "parts.h"

#include "picture.h"

enum pen_status mask_png(const struct answer_row *row, uint8_t **ret_bytes, size_t *ret_size, struct pen_error *reterr)
{
    const struct picture grey = {
        .width = row->mask_width, .height = row->mask_height, .channels = 1, .pixels = row->mask};
    size_t room = picture_png_room(&grey);
    *ret_bytes = arena_take(&row->work->scratch, room, 1);
    if (!*ret_bytes && row->work->scratch.starved)
        return answer_lacks(true, reterr);
    if (!*ret_bytes)
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "a mask of %u x %u pixels is more than an answer may take",
                             row->mask_width, row->mask_height);
    return picture_encode_png(&grey, *ret_bytes, room, ret_size, reterr);
}
