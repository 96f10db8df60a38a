#include "backend/pace.h"

#include <stdlib.h>

#include "graph/lifetime.h"

#define SMALL   64           /* elements of a run that is all start */
#define LARGE   (256 * 1024) /* elements of one whose bytes count */
#define ROWS    64           /* of a product, and its depth and outputs */
#define SIDE    256
#define TRIES   9         /* the best counts: what else runs on the machine only adds */
#define MOST_NS 20000000u /* for the tries of one graph: a slow backend is not asked so often */

/* A graph of one node with its facts, and memory for a run. */
struct bench {
    struct graph *g;
    struct fact *facts;
    struct shape_env env;
    uint32_t in, out, node;
    void *from, *to;
};

static void bench_fini(struct bench *b)
{
    free(b->facts);
    free(b->from);
    free(b->to);
    graph_free(b->g);
}

static enum pen_status value_make(struct graph *g, const struct shape *shape, uint32_t *ret_value)
{
    enum pen_status status = graph_value(g, NULL, ret_value);
    if (status == PEN_OK) {
        struct value *v = &g->values[*ret_value];
        v->shape = *shape;
        v->dtype = PEN_DTYPE_F32;
        v->kind = VALUE_TENSOR;
    }
    return status;
}

static enum pen_status weights_make(struct graph *g, uint32_t *ret_value)
{
    const struct shape shape = shape_of(2, (int64_t[]){SIDE, SIDE});
    const size_t bytes = (size_t)SIDE * SIDE * sizeof(float);
    float *w = calloc(1, bytes);
    enum pen_status status = PEN_ERR_NO_MEMORY;
    for (size_t i = 0; w != NULL && i < (size_t)SIDE * SIDE; i++) {
        w[i] = (float)(i % 17) / 16.0f - 0.5f;
    }
    if (w != NULL) {
        status = graph_constant(g, NULL, PEN_DTYPE_F32, &shape, w, bytes, true, ret_value);
    }
    free(w);
    return status;
}

static void *floats_new(const struct shape *shape)
{
    const size_t bytes = ((size_t)shape_elements(shape) * sizeof(float) + LIFETIME_PAD + 63) / 64 * 64;
    float *x = aligned_alloc(64, bytes);
    for (size_t i = 0; x != NULL && i < bytes / sizeof *x; i++) {
        x[i] = (float)(i % 13) / 12.0f - 0.5f;
    }
    return x;
}

/* y = relu(x), or x times a constant matrix. */
static enum pen_status bench_make(struct bench *b, enum op op, const struct shape *x, const struct shape *y)
{
    uint32_t in[2] = {0};
    enum pen_status status = graph_new(NULL, &b->g);
    if (status == PEN_OK) {
        status = value_make(b->g, x, &in[0]);
    }
    if (status == PEN_OK && op == OP_MatMul) {
        status = weights_make(b->g, &in[1]);
    }
    if (status == PEN_OK) {
        status = value_make(b->g, y, &b->out);
    }
    if (status == PEN_OK) {
        status = graph_node(b->g, op, "pace", in, op == OP_MatMul ? 2 : 1, &b->out, 1, &b->node);
    }
    b->in = in[0];
    b->from = floats_new(x);
    b->to = floats_new(y);
    b->facts = status == PEN_OK ? calloc(b->g->value_count, sizeof *b->facts) : NULL;
    if (status != PEN_OK || b->facts == NULL || b->from == NULL || b->to == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (uint32_t v = 0; v < b->g->value_count; v++) {
        const struct value *value = &b->g->values[v];
        b->facts[v] =
            (struct fact){.dtype = value->dtype, .shape = value->shape, .data = value->data, .bytes = value->bytes};
    }
    b->env = (struct shape_env){.g = b->g, .facts = b->facts};
    return PEN_OK;
}

static struct buffer_view view_of(const struct bench *b, uint32_t value, void *data)
{
    const struct shape *shape = &b->facts[value].shape;
    return (struct buffer_view){
        .data = data, .bytes = (size_t)shape_elements(shape) * sizeof(float), .shape = *shape, .dtype = PEN_DTYPE_F32};
}

/* The best of some runs; 0 = one failed. */
static double runs_time(const struct backend_ops *ops, struct exec *exec, const struct bench *b)
{
    const struct buffer_view in = view_of(b, b->in, b->from), out = view_of(b, b->out, b->to);
    const uint64_t begin = backend_now_ns();
    double best = 0.0;
    for (int i = 0; i < TRIES && (i < 2 || backend_now_ns() - begin < MOST_NS); i++) {
        const uint64_t start = backend_now_ns();
        if (ops->exec_submit(exec, &in, &out, NULL, NULL) != PEN_OK || ops->exec_wait(exec, NULL) != PEN_OK) {
            return 0.0;
        }
        const double took = (double)(backend_now_ns() - start) + 1.0;
        best = i == 0 || took < best ? took : best;
    }
    return best;
}

/* Of one run of the node, in ns; 0 = the backend does not run it. */
static double node_time(const struct open_backend *backend, enum op op, const struct shape *x, const struct shape *y)
{
    const struct backend_ops *ops = backend->ops;
    struct bench b = {0};
    struct plan *plan = NULL;
    struct exec *exec = NULL;
    double time = 0.0;
    if (bench_make(&b, op, x, y) == PEN_OK && ops->supports(backend->self, b.g, &b.g->nodes[b.node], NULL)) {
        const struct partition part = {&b.node, 1, &b.in, 1, &b.out, 1};
        if (ops->plan_new(backend->self, b.g, &part, &plan, NULL) == PEN_OK &&
            ops->exec_new(plan, &b.env, &exec, NULL) == PEN_OK) {
            time = runs_time(ops, exec, &b);
        }
    }
    if (exec != NULL) {
        ops->exec_free(exec);
    }
    if (plan != NULL) {
        ops->plan_free(plan);
    }
    bench_fini(&b);
    return time;
}

bool pace_measure(const struct open_backend *backend, struct pace *ret_pace)
{
    const struct shape small = shape_of(2, (int64_t[]){1, SMALL}), large = shape_of(2, (int64_t[]){1, LARGE}),
                       square = shape_of(2, (int64_t[]){ROWS, SIDE});
    const double start = node_time(backend, OP_Relu, &small, &small),
                 bytes = start > 0.0 ? node_time(backend, OP_Relu, &large, &large) : 0.0,
                 product = bytes > 0.0 ? node_time(backend, OP_MatMul, &square, &square) : 0.0;
    const double ways = bytes > start ? (bytes - start) / (2.0 * sizeof(float) * (LARGE - SMALL)) : 0.0,
                 left = product - start - ways * 2.0 * sizeof(float) * ROWS * SIDE;
    *ret_pace = (struct pace){start, ways, left > 0.0 ? left / ((double)ROWS * SIDE * SIDE) : 0.0};
    return product > 0.0;
}

const struct pace *pace_of(struct paces *paces, const struct open_backend *backends, uint32_t index)
{
    if (!paces->tried[index]) {
        paces->tried[index] = true;
        paces->known[index] = pace_measure(&backends[index], &paces->of[index]);
    }
    return paces->known[index] ? &paces->of[index] : NULL;
}
