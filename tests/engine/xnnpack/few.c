#include "few.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "cross.h"
#include "graph/annotate.h"
#include "graph/internal.h"
#include "graph/lifetime.h"

#define FEW_MAX 24

struct few {
    struct graph *g;
    uint32_t in[FEW_MAX], out[FEW_MAX], nodes[FEW_MAX], in_count, out_count, node_count;
    char kernels[FEW_MAX][64], reasons[FEW_MAX][160];
    uint64_t (*now_ns)(void); /* NULL: nothing is timed */
    const char *options;
    uint32_t kernel_count;
    double bound;
    size_t odd_at;
    float odd; /* 0: none is */
};

static enum pen_isa limit = PEN_ISA_ANY;

void few_limit(enum pen_isa most)
{
    limit = most;
}

struct few *few_new(void)
{
    struct few *f = calloc(1, sizeof *f);
    cr_assert_not_null(f);
    reference_evaluator_register();
    cr_assert_eq(graph_new(NULL, &f->g), PEN_OK);
    return f;
}

static float *floats_new(size_t count)
{
    float *data = aligned_alloc(64, (count * sizeof *data + LIFETIME_PAD + 63) / 64 * 64);
    cr_assert_not_null(data);
    for (size_t i = 0; i < count; i++) {
        data[i] = -1.0f + (float)cross_random() / 8388608.0f;
    }
    return data;
}

uint32_t few_input(struct few *f, int32_t rank, const int64_t *dims)
{
    uint32_t v = VALUE_NONE;
    cr_assert_eq(graph_value(f->g, NULL, &v), PEN_OK);
    f->g->values[v].dtype = PEN_DTYPE_F32;
    f->g->values[v].shape = shape_of(rank, dims);
    cr_assert_eq(graph_input_add(f->g, v), PEN_OK);
    f->in[f->in_count++] = v;
    return v;
}

uint32_t few_constant(struct few *f, int32_t rank, const int64_t *dims)
{
    const struct shape s = shape_of(rank, dims);
    uint32_t v = VALUE_NONE;
    const size_t count = (size_t)shape_elements(&s);
    float *data = floats_new(count);
    cr_assert_eq(graph_constant(f->g, NULL, PEN_DTYPE_F32, &s, data, count * sizeof *data, true, &v), PEN_OK);
    free(data);
    return v;
}

uint32_t few_codes(struct few *f, int32_t rank, const int64_t *dims, int32_t axis, bool each)
{
    const uint32_t v = few_constant(f, rank, dims);
    const uint32_t scales = each ? (uint32_t)dims[axis] : 1;
    float *data = (float *)(uintptr_t)f->g->values[v].data, *scale = graph_alloc(f->g, scales * sizeof *scale);
    int32_t *zero = graph_alloc(f->g, scales * sizeof *zero);
    int64_t inner = 1;
    cr_assert(scale != NULL && zero != NULL);
    for (int32_t d = axis + 1; d < rank; d++) {
        inner *= dims[d];
    }
    for (uint32_t i = 0; i < scales; i++) {
        scale[i] = 0.003f + 0.0001f * (float)(i % 29);
        zero[i] = 0;
    }
    for (int64_t i = 0; i < shape_elements(&f->g->values[v].shape); i++) {
        data[i] = scale[each ? i / inner % dims[axis] : 0] * roundf(data[i] * 127.0f);
    }
    f->g->values[v].quant = (struct quant){.count = scales, .axis = axis, .scale = scale, .zero_point = zero};
    return v;
}

uint32_t few_data(struct few *f, int64_t count, const float *items)
{
    uint32_t v = VALUE_NONE;
    cr_assert_eq(graph_constant_f32(f->g, items, (size_t)count, false, &v), PEN_OK);
    return v;
}

uint32_t few_number(struct few *f, float number)
{
    uint32_t v = VALUE_NONE;
    cr_assert_eq(graph_constant_f32(f->g, &number, 1, true, &v), PEN_OK);
    return v;
}

uint32_t few_result(struct few *f, enum op op, uint32_t count, const uint32_t *in, uint32_t at)
{
    uint32_t out[3] = {VALUE_NONE, VALUE_NONE, VALUE_NONE};
    cr_assert_lt(f->node_count, FEW_MAX);
    cr_assert_eq(graph_value(f->g, NULL, &out[at]), PEN_OK);
    f->g->values[out[at]].dtype = PEN_DTYPE_F32;
    cr_assert_eq(graph_node(f->g, op, NULL, in, count, out, at + 1, &f->nodes[f->node_count++]), PEN_OK);
    return out[at];
}

uint32_t few_node(struct few *f, enum op op, uint32_t count, const uint32_t *in)
{
    return few_result(f, op, count, in, 0);
}

void few_int(struct few *f, uint32_t value, enum attr_key key, int64_t number)
{
    cr_assert_eq(graph_attr_int(f->g, f->g->values[value].producer, key, number), PEN_OK);
}

