#include "graph/infer_fold.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "graph/arena.h"
#include "graph/askew.h"
#include "graph/evaluator.h"
#include "graph/infer_util.h"
#include "graph/lifetime.h"

/* Scratch and outputs of one evaluation; outputs are moved to the env's arena afterwards. */
struct fold_memory {
    struct evaluation base; /* first: the evaluator sees this part */
    struct fold_block {
        struct fold_block *next;
    } * blocks;
    uint64_t left;
};

static void *fold_alloc(struct evaluation *e, size_t bytes)
{
    struct fold_memory *f = (struct fold_memory *)(void *)e;
    if (bytes > f->left || bytes > SIZE_MAX / 2)
        return NULL;
    size_t room = (bytes + LIFETIME_PAD + 2 * LIFETIME_ALIGN - 1) / LIFETIME_ALIGN * LIFETIME_ALIGN;
    struct fold_block *block = aligned_alloc(LIFETIME_ALIGN, room + LIFETIME_ALIGN);
    if (!block)
        return NULL;
    memset(block, 0, room + LIFETIME_ALIGN);
    block->next = f->blocks;
    f->blocks = block;
    f->left -= bytes;
    return (unsigned char *)block + LIFETIME_ALIGN;
}

static void fold_release(struct fold_memory *f)
{
    while (f->blocks) {
        struct fold_block *next = f->blocks->next;
        free(f->blocks);
        f->blocks = next;
    }
}

/* ---- what needs no kernel ---------------------------------------------------------------------------------------------- */

/* Bytes that may still be folded. Shapes and the like, which decide how the rest can be run, have something beside what large values take. */
static uint64_t bytes_left(const struct shape_env *env, uint64_t bytes)
{
    uint64_t limit = env->g->limits.folded_bytes;
    limit += limit > FOLD_SMALL_BYTES && bytes <= INFER_FOLD_ELEMENTS * sizeof(int64_t) ? FOLD_SMALL_BYTES : 0;
    return env->folded_bytes < limit ? limit - env->folded_bytes : 0;
}

/* Room for a folded output within the budget. */
static void *env_alloc(struct shape_env *env, size_t bytes)
{
    if (bytes > bytes_left(env, bytes))
        return NULL;
    void *memory = arena_alloc(env->arena, bytes);
    if (memory)
        env->folded_bytes += bytes;
    PEN_ASSERT(env->folded_bytes <= env->g->limits.folded_bytes ||
                   env->folded_bytes - env->g->limits.folded_bytes <= FOLD_SMALL_BYTES,
               "folding stays within its budget");
    return memory;
}

static void put_i64(struct shape_env *env, struct fact *out, const int64_t *items, size_t count)
{
    int64_t *memory = env_alloc(env, count * sizeof *items);
    if (!memory)
        return;
    if (count)
        memcpy(memory, items, count * sizeof *items);
    out->data = memory;
    out->bytes = count * sizeof *items;
}

/* Shape and Size depend on the shape of their input only. */
static bool fold_shape(struct shape_env *env, struct infer *c)
{
    const struct shape *x = infer_shape_of(c, 0);
    struct fact *out = &c->out[0];
    if (c->n->op == OP_Size) {
        int64_t elements = shape_elements(x);
        if (elements >= 0)
            put_i64(env, out, &elements, 1);
        return true;
    }
    if (c->n->op != OP_Shape)
        return false;
    int64_t start = node_int(c->n, ATTR_start, 0), count = out->shape.rank == 1 ? out->shape.dim[0] : -1;
    start = start < 0 ? start + x->rank : start;
    start = start < 0 ? 0 : start;
    bool known = count >= 0 && x->rank >= 0;
    for (int64_t i = 0; known && i < count; i++)
        known = x->dim[start + i] >= 0;
    if (known)
        put_i64(env, out, x->dim + (count ? start : 0), (size_t)count);
    return true;
}

