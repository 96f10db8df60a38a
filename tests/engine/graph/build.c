#include "build.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"

struct graph *build_graph(void)
{
    struct graph *g = NULL;
    reference_evaluator_register();
    cr_assert_eq(graph_new(NULL, &g), PEN_OK);
    return g;
}

uint32_t build_typed_input(struct graph *g, const char *name, enum pen_dtype dtype, int32_t rank, const int64_t *dims)
{
    uint32_t id;
    cr_assert_eq(graph_value(g, name, &id), PEN_OK);
    cr_assert_eq(graph_input_add(g, id), PEN_OK);
    g->values[id].dtype = dtype;
    g->values[id].shape = shape_of(rank, dims);
    return id;
}

uint32_t build_input(struct graph *g, const char *name, int32_t rank, const int64_t *dims)
{
    return build_typed_input(g, name, PEN_DTYPE_F32, rank, dims);
}

static float pattern(unsigned seed, size_t i)
{
    unsigned mixed = ((unsigned)i * 2654435761u + seed * 40503u) >> 8 & 0xffff;
    return (float)mixed / 32768.0f - 1.0f;
}

uint32_t build_weights(struct graph *g, unsigned seed, int32_t rank, const int64_t *dims)
{
    struct shape shape = shape_of(rank, dims);
    size_t count = (size_t)shape_elements(&shape);
    float *items = malloc((count + 1) * sizeof *items);
    uint32_t id;
    cr_assert_not_null(items);
    for (size_t i = 0; i < count; i++)
        items[i] = pattern(seed, i);
    cr_assert_eq(graph_constant(g, NULL, PEN_DTYPE_F32, &shape, items, count * sizeof *items, true, &id), PEN_OK);
    free(items);
    return id;
}

uint32_t build_scalar(struct graph *g, float value)
{
    uint32_t id;
    cr_assert_eq(graph_constant_f32(g, &value, 1, true, &id), PEN_OK);
    return id;
}

uint32_t build_list(struct graph *g, int32_t count, const int64_t *items)
{
    uint32_t id;
    cr_assert_eq(graph_constant_i64(g, items, (size_t)count, false, &id), PEN_OK);
    return id;
}

uint32_t build_node(struct graph *g, enum op op, uint32_t in_count, const uint32_t *in)
{
    uint32_t out;
    cr_assert_eq(graph_value(g, NULL, &out), PEN_OK);
    cr_assert_eq(graph_node(g, op, NULL, in, in_count, &out, 1, NULL), PEN_OK, "%s", op_def(op)->name);
    return out;
}

uint32_t maker(const struct graph *g, uint32_t value)
{
    return g->values[value].producer;
}

void build_output(struct graph *g, uint32_t value)
{
    cr_assert_eq(graph_output_add(g, value), PEN_OK);
}

static void *fill(const struct value *v, unsigned seed)
{
    size_t bytes = 0;
    if (v->dtype != PEN_DTYPE_F32 || shape_bytes(&v->shape, v->dtype, 0, &bytes) != PEN_OK)
        return NULL;
    float *items = malloc(bytes + 64);
    cr_assert_not_null(items);
    for (size_t i = 0; i < bytes / sizeof *items; i++)
        items[i] = pattern(seed, i);
    return items;
}

struct shape_env *run_graph(const struct graph *g)
{
    struct shape_env *env = NULL;
    struct pen_error error = {0};
    void **inputs = calloc((size_t)g->input_count + 1, sizeof *inputs);
    for (uint32_t i = 0; i < g->input_count; i++)
        inputs[i] = fill(&g->values[g->inputs[i]], 1000 + i);
    cr_assert_eq(shape_env_new(g, NULL, (const void *const *)inputs, true, &env, &error), PEN_OK, "%s", error.text);
    for (uint32_t i = 0; i < g->input_count; i++)
        free(inputs[i]);
    free(inputs);
    return env;
}

static double compare_values(const struct fact *a, const struct fact *b)
{
    double worst = 0, scale = 1e-3;
    cr_assert(shape_equal(&a->shape, &b->shape));
    cr_assert_eq(a->dtype, b->dtype);
    cr_assert_not_null(a->data);
    cr_assert_not_null(b->data);
    if (a->dtype != PEN_DTYPE_F32)
        return memcmp(a->data, b->data, a->bytes) == 0 ? 0 : 1;
    const float *x = a->data, *y = b->data;
    for (size_t i = 0; i < a->bytes / sizeof *x; i++) {
        cr_assert(!isnan(x[i]) && !isnan(y[i]));
        worst = fmax(worst, fabs((double)x[i] - (double)y[i]));
        scale = fmax(scale, fabs((double)x[i]));
    }
    return worst / scale;
}

double compare_outputs(const struct shape_env *a, const struct shape_env *b)
{
    double worst = 0;
    cr_assert_eq(a->g->output_count, b->g->output_count);
    for (uint32_t i = 0; i < a->g->output_count; i++)
        worst = fmax(worst, compare_values(&a->facts[a->g->outputs[i]], &b->facts[b->g->outputs[i]]));
    return worst;
}

uint32_t count_op(const struct graph *g, enum op op)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        count += !g->nodes[i].dead && g->nodes[i].op == op;
    return count;
}