void few_float(struct few *f, uint32_t value, enum attr_key key, float number)
{
    cr_assert_eq(graph_attr_float(f->g, f->g->values[value].producer, key, number), PEN_OK);
}

void few_text(struct few *f, uint32_t value, enum attr_key key, const char *text)
{
    cr_assert_eq(graph_attr_text(f->g, f->g->values[value].producer, key, text), PEN_OK);
}

void few_ints(struct few *f, uint32_t value, enum attr_key key, uint32_t count, const int64_t *items)
{
    cr_assert_eq(graph_attr_ints(f->g, f->g->values[value].producer, key, items, count), PEN_OK);
}

void few_split(struct few *f, uint32_t x, int64_t axis, const int64_t *sizes, uint32_t count, uint32_t *ret)
{
    uint32_t in[2] = {x, VALUE_NONE};
    cr_assert_eq(graph_constant_i64(f->g, sizes, count, false, &in[1]), PEN_OK);
    for (uint32_t i = 0; i < count; i++) {
        cr_assert_eq(graph_value(f->g, NULL, &ret[i]), PEN_OK);
        f->g->values[ret[i]].dtype = PEN_DTYPE_F32;
    }
    cr_assert_lt(f->node_count, FEW_MAX);
    cr_assert_eq(graph_node(f->g, OP_Split, NULL, in, 2, ret, count, &f->nodes[f->node_count++]), PEN_OK);
    few_int(f, ret[0], ATTR_axis, axis);
}

uint32_t few_conv(struct few *f, uint32_t x, uint32_t w, uint32_t bias, struct few_window window)
{
    const uint32_t y = few_node(f, OP_Conv, bias == VALUE_NONE ? 2 : 3, (uint32_t[]){x, w, bias});
    const uint32_t node = f->g->values[y].producer;
    const int64_t pad = window.kernel / 2 * window.dilation, stride = window.stride, dilation = window.dilation;
    few_int(f, y, ATTR_layout, LAYOUT_NHWC);
    few_int(f, y, ATTR_weight_layout, WEIGHT_OHWI);
    few_int(f, y, ATTR_group, window.group);
    cr_assert_eq(graph_attr_ints(f->g, node, ATTR_pads, (int64_t[]){pad, pad, pad, pad}, 4), PEN_OK);
    cr_assert_eq(graph_attr_ints(f->g, node, ATTR_strides, (int64_t[]){stride, stride}, 2), PEN_OK);
    cr_assert_eq(graph_attr_ints(f->g, node, ATTR_dilations, (int64_t[]){dilation, dilation}, 2), PEN_OK);
    return y;
}

void few_output(struct few *f, uint32_t value)
{
    cr_assert_eq(graph_output_add(f->g, value), PEN_OK);
    f->out[f->out_count++] = value;
}

static void kernel_note(void *context, uint32_t index, const char *kernel, const char *why)
{
    struct few *f = context;
    (void)index;
    cr_assert_not_null(why);
    strncpy(f->reasons[f->kernel_count], why, sizeof f->reasons[0] - 1);
    strncpy(f->kernels[f->kernel_count++], kernel, sizeof f->kernels[0] - 1);
}

uint32_t few_kernels(const struct few *f, const char *start)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->kernel_count; i++) {
        count += strncmp(f->kernels[i], start, strlen(start)) == 0;
    }
    return count;
}

uint32_t few_reasons(const struct few *f, const char *words)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < f->kernel_count; i++) {
        count += strstr(f->reasons[i], words) != NULL;
    }
    return count;
}

void few_measure(struct few *f, uint64_t (*now_ns)(void))
{
    f->now_ns = now_ns;
}

void few_options(struct few *f, const char *options)
{
    f->options = options;
}

void few_near(struct few *f, double bound)
{
    f->bound = bound;
}

void few_odd(struct few *f, size_t at, float number)
{
    f->odd_at = at;
    f->odd = number;
}

struct outcome {
    float *data[FEW_MAX];
    size_t bytes[FEW_MAX];
};

