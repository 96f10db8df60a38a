#include "backend/xnnpack/chain.h"

#include <math.h>

#include "assertion.h"
#include "backend/xnnpack/forms.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/window.h"

#define BLOCK 1024 /* elements: x, the result and some operands fit the first cache */

static bool step_add(struct chain *c, struct chain_step step)
{
    if (c->count == CHAIN_STEPS) {
        c->full = true;
        return false;
    }
    c->steps[c->count++] = step;
    return true;
}

static bool unary_add(struct chain *c, enum unary_fn fn, float a, float b)
{
    return step_add(c, (struct chain_step){.fn = (uint8_t)fn, .a = a, .b = b});
}

/* Its number; CHAIN_OPERANDS when there is no room. */
static uint32_t operand_add(struct chain *c, uint32_t value)
{
    for (uint32_t i = 0; i < c->operand_count; i++) {
        if (c->operands[i] == value) {
            return i;
        }
    }
    if (c->operand_count < CHAIN_OPERANDS) {
        c->operands[c->operand_count++] = value;
        return c->operand_count - 1;
    }
    c->full = true;
    return CHAIN_OPERANDS;
}

static bool act_add(struct chain *c, const struct node *n)
{
    const struct act act = act_read(n);
    bool fits = (!isfinite(act.min) && !isfinite(act.max)) || unary_add(c, UNARY_CLAMP, act.min, act.max);
    return fits && (act.fn == UNARY_NONE || unary_add(c, act.fn, act.a, 0.0f));
}

static bool is_f32(const struct shape_env *env, uint32_t value)
{
    return value != VALUE_NONE && env->facts[value].dtype == PEN_DTYPE_F32;
}

/* The chain's first operand, unless x is there. */
static bool begin(struct chain *c, uint32_t value, uint32_t before)
{
    return before != VALUE_NONE || operand_add(c, value) == 0;
}

/* One operand more: x is at input `at` of the two. */
static bool pair_add(struct chain *c, enum binary_fn fn, uint32_t other, uint32_t before, bool swap)
{
    uint32_t operand = other == before ? CHAIN_SELF : operand_add(c, other);
    return operand != CHAIN_OPERANDS &&
           step_add(c,
                    (struct chain_step){.binary = true, .fn = (uint8_t)fn, .operand = (uint8_t)operand, .swap = swap});
}

/* y = a op b, then y = y op c ...; x may be the first or the second of them. */
static bool binary_add(struct chain *c, const struct shape_env *env, const struct node *n, enum binary_fn fn,
                       uint32_t before)
{
    uint32_t x = before == VALUE_NONE ? 0 : UINT32_MAX;
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (!is_f32(env, n->in[i])) {
            return false;
        }
        x = x == UINT32_MAX && n->in[i] == before ? i : x;
    }
    if (n->in_count < 2 || x > 1 || !begin(c, n->in[0], before)) {
        return false;
    }
    if (n->in_count > 2 && before != VALUE_NONE) { /* a later term may be x, which is gone by then */
        return false;
    }
    for (uint32_t i = 0; i < n->in_count; i++) {
        if (i != x && !pair_add(c, fn, n->in[i], before, x == 1)) {
            return false;
        }
    }
    return true;
}

bool chain_add(struct chain *c, const struct shape_env *env, const struct node *n, uint32_t before)
{
    enum binary_fn pair;
    struct unary_form one;
    if (n->out_count != 1 || !is_f32(env, n->out[0]) || n->op == OP_Mean) {
        return false;
    }
    c->onto = c->onto || (c->count == 0 && before != VALUE_NONE);
    if (binary_fn_of(n, &pair)) {
        return binary_add(c, env, n, pair, before) && act_add(c, n);
    }
    return unary_form_known(env, n, &one) && is_f32(env, n->in[0]) && (before == VALUE_NONE || n->in[0] == before) &&
           begin(c, n->in[0], before) && unary_add(c, one.fn, one.a, one.b) && act_add(c, n);
}