/* The same bytes under another shape. */
static bool fold_view(struct infer *c)
{
    bool same = (op_def(c->n->op)->traits & OP_VIEW) != 0 ||
                (c->n->op == OP_CastLike && c->in[0].dtype == infer_dtype_of(c, 1)) ||
                (c->n->op == OP_Cast && c->in[0].dtype == c->out[0].dtype);
    struct fact *out = &c->out[0];
    if (!same)
        return false;
    if (c->in[0].data && out->kind == VALUE_TENSOR && shape_known(&out->shape)) {
        out->data = c->in[0].data;
        out->bytes = c->in[0].bytes;
    }
    return true;
}

/* ---- evaluation --------------------------------------------------------------------------------------------------------------- */

static bool inputs_known(const struct infer *c)
{
    for (uint32_t k = 0; k < c->n->in_count; k++) {
        const struct fact *f = &c->in[k];
        if (c->n->in[k] == VALUE_NONE)
            continue;
        if (!f->data || f->dtype == PEN_DTYPE_STRING || c->g->values[c->n->in[k]].released)
            return false;
    }
    return true;
}

#define FOLD_WORK_MAX (INT64_C(1) << 32) /* multiply-adds and the like of one node: seconds on the plain kernels */

static int64_t product_capped(int64_t a, int64_t b)
{
    return a <= 0 || b <= 0 ? 0 : a > FOLD_WORK_MAX / b ? FOLD_WORK_MAX + 1 : a * b;
}

/* Steps of one result of a convolution whose filter is input `index`, [out channels, ...]. */
static int64_t filter_steps(const struct infer *c, uint32_t index)
{
    const struct shape *w = infer_shape_of(c, index);
    return w->rank > 0 && w->dim[0] > 0 ? shape_elements(w) / w->dim[0] : 1;
}

/* A bound of the steps it takes: for each result those of a window, of a row, or of everything. A small file may ask for hours. */
static uint64_t work_of(const struct infer *c)
{
    int64_t results = shape_elements(&c->out[0].shape), steps = 1;
    uint32_t count = 0;
    const int64_t *kernel = node_ints(c->n, ATTR_kernel_shape, &count);
    for (uint32_t i = 0; i < count; i++)
        steps = product_capped(steps, kernel[i]);
    const struct shape *x = infer_shape_of(c, 0);
    switch (c->n->op) {
    case OP_MatMul:
    case OP_Gemm:
    case OP_MatMulInteger:
    case OP_QLinearMatMul: /* rows of the left matrix, or columns when it is turned */
        for (int32_t d = x->rank > 2 ? x->rank - 2 : 0; d < x->rank; d++)
            steps = x->dim[d] > steps ? x->dim[d] : steps;
        break;
    case OP_Conv:
    case OP_ConvInteger:
        steps = filter_steps(c, 1);
        break;
    case OP_QLinearConv:
        steps = filter_steps(c, 3);
        break;
    case OP_Einsum:
    case OP_ConvTranspose:
    case OP_LSTM:
    case OP_LSTMInteger:
    case OP_GRU:
    case OP_RNN:
    case OP_NonMaxSuppression:
        for (uint32_t i = 0; i < c->n->in_count; i++) {
            int64_t elements = shape_elements(&c->in[i].shape);
            steps = c->n->in[i] != VALUE_NONE && elements > steps ? elements : steps;
        }
        results = results < 0 ? steps : results;
        break;
    default:
        break;
    }
    return (uint64_t)product_capped(results, steps);
}

/* What is known of the results' sizes fits what may still be folded; counts the steps. */
static bool within_budget(struct shape_env *env, const struct infer *c)
{
    uint64_t steps = work_of(c), all = 0;
    for (uint32_t k = 0; k < c->n->out_count; k++) {
        size_t bytes = 0;
        if (c->n->out[k] == VALUE_NONE || !shape_known(&c->out[k].shape) || c->out[k].dtype == PEN_DTYPE_NONE)
            continue;
        if (shape_bytes(&c->out[k].shape, c->out[k].dtype, env->g->limits.tensor_bytes, &bytes) != PEN_OK)
            return false;
        all += bytes;
    }
    if (all > bytes_left(env, all) || steps > env->g->limits.folded_steps - env->folded_steps)
        return false;
    env->folded_steps += steps;
    return true;
}

