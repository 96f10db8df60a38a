#include "cross.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "backend/reference/kernel.h"
#include "graph/lifetime.h"

#define INPUTS_MAX  16
#define OUTPUTS_MAX 8
#define BLOCKS_MAX  512

struct cross {
    struct rt_memory memory; /* first: alloc casts */
    struct graph *g;
    uint32_t in[INPUTS_MAX], out[OUTPUTS_MAX], in_count, out_count, node;
    struct rt_value values[INPUTS_MAX];
    float low, high;
    void *blocks[BLOCKS_MAX];
    size_t block_count;
    enum op op;
    struct attr attrs[16];
    uint32_t attr_count;
    char text[512];
};

static uint32_t seed = 20240521;
static struct {
    const struct backend_ops *ops;
    struct backend *self; /* NULL: xnnpack, opened anew for each row */
    double absolute, relative;
} on = {.absolute = 1e-5, .relative = 1e-4};

static const struct backend_ops *ops_of(void)
{
    return on.self != NULL ? on.ops : backend_find("xnnpack");
}

uint32_t cross_random(void)
{
    seed = seed * 1664525u + 1013904223u;
    return seed >> 8;
}

static struct {
    enum pen_precision precision;
    enum pen_isa most;
    float grid;
} asked = {.precision = PEN_PRECISION_F32};

void cross_ask(enum pen_precision precision, enum pen_isa most, float grid)
{
    asked.precision = precision;
    asked.most = most;
    asked.grid = grid;
}

int64_t cross_pick(int64_t low, int64_t high)
{
    return low + (int64_t)(cross_random() % (uint64_t)(high - low + 1));
}

void cross_backend(const struct backend_ops *ops, struct backend *backend, double absolute, double relative)
{
    on.ops = ops;
    on.self = backend;
    on.absolute = absolute;
    on.relative = relative;
}

static void *block_alloc(struct rt_memory *m, size_t bytes)
{
    struct cross *c = (struct cross *)(void *)m;
    cr_assert_lt(c->block_count, BLOCKS_MAX);
    size_t room = (bytes + LIFETIME_PAD + 63) / 64 * 64;
    void *p = aligned_alloc(64, room);
    cr_assert_not_null(p);
    memset(p, 0xA5, room);
    c->blocks[c->block_count++] = p;
    return p;
}

struct cross *cross_new(enum op op)
{
    struct cross *c = calloc(1, sizeof *c);
    cr_assert_not_null(c);
    c->memory.alloc = block_alloc;
    c->op = op;
    c->low = -1.0f;
    c->high = 1.0f;
    c->out_count = 1;
    reference_evaluator_register();
    cr_assert_eq(graph_new(NULL, &c->g), PEN_OK);
    return c;
}

static void cross_free(struct cross *c)
{
    for (size_t i = 0; i < c->block_count; i++) {
        free(c->blocks[i]);
    }
    graph_free(c->g);
    free(c);
}

void cross_range(struct cross *c, float low, float high)
{
    c->low = low;
    c->high = high;
}

static void note(struct cross *c, const char *text)
{
    size_t used = strlen(c->text);
    snprintf(c->text + used, sizeof c->text - used, " %s", text);
}

static size_t bytes_of(enum pen_dtype dtype, const struct shape *s)
{
    size_t bytes = 0;
    cr_assert_eq(shape_bytes(s, dtype, 0, &bytes), PEN_OK);
    return bytes;
}

void cross_data(struct cross *c, enum pen_dtype dtype, int32_t rank, const int64_t *dims, const void *data,
                bool constant)
{
    struct shape s = shape_of(rank, dims);
    size_t bytes = bytes_of(dtype, &s);
    void *copy = block_alloc(&c->memory, bytes);
    char text[96];
    if (bytes > 0) {
        memcpy(copy, data, bytes);
    }
    uint32_t v = VALUE_NONE;
    if (constant) {
        cr_assert_eq(graph_constant(c->g, NULL, dtype, &s, copy, bytes, false, &v), PEN_OK);
    } else {
        cr_assert_eq(graph_value(c->g, NULL, &v), PEN_OK);
        c->g->values[v].dtype = dtype;
        c->g->values[v].shape = s;
    }
    note(c, shape_text(&s, text, sizeof text));
    c->values[c->in_count] =
        (struct rt_value){.kind = VALUE_TENSOR, .dtype = dtype, .shape = s, .data = copy, .bytes = bytes};
    c->in[c->in_count++] = v;
}

