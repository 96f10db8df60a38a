#include "backend/xnnpack/box.h"

#include <string.h>

#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/turn.h"
#include "graph/kept.h"

#define RUN_BYTES   65536 /* of one unit of work */
#define SHORT_BYTES 256   /* of a row that is copied in place */

void box_finish(struct box *b)
{
    int32_t used = 0;
    for (int32_t d = 0; d < b->rank; d++) {
        if (b->dim[d] == 1) {
            continue;
        }
        ptrdiff_t n = (ptrdiff_t)b->dim[d];
        if (used > 0 && b->x_step[used - 1] == b->x_step[d] * n && b->y_step[used - 1] == b->y_step[d] * n) {
            b->dim[used - 1] *= b->dim[d];
            b->x_step[used - 1] = b->x_step[d];
            b->y_step[used - 1] = b->y_step[d];
            continue;
        }
        b->dim[used] = b->dim[d];
        b->x_step[used] = b->x_step[d];
        b->y_step[used++] = b->y_step[d];
    }
    if (used == 0) {
        b->dim[0] = 1;
        b->x_step[0] = b->y_step[0] = 1;
        used = 1;
    }
    b->rank = used;
}

/* Which dim the innermost loop pairs with the last: its source runs on while the last dim's destination does. -1 = none. */
static int32_t turned_dim(const struct box *b)
{
    if (b->size > 4 || b->y_step[b->rank - 1] != 1 || b->x_step[b->rank - 1] < 1) {
        return -1;
    }
    for (int32_t d = b->rank - 2; d >= 0; d--) {
        if (b->x_step[d] == 1 && b->dim[d] > 3 && b->y_step[d] > 0) {
            return d;
        }
    }
    return -1;
}

#define WOVEN_MAX 16 /* parts of a pixel that are woven together */

/* The same for bytes: a few parts of a pixel, woven into each other (a shuffle of channels). */
static int32_t woven_dim(const struct box *b)
{
    int32_t last = b->rank - 1, d = last - 1;
    bool woven = b->size == 1 && last >= 1 && b->dim[last] <= WOVEN_MAX && b->y_step[last] == 1 &&
                 b->x_step[last] > 0 && b->x_step[d] == 1 && b->y_step[d] == (ptrdiff_t)b->dim[last];
    return woven ? d : -1;
}

struct job {
    const struct box *b;
    const uint8_t *x;
    uint8_t *y;
    int32_t turned;
    bool woven;
    size_t outer, outer_unit;
    size_t pieces, piece; /* of the turned dim: so many, each of so many elements */
};

static void elements_copy(size_t size, const uint8_t *x, ptrdiff_t x_step, uint8_t *y, ptrdiff_t y_step, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        memcpy(y, x, size);
        x += x_step;
        y += y_step;
    }
}

static void row_copy(size_t size, const uint8_t *x, ptrdiff_t x_step, uint8_t *y, ptrdiff_t y_step, size_t n)
{
    if (x_step == 1 && y_step == 1) {
        memcpy(y, x, n * size);
        return;
    }
    ptrdiff_t xs = x_step * (ptrdiff_t)size, ys = y_step * (ptrdiff_t)size;
    switch (size) { /* a constant size becomes one load and one store */
    case 1:
        elements_copy(1, x, xs, y, ys, n);
        break;
    case 2:
        elements_copy(2, x, xs, y, ys, n);
        break;
    case 4:
        elements_copy(4, x, xs, y, ys, n);
        break;
    case 8:
        elements_copy(8, x, xs, y, ys, n);
        break;
    default:
        elements_copy(size, x, xs, y, ys, n);
        break;
    }
}

/* Piece `at` of the turned dim; the whole row where none is. */
static void inner_copy(const struct job *j, ptrdiff_t x, ptrdiff_t y, size_t at)
{
    const struct box *b = j->b;
    int32_t last = b->rank - 1;
    const uint8_t *from = j->x + x * (ptrdiff_t)b->size;
    uint8_t *to = j->y + y * (ptrdiff_t)b->size;
    if (KEPT(xnnpack_bytes) && j->woven) {
        isa_int()->interleave(from, (size_t)b->x_step[last], b->dim[last], to, b->dim[j->turned]);
    } else if (j->turned >= 0) {
        const size_t first = at * j->piece, left = b->dim[j->turned] - first, y_step = (size_t)b->y_step[j->turned];
        const size_t x_step = (size_t)b->x_step[last], cols = left < j->piece ? left : j->piece;
        from += first * b->size;
        to += first * y_step * b->size;
        if (b->size == 4) {
            isa_own()->transpose((const uint32_t *)(const void *)from, x_step, (uint32_t *)(void *)to, y_step,
                                 b->dim[last], cols);
        } else {
            turn(b->size, from, x_step, to, y_step, b->dim[last], cols);
        }
    } else {
        row_copy(b->size, from, b->x_step[last], to, b->y_step[last], b->dim[last]);
    }
}

