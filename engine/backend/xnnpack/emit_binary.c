#include "backend/xnnpack/each.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/forms.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/number.h"
#include "backend/xnnpack/window.h"

/*
 * Arithmetic with broadcasting: two inputs, or more for Max, Min, Sum and Mean (y = a op b, then y = y op c ...). f32 runs on the vector kernels, integers
 * and f64 on plain loops (number.h).
 */
struct binary {
    enum binary_fn fn;
    enum pen_dtype dtype;
    bool mean, python_mod;
    struct act act;
    uint32_t turns;
    size_t count;
    struct each each[]; /* [turns] */
};

struct binary_job {
    const struct binary *q;
    const void *a, *b;
    void *y;
};

static bool binary_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *y = node_out(g, n, 0);
    enum binary_fn fn;
    bool integer = y != NULL && number_integer(y->dtype);
    bool known = y != NULL && binary_fn_of(n, &fn);
    if (!known || (y->dtype != PEN_DTYPE_F32 && !integer && !number_double(y->dtype, fn))) {
        return refuse(ret_reason, "only f32, i64 and i32, and sums, products and extremes of f64");
    }
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (node_in(g, n, i) == NULL || node_in(g, n, i)->dtype != y->dtype) {
            return refuse(ret_reason, "inputs of different types");
        }
    }
    if (y->dtype != PEN_DTYPE_F32 &&
        (n->op == OP_Mean || n->op == OP_PRelu || node_int(n, ATTR_act, ACT_NONE) != ACT_NONE)) {
        return refuse(ret_reason, "not on integers and f64");
    }
    return true;
}

static void piece_f32(const void *context, size_t out, const void *const *in, const size_t *step, size_t n)
{
    const struct binary_job *j = context;
    isa_own()->binary(j->q->fn, in[0], step[0], in[1], step[1], (float *)j->y + out, n);
}

static void piece_number(const void *context, size_t out, const size_t *at, const size_t *step, size_t n)
{
    const struct binary_job *j = context;
    size_t size = number_bytes(j->q->dtype);
    struct number_run a = {(const uint8_t *)j->a + at[0] * size, step[0]};
    struct number_run b = {(const uint8_t *)j->b + at[1] * size, step[1]};
    number_binary(j->q->dtype, j->q->fn, j->q->python_mod, a, b, (uint8_t *)j->y + out * size, n);
}

static enum pen_status binary_run(struct step *s, struct run *r)
{
    const struct binary *q = s->state;
    for (uint32_t t = 0; t < q->turns; t++) {
        struct binary_job j = {q, t == 0 ? s->in[0] : s->out[0], s->in[t + 1], s->out[0]};
        if (q->dtype == PEN_DTYPE_F32) {
            each_pieces(&q->each[t], (const void *[]){j.a, j.b}, sizeof(float), piece_f32, &j, r);
        } else {
            each_run(&q->each[t], piece_number, &j, r);
        }
    }
    if (q->dtype != PEN_DTYPE_F32) {
        return PEN_OK;
    }
    if (q->mean) {
        float *y = s->out[0];
        const float part = (float)s->n->in_count;
        isa_own()->binary(BINARY_DIV, y, 1, &part, 0, y, q->count);
    }
    act_all(&q->act, s->out[0], q->count, r);
    return PEN_OK;
}

static enum pen_status binary_build(struct build *b)
{
    uint32_t turns = b->n->in_count > 1 ? b->n->in_count - 1 : 0;
    struct binary *q = build_alloc(b, sizeof *q + turns * sizeof q->each[0]);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const struct shape *y = &build_out(b, 0)->shape;
    binary_fn_of(b->n, &q->fn);
    q->dtype = build_out(b, 0)->dtype;
    q->mean = b->n->op == OP_Mean;
    q->python_mod = b->n->op == OP_Mod && node_int(b->n, ATTR_fmod, 0) == 0;
    q->act = act_read(b->n);
    q->turns = turns;
    q->count = (size_t)shape_elements(y);
    for (uint32_t t = 0; t < turns; t++) {
        const struct shape *in[2] = {t == 0 ? &build_in(b, 0)->shape : y, &build_in(b, t + 1)->shape};
        if (!each_init(&q->each[t], y, in, 2)) {
            return build_fail(b, PEN_ERR_SHAPE, "inputs do not broadcast to the output");
        }
    }
    b->step->state = q;
    b->step->run = binary_run;
    if (turns == 0) { /* one input: the same bytes */
        return emit_view.build(b);
    }
    b->inplace = turns == 1 ? 3 : 1;
    b->exclusive = turns > 1; /* a later input that is the first one, too, is read after y was written */
    return PEN_OK;
}

const struct emitter emit_binary = {binary_supports, NULL, binary_build};