static void fill(const struct cross *c, enum pen_dtype dtype, uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes && dtype != PEN_DTYPE_F32; i++) {
        data[i] = dtype == PEN_DTYPE_BOOL ? (uint8_t)(cross_random() & 1) : (uint8_t)cross_random();
    }
    for (size_t i = 0; i < bytes / 4 && dtype == PEN_DTYPE_F32; i++) {
        const float number = c->low + (c->high - c->low) * ((float)cross_random() / 16777216.0f);
        ((float *)(void *)data)[i] = asked.grid > 0.0f ? asked.grid * nearbyintf(number / asked.grid) : number;
    }
    if (dtype == PEN_DTYPE_I64 || dtype == PEN_DTYPE_I32) { /* small numbers */
        size_t size = dtype == PEN_DTYPE_I64 ? 8 : 4;
        for (size_t i = 0; i < bytes / size; i++) {
            int64_t wide = cross_pick(-9, 9);
            int32_t narrow = (int32_t)wide;
            memcpy(data + i * size, size == 8 ? (const void *)&wide : (const void *)&narrow, size);
        }
    }
}

void cross_input(struct cross *c, enum pen_dtype dtype, int32_t rank, const int64_t *dims, bool constant)
{
    struct shape s = shape_of(rank, dims);
    size_t bytes = bytes_of(dtype, &s);
    uint8_t *data = calloc(1, bytes + 1);
    cr_assert_not_null(data);
    fill(c, dtype, data, bytes);
    cross_data(c, dtype, rank, dims, data, constant);
    free(data);
}

void cross_i64(struct cross *c, int32_t count, const int64_t *items)
{
    cross_data(c, PEN_DTYPE_I64, 1, (int64_t[]){count}, items, true);
}

void cross_omit(struct cross *c)
{
    c->in[c->in_count++] = VALUE_NONE;
}

void cross_outputs(struct cross *c, uint32_t count)
{
    c->out_count = count;
}

static void attr_add(struct cross *c, const struct attr *a)
{
    cr_assert_lt(c->attr_count, 16);
    c->attrs[c->attr_count++] = *a;
    note(c, attr_name(a->key));
}

void cross_int(struct cross *c, enum attr_key key, int64_t value)
{
    attr_add(c, &(struct attr){.key = key, .type = ATTR_INT, .i = value});
}

void cross_float(struct cross *c, enum attr_key key, float value)
{
    attr_add(c, &(struct attr){.key = key, .type = ATTR_FLOAT, .f = value});
}

void cross_ints(struct cross *c, enum attr_key key, uint32_t count, const int64_t *items)
{
    int64_t *copy = block_alloc(&c->memory, count * sizeof *copy);
    memcpy(copy, items, count * sizeof *copy);
    attr_add(c, &(struct attr){.key = key, .type = ATTR_INTS, .count = count, .ints = copy});
}

void cross_text(struct cross *c, enum attr_key key, const char *text)
{
    attr_add(c, &(struct attr){.key = key, .type = ATTR_TEXT, .text = {text, strlen(text)}});
}

void cross_texts(struct cross *c, enum attr_key key, uint32_t count, const char *const *texts)
{
    struct string_view *copy = block_alloc(&c->memory, count * sizeof *copy);
    for (uint32_t i = 0; i < count; i++) {
        copy[i] = (struct string_view){texts[i], strlen(texts[i])};
    }
    attr_add(c, &(struct attr){.key = key, .type = ATTR_TEXTS, .count = count, .texts = copy});
}

