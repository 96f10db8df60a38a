#include "backend/reference/element_io.h"
#include "backend/xnnpack/each.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/number.h"

/* Comparisons, logic, Where, Not, bits: loops over mixed types. */
struct mixed {
    enum op op;
    int fn;
    enum pen_dtype from, to;
    size_t size; /* bytes of an element of what is selected */
    struct each each;
};

struct mixed_job {
    const struct mixed *q;
    const uint8_t *in[3];
    uint8_t *y;
};

static int fn_of(enum op op)
{
    switch (op) {
    case OP_Greater:
        return COMPARE_GREATER;
    case OP_GreaterOrEqual:
        return COMPARE_GREATER_EQUAL;
    case OP_Less:
        return COMPARE_LESS;
    case OP_LessOrEqual:
        return COMPARE_LESS_EQUAL;
    case OP_Or:
    case OP_BitwiseOr:
        return LOGIC_OR;
    case OP_Xor:
    case OP_BitwiseXor:
    case OP_BitwiseNot:
        return LOGIC_XOR;
    default:
        return 0;
    }
}

static bool is_logic(enum op op)
{
    return op == OP_And || op == OP_Or || op == OP_Xor;
}

static bool is_bits(enum op op)
{
    return op == OP_BitwiseAnd || op == OP_BitwiseOr || op == OP_BitwiseXor || op == OP_BitwiseNot;
}

/* Integers of whole bytes, all of one type. */
static bool bits_fit(const struct node *n, const struct value *a, const struct value *b, const struct value *y)
{
    unsigned class = element_class(a->dtype), bits = pen_dtype_bits(a->dtype);
    return (class == ELEMENT_SIGNED || class == ELEMENT_UNSIGNED) && bits >= 8 && bits <= 64 && dtype_is(y, a->dtype) &&
           (n->op == OP_BitwiseNot || dtype_is(b, a->dtype));
}

static bool mixed_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    const struct value *a = node_in(g, n, 0), *b = node_in(g, n, 1), *y = node_out(g, n, 0);
    bool ok = a != NULL;
    if (n->op == OP_Where) {
        unsigned bits = pen_dtype_bits(y->dtype);
        ok = ok && dtype_is(a, PEN_DTYPE_BOOL) && dtype_is(b, y->dtype) && dtype_is(node_in(g, n, 2), y->dtype) &&
             bits >= 8 && bits <= 64;
    } else if (is_bits(n->op)) {
        ok = ok && bits_fit(n, a, b, y);
    } else if (n->op == OP_Not || is_logic(n->op)) {
        ok = ok && dtype_is(a, PEN_DTYPE_BOOL) && (n->op == OP_Not || dtype_is(b, PEN_DTYPE_BOOL));
    } else {
        ok = ok && b != NULL && a->dtype == b->dtype && number_compares(a->dtype);
    }
    return ok || refuse(ret_reason, "not for these types");
}

static void piece(const void *context, size_t out, const size_t *at, const size_t *step, size_t n)
{
    const struct mixed_job *j = context;
    const struct mixed *q = j->q;
    const uint8_t *a = j->in[0] + at[0] * number_bytes(q->from);
    if (q->op == OP_Where) {
        struct number_run mask = {j->in[0] + at[0], step[0]}, yes = {j->in[1] + at[1] * q->size, step[1]};
        struct number_run no = {j->in[2] + at[2] * q->size, step[2]};
        number_select(q->size, mask, yes, no, j->y + out * q->size, n);
    } else if (is_bits(q->op)) {
        static const uint64_t ones = UINT64_MAX;
        struct number_run p = {j->in[0] + at[0] * q->size, step[0]}, with = {&ones, 0};
        if (q->op != OP_BitwiseNot) {
            with = (struct number_run){j->in[1] + at[1] * q->size, step[1]};
        }
        number_bits(q->size, (enum logic_fn)q->fn, p, with, j->y + out * q->size, n);
    } else if (q->op == OP_Not) {
        const uint8_t yes = 1;
        number_logic(LOGIC_XOR, a, 1, &yes, 0, j->y + out, n);
    } else if (is_logic(q->op)) {
        number_logic((enum logic_fn)q->fn, a, step[0], j->in[1] + at[1], step[1], j->y + out, n);
    } else {
        number_compare(q->from, (enum compare_fn)q->fn, a, step[0], j->in[1] + at[1] * number_bytes(q->from), step[1],
                       j->y + out, n);
    }
}

static enum pen_status mixed_run(struct step *s, struct run *r)
{
    const struct mixed *q = s->state;
    struct mixed_job j = {.q = q, .y = s->out[0]};
    for (uint32_t i = 0; i < s->n->in_count && i < 3; i++) {
        j.in[i] = s->in[i];
    }
    each_run(&q->each, piece, &j, r);
    return PEN_OK;
}

static enum pen_status mixed_build(struct build *b)
{
    struct mixed *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->op = b->n->op;
    q->fn = fn_of(q->op);
    q->from = build_in(b, 0)->dtype;
    q->to = build_out(b, 0)->dtype;
    q->size = number_bytes(q->to);
    uint32_t inputs = b->n->in_count;
    const struct shape *in[EACH_INPUTS] = {0};
    for (uint32_t i = 0; i < inputs && i < EACH_INPUTS; i++) {
        in[i] = &build_in(b, i)->shape;
    }
    if (inputs > EACH_INPUTS || !each_init(&q->each, &build_out(b, 0)->shape, in, inputs)) {
        return build_fail(b, PEN_ERR_SHAPE, "inputs do not broadcast to the output");
    }
    b->step->state = q;
    b->step->run = mixed_run;
    return PEN_OK;
}

const struct emitter emit_number = {mixed_supports, NULL, mixed_build};