/* `count` rows next to each other in a dim, each of so many bytes: short ones take less time than a call of memcpy finds out how long they are. */
static void rows_copy(const uint8_t *x, ptrdiff_t x_step, uint8_t *y, ptrdiff_t y_step, size_t bytes, size_t count)
{
    for (; count > 0; count--, x += x_step, y += y_step) {
        if (bytes > SHORT_BYTES) {
            memcpy(y, x, bytes);
        } else if (bytes >= 32) {
            for (size_t i = 0; i + 32 < bytes; i += 32) {
                memcpy(y + i, x + i, 32);
            }
            memcpy(y + bytes - 32, x + bytes - 32, 32);
        } else if (bytes >= 16) {
            memcpy(y, x, 16);
            memcpy(y + bytes - 16, x + bytes - 16, 16);
        } else if (bytes >= 4) {
            const size_t middle = bytes >= 8 ? 4 : 0; /* four bytes at both ends and beside them */
            memcpy(y, x, 4);
            memcpy(y + middle, x + middle, 4);
            memcpy(y + bytes - 4 - middle, x + bytes - 4 - middle, 4);
            memcpy(y + bytes - 4, x + bytes - 4, 4);
        } else {
            elements_copy(1, x, 1, y, 1, bytes);
        }
    }
}

/* Rows [first, end) of a box whose rows are one after the other in its last dim but one. */
static void rows_task(const struct job *j, size_t first, size_t end)
{
    const struct box *b = j->b;
    const int32_t inner = b->rank - 2;
    const size_t bytes = b->dim[inner + 1] * b->size;
    for (size_t o = first; o < end;) {
        const size_t at = o % b->dim[inner], left = b->dim[inner] - at, count = end - o < left ? end - o : left;
        size_t rest = o / b->dim[inner];
        ptrdiff_t x = (ptrdiff_t)at * b->x_step[inner], y = (ptrdiff_t)at * b->y_step[inner];
        for (int32_t d = inner - 1; d >= 0; d--) {
            const ptrdiff_t index = (ptrdiff_t)(rest % b->dim[d]);
            rest /= b->dim[d];
            x += index * b->x_step[d];
            y += index * b->y_step[d];
        }
        const ptrdiff_t size = (ptrdiff_t)b->size;
        rows_copy(j->x + x * size, b->x_step[inner] * size, j->y + y * size, b->y_step[inner] * size, bytes, count);
        o += count;
    }
}

static void task(void *context, size_t unit)
{
    const struct job *j = context;
    const struct box *b = j->b;
    const int32_t last = b->rank - 1;
    const size_t first = unit * j->outer_unit,
                 end = first + j->outer_unit < j->outer ? first + j->outer_unit : j->outer;
    if (b->rank > 1 && j->turned < 0 && b->x_step[last] == 1 && b->y_step[last] == 1) {
        rows_task(j, first, end);
        return;
    }
    for (size_t o = first; o < end; o++) {
        size_t rest = o / j->pieces;
        ptrdiff_t x = 0, y = 0;
        for (int32_t d = last - 1; d >= 0; d--) {
            if (d == j->turned) {
                continue;
            }
            ptrdiff_t index = (ptrdiff_t)(rest % b->dim[d]);
            rest /= b->dim[d];
            x += index * b->x_step[d];
            y += index * b->y_step[d];
        }
        inner_copy(j, x, y, o % j->pieces);
    }
}

/* One long row: cut so that all threads have some. */
static struct box row_cut(const struct box *b)
{
    struct box c = *b;
    size_t piece = RUN_BYTES / b->size;
    if (b->rank == 1 && b->dim[0] % piece == 0) {
        c.rank = 2;
        c.dim[0] = b->dim[0] / piece;
        c.dim[1] = piece;
        c.x_step[1] = b->x_step[0];
        c.y_step[1] = b->y_step[0];
        c.x_step[0] = b->x_step[0] * (ptrdiff_t)piece;
        c.y_step[0] = b->y_step[0] * (ptrdiff_t)piece;
    }
    return c;
}

/* The turned dim is cut so that a unit stays in the second cache and all threads have some; a piece is whole tiles of a transpose. */
static void turned_cut(struct job *j)
{
    const struct box *b = j->b;
    j->pieces = 1;
    j->piece = j->turned >= 0 ? b->dim[j->turned] : 0;
    if (j->turned < 0 || j->woven) {
        return;
    }
    const size_t fit = RUN_BYTES / (b->dim[b->rank - 1] * b->size) / 16 * 16;
    if (j->piece > fit && fit > 0) {
        j->piece = fit;
        j->pieces = (b->dim[j->turned] + fit - 1) / fit;
    }
}

void box_copy(const struct box *b, const void *x, void *y, struct run *r)
{
    struct box c = row_cut(b);
    const int32_t woven = KEPT(xnnpack_bytes) ? woven_dim(&c) : -1;
    struct job j = {
        .b = &c, .x = x, .y = y, .turned = woven >= 0 ? woven : turned_dim(&c), .woven = woven >= 0, .outer = 1};
    size_t inner = c.dim[c.rank - 1] * c.size;
    for (int32_t d = 0; d < c.rank - 1; d++) {
        j.outer *= d == j.turned ? 1 : c.dim[d];
    }
    if (inner == 0 || j.outer == 0) {
        return;
    }
    turned_cut(&j);
    inner *= j.turned >= 0 ? j.piece : 1;
    j.outer *= j.pieces;
    if (inner == 0) {
        return;
    }
    j.outer_unit = inner >= RUN_BYTES ? 1 : RUN_BYTES / inner;
    parallel(r, task, &j, (j.outer + j.outer_unit - 1) / j.outer_unit);
}