/* The reference's answer gives the outputs' types and shapes. */
static void reference_run(struct cross *c, struct rt_value *out)
{
    struct pen_error error = {0};
    for (uint32_t i = 0; i < c->out_count; i++) {
        cr_assert_eq(graph_value(c->g, NULL, &c->out[i]), PEN_OK);
    }
    cr_assert_eq(graph_node(c->g, c->op, NULL, c->in, c->in_count, c->out, c->out_count, &c->node), PEN_OK);
    for (uint32_t i = 0; i < c->attr_count; i++) {
        cr_assert_eq(graph_attr_set(c->g, c->node, &c->attrs[i]), PEN_OK);
    }
    bool wanted[OUTPUTS_MAX] = {true, true, true, true, true, true, true, true};
    struct kernel_call k = {.g = c->g,
                            .n = &c->g->nodes[c->node],
                            .in = c->values,
                            .out = out,
                            .wanted = wanted,
                            .memory = &c->memory,
                            .error = &error};
    kernel_fn fn = kernel_find(c->op);
    cr_assert_not_null(fn, "no reference kernel for %s", op_def(c->op)->name);
    cr_assert_eq(fn(&k), PEN_OK, "reference:%s: %s", c->text, error.text);
    for (uint32_t i = 0; i < c->out_count; i++) {
        c->g->values[c->out[i]].dtype = out[i].dtype;
        c->g->values[c->out[i]].shape = out[i].shape;
    }
}

/* Of results that are rounded on purpose. */
static struct {
    double most;   /* of the largest result may be missing; 0 = none are rounded */
    size_t beyond; /* results that are further away than those that are not rounded may be */
} rounding;

static double largest_of(const struct rt_value *v)
{
    double largest = 0.0;
    for (size_t i = 0; i < v->bytes / 4; i++) {
        largest = fmax(largest, fabs((double)((const float *)v->data)[i]));
    }
    return largest;
}

static void compare(const struct cross *c, uint32_t index, const struct rt_value *want, const void *got)
{
    if (want->dtype != PEN_DTYPE_F32) {
        cr_assert_eq(memcmp(got, want->data, want->bytes), 0, "%s%s: output %u differs", op_def(c->op)->name, c->text,
                     index);
        return;
    }
    const double may_miss = rounding.most > 0.0 ? rounding.most * largest_of(want) : 0.0;
    for (size_t i = 0; i < want->bytes / 4; i++) {
        double w = (double)((const float *)want->data)[i], g = (double)((const float *)got)[i];
        bool same = (isnan(w) && isnan(g)) || w == g || fabs(g - w) <= on.absolute + on.relative * fabs(w);
        rounding.beyond += !same;
        same = same || fabs(g - w) <= may_miss;
        cr_assert(same, "%s%s: output %u element %zu is %.9g, reference %.9g", op_def(c->op)->name, c->text, index, i,
                  g, w);
    }
}

struct trial {
    struct backend *backend;
    struct plan *plan;
    struct exec *exec;
    void *out[OUTPUTS_MAX];
};