/* x moves into y or `room` with the first step, and stays there. */
static void block_run(const struct chain *c, const void *const *in, const size_t *step, float *y, size_t n)
{
    float room[BLOCK];
    const struct own *own = isa_own();
    const float *x = c->onto ? y : in[0];
    size_t advance = c->onto ? 1 : step[0];
    for (uint32_t i = 0; i < c->count; i++) {
        const struct chain_step *s = &c->steps[i];
        float *to = i + 1 == c->count ? y : room;
        if (!s->binary) {
            for (size_t k = 0; advance == 0 && k < n; k++) {
                room[k] = *x;
            }
            x = advance == 0 ? room : x;
            own->unary((enum unary_fn)s->fn, x, to, n, s->a, s->b);
        } else {
            const bool self = s->operand == CHAIN_SELF;
            const float *other = self ? x : in[s->operand];
            const size_t other_step = self ? advance : step[s->operand];
            own->binary((enum binary_fn)s->fn, s->swap ? other : x, s->swap ? other_step : advance, s->swap ? x : other,
                        s->swap ? advance : other_step, to, n);
        }
        x = to;
        advance = 1;
    }
}

void chain_run(const struct chain *c, const void *const *in, const size_t *step, float *y, size_t n)
{
    const void *at[CHAIN_OPERANDS];
    PEN_ASSERT(c->count > 0 && !c->full, "a chain that runs has steps, and room for all of them");
    for (size_t from = 0; from < n; from += BLOCK) {
        for (uint32_t k = 0; k < c->operand_count; k++) {
            at[k] = (const float *)in[k] + from * step[k];
        }
        block_run(c, at, step, y + from, n - from < BLOCK ? n - from : BLOCK);
    }
}

static void steps_drop(struct chain *c, uint32_t count)
{
    c->count -= count;
    for (uint32_t i = 0; i < c->count; i++) {
        c->steps[i] = c->steps[i + count];
    }
}

static bool act_none(const struct act *act)
{
    return act->fn == UNARY_NONE && !isfinite(act->min) && !isfinite(act->max);
}

/* The activation of a product that had none: a clamp, or a function of one parameter. */
static void act_take(struct chain *c, struct act *act)
{
    const struct chain_step *s = &c->steps[0];
    if (c->count > 0 && !s->binary && s->fn == UNARY_CLAMP && act_none(act)) {
        act->min = s->a;
        act->max = s->b;
        steps_drop(c, 1);
    }
}

bool epilogue_init(struct epilogue *e, const struct build *b, struct act *act, uint32_t *ret_sum)
{
    struct chain *c = &e->chain;
    *e = (struct epilogue){.chain = *b->chain, .first = b->n->in_count};
    for (uint32_t k = 0; k < c->operand_count; k++) {
        e->step[k] =
            shape_elements(&b->env->facts[c->operands[k]].shape) != 1 || shape_elements(&build_out(b, 0)->shape) == 1;
    }
    const struct chain_step *s = &c->steps[0];
    bool adds = ret_sum != NULL && s->binary && s->fn == BINARY_ADD && s->operand != CHAIN_SELF &&
                e->step[s->operand] == 1 && act_none(act);
    if (ret_sum != NULL) {
        *ret_sum = adds ? e->first + s->operand : UINT32_MAX;
    }
    if (adds) {
        steps_drop(c, 1);
    }
    act_take(c, act);
    return c->count > 0;
}

void epilogue_run(const struct epilogue *e, void *const *in, float *y, size_t at, size_t n)
{
    const void *operands[CHAIN_OPERANDS];
    size_t step[CHAIN_OPERANDS];
    for (uint32_t k = 0; k < e->chain.operand_count; k++) {
        step[k] = e->step[k];
        operands[k] = (const float *)in[e->first + k] + at * step[k];
    }
    chain_run(&e->chain, operands, step, y, n);
}
