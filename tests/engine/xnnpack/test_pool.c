#include <criterion/criterion.h>

#include "cross.h"

#define F32 PEN_DTYPE_F32

struct row {
    int64_t h, w, c, kernel, stride, dilation, before, after, ceil, include;
};

static const struct row rows[] = {
    {112, 112, 16, 3, 2, 1, 1, 1, 0, 0}, {14, 13, 33, 2, 2, 1, 0, 0, 0, 0}, {14, 13, 33, 2, 2, 1, 0, 0, 1, 0},
    {9, 9, 5, 3, 1, 1, 1, 1, 0, 1},      {9, 9, 64, 3, 1, 2, 2, 2, 0, 0},   {7, 7, 100, 7, 1, 1, 0, 0, 0, 0},
    {8, 8, 3, 3, 2, 1, 0, 1, 1, 1},      {6, 6, 70, 1, 2, 1, 0, 0, 0, 0},   {10, 10, 4, 4, 3, 1, 2, 0, 1, 0},
    {32, 1, 8, 1, 1, 1, 0, 0, 0, 1},     {1, 1, 8, 2, 2, 1, 0, 0, 1, 0},    {2, 5, 9, 3, 2, 1, 0, 0, 1, 1},
};

static void check(enum op op, const struct row *r, int64_t act)
{
    struct cross *c = cross_new(op);
    cross_input(c, F32, 4, (int64_t[]){2, r->h, r->w, r->c}, false);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){r->kernel, r->kernel});
    cross_ints(c, ATTR_strides, 2, (int64_t[]){r->stride, r->stride});
    cross_ints(c, ATTR_dilations, 2, (int64_t[]){r->dilation, r->dilation});
    cross_ints(c, ATTR_pads, 4, (int64_t[]){r->before, r->before, r->after, r->after});
    cross_int(c, ATTR_ceil_mode, r->ceil);
    if (op == OP_AveragePool) {
        cross_int(c, ATTR_count_include_pad, r->include);
    }
    if (act != ACT_NONE) {
        cross_int(c, ATTR_act, act);
        cross_float(c, ATTR_act_min, -0.1f);
        cross_float(c, ATTR_act_max, 0.1f);
    }
    cross_check(c);
}

/* Windows of every kind: rows and columns of the padding, strides that skip, windows as wide as the picture. */
Test(xnnpack_pool, random_windows)
{
    for (int i = 0; i < 120; i++) {
        struct row r = {.h = cross_pick(1, 14), .w = cross_pick(1, 14), .c = cross_pick(1, 50)};
        r.kernel = cross_pick(1, 5);
        r.stride = cross_pick(1, 3);
        r.dilation = cross_pick(1, 2);
        r.before = cross_pick(0, r.kernel - 1);
        r.after = cross_pick(0, r.kernel - 1);
        r.ceil = cross_pick(0, 1);
        r.include = cross_pick(0, 1);
        int64_t span = (r.kernel - 1) * r.dilation + 1, least = r.h < r.w ? r.h : r.w;
        if (least + r.before + r.after >= span) {
            check(i % 2 ? OP_MaxPool : OP_AveragePool, &r, i % 3 == 0 ? ACT_CLAMP : ACT_NONE);
        }
    }
}

Test(xnnpack_pool, maximum)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(OP_MaxPool, &rows[i], i % 2 ? ACT_NONE : ACT_CLAMP);
    }
}

Test(xnnpack_pool, average)
{
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        check(OP_AveragePool, &rows[i], i % 2 ? ACT_CLAMP : ACT_NONE);
    }
}

Test(xnnpack_pool, global_in_both_layouts)
{
    const enum op ops[] = {OP_GlobalAveragePool, OP_GlobalMaxPool};
    for (int i = 0; i < 4; i++) {
        struct cross *c = cross_new(ops[i % 2]);
        cross_input(c, F32, 4, (int64_t[]){2, 7, 9, 300}, false);
        cross_int(c, ATTR_layout, i / 2);
        cross_check(c);
    }
}

/* More taps than one list holds: parts of the window are joined. */
Test(xnnpack_pool, windows_of_thousands)
{
    static const struct row large[] = {{64, 64, 3, 64, 1, 1, 0, 0, 0, 0},
                                       {50, 45, 300, 40, 5, 1, 7, 7, 0, 0},
                                       {50, 45, 20, 40, 5, 1, 7, 7, 0, 1},
                                       {70, 71, 5, 33, 9, 2, 3, 4, 1, 0}};
    for (size_t i = 0; i < sizeof large / sizeof *large; i++) {
        check(OP_AveragePool, &large[i], ACT_NONE);
        check(OP_MaxPool, &large[i], ACT_CLAMP);
    }
    struct cross *c = cross_new(OP_MaxPool);
    cross_input(c, PEN_DTYPE_I8, 4, (int64_t[]){1, 40, 41, 270}, false);
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){39, 38});
    cross_check(c);
}
