#include "backend/window.h"
#include "backend/vulkan/single.h"

#include <stdlib.h>

#include "graph/infer.h"

float vk_single_next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 16777216.0f;
}

void vk_single_fill(float *x, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        x[i] = vk_single_next(&seed) - 0.5f;
    }
}

void vk_single_fill_bytes(uint8_t *x, size_t count, uint32_t seed)
{
    for (size_t i = 0; i < count; i++) {
        x[i] = (uint8_t)(256.0f * vk_single_next(&seed));
    }
}

void vk_single_round(float *x, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        x[i] = pen_bf16_to_f32(pen_f32_to_bf16(x[i]));
    }
}

static enum pen_status value_make(struct vk_single *s, const char *name, const struct shape *shape, uint32_t *ret_value)
{
    enum pen_status status = graph_value(s->g, name, ret_value);
    if (status == PEN_OK) {
        s->g->values[*ret_value].shape = *shape;
        s->g->values[*ret_value].dtype = PEN_DTYPE_F32;
        s->g->values[*ret_value].kind = VALUE_TENSOR;
    }
    return status;
}

static enum pen_status weights_make(struct vk_single *s, const struct shape *shape, uint32_t *ret_value)
{
    size_t bytes = 0;
    enum pen_status status = shape_bytes(shape, PEN_DTYPE_F32, 0, &bytes);
    float *w = status == PEN_OK ? malloc(bytes) : NULL;
    if (status == PEN_OK && w == NULL) {
        status = PEN_ERR_NO_MEMORY;
    }
    if (status == PEN_OK) {
        vk_single_fill(w, bytes / sizeof *w, 11);
        status = graph_constant(s->g, "w", PEN_DTYPE_F32, shape, w, bytes, true, ret_value);
    }
    free(w);
    return status;
}

