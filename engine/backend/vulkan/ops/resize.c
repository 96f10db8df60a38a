#include <math.h>
#include <stdlib.h>

#include "backend/resize.h"
#include "backend/vulkan/ops/box.h"
#include "backend/vulkan/ops/map.h"
#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/ops/qresize.h"

/*
 * Resize of floats, axis by axis: each changed axis has a table of neighbours and weights per output position, made when shapes are known. Nearest, linear,
 * cubic; antialiasing widens the table. Formulas: ONNX operator reference.
 */
enum resize_mode { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC };

struct axis {
    size_t outer, in, out, inner, taps;
    uint32_t *table; /* [out, taps] of position, weight */
};

/* Nearest neighbours are only moved. */
static bool nearest_moves(const struct node *n, const struct value *x)
{
    return node_text_is(n, ATTR_mode, "nearest", true) && node_int(n, ATTR_fixed_point, 0) == 0 &&
           vk_movable(x->dtype) && x->shape.rank < VK_MAP_DIMS;
}

static bool resize_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0), *scales = node_in(g, n, 2), *sizes = node_in(g, n, 3);
    if (vk_qresize_takes(g, n)) {
        return true;
    }
    if (!vk_dtype_is(x, PEN_DTYPE_F32) && !nearest_moves(n, x)) {
        return vk_refuse(ret_reason, "only f32, nearest neighbours of any type, and bytes in fixed point");
    }
    if (node_text_is(n, ATTR_coordinate_transformation_mode, "tf_crop_and_resize", false) ||
        !node_text_is(n, ATTR_keep_aspect_ratio_policy, "stretch", true)) {
        return vk_refuse(ret_reason, "crops or aspect policies");
    }
    bool by_scale = scales != NULL && shape_elements(&scales->shape) > 0 && scales->dtype == PEN_DTYPE_F32;
    bool by_size = sizes != NULL && shape_elements(&sizes->shape) > 0 && sizes->dtype == PEN_DTYPE_I64;
    return by_scale || by_size || vk_refuse(ret_reason, "no scales and no sizes");
}

static enum resize_mode mode_of(const struct node *n)
{
    return node_text_is(n, ATTR_mode, "linear", false)  ? MODE_LINEAR
           : node_text_is(n, ATTR_mode, "cubic", false) ? MODE_CUBIC
                                                        : MODE_NEAREST;
}

static void entry_set(struct axis *a, size_t entry, double at, double weight)
{
    double most = (double)a->in - 1.0;
    union {
        float f;
        uint32_t u;
    } w = {.f = (float)weight};
    a->table[2 * entry] = (uint32_t)(at < 0.0 ? 0.0 : at > most ? most : at);
    a->table[2 * entry + 1] = w.u;
}

/* Weights of the neighbours of one position, normalised. */
static void weigh(const struct node *n, struct axis *a, size_t i, double x, double stretch)
{
    double coefficient = (double)node_float(n, ATTR_cubic_coeff_a, -0.75f), sum = 0.0;
    bool exclude = node_int(n, ATTR_exclude_outside, 0) != 0, is_cubic = mode_of(n) == MODE_CUBIC;
    double first = floor(x) - (double)(a->taps / 2) + 1.0;
    for (int turn = 0; turn < 2; turn++) { /* the sum, then the entries */
        for (size_t k = 0; k < a->taps; k++) {
            double at = first + (double)k, distance = (at - x) * stretch;
            double w = is_cubic ? resize_cubic(distance, coefficient) : fmax(0.0, 1.0 - fabs(distance));
            w = exclude && (at < 0.0 || at >= (double)a->in) ? 0.0 : w;
            if (turn == 0) {
                sum += w;
            } else {
                entry_set(a, i * a->taps + k, at, sum == 0.0 ? 0.0 : w / sum);
            }
        }
    }
}

static bool table_make(const struct node *n, struct axis *a, double scale)
{
    enum resize_mode mode = mode_of(n);
    double stretch = node_int(n, ATTR_antialias, 0) != 0 && mode != MODE_NEAREST && scale < 1.0 ? scale : 1.0;
    double reach = (mode == MODE_CUBIC ? 2.0 : 1.0) / stretch;
    if (!(scale > 0.0) || reach > 4096.0 || a->in > INT32_MAX) {
        return false;
    }
    a->taps = mode == MODE_NEAREST ? 1 : 2 * (size_t)ceil(reach);
    a->table = calloc(a->out * a->taps, 2 * sizeof *a->table);
    for (size_t i = 0; a->table != NULL && i < a->out; i++) {
        double x = resize_source(n, (double)a->in, (double)a->out, scale, (double)i);
        if (mode == MODE_NEAREST) {
            entry_set(a, i, resize_nearest(n, x), 1.0);
        } else {
            weigh(n, a, i, x, stretch);
        }
    }
    return a->table != NULL;
}