/* Worth it, and possible: pure, tensors only, small or asked for. */
static bool may_fold(const struct infer *c, bool fold_all)
{
    const uint32_t never = OP_RANDOM | OP_STATEFUL | OP_CONTROL | OP_SEQUENCE;
    if ((op_def(c->n->op)->traits & never) || c->n->out_count == 0 || !inputs_known(c))
        return false;
    for (uint32_t k = 0; k < c->n->out_count; k++) {
        const struct fact *f = &c->out[k];
        int64_t elements = shape_elements(&f->shape);
        if (f->kind != VALUE_TENSOR || f->dtype == PEN_DTYPE_STRING)
            return false;
        if (!fold_all && (elements < 0 || elements > INFER_FOLD_ELEMENTS))
            return false;
    }
    return true;
}

/* There is a kernel for it; counts the nodes for which there is none. */
static bool has_kernel(struct shape_env *env, const struct infer *c)
{
    const struct evaluator *table = evaluator_get();
    if (table && table->has(c->n->op))
        return true;
    env->unfolded = env->unfolded_nodes++ == 0 ? c->n->op : env->unfolded;
    return false;
}

static void take_outputs(struct shape_env *env, struct infer *c, const struct fact *out)
{
    for (uint32_t k = 0; k < c->n->out_count; k++) {
        const struct fact *v = &out[k];
        size_t bytes;
        if (c->n->out[k] == VALUE_NONE || v->kind != VALUE_TENSOR || v->dtype == PEN_DTYPE_STRING ||
            shape_bytes(&v->shape, v->dtype, env->g->limits.tensor_bytes, &bytes) != PEN_OK || (bytes && !v->data))
            continue;
        void *memory = env_alloc(env, bytes);
        if (!memory)
            continue;
        if (bytes)
            memcpy(memory, v->data, bytes);
        c->out[k] = (struct fact){.dtype = v->dtype, .shape = v->shape, .data = memory, .bytes = bytes};
    }
}

/* Inputs as kernels may read them: copies of those that lie askew in the file. */
static bool inputs_align(const struct infer *c, struct fold_memory *memory, struct fact *in)
{
    for (uint32_t k = 0; k < c->n->in_count; k++) {
        in[k] = c->in[k];
        if (c->n->in[k] == VALUE_NONE || in[k].bytes < ASKEW_BYTES ||
            (uintptr_t)in[k].data % value_alignment(in[k].dtype) == 0)
            continue;
        void *copy = fold_alloc(&memory->base, in[k].bytes);
        if (!copy)
            return false;
        in[k].data = memcpy(copy, in[k].data, in[k].bytes);
    }
    return true;
}

static void evaluate(struct shape_env *env, struct infer *c)
{
    struct fact *out = calloc((size_t)c->n->out_count, sizeof *out),
                *in = calloc((size_t)c->n->in_count + 1, sizeof *in);
    struct fold_memory memory = {.base = {.g = env->g, .n = c->n, .in = in, .out = out, .alloc = fold_alloc},
                                 .left = env->g->limits.folded_bytes};
    if (out && in && inputs_align(c, &memory, in) && evaluator_get()->run(&memory.base) == PEN_OK)
        take_outputs(env, c, out);
    fold_release(&memory);
    free(in);
    free(out);
}

void fold_node(struct shape_env *env, struct infer *c, bool fold_all)
{
    if (c->n->out_count == 0 || c->out[0].kind != VALUE_TENSOR)
        return;
    if (fold_shape(env, c) || fold_view(c))
        return;
    if (may_fold(c, fold_all) && has_kernel(env, c) && within_budget(env, c))
        evaluate(env, c);
}
