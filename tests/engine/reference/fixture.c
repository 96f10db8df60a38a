#include "fixture.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "backend/reference/evaluate.h"

void fixture_init(struct fixture *f, enum op op, uint32_t out_count)
{
    memset(f, 0, sizeof *f);
    reference_evaluator_register();
    cr_assert_eq(graph_new(NULL, &f->g), PEN_OK);
    scratch_init(&f->scratch, (uint64_t)1 << 30);
    f->node = (uint32_t)op; /* until fixture_node() */
    f->out_count = out_count;
}

void fixture_fini(struct fixture *f)
{
    scratch_fini(&f->scratch);
    graph_free(f->g);
}

void fixture_in(struct fixture *f, enum pen_dtype dtype, const double *items, int32_t rank, const int64_t *dims)
{
    struct rt_value *v = &f->in[f->in_count++];
    *v = (struct rt_value){.dtype = dtype, .shape = shape_of(rank, dims)};
    cr_assert_eq(shape_bytes(&v->shape, dtype, 0, &v->bytes), PEN_OK);
    v->data = f->scratch.memory.alloc(&f->scratch.memory, v->bytes);
    cr_assert_not_null(v->data);
    memset(v->data, 0, v->bytes);
    store_f64(v->data, dtype, 0, 1, shape_elements(&v->shape), items);
}

void fixture_none(struct fixture *f)
{
    f->in[f->in_count++] = (struct rt_value){.dtype = PEN_DTYPE_NONE};
}

void fixture_node(struct fixture *f)
{
    uint32_t in[FIXTURE_INPUTS], out[FIXTURE_INPUTS];
    for (uint32_t i = 0; i < f->in_count; i++) {
        in[i] = VALUE_NONE;
        if (f->in[i].dtype != PEN_DTYPE_NONE) {
            cr_assert_eq(graph_value(f->g, NULL, &in[i]), PEN_OK);
        }
    }
    for (uint32_t i = 0; i < f->out_count; i++) {
        cr_assert_eq(graph_value(f->g, NULL, &out[i]), PEN_OK);
    }
    enum op op = (enum op)f->node;
    cr_assert_eq(graph_node(f->g, op, "n", in, f->in_count, out, f->out_count, &f->node), PEN_OK);
}

enum pen_status fixture_run(struct fixture *f)
{
    struct kernel_call k = {.g = f->g,
                            .n = &f->g->nodes[f->node],
                            .in = f->in,
                            .out = f->out,
                            .memory = &f->scratch.memory,
                            .error = &f->error};
    return kernel_run_node(&k);
}

double fixture_at(const struct fixture *f, uint32_t output, int64_t index)
{
    return load_one_f64(f->out[output].data, f->out[output].dtype, index);
}

void fixture_expect(const struct fixture *f, uint32_t output, int32_t rank, const int64_t *dims, const double *items,
                    double tolerance)
{
    struct shape want = shape_of(rank, dims);
    char a[96], b[96];
    cr_assert(shape_equal(&want, &f->out[output].shape), "shape %s, expected %s",
              shape_text(&f->out[output].shape, a, sizeof a), shape_text(&want, b, sizeof b));
    for (int64_t i = 0; i < shape_elements(&want); i++) {
        double v = fixture_at(f, output, i);
        cr_assert(fabs(v - items[i]) <= tolerance || v == items[i], "element %lld is %.9g, expected %.9g", (long long)i,
                  v, items[i]);
    }
}
