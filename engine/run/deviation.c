#include "run/deviation.h"

#include <inttypes.h>
#include <math.h>

#include "backend/reference/element_io.h"

struct bounds {
    double absolute, relative, step; /* step: of whole numbers */
};

static struct bounds bounds_of(enum pen_precision precision, enum pen_dtype dtype)
{
    if (dtype == PEN_DTYPE_I8 || dtype == PEN_DTYPE_U8) {
        return (struct bounds){.step = 1.0};
    }
    if ((element_class(dtype) & (ELEMENT_FLOAT | ELEMENT_COMPLEX)) == 0) {
        return (struct bounds){0};
    }
    bool narrow = dtype == PEN_DTYPE_F16 || dtype == PEN_DTYPE_BF16 ||
                  (precision != PEN_PRECISION_F32 && precision != PEN_PRECISION_INT8);
    return narrow ? (struct bounds){2e-3, 1e-2, 0.0} : (struct bounds){1e-5, 1e-4, 0.0};
}

static bool fits(double got, double want, const struct bounds *bounds, double largest)
{
    if (isnan(got) || isnan(want)) {
        return isnan(got) && isnan(want);
    }
    return got == want ||
           fabs(got - want) <= bounds->step + bounds->absolute + bounds->relative * fabs(want) + 1e-5 * largest;
}

/* Elements of two tensors that do not fit; where the first of them is. */
static int64_t tensor_compare(const struct rt_value *got, const struct rt_value *want, enum pen_precision precision,
                              int64_t *ret_first)
{
    struct bounds bounds = bounds_of(precision, want->dtype);
    int64_t count = shape_elements(&want->shape), wrong = 0;
    double largest = 0.0;
    for (int64_t i = 0; i < count && bounds.absolute > 0.0; i++) {
        double x = fabs(load_one_f64(want->data, want->dtype, i));
        largest = isfinite(x) && x > largest ? x : largest;
    }
    for (int64_t i = 0; i < count; i++) {
        if (!fits(load_one_f64(got->data, got->dtype, i), load_one_f64(want->data, want->dtype, i), &bounds, largest) &&
            wrong++ == 0) {
            *ret_first = i;
        }
    }
    return wrong;
}

static enum pen_status output_check(struct run_context *context, const struct node *n, const char *backend,
                                    const struct rt_value *got, const struct rt_value *want)
{
    int64_t first = 0;
    bool comparable = got->kind == VALUE_TENSOR && got->data != NULL && want->data != NULL &&
                      got->dtype == want->dtype && shape_equal(&got->shape, &want->shape) &&
                      got->dtype != PEN_DTYPE_STRING && (element_class(got->dtype) & ELEMENT_COMPLEX) == 0;
    int64_t wrong = comparable ? tensor_compare(got, want, context->precision, &first) : 0;
    if (wrong == 0) {
        return PEN_OK;
    }
    return pen_error_set(context->error, PEN_ERR_INTERNAL,
                         "node %s (%s) is the first on %s that deviates from reference: element %" PRId64
                         " is %.9g, expected %.9g; %" PRId64 " of %" PRId64 " are off",
                         n->name, n->origin, backend, first, load_one_f64(got->data, got->dtype, first),
                         load_one_f64(want->data, want->dtype, first), wrong, shape_elements(&want->shape));
}

static enum pen_status node_check(struct run_context *context, const struct program *program, const struct bucket *b,
                                  const struct node *n, const char *backend, struct rt_arena *arena)
{
    size_t ports = (size_t)n->in_count + n->out_count + 1;
    struct rt_value *in = rt_arena_alloc(arena, ports * sizeof *in), *out = in + n->in_count;
    bool *wanted = rt_arena_alloc(arena, ports * sizeof *wanted);
    if (in == NULL || wanted == NULL) {
        return pen_error_set(context->error, PEN_ERR_NO_MEMORY, "node %s: no memory for its comparison", n->name);
    }
    for (uint32_t i = 0; i < n->in_count; i++) {
        in[i] = n->in[i] != VALUE_NONE ? b->values[n->in[i]] : (struct rt_value){0};
    }
    for (uint32_t o = 0; o < n->out_count; o++) {
        wanted[o] = n->out[o] != VALUE_NONE;
        out[o] = (struct rt_value){0};
    }
    struct kernel_call k = {.g = program->g,
                            .n = n,
                            .in = in,
                            .out = out,
                            .wanted = wanted,
                            .memory = &arena->memory,
                            .cancel = context->cancel,
                            .error = context->error};
    enum pen_status status = kernel_run_node(&k);
    for (uint32_t o = 0; status == PEN_OK && o < n->out_count; o++) {
        if (wanted[o]) {
            status = output_check(context, n, backend, &b->values[n->out[o]], &out[o]);
        }
    }
    return status;
}

enum pen_status deviation_check(struct run_context *context, const struct program *program, const struct bucket *b,
                                const struct bucket_step *step)
{
    const struct partition *part = &step->placed->part;
    const char *backend = program->placement->backends[step->placed->backend].ops->name;
    enum pen_status status = PEN_OK;
    for (uint32_t k = 0; status == PEN_OK && k < part->node_count; k++) {
        const struct node *n = &program->g->nodes[part->nodes[k]];
        if ((op_def(n->op)->traits & OP_RANDOM) != 0 || shape_env_folded(b->env, n)) {
            continue;
        }
        struct rt_arena arena;
        rt_arena_init(&arena, context->arena_limit);
        status = node_check(context, program, b, n, backend, &arena);
        rt_arena_fini(&arena);
        context->compared++;
    }
    return status;
}
