#include "backend/vulkan/ops/chain.h"

void vk_chain_init(struct vk_chain *c, const struct shape *out)
{
    *c = (struct vk_chain){.out = *out};
}

uint32_t vk_chain_input(struct vk_chain *c, uint32_t cell, const struct shape *shape, uint32_t kind)
{
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (c->in[i].cell == cell && c->in[i].kind == kind && shape_equal(&c->in[i].shape, shape)) {
            return i;
        }
    }
    if (c->in_count == EW_INPUTS_MAX) {
        c->full = true;
        return 0;
    }
    c->in[c->in_count] = (struct vk_chain_input){cell, kind, *shape};
    return c->in_count++;
}

void vk_chain_step(struct vk_chain *c, uint32_t code, uint32_t operand, float a, float b)
{
    if (c->step_count == EW_STEPS_MAX) {
        c->full = true;
        return;
    }
    c->code[c->step_count] = code | operand << 8;
    c->a[c->step_count] = a;
    c->b[c->step_count++] = b;
}

void vk_chain_act(struct vk_chain *c, const struct vk_act *act)
{
    static const uint32_t codes[] = {
        [ACT_CLAMP] = EW_CLIP, [ACT_HARDSWISH] = EW_HARD_SWISH, [ACT_LEAKY] = EW_LEAKY, [ACT_SIGMOID] = EW_SIGMOID,
        [ACT_TANH] = EW_TANH,  [ACT_SWISH] = EW_SWISH};
    if (act->kind != ACT_NONE) {
        vk_chain_step(c, codes[act->kind], 0, act->kind == ACT_SWISH ? 1.0f : act->a, act->b);
    }
}

uint32_t vk_chain_kind(enum pen_dtype dtype)
{
    switch (dtype) {
    case PEN_DTYPE_F32:
        return EW_REAL;
    case PEN_DTYPE_BOOL:
        return EW_BOOL;
    case PEN_DTYPE_U8:
        return EW_U8;
    case PEN_DTYPE_I8:
        return EW_I8;
    case PEN_DTYPE_I32:
        return EW_I32;
    case PEN_DTYPE_I64:
        return EW_I64;
    default:
        return UINT32_MAX;
    }
}

struct loops {
    int32_t rank;
    size_t dim[PEN_MAX_RANK];
    size_t step[EW_INPUTS_MAX][PEN_MAX_RANK];
};

/* Step of an input along each dim of the output; 0 where it broadcasts. False when it does not. */
static bool steps_read(const struct shape *in, const struct shape *out, size_t *steps)
{
    size_t step = 1;
    for (int32_t d = out->rank - 1; d >= 0; d--) {
        int32_t k = d - (out->rank - in->rank);
        int64_t dim = k >= 0 ? in->dim[k] : 1;
        if (dim != 1 && dim != out->dim[d]) {
            return false;
        }
        steps[d] = dim == 1 ? 0 : step;
        step *= (size_t)dim;
    }
    return in->rank <= out->rank;
}

static bool joins(const struct loops *l, uint32_t inputs, int32_t last, const size_t *dim, size_t steps[][PEN_MAX_RANK],
                  int32_t d)
{
    for (uint32_t i = 0; i < inputs; i++) {
        if (l->step[i][last] != steps[i][d] * dim[d]) {
            return false;
        }
    }
    return true;
}

/* Drops dims of one element and joins neighbours that every input walks as one. */
static bool loops_make(const struct vk_chain *c, struct loops *l)
{
    size_t steps[EW_INPUTS_MAX][PEN_MAX_RANK] = {{0}}, dim[PEN_MAX_RANK];
    l->rank = 0;
    for (uint32_t i = 0; i < c->in_count; i++) {
        if (!steps_read(&c->in[i].shape, &c->out, steps[i])) {
            return false;
        }
    }
    for (int32_t d = 0; d < c->out.rank; d++) {
        dim[d] = (size_t)c->out.dim[d];
        if (dim[d] == 1) {
            continue;
        }
        if (l->rank > 0 && joins(l, c->in_count, l->rank - 1, dim, steps, d)) {
            l->dim[l->rank - 1] *= dim[d];
        } else {
            l->dim[l->rank++] = dim[d];
        }
        for (uint32_t i = 0; i < c->in_count; i++) {
            l->step[i][l->rank - 1] = steps[i][d];
        }
    }
    if (l->rank == 0) {
        l->dim[l->rank++] = 1;
    }
    return l->rank <= EW_RANK_MAX;
}

/* Floats, each input of the output's shape or one element: four neighbours are read at a time. */
static bool by_fours(const struct vk_chain *c, const struct loops *l, uint32_t kind)
{
    bool fours = !c->whole && kind == EW_REAL && l->rank == 1 && l->dim[0] % 4 == 0;
    for (uint32_t i = 0; i < c->in_count; i++) {
        fours = fours && c->in[i].kind == EW_REAL;
    }
    return fours;
}

void vk_chain_dispatch(struct vk_build *b, const struct vk_chain *c, uint32_t y, uint32_t kind)
{
    struct loops l = {0};
    if (c->full || !loops_make(c, &l)) {
        vk_build_fail(b, PEN_ERR_UNSUPPORTED, "too many inputs or dims for one element-wise kernel");
        return;
    }
    uint32_t kinds = kind << 16;
    for (uint32_t i = 0; i < c->in_count; i++) {
        kinds |= c->in[i].kind << 4 * i;
    }
    const bool fours = by_fours(c, &l, kind);
    struct vk_work *w = vk_dispatch(b, c->whole            ? SHADER_integer
                                       : fours             ? SHADER_elementwise_fours
                                       : c->step_count > 1 ? SHADER_elementwise_chain
                                                           : SHADER_elementwise);
    vk_bind(w, y, VK_WRITE);
    for (uint32_t i = 0; i < EW_INPUTS_MAX; i++) { /* the shader names them all */
        vk_bind(w, c->in[i < c->in_count ? i : 0].cell, VK_READ);
    }
    vk_spec(w, (uint32_t)l.rank);
    vk_spec(w, kinds);
    vk_spec(w, c->step_count);
    for (uint32_t i = 0; i < c->step_count; i++) {
        vk_spec(w, c->code[i]);
        vk_spec_float(w, c->a[i]);
        vk_spec_float(w, c->b[i]);
    }
    size_t count = (size_t)shape_elements(&c->out);
    vk_push(w, count);
    for (int32_t d = 0; d < EW_RANK_MAX; d++) {
        vk_push(w, d < l.rank ? l.dim[d] : 1);
    }
    for (uint32_t i = 0; i < EW_INPUTS_MAX; i++) {
        for (int32_t d = 0; d < EW_RANK_MAX; d++) {
            vk_push(w, d < l.rank ? l.step[i][d] : 0);
        }
    }
    vk_items(w, fours ? count / 4 : count);
}
