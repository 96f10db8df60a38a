#include "backend/xnnpack/deconv_tiles.h"

#include "backend/xnnpack/deconv_weights.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"

struct tiles {
    struct deconv_weights k;
    struct dense dense; /* of one row of the picture */
    struct dense_item *items;
    size_t rows; /* of all pictures */
    const void *packed;
};

/* Results of a position that fill whole panels are a product of their own: they need not lie side by side with those of its neighbours. */
static struct deconv_weights kernel_of(const struct shape *w)
{
    return deconv_weights_of(w, 1, (size_t)w->dim[1] % isa_own()->gemm_nr != 0);
}

/* Every number of a list is this one; absent = true. */
static bool all_are(const struct node *n, enum attr_key key, int64_t number)
{
    uint32_t count = 0;
    const int64_t *items = node_ints(n, key, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (items[i] != number) {
            return false;
        }
    }
    return true;
}

static bool strides_fit(const struct node *n, const struct shape *w)
{
    uint32_t count = 0;
    const int64_t *strides = node_ints(n, ATTR_strides, &count);
    return count == 2 && strides[0] == w->dim[2] && strides[1] == w->dim[3];
}

bool deconv_tiles_takes(const struct graph *g, const struct node *n)
{
    const struct value *w = node_in(g, n, 1), *bias = node_in(g, n, 2);
    const bool constant = w != NULL && w->data != NULL && (bias == NULL || bias->data != NULL);
    const bool plain =
        node_int(n, ATTR_layout, LAYOUT_NCHW) == LAYOUT_NHWC && node_int(n, ATTR_group, 1) == 1 &&
        node_int(n, ATTR_weight_layout, WEIGHT_OIHW) == WEIGHT_OIHW && node_attr(n, ATTR_output_shape) == NULL &&
        all_are(n, ATTR_dilations, 1) && all_are(n, ATTR_pads, 0) && all_are(n, ATTR_output_padding, 0) &&
        (node_text_is(n, ATTR_auto_pad, "NOTSET", true) || node_text_is(n, ATTR_auto_pad, "VALID", false));
    return isa_own()->wide && constant && plain && w->shape.rank == 4 && w->dtype == PEN_DTYPE_F32 &&
           strides_fit(n, &w->shape);
}

enum pen_status deconv_tiles_pack(const struct graph *g, const struct node *n, enum gemm_form form, void **ret_packed,
                                  size_t *ret_bytes, struct pen_error *reterr)
{
    const struct deconv_weights k = kernel_of(&node_in(g, n, 1)->shape);
    return deconv_weights_pack(g, n, &k, form, ret_packed, ret_bytes, reterr);
}

static enum pen_status tiles_bind(struct step *s, struct run *r)
{
    struct tiles *t = s->state;
    const struct deconv_weights *k = &t->k;
    const size_t products = deconv_weights_products(k), width = t->dense.m;
    (void)r;
    t->dense.image.pixel_stride = s->in_row[0];
    t->dense.y_stride = k->width * s->out_row;
    for (size_t i = 0; i < t->rows * products; i++) {
        const size_t row = i / products, product = i % products;
        const size_t ky = k->rows ? product : product / k->width, kx = k->rows ? 0 : product % k->width;
        const struct dense_weights *w = deconv_weights_at(k, t->dense.form, t->packed, 0, product);
        t->items[i] = (struct dense_item){.x = (const float *)s->in[0] + row * width * s->in_row[0],
                                          .panels = w->data,
                                          .bias = dense_bias(w),
                                          .y = (float *)s->out[0] +
                                               ((row * k->height + ky) * width * k->width + kx) * s->out_row};
    }
    return PEN_OK;
}

static enum pen_status tiles_run(struct step *s, struct run *r)
{
    const struct tiles *t = s->state;
    dense_run(&t->dense, t->items, t->rows * deconv_weights_products(&t->k), s->scratch, r);
    return PEN_OK;
}

enum pen_status deconv_tiles_build(struct build *b)
{
    const struct shape *x = &build_in(b, 0)->shape;
    const struct deconv_weights k = kernel_of(&build_in(b, 1)->shape);
    struct tiles *t = build_alloc(b, sizeof *t);
    if (t == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    *t = (struct tiles){.k = k, .rows = (size_t)(x->dim[0] * x->dim[1]), .packed = b->packed};
    t->items = build_alloc(b, t->rows * deconv_weights_products(&k) * sizeof *t->items);
    if (t->items == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const struct act act = act_read(b->n);
    const struct dense_weights *first = b->packed;
    dense_init_matrix(&t->dense, (size_t)x->dim[2], k.in, deconv_weights_columns(&k), k.in, build_threads(b));
    dense_form_set(&t->dense, first->form, build_threads(b));
    t->dense.min = act.min;
    t->dense.max = act.max;
    t->dense.act = act;
    b->rows_in = 1;
    b->rows_out = !k.rows;
    b->step->scratch_bytes = dense_scratch_bytes(&t->dense, build_threads(b));
    b->step->state = t;
    b->step->bind = tiles_bind;
    b->step->run = tiles_run;
    b->step->kernel = t->dense.tiles              ? "own gemm of windows side by side, bf16 in AMX tiles"
                      : first->form == GEMM_PAIRS ? "own gemm of windows side by side, bf16 by its instruction"
                      : first->form == GEMM_BF16  ? "own gemm of windows side by side, weights of bf16"
                                                  : "own gemm of windows side by side";
    b->step->why = "the kernel is as large as the stride: no two inputs meet in an output";
    return PEN_OK;
}
