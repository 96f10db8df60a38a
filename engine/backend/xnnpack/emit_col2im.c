#include <string.h>

#include "backend/xnnpack/emitters.h"

#define DIMS_MAX PEN_MAX_RANK

/* Col2Im: [N, C x taps, positions] -> [N, C, image...]; every position adds its taps to the image. f32, any number of spatial dims. */
struct fold {
    int32_t dims;
    size_t planes, taps, positions, pixels;
    size_t image[DIMS_MAX], kernel[DIMS_MAX], blocks[DIMS_MAX],
        run[DIMS_MAX]; /* run: elements of one step along a dim */
    ptrdiff_t stride[DIMS_MAX], dilation[DIMS_MAX], begin[DIMS_MAX];
};

struct fold_job {
    const struct fold *q;
    const float *x;
    float *y;
};

static bool fold_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *x = node_in(g, n, 0);
    if (!dtype_is(x, PEN_DTYPE_F32)) {
        return refuse(ret_reason, "only f32");
    }
    return (in_constant(g, n, 1) && in_constant(g, n, 2)) || refuse(ret_reason, "sizes that the data decides");
}

/* The next index of `size`, last dim first; false after the last. */
static bool next(size_t *at, const size_t *size, int32_t dims)
{
    for (int32_t d = dims - 1; d >= 0; d--) {
        if (++at[d] < size[d]) {
            return true;
        }
        at[d] = 0;
    }
    return false;
}

/* One tap of all positions. */
static void tap_add(const struct fold *q, const size_t *tap, const float *x, float *y)
{
    size_t at[DIMS_MAX] = {0}, i = 0;
    do {
        bool inside = true;
        size_t to = 0;
        for (int32_t d = 0; d < q->dims; d++) {
            ptrdiff_t p = (ptrdiff_t)at[d] * q->stride[d] + (ptrdiff_t)tap[d] * q->dilation[d] - q->begin[d];
            inside = inside && p >= 0 && (size_t)p < q->image[d];
            to += (size_t)p * q->run[d];
        }
        if (inside) {
            y[to] += x[i];
        }
        i++;
    } while (next(at, q->blocks, q->dims));
}

static void fold_task(void *context, size_t plane)
{
    const struct fold_job *j = context;
    const struct fold *q = j->q;
    const float *x = j->x + plane * q->taps * q->positions;
    float *y = j->y + plane * q->pixels;
    size_t tap[DIMS_MAX] = {0};
    memset(y, 0, q->pixels * sizeof *y);
    do {
        tap_add(q, tap, x, y);
        x += q->positions;
    } while (next(tap, q->kernel, q->dims));
}

static enum pen_status fold_run(struct step *s, struct run *r)
{
    const struct fold *q = s->state;
    struct fold_job j = {q, s->in[0], s->out[0]};
    if (q->positions > 0) {
        parallel(r, fold_task, &j, q->planes);
    } else {
        memset(s->out[0], 0, q->planes * q->pixels * sizeof(float));
    }
    return PEN_OK;
}

static int64_t listed(const struct node *n, enum attr_key key, int32_t at, int64_t def)
{
    const struct attr *a = node_attr(n, key);
    return a != NULL && a->type == ATTR_INTS && (uint32_t)at < a->count ? a->ints[at] : def;
}

/* False when the numbers do not fit each other. */
static bool fold_read(const struct node *n, const struct shape *y, const struct fact *block, struct fold *q)
{
    const int64_t *kernel = block->data;
    bool fits =
        block->dtype == PEN_DTYPE_I64 && kernel != NULL && y->rank >= 3 && shape_elements(&block->shape) == y->rank - 2;
    q->dims = y->rank - 2;
    q->taps = q->positions = q->pixels = 1;
    for (int32_t d = q->dims - 1; fits && d >= 0; d--) {
        int64_t stride = listed(n, ATTR_strides, d, 1), dilation = listed(n, ATTR_dilations, d, 1);
        int64_t begin = listed(n, ATTR_pads, d, 0), end = listed(n, ATTR_pads, d + q->dims, 0), image = y->dim[2 + d];
        int64_t most = INT32_MAX;
        fits = stride > 0 && dilation > 0 && kernel[d] > 0 && begin >= 0 && end >= 0 && image >= 0 && stride < most &&
               dilation < most && kernel[d] < most && begin < most && end < most && image < most;
        int64_t room = fits ? image + begin + end - dilation * (kernel[d] - 1) - 1 : -1;
        fits = fits && room >= 0;
        q->blocks[d] = fits ? (size_t)(room / stride) + 1 : 0;
        q->image[d] = (size_t)image;
        q->kernel[d] = fits ? (size_t)kernel[d] : 0;
        q->stride[d] = stride;
        q->dilation[d] = dilation;
        q->begin[d] = begin;
        q->run[d] = q->pixels;
        q->pixels *= q->image[d];
        q->taps *= q->kernel[d];
        q->positions *= q->blocks[d];
    }
    return fits;
}

static enum pen_status fold_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape, *y = &build_out(b, 0)->shape;
    struct fold *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    bool fits = fold_read(b->n, y, build_in(b, 2), q);
    q->planes = fits ? (size_t)(y->dim[0] * y->dim[1]) : 0;
    if (!fits || x->rank != 3 || (size_t)x->dim[1] != (size_t)y->dim[1] * q->taps ||
        (size_t)x->dim[2] != q->positions) {
        return build_fail(b, PEN_ERR_SHAPE, "the columns do not fit the image");
    }
    b->step->state = q;
    b->step->run = fold_run;
    return PEN_OK;
}

const struct emitter emit_col2im = {fold_supports, NULL, fold_build};