static void trial_run(struct cross *c, const struct shape_env *env, uint32_t threads, const struct rt_value *want,
                      struct trial *t)
{
    const struct backend_ops *ops = ops_of();
    struct backend_config config = {.precision = asked.precision, .isa_max = asked.most, .threads = threads};
    struct pen_error error = {0};
    const char *reason = "";
    cr_assert_not_null(ops);
    t->backend = on.self;
    if (on.self == NULL) {
        cr_assert_eq(ops->open(&config, &t->backend, &error), PEN_OK, "%s", error.text);
    }
    cr_assert(ops->supports(t->backend, c->g, &c->g->nodes[c->node], &reason), "%s%s refused: %s", op_def(c->op)->name,
              c->text, reason);
    uint32_t in[INPUTS_MAX], in_count = 0;
    struct buffer_view views[INPUTS_MAX], outs[OUTPUTS_MAX];
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (c->in[i] != VALUE_NONE && c->g->values[c->in[i]].data == NULL) {
            const struct rt_value *v = &c->values[i];
            views[in_count] =
                (struct buffer_view){.data = v->data, .bytes = v->bytes, .shape = v->shape, .dtype = v->dtype};
            in[in_count++] = c->in[i];
        }
    }
    for (uint32_t i = 0; i < c->out_count; i++) {
        t->out[i] = block_alloc(&c->memory, want[i].bytes);
        outs[i] = (struct buffer_view){
            .data = t->out[i], .bytes = want[i].bytes, .shape = want[i].shape, .dtype = want[i].dtype};
    }
    struct partition part = {
        .nodes = &c->node, .node_count = 1, .in = in, .in_count = in_count, .out = c->out, .out_count = c->out_count};
    cr_assert_eq(ops->plan_new(t->backend, c->g, &part, &t->plan, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(ops->exec_new(t->plan, env, &t->exec, &error), PEN_OK, "%s%s: %s", op_def(c->op)->name, c->text,
                 error.text);
    for (int turn = 0; turn < 2; turn++) { /* the second finds every buffer as the first left it */
        cr_assert_eq(ops->exec_submit(t->exec, views, outs, NULL, &error), PEN_OK, "%s", error.text);
        cr_assert_eq(ops->exec_wait(t->exec, &error), PEN_OK, "%s", error.text);
    }
    for (uint32_t i = 0; i < c->out_count; i++) {
        compare(c, i, &want[i], t->out[i]);
        const uint8_t *behind = (const uint8_t *)t->out[i] + want[i].bytes;
        for (size_t k = 0; k < LIFETIME_PAD; k++) {
            cr_assert_eq(behind[k], 0xA5, "%s%s writes behind output %u", op_def(c->op)->name, c->text, i);
        }
    }
    ops->exec_free(t->exec);
    ops->plan_free(t->plan);
    if (on.self == NULL) {
        ops->close(t->backend);
    }
}

static struct fact *facts_make(const struct cross *c)
{
    struct fact *facts = calloc(c->g->value_count, sizeof *facts);
    cr_assert_not_null(facts);
    for (uint32_t i = 0; i < c->g->value_count; i++) {
        const struct value *v = &c->g->values[i];
        facts[i] =
            (struct fact){.kind = v->kind, .dtype = v->dtype, .shape = v->shape, .data = v->data, .bytes = v->bytes};
    }
    return facts;
}

void cross_rounded(struct cross *c, double most, bool seen)
{
    char text[sizeof c->text];
    memcpy(text, c->text, sizeof text);
    const enum op op = c->op;
    rounding.most = most;
    rounding.beyond = 0;
    cross_check(c);
    rounding.most = 0.0;
    cr_assert(!seen || rounding.beyond > 0, "%s%s: nothing is rounded", op_def(op)->name, text);
}

void cross_check(struct cross *c)
{
    struct rt_value want[OUTPUTS_MAX] = {{0}};
    reference_run(c, want);
    struct fact *facts = facts_make(c);
    struct shape_env env = {.g = c->g, .facts = facts};
    struct trial one = {0}, two = {0};
    trial_run(c, &env, 1, want, &one);
    if (on.self == NULL) {
        trial_run(c, &env, 2, want, &two);
    }
    for (uint32_t i = 0; on.self == NULL && i < c->out_count; i++) {
        cr_assert(want[i].bytes == 0 || memcmp(one.out[i], two.out[i], want[i].bytes) == 0,
                  "%s%s: 1 and 2 threads differ", op_def(c->op)->name, c->text);
    }
    free(facts);
    cross_free(c);
}

void cross_refused(struct cross *c)
{
    struct rt_value want[OUTPUTS_MAX] = {{0}};
    reference_run(c, want);
    const char *reason = NULL;
    cr_assert_not(ops_of()->supports(on.self, c->g, &c->g->nodes[c->node], &reason), "%s%s is taken",
                  op_def(c->op)->name, c->text);
    cr_assert_not_null(reason);
    cross_free(c);
}

void cross_conv_check(const struct cross_conv *r, bool constant, bool bias)
{
    struct cross *c = cross_new(OP_Conv);
    cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){r->n, r->h, r->w, r->in}, false);
    cross_range(c, -0.5f, 0.5f);
    cross_input(c, PEN_DTYPE_F32, 4, (int64_t[]){r->out, r->in / r->groups, r->kh, r->kw}, constant);
    if (bias) {
        cross_input(c, PEN_DTYPE_F32, 1, &r->out, constant);
    }
    cross_int(c, ATTR_layout, LAYOUT_NHWC);
    cross_ints(c, ATTR_kernel_shape, 2, (int64_t[]){r->kh, r->kw});
    cross_ints(c, ATTR_strides, 2, (int64_t[]){r->stride, r->stride});
    cross_ints(c, ATTR_dilations, 2, (int64_t[]){r->dilation, r->dilation});
    cross_ints(c, ATTR_pads, 4, (int64_t[]){r->before, r->before, r->after, r->after});
    cross_int(c, ATTR_group, r->groups);
    if (r->act != ACT_NONE) {
        cross_int(c, ATTR_act, r->act);
        cross_float(c, ATTR_act_min, 0.0f);
        cross_float(c, ATTR_act_max, 0.75f);
    }
    cross_check(c);
}