/* Facts and plan of the node. */
static enum pen_status plan_make(struct backend *b, struct vk_single *s, uint32_t node, struct pen_error *reterr)
{
    const struct partition part = {&node, 1, s->in, s->in_count, &s->out, 1};
    s->facts = calloc(s->g->value_count, sizeof *s->facts);
    if (s->facts == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (uint32_t v = 0; v < s->g->value_count; v++) {
        const struct value *value = &s->g->values[v];
        s->facts[v] =
            (struct fact){.dtype = value->dtype, .shape = value->shape, .data = value->data, .bytes = value->bytes};
    }
    s->env = (struct shape_env){.g = s->g, .facts = s->facts};
    return vk_plan_shell(b, s->g, &part, &s->plan, reterr);
}

/* Two shapes in, one out; the second is a constant unless it is computed. Gives the node. */
static enum pen_status node_make(struct vk_single *s, enum op op, const struct shape shapes[3], bool computed,
                                 uint32_t *ret_node)
{
    uint32_t in[2] = {0};
    enum pen_status status = graph_new(NULL, &s->g);
    if (status == PEN_OK) {
        status = value_make(s, "x", &shapes[0], &in[0]);
    }
    if (status == PEN_OK) {
        status = computed ? value_make(s, "w", &shapes[1], &in[1]) : weights_make(s, &shapes[1], &in[1]);
    }
    if (status == PEN_OK) {
        status = value_make(s, "y", &shapes[2], &s->out);
    }
    s->in[0] = in[0];
    s->in[1] = in[1];
    s->in_count = computed ? 2 : 1;
    return status == PEN_OK ? graph_node(s->g, op, "measured", in, 2, &s->out, 1, ret_node) : status;
}

static enum pen_status finish(struct vk_single *s, enum pen_status status, struct pen_error *reterr)
{
    if (status != PEN_OK) {
        vk_single_fini(s);
        return status == PEN_ERR_NO_MEMORY ? pen_error_set(reterr, status, "no memory for a graph of one node")
                                           : status;
    }
    return PEN_OK;
}

enum pen_status vk_single_product(struct backend *b, const struct vk_product_shape *shape, struct vk_single *ret_single,
                                  struct pen_error *reterr)
{
    const int64_t m = (int64_t)shape->rows, k = (int64_t)shape->depth, n = (int64_t)shape->outs,
                  g = (int64_t)shape->groups;
    bool batch = shape->kind == VK_PRODUCT_BATCH;
    const struct shape shapes[3] = {
        batch ? shape_of(3, (int64_t[]){g, m, k}) : shape_of(2, (int64_t[]){m, k}),
        batch ? shape_of(3, (int64_t[]){g, k, n}) : shape_of(2, (int64_t[]){k, n}),
        batch ? shape_of(3, (int64_t[]){g, m, n}) : shape_of(2, (int64_t[]){m, n}),
    };
    uint32_t node = 0;
    *ret_single = (struct vk_single){0};
    enum pen_status status = node_make(ret_single, OP_MatMul, shapes, batch, &node);
    if (status == PEN_OK) {
        status = plan_make(b, ret_single, node, reterr);
    }
    return finish(ret_single, status, reterr);
}

static enum pen_status pair_set(struct graph *g, uint32_t node, enum attr_key key, const size_t pair[2])
{
    return graph_attr_ints(g, node, key, (int64_t[]){(int64_t)pair[0], (int64_t)pair[1]}, 2);
}

/* Padding behind: what makes this window's output size. */
static int64_t pad_behind(const struct window *w, int i)
{
    int64_t span = (int64_t)((w->out[i] - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1),
            pad = span - (int64_t)(w->in[i] + w->begin[i]);
    return pad > 0 ? pad : 0;
}

/* layout of the weights: OHWI. */
static enum pen_status window_set(struct graph *g, uint32_t node, const struct window *w, size_t groups)
{
    const int64_t pads[4] = {(int64_t)w->begin[0], (int64_t)w->begin[1], pad_behind(w, 0), pad_behind(w, 1)};
    const bool set = graph_attr_int(g, node, ATTR_layout, LAYOUT_NHWC) == PEN_OK &&
                     graph_attr_int(g, node, ATTR_weight_layout, WEIGHT_OHWI) == PEN_OK &&
                     graph_attr_int(g, node, ATTR_group, (int64_t)groups) == PEN_OK &&
                     pair_set(g, node, ATTR_strides, w->stride) == PEN_OK &&
                     pair_set(g, node, ATTR_dilations, w->dilation) == PEN_OK &&
                     graph_attr_ints(g, node, ATTR_pads, pads, 4) == PEN_OK;
    return set ? PEN_OK : PEN_ERR_NO_MEMORY;
}

/* Input, weights and output of the convolution that makes this window. */
static void window_shapes(const struct window *w, size_t groups, size_t outs, struct shape shapes[3])
{
    const int64_t n = (int64_t)w->batch, o = (int64_t)outs;
    shapes[0] = shape_of(4, (int64_t[]){n, (int64_t)w->in[0], (int64_t)w->in[1], (int64_t)w->channels});
    shapes[1] =
        shape_of(4, (int64_t[]){o, (int64_t)w->kernel[0], (int64_t)w->kernel[1], (int64_t)(w->channels / groups)});
    shapes[2] = shape_of(4, (int64_t[]){n, (int64_t)w->out[0], (int64_t)w->out[1], o});
}

enum pen_status vk_single_conv(struct backend *b, const struct window *w, size_t groups, size_t outs,
                               struct vk_single *ret_single, struct pen_error *reterr)
{
    struct shape shapes[3];
    uint32_t node = 0;
    window_shapes(w, groups, outs, shapes);
    *ret_single = (struct vk_single){0};
    enum pen_status status = node_make(ret_single, OP_Conv, shapes, false, &node);
    if (status == PEN_OK) {
        status = window_set(ret_single->g, node, w, groups);
    }
    if (status == PEN_OK) {
        status = plan_make(b, ret_single, node, reterr);
    }
    return finish(ret_single, status, reterr);
}

/* Bytes or floats within 0.005, seeded. */
static enum pen_status constant_make(struct vk_single *s, enum pen_dtype dtype, const struct shape *shape,
                                     uint32_t *ret_value)
{
    const size_t count = (size_t)shape_elements(shape), bytes = count * (dtype == PEN_DTYPE_F32 ? sizeof(float) : 1);
    uint8_t *data = malloc(bytes);
    if (data == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    if (dtype == PEN_DTYPE_F32) {
        vk_single_fill((float *)data, count, 11);
        for (size_t i = 0; i < count; i++) {
            ((float *)data)[i] *= 0.01f;
        }
    } else {
        vk_single_fill_bytes(data, count, 11);
    }
    enum pen_status status = graph_constant(s->g, NULL, dtype, shape, data, bytes, true, ret_value);
    free(data);
    return status;
}

static enum pen_status codes_node(struct vk_single *s, const struct vk_product_shape *shape,
                                  const struct vk_coding *coding, uint32_t *ret_node)
{
    const size_t blocks = (shape->depth + coding->block - 1) / coding->block;
    const struct shape x = shape_of(2, (int64_t[]){(int64_t)shape->rows, (int64_t)shape->depth}),
                       y = shape_of(2, (int64_t[]){(int64_t)shape->rows, (int64_t)shape->outs}),
                       codes =
                           shape_of(1, (int64_t[]){(int64_t)(shape->outs * blocks * coding->block * coding->bits / 8)}),
                       scales = shape_of(1, (int64_t[]){(int64_t)(shape->outs * blocks)});
    uint32_t in[3];
    enum pen_status status = graph_new(NULL, &s->g);
    status = status == PEN_OK ? value_make(s, "x", &x, &in[0]) : status;
    status = status == PEN_OK ? constant_make(s, PEN_DTYPE_U8, &codes, &in[1]) : status;
    status = status == PEN_OK ? constant_make(s, PEN_DTYPE_F32, &scales, &in[2]) : status;
    status = status == PEN_OK ? value_make(s, "y", &y, &s->out) : status;
    s->in[0] = in[0];
    s->in_count = 1;
    return status == PEN_OK ? graph_node(s->g, OP_MatMulNBits, "measured", in, 3, &s->out, 1, ret_node) : status;
}

enum pen_status vk_single_codes(struct backend *b, const struct vk_product_shape *shape, const struct vk_coding *coding,
                                struct vk_single *ret_single, struct pen_error *reterr)
{
    uint32_t node = 0;
    *ret_single = (struct vk_single){0};
    enum pen_status status = codes_node(ret_single, shape, coding, &node);
    struct graph *g = ret_single->g;
    if (status == PEN_OK && (graph_attr_int(g, node, ATTR_K, (int64_t)shape->depth) != PEN_OK ||
                             graph_attr_int(g, node, ATTR_N, (int64_t)shape->outs) != PEN_OK ||
                             graph_attr_int(g, node, ATTR_bits, coding->bits) != PEN_OK ||
                             graph_attr_int(g, node, ATTR_block_size, coding->block) != PEN_OK)) {
        status = PEN_ERR_NO_MEMORY;
    }
    if (status == PEN_OK) {
        status = plan_make(b, ret_single, node, reterr);
    }
    return finish(ret_single, status, reterr);
}

/* The scales and zero points behind x and w of QLinearConv and QLinearMatMul. Weights lie around 0: their zero point is 0. */
static enum pen_status affine_make(struct vk_single *s, uint32_t in[8])
{
    static const float scales[3] = {0.013f, 0.001f, 0.11f};
    static const uint8_t zeros[3] = {121, 0, 130};
    const struct shape one = shape_scalar();
    enum pen_status status = PEN_OK;
    for (uint32_t i = 0; i < 3 && status == PEN_OK; i++) {
        const uint32_t at = 3 * i + (i < 2 ? 1 : 0);
        status = graph_constant(s->g, NULL, PEN_DTYPE_F32, &one, &scales[i], sizeof scales[i], true, &in[at]);
        if (status == PEN_OK) {
            status =
                graph_constant(s->g, NULL, i == 1 ? PEN_DTYPE_I8 : PEN_DTYPE_U8, &one, &zeros[i], 1, true, &in[at + 1]);
        }
    }
    return status;
}

static enum pen_status quantised_node(struct vk_single *s, enum op op, const struct shape shapes[3], uint32_t *ret_node)
{
    uint32_t in[8];
    enum pen_status status = graph_new(NULL, &s->g);
    status = status == PEN_OK ? value_make(s, "x", &shapes[0], &in[0]) : status;
    status = status == PEN_OK ? constant_make(s, PEN_DTYPE_I8, &shapes[1], &in[3]) : status;
    status = status == PEN_OK ? affine_make(s, in) : status;
    status = status == PEN_OK ? value_make(s, "y", &shapes[2], &s->out) : status;
    if (status != PEN_OK) {
        return status;
    }
    s->in[0] = in[0];
    s->in_count = 1;
    s->g->values[in[0]].dtype = s->g->values[s->out].dtype = PEN_DTYPE_U8;
    return graph_node(s->g, op, "measured", in, 8, &s->out, 1, ret_node);
}

enum pen_status vk_single_quantised(struct backend *b, const struct vk_product_shape *shape, const struct window *w,
                                    struct vk_single *ret_single, struct pen_error *reterr)
{
    const int64_t m = (int64_t)shape->rows, k = (int64_t)shape->depth, n = (int64_t)shape->outs;
    const bool windows = shape->kind == VK_PRODUCT_BYTE_WINDOWS;
    struct shape shapes[3] = {shape_of(2, (int64_t[]){m, k}), shape_of(2, (int64_t[]){k, n}),
                              shape_of(2, (int64_t[]){m, n})};
    uint32_t node = 0;
    if (windows) {
        window_shapes(w, shape->groups, shape->outs * shape->groups, shapes);
    }
    *ret_single = (struct vk_single){0};
    enum pen_status status = quantised_node(ret_single, windows ? OP_QLinearConv : OP_QLinearMatMul, shapes, &node);
    if (status == PEN_OK && windows) {
        status = window_set(ret_single->g, node, w, shape->groups);
    }
    if (status == PEN_OK) {
        status = plan_make(b, ret_single, node, reterr);
    }
    return finish(ret_single, status, reterr);
}

#define NODE_INPUTS 9

static enum pen_status input_make(struct vk_single *s, const struct vk_single_value *in, uint32_t *ret_value)
{
    size_t bytes = 0;
    enum pen_status status = shape_bytes(&in->shape, in->dtype, 0, &bytes);
    if (status == PEN_OK && in->data != NULL) {
        return graph_constant(s->g, NULL, in->dtype, &in->shape, in->data, bytes, false, ret_value);
    }
    if (status == PEN_OK) {
        status = value_make(s, NULL, &in->shape, ret_value);
    }
    if (status == PEN_OK) {
        s->g->values[*ret_value].dtype = in->dtype;
        s->in[s->in_count++] = *ret_value;
    }
    return status;
}

enum pen_status vk_single_node(struct backend *b, enum op op, const struct vk_single_value *in, uint32_t in_count,
                               const struct vk_single_value *out,
                               enum pen_status (*attrs)(struct graph *g, uint32_t node), struct vk_single *ret_single,
                               struct pen_error *reterr)
{
    uint32_t values[NODE_INPUTS], node = 0;
    *ret_single = (struct vk_single){0};
    enum pen_status status = graph_new(NULL, &ret_single->g);
    for (uint32_t i = 0; i < in_count && i < NODE_INPUTS && status == PEN_OK; i++) {
        status = input_make(ret_single, &in[i], &values[i]);
    }
    if (status == PEN_OK) {
        status = value_make(ret_single, "y", &out->shape, &ret_single->out);
    }
    if (status == PEN_OK) {
        ret_single->g->values[ret_single->out].dtype = out->dtype;
        status = graph_node(ret_single->g, op, "tested", values, in_count, &ret_single->out, 1, &node);
    }
    if (status == PEN_OK && attrs != NULL) {
        status = attrs(ret_single->g, node);
    }
    if (status == PEN_OK) {
        status = plan_make(b, ret_single, node, reterr);
    }
    return finish(ret_single, status, reterr);
}

static struct buffer_view view_of(const struct vk_single *s, uint32_t value, void *data)
{
    const struct fact *f = &s->facts[value];
    struct buffer_view view = {.data = data, .shape = f->shape, .dtype = f->dtype};
    (void)shape_bytes(&f->shape, f->dtype, 0, &view.bytes);
    return view;
}

enum pen_status vk_single_run(const struct vk_single *s, const void *const *in, void *out, struct pen_error *reterr)
{
    struct exec *exec = NULL;
    struct buffer_view from[2], to = view_of(s, s->out, out);
    for (uint32_t i = 0; i < s->in_count; i++) {
        from[i] = view_of(s, s->in[i], (void *)(uintptr_t)in[i]);
    }
    enum pen_status status = vk_exec_make(s->plan, &s->env, &exec, reterr);
    if (status == PEN_OK) {
        status = vk_exec_submit(exec, from, &to, NULL, reterr);
    }
    if (status == PEN_OK) {
        status = vk_exec_wait(exec, reterr);
    }
    vk_exec_free(exec);
    return status;
}

void vk_single_fini(struct vk_single *s)
{
    vk_plan_free(s->plan);
    free(s->facts);
    graph_free(s->g);
    *s = (struct vk_single){0};
}

size_t vk_single_bytes(const struct vk_single *s, uint32_t value)
{
    size_t bytes = 0;
    const struct fact *f = &s->facts[value];
    return shape_bytes(&f->shape, f->dtype, 0, &bytes) == PEN_OK ? bytes : 0;
}
