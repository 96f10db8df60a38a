#include "backend/xnnpack/after.h"

#include <string.h>

#include "backend/xnnpack/isa.h"

#define ROOM 256 /* results of narrow rows that are next to each other for an activation */

/* Rows of a few results each, apart from each other: a function of vectors takes them together. */
static void act_narrow(const struct act *act, const struct after_rows *all)
{
    float room[ROOM];
    const size_t cols = all->cols, most = ROOM / cols;
    for (size_t r = 0; r < all->rows; r += most) {
        const size_t count = all->rows - r < most ? all->rows - r : most;
        for (size_t i = 0; i < count; i++) {
            memcpy(room + i * cols, all->y + (r + i) * all->y_stride, cols * sizeof *room);
        }
        isa_own()->unary(act->fn, room, room, count * cols, act->a, 0.0f);
        for (size_t i = 0; i < count; i++) {
            memcpy(all->y + (r + i) * all->y_stride, room + i * cols, cols * sizeof *room);
        }
    }
}

void after_run(const struct act *act, const struct epilogue *after, void *const *in, const struct after_rows *r)
{
    if (act->fn == UNARY_NONE && after == NULL) {
        return;
    }
    const bool whole = r->cols == r->y_stride;
    const bool narrow = !whole && r->cols < isa_own()->lanes && act->fn != UNARY_NONE;
    const size_t n = whole ? r->rows * r->cols : r->cols, pieces = whole ? 1 : r->rows;
    if (narrow) {
        act_narrow(act, r);
    }
    for (size_t i = 0; i < pieces && (!narrow || after != NULL); i++) {
        float *y = r->y + i * r->y_stride;
        if (act->fn != UNARY_NONE && !narrow) {
            isa_own()->unary(act->fn, y, y, n, act->a, 0.0f);
        }
        if (after != NULL) {
            epilogue_run(after, in, y, r->at + i * r->at_stride, n);
        }
    }
}
