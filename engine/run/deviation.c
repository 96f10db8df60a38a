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

static double distance(double got, double want)
{
    if (got == want || (isnan(got) && isnan(want))) {
        return 0.0;
    }
    double d = fabs(got - want);
    return isfinite(d) ? d : INFINITY;
}

/* Adds what differs between two tensors. */
static void tensor_compare(const struct rt_value *got, const struct rt_value *want, enum pen_precision precision,
                           uint32_t output, struct deviation *d)
{
    struct bounds bounds = bounds_of(precision, want->dtype);
    int64_t count = shape_elements(&want->shape);
    double largest = 0.0;
    for (int64_t i = 0; i < count && bounds.absolute > 0.0; i++) {
        double x = fabs(load_one_f64(want->data, want->dtype, i));
        largest = isfinite(x) && x > largest ? x : largest;
    }
    for (int64_t i = 0; i < count; i++) {
        double x = load_one_f64(got->data, got->dtype, i), y = load_one_f64(want->data, want->dtype, i);
        d->largest = fmax(d->largest, distance(x, y));
        if (fits(x, y, &bounds, largest) || (d->wrong > 0 && d->output != output)) {
            continue;
        }
        if (d->wrong++ == 0) {
            *d = (struct deviation){output, i, 1, x, y, d->largest};
        }
    }
}

static void output_compare(const struct run_context *context, const struct rt_value *got, const struct rt_value *want,
                           uint32_t output, struct deviation *d)
{
    bool comparable = got->kind == VALUE_TENSOR && got->data != NULL && want->data != NULL &&
                      got->dtype == want->dtype && shape_equal(&got->shape, &want->shape) &&
                      got->dtype != PEN_DTYPE_STRING && (element_class(got->dtype) & ELEMENT_COMPLEX) == 0;
    if (comparable) {
        tensor_compare(got, want, context->precision, output, d);
    }
}

static enum pen_status node_compare(struct run_context *context, const struct program *program, const struct bucket *b,
                                    const struct node *n, struct rt_arena *arena, struct deviation *d)
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
            output_compare(context, &b->values[n->out[o]], &out[o], o, d);
        }
    }
    return status;
}

enum pen_status deviation_of(struct run_context *context, const struct program *program, const struct bucket *b,
                             const struct node *n, struct deviation *ret_deviation)
{
    struct rt_arena arena;
    *ret_deviation = (struct deviation){0};
    rt_arena_init(&arena, context->arena_limit);
    enum pen_status status = node_compare(context, program, b, n, &arena, ret_deviation);
    rt_arena_fini(&arena);
    return status;
}

static enum pen_status node_check(struct run_context *context, const struct program *program, const struct bucket *b,
                                  const struct node *n, const char *backend)
{
    struct deviation d;
    enum pen_status status = deviation_of(context, program, b, n, &d);
    if (status != PEN_OK || d.wrong == 0) {
        return status;
    }
    return pen_error_set(context->error, PEN_ERR_INTERNAL,
                         "node %s (%s) is the first on %s that deviates from reference: element %" PRId64
                         " is %.9g, expected %.9g; %" PRId64 " of %" PRId64 " are off",
                         n->name, n->origin, backend, d.first, d.got, d.want, d.wrong,
                         shape_elements(&b->values[n->out[d.output]].shape));
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
        status = node_check(context, program, b, n, backend);
        context->compared++;
    }
    return status;
}