static void once(struct few *f, const char *name, const struct shape_env *env, struct backend_config config,
                 const struct buffer_view *in, struct outcome *o)
{
    const struct backend_ops *ops = backend_find(name);
    struct pen_error error = {0};
    struct backend *backend = NULL;
    struct plan *plan = NULL;
    struct exec *exec = NULL;
    struct buffer_view out[FEW_MAX];
    const struct partition part = {f->nodes, f->node_count, f->in, f->in_count, f->out, f->out_count};
    config.measure_kernels = f->now_ns != NULL;
    config.now_ns = f->now_ns;
    config.options = f->options;
    config.isa_max = limit;
    cr_assert_eq(ops->open(&config, &backend, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(ops->plan_new(backend, f->g, &part, &plan, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(ops->exec_new(plan, env, &exec, &error), PEN_OK, "%s", error.text);
    for (uint32_t i = 0; i < f->out_count; i++) {
        const struct shape *s = &env->facts[f->out[i]].shape;
        o->bytes[i] = (size_t)shape_elements(s) * sizeof(float);
        o->data[i] = floats_new(o->bytes[i] / sizeof(float));
        memset((char *)o->data[i] + o->bytes[i], 0xA5, LIFETIME_PAD);
        out[i] = (struct buffer_view){.data = o->data[i], .bytes = o->bytes[i], .shape = *s, .dtype = PEN_DTYPE_F32};
    }
    for (int turn = 0; turn < 2; turn++) { /* the second finds every buffer as the first left it */
        cr_assert_eq(ops->exec_submit(exec, in, out, NULL, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(ops->exec_wait(exec, &error), PEN_OK, "%s", error.text);
    }
    for (uint32_t i = 0; i < f->out_count; i++) {
        for (size_t k = 0; k < LIFETIME_PAD; k++) {
            cr_assert_eq(((const uint8_t *)o->data[i] + o->bytes[i])[k], 0xA5, "output %u: written behind it", i);
        }
    }
    f->kernel_count = 0;
    if (ops->exec_kernels != NULL) {
        ops->exec_kernels(exec, kernel_note, f);
    }
    ops->exec_free(exec);
    ops->plan_free(plan);
    ops->close(backend);
}

static void same(const struct few *f, const struct outcome *a, const struct outcome *b, const char *what)
{
    for (uint32_t i = 0; i < f->out_count; i++) {
        for (size_t k = 0; k < a->bytes[i] / sizeof(float); k++) {
            cr_assert_eq(memcmp(&a->data[i][k], &b->data[i][k], sizeof(float)), 0,
                         "%s: output %u, element %zu: %.9g and %.9g", what, i, k, (double)a->data[i][k],
                         (double)b->data[i][k]);
        }
    }
}

/* Within the bound; NaN only, and at least, where both have it. */
static void near(const struct few *f, const struct outcome *a, const struct outcome *b)
{
    for (uint32_t i = 0; i < f->out_count; i++) {
        double largest = 0.0;
        for (size_t k = 0; k < a->bytes[i] / sizeof(float); k++) {
            largest = fmax(largest, fabs((double)a->data[i][k]));
        }
        for (size_t k = 0; k < a->bytes[i] / sizeof(float); k++) {
            const double x = (double)a->data[i][k], y = (double)b->data[i][k];
            cr_assert((isnan(x) && isnan(y)) || fabs(x - y) <= f->bound * largest,
                      "output %u, element %zu: %.9g on the reference, %.9g here, of %.9g", i, k, x, y, largest);
        }
    }
}

static void outcome_free(struct outcome *o)
{
    for (uint32_t i = 0; i < FEW_MAX; i++) {
        free(o->data[i]);
    }
}

void few_run(struct few *f, uint32_t joined)
{
    struct pen_error error = {0};
    struct shape_env *env = NULL;
    struct buffer_view in[FEW_MAX];
    struct outcome alone = {0}, one = {0}, two = {0};
    cr_assert_eq(graph_annotate(f->g, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(shape_env_new(f->g, NULL, NULL, false, &env, &error), PEN_OK, "%s", error.text);
    for (uint32_t i = 0; i < f->in_count; i++) {
        const struct shape *s = &env->facts[f->in[i]].shape;
        const size_t count = (size_t)shape_elements(s);
        in[i] = (struct buffer_view){
            .data = floats_new(count), .bytes = count * sizeof(float), .shape = *s, .dtype = PEN_DTYPE_F32};
        if (f->odd != 0.0f) {
            ((float *)(uintptr_t)in[i].data)[f->odd_at] = f->odd;
        }
    }
    if (f->bound > 0.0) {
        once(f, "reference", env, (struct backend_config){.threads = 1}, in, &alone);
    } else {
        once(f, "xnnpack", env, (struct backend_config){.threads = 1, .check_numerics = true}, in, &alone);
        cr_assert_eq(few_kernels(f, "joined"), 0, "nodes run one by one where each result is checked");
    }
    once(f, "xnnpack", env, (struct backend_config){.threads = 2}, in, &two);
    once(f, "xnnpack", env, (struct backend_config){.threads = 1}, in, &one);
    if (f->bound > 0.0) {
        near(f, &alone, &one);
    } else {
        same(f, &alone, &one, "one by one and joined");
    }
    same(f, &one, &two, "1 and 2 threads");
    if (joined != UINT32_MAX) {
        cr_assert_eq(few_kernels(f, "joined"), joined, "%u nodes joined, not %u; %s; %s; %s", few_kernels(f, "joined"),
                     joined, f->kernels[0], f->kernels[1], f->kernels[2]);
    }
    for (uint32_t i = 0; i < f->in_count; i++) {
        free(in[i].data);
    }
    outcome_free(&alone);
    outcome_free(&one);
    outcome_free(&two);
    shape_env_free(env);
}

void few_free(struct few *f)
{
    graph_free(f->g);
    free(f);
}

void few_check(struct few *f, uint32_t joined)
{
    few_run(f, joined);
    few_free(f);
}