/* The factor of one axis as given by scales or sizes; false when they do not name it: it keeps its size. */
static bool factor_of(const struct vk_build *b, int32_t d, int64_t in, double *ret_scale)
{
    const struct fact *scales = vk_in(b, 2), *sizes = vk_in(b, 3);
    bool by_size = sizes != NULL && shape_elements(&sizes->shape) > 0;
    const struct fact *from = by_size ? sizes : scales;
    uint32_t count = 0;
    const int64_t *axes = node_ints(b->n, ATTR_axes, &count);
    int64_t at = axes == NULL ? d : -1;
    for (uint32_t i = 0; axes != NULL && i < count; i++) {
        at = shape_axis(axes[i], vk_in(b, 0)->shape.rank) == d ? (int64_t)i : at;
    }
    if (at < 0 || from->data == NULL || at >= shape_elements(&from->shape)) {
        return false;
    }
    *ret_scale =
        by_size ? (double)((const int64_t *)from->data)[at] / (double)in : (double)((const float *)from->data)[at];
    return true;
}

/* One axis from cell x to cell y. */
static void axis_dispatch(struct vk_build *b, const struct axis *a, uint32_t x, uint32_t y)
{
    size_t count = a->outer * a->out * a->inner;
    uint32_t table = vk_host_cell(b, a->table, a->out * a->taps * 2 * sizeof *a->table);
    struct vk_work *w = vk_dispatch(b, SHADER_resize);
    vk_bind(w, y, VK_WRITE);
    vk_bind(w, x, VK_READ);
    vk_bind(w, table, VK_READ);
    const size_t words[] = {count, a->in, a->out, a->inner, a->taps};
    for (size_t i = 0; i < 5; i++) {
        vk_push(w, words[i]);
    }
    vk_items(w, count);
}

static uint32_t axes_left(const struct vk_build *b, int32_t from)
{
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    uint32_t left = 0;
    for (int32_t d = from; d < x->rank; d++) {
        double scale = 1.0;
        bool named = factor_of(b, d, x->dim[d], &scale);
        left += x->dim[d] != y->dim[d] || (named && scale != 1.0);
    }
    return left;
}

/* Elements of any type, all axes in one dispatch. */
static void nearest_build(struct vk_build *b)
{
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    int64_t steps[PEN_MAX_RANK];
    struct vk_map m;
    vk_map_init(&m, vk_element_bytes(b, vk_in(b, 0)->dtype));
    vk_dense_steps(x, steps);
    for (int32_t d = 0; d < x->rank && b->status == PEN_OK; d++) {
        struct axis a = {.in = (size_t)x->dim[d], .out = (size_t)y->dim[d]};
        double scale = 1.0;
        bool named = factor_of(b, d, x->dim[d], &scale), made = (named || a.in == a.out) && table_make(b->n, &a, scale);
        int32_t *table = made ? vk_map_add(&m, a.out, (size_t)steps[d]) : NULL;
        for (size_t i = 0; table != NULL && i < a.out; i++) {
            table[i] = (int32_t)(named ? a.table[2 * i] : i);
        }
        if (table == NULL) {
            vk_build_fail(b, PEN_ERR_UNSUPPORTED, "this scale, or scales that are only known while running");
        }
        free(a.table);
    }
    vk_map_dispatch(b, &m, UINT32_MAX);
}

static void resize_build(struct vk_build *b)
{
    if (vk_qresize_takes(b->g, b->n)) {
        vk_qresize_build(b);
        return;
    }
    const struct shape *x = &vk_in(b, 0)->shape, *y = &vk_out(b, 0)->shape;
    struct shape now = *x;
    uint32_t from = vk_in_cell(b, 0);
    if (x->rank != y->rank) {
        vk_build_fail(b, PEN_ERR_SHAPE, "input and output differ in rank");
        return;
    }
    if (axes_left(b, 0) == 0) {
        vk_view(b, 0);
        return;
    }
    if (vk_in(b, 0)->dtype != PEN_DTYPE_F32) {
        nearest_build(b);
        return;
    }
    for (int32_t d = 0; d < x->rank && b->status == PEN_OK; d++) {
        double scale = 1.0;
        bool named = factor_of(b, d, x->dim[d], &scale);
        if (x->dim[d] == y->dim[d] && (!named || scale == 1.0)) {
            continue;
        }
        struct axis a = {.outer = 1, .in = (size_t)x->dim[d], .out = (size_t)y->dim[d], .inner = 1};
        for (int32_t k = 0; k < x->rank; k++) {
            *(k < d ? &a.outer : &a.inner) *= k == d ? 1 : (size_t)now.dim[k];
        }
        now.dim[d] = y->dim[d];
        uint32_t to = axes_left(b, d + 1) == 0 ? vk_out_cell(b, 0) : vk_temp_cell(b, (size_t)shape_elements(&now));
        if (named && table_make(b->n, &a, scale)) {
            axis_dispatch(b, &a, from, to);
        } else {
            vk_build_fail(b, PEN_ERR_UNSUPPORTED, "this scale, or scales that are only known while running");
        }
        free(a.table);
        from = to;
    }
}

const struct vk_op vk_op_resize = {resize_supports, NULL, resize_build};
