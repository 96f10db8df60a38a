#include "backend/xnnpack/chain.h"
#include "backend/xnnpack/each.h"
#include "backend/xnnpack/emitters.h"

/* Element-wise nodes that follow each other, in one pass. The step's inputs are the chain's operands. */
struct chained {
    struct chain chain;
    struct each each;
};

struct chained_job {
    const struct chain *chain;
    float *y;
};

static void piece(const void *context, size_t out, const void *const *in, const size_t *step, size_t n)
{
    const struct chained_job *j = context;
    chain_run(j->chain, in, step, j->y + out, n);
}

static enum pen_status chain_step_run(struct step *s, struct run *r)
{
    const struct chained *q = s->state;
    const struct chained_job j = {&q->chain, s->out[0]};
    each_pieces(&q->each, (const void *const *)s->in, sizeof(float), piece, &j, r);
    return PEN_OK;
}

static enum pen_status chain_build(struct build *b)
{
    const struct shape *in[CHAIN_OPERANDS];
    struct chained *q = build_alloc(b, sizeof *q);
    if (q == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    q->chain = *b->chain;
    for (uint32_t k = 0; k < q->chain.operand_count; k++) {
        in[k] = &b->env->facts[q->chain.operands[k]].shape;
    }
    if (!each_init(&q->each, &build_out(b, 0)->shape, in, q->chain.operand_count)) {
        return build_fail(b, PEN_ERR_SHAPE, "inputs do not broadcast to the output");
    }
    b->inplace = (1u << q->chain.operand_count) - 1;
    b->step->state = q;
    b->step->run = chain_step_run;
    b->step->kernel = "own chain";
    b->step->why = "element-wise nodes that follow each other: one pass over memory";
    return PEN_OK;
}

const struct emitter emit_chain = {.build = chain_build};
