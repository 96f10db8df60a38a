#include <math.h>
#include <string.h>

#include "backend/xnnpack/flash.h"
#include "backend/xnnpack/fusion.h"

/*
 * Attention that a file spells out: MatMul, factors, masks, Softmax, MatMul, with the transposes around them read as strides. A factor may stand before the
 * product, on queries or keys; a mask is an Add, or a Where that puts a number in the place of hidden scores; a Where that makes NaN 0 may follow the
 * soft-max, as for rows that see nothing.
 */
#define MEMBERS_MAX 24

/* A value as it lies in memory: axis i of what is read is axis[i] of it. */
struct seen_value {
    uint32_t value;
    int32_t rank, axis[4];
};

struct attention_fusion {
    struct seen_value q, k, v, y; /* k as [batch, heads, size, keys] */
    float scale;
    uint32_t term_count;
    struct flash_term terms[FLASH_TERMS]; /* kind and fill */
    uint32_t term_values[FLASH_TERMS];
    bool zero; /* NaN becomes 0 behind the soft-max */
};

enum { AT_Q, AT_K, AT_V, AT_TERMS };

/* ---- finding ---- */

struct attention_search {
    struct finder *f;
    struct attention_fusion found;
    struct fusion_parts parts;
    const struct node *softmax;
};

static bool plain(const struct node *n)
{
    return node_int(n, ATTR_act, ACT_NONE) == ACT_NONE;
}

static bool member_add(struct attention_search *s, const struct node *n)
{
    if (s->parts.member_count == MEMBERS_MAX) {
        return false;
    }
    s->parts.members[s->parts.member_count++] = n;
    return true;
}

static bool no(struct attention_search *s, const char *why)
{
    finder_alone(s->f, s->softmax, why);
    return false;
}

static struct seen_value seen_as_is(const struct graph *g, uint32_t value)
{
    return (struct seen_value){.value = value, .rank = g->values[value].shape.rank, .axis = {0, 1, 2, 3}};
}

static bool perm_of(const struct node *n, int32_t rank, int32_t *ret_perm)
{
    uint32_t count = 0;
    const int64_t *perm = node_ints(n, ATTR_perm, &count);
    uint32_t seen = 0;
    if (rank < 1 || rank > 4 || (perm != NULL && count != (uint32_t)rank)) {
        return false;
    }
    for (int32_t i = 0; i < rank; i++) {
        int64_t axis = perm == NULL ? rank - 1 - i : perm[i];
        if (axis < 0 || axis >= rank) {
            return false;
        }
        ret_perm[i] = (int32_t)axis;
        seen |= 1u << axis;
    }
    return seen == (1u << rank) - 1; /* each axis once */
}

/* A Mul or Div by a constant number that is not 0; gives the value and multiplies *scale. */
static bool factor_read(const struct finder *f, const struct node *n, uint32_t *ret_x, float *scale)
{
    float by;
    for (uint32_t i = 0; (n->op == OP_Mul || n->op == OP_Div) && n->in_count == 2 && plain(n) && i < 2; i++) {
        if (finder_scalar(f, n->in[1 - i], &by) && (n->op == OP_Mul || i == 0) && isfinite(by) &&
            !(n->op == OP_Div && by == 0.0f)) {
            *ret_x = n->in[i];
            *scale = n->op == OP_Mul ? *scale * by : *scale / by;
            return f->g->values[*ret_x].dtype == PEN_DTYPE_F32 && f->g->values[*ret_x].shape.rank >= 3;
        }
    }
    return false;
}

/* Through transposes, and through factors that nobody else sees. scale NULL: not through factors. */
static struct seen_value look_through(struct attention_search *s, uint32_t value, float *scale)
{
    struct seen_value v = seen_as_is(s->f->g, value);
    for (;;) {
        const struct node *n = finder_maker(s->f, v.value, true);
        int32_t perm[4], axis[4];
        float by = 1.0f;
        uint32_t x;
        if (n != NULL && n->op == OP_Transpose && perm_of(n, v.rank, perm) && member_add(s, n)) {
            memcpy(axis, v.axis, sizeof axis);
            for (int32_t i = 0; i < v.rank; i++) {
                v.axis[i] = perm[axis[i]];
            }
            v.value = n->in[0];
        } else if (n != NULL && scale != NULL && factor_read(s->f, n, &x, &by) &&
                   s->f->g->values[x].shape.rank == v.rank && member_add(s, n)) {
            *scale *= by;
            v.value = x;
        } else {
            break;
        }
    }
    /* A transpose that others read stays, and what it reads is read here too. */
    const struct value *held = &s->f->g->values[v.value];
    const struct node *n = held->producer != NODE_NONE ? &s->f->g->nodes[held->producer] : NULL;
    int32_t perm[4], axis[4];
    if (n != NULL && !n->dead && n->op == OP_Transpose && finder_maker(s->f, v.value, false) == n &&
        perm_of(n, v.rank, perm)) {
        memcpy(axis, v.axis, sizeof axis);
        for (int32_t i = 0; i < v.rank; i++) {
            v.axis[i] = perm[axis[i]];
        }
        v.value = n->in[0];
    }
    return v;
}

static bool term_add(struct attention_search *s, enum flash_term_kind kind, uint32_t value, float fill)
{
    struct attention_fusion *a = &s->found;
    if (a->term_count == FLASH_TERMS) {
        return false;
    }
    a->terms[a->term_count] = (struct flash_term){.kind = kind, .fill = fill};
    a->term_values[a->term_count++] = value;
    return true;
}

static bool is_scores(const struct finder *f, uint32_t value)
{
    const struct node *n = finder_maker(f, value, true);
    return n != NULL &&
           (n->op == OP_MatMul || n->op == OP_Add || n->op == OP_Where || n->op == OP_Mul || n->op == OP_Div);
}

/* Add of a mask, or Where: which input the scores are. */
static bool term_read(struct attention_search *s, const struct node *n, uint32_t *ret_x)
{
    const struct finder *f = s->f;
    float fill;
    if (n->op == OP_Add && n->in_count == 2 && plain(n)) {
        uint32_t at =
            is_scores(f, n->in[0]) ? 0 : 1; /* a mask may be computed the same way: the first that leads to a product */
        if (!is_scores(f, n->in[at])) {
            return false;
        }
        if (at == 0 && is_scores(f, n->in[1])) {
            const struct node *second = finder_maker(f, n->in[1], true);
            at = second->op == OP_MatMul ? 1 : 0;
        }
        *ret_x = n->in[at];
        return f->g->values[n->in[1 - at]].dtype == PEN_DTYPE_F32 && term_add(s, FLASH_ADD, n->in[1 - at], 0.0f);
    }
    if (n->op != OP_Where) {
        return false;
    }
    const bool keep = finder_scalar(f, n->in[2], &fill);
    if (!keep && !finder_scalar(f, n->in[1], &fill)) {
        return false;
    }
    *ret_x = n->in[keep ? 1 : 2];
    return term_add(s, keep ? FLASH_KEEP : FLASH_DROP, n->in[0], fill);
}

/* From the soft-max up to the product of queries and keys. */
static const struct node *scores_find(struct attention_search *s)
{
    uint32_t at = s->softmax->in[0];
    bool scaled = false;
    for (;;) {
        const struct node *n = finder_maker(s->f, at, true);
        float scale = 1.0f;
        if (n == NULL) {
            return NULL;
        }
        if (n->op == OP_MatMul) {
            return plain(n) && member_add(s, n) ? n : NULL;
        }
        if (factor_read(s->f, n, &at, &scale)) {
            s->found.scale *= scale;
            scaled = true;
        } else if (scaled || !term_read(s, n, &at)) { /* a mask in front of a factor would be scaled as well */
            return NULL;
        }
        if (!member_add(s, n)) {
            return NULL;
        }
    }
}

/* Terms were met from the soft-max upwards; they apply the other way. */
static void terms_turn(struct attention_fusion *a)
{
    for (uint32_t i = 0; i < a->term_count / 2; i++) {
        uint32_t k = a->term_count - 1 - i, value = a->term_values[i];
        struct flash_term term = a->terms[i];
        a->terms[i] = a->terms[k];
        a->term_values[i] = a->term_values[k];
        a->terms[k] = term;
        a->term_values[k] = value;
    }
}

/* IsNaN and Where behind the soft-max: rows that see nothing become 0. Gives what the second product reads. */
static uint32_t zeros_read(struct attention_search *s)
{
    const struct graph *g = s->f->g;
    uint32_t shares = s->softmax->out[0];
    float zero;
    if (s->f->readers[shares] != 2) {
        return shares;
    }
    for (uint32_t i = 0; i < s->f->part->node_count; i++) {
        const struct node *n = &g->nodes[s->f->part->nodes[i]];
        if (n->dead || n->op != OP_Where || n->in[2] != shares || !finder_scalar(s->f, n->in[1], &zero) ||
            zero != 0.0f) {
            continue;
        }
        const struct node *nan = finder_maker(s->f, n->in[0], true);
        if (nan != NULL && nan->op == OP_IsNaN && nan->in[0] == shares && member_add(s, nan) && member_add(s, n)) {
            s->found.zero = true;
            return n->out[0];
        }
    }
    return shares;
}

static bool attention_search(struct attention_search *s)
{
    struct finder *f = s->f;
    const struct graph *g = f->g;
    const int32_t rank = g->values[s->softmax->in[0]].shape.rank;
    struct attention_fusion *a = &s->found;
    member_add(s, s->softmax);
    const uint32_t shares = zeros_read(s);
    const struct node *second = finder_reader(f, shares), *first = scores_find(s);
    if (first == NULL && second == NULL) {
        return false; /* no attention at all */
    }
    if (second == NULL || second->op != OP_MatMul || second->in[0] != shares || !plain(second)) {
        return first != NULL ? no(s, "not joined as attention: the shares go elsewhere than into one product") : false;
    }
    if (first == NULL) {
        return no(s,
                  "not joined as attention: something between the product of queries and keys and the soft-max is no "
                  "factor and no mask");
    }
    if (rank < 3 || rank > 4 || !all_f32(g, first) || !all_f32(g, second) ||
        g->values[first->in[0]].shape.rank != rank || g->values[first->in[1]].shape.rank != rank ||
        g->values[second->in[1]].shape.rank != rank) {
        return no(s, "not joined as attention: queries, keys and values are not f32 of 3 or 4 dimensions each");
    }
    if (shape_axis(node_int(s->softmax, ATTR_axis, -1), rank) != rank - 1) {
        return no(s, "not joined as attention: the soft-max is not over the keys");
    }
    terms_turn(a);
    a->q = look_through(s, first->in[0], &a->scale);
    a->k = look_through(s, first->in[1], &a->scale);
    a->v = look_through(s, second->in[1], NULL);
    a->y = seen_as_is(g, second->out[0]);
    const struct node *turn = finder_reader(f, second->out[0]);
    int32_t perm[4];
    bool turned = turn != NULL && turn->op == OP_Transpose && perm_of(turn, rank, perm);
    if (!member_add(s, second) || (turned && !member_add(s, turn))) {
        return false;
    }
    for (int32_t i = 0; turned && i < rank; i++) { /* axis perm[i] of the product is axis i of what is written */
        a->y.axis[perm[i]] = i;
    }
    a->y.value = s->parts.members[s->parts.member_count - 1]->out[0];
    return true;
}

static const struct fusion_kind attention_kind; /* below */

void fusion_attention_find(struct finder *f, const struct node *softmax)
{
    struct attention_search s = {.f = f, .softmax = softmax, .found = {.scale = 1.0f}};
    if (!plain(softmax) || !attention_search(&s)) {
        return;
    }
    const struct attention_fusion *a = &s.found;
    s.parts.in[AT_Q] = a->q.value;
    s.parts.in[AT_K] = a->k.value;
    s.parts.in[AT_V] = a->v.value;
    memcpy(s.parts.in + AT_TERMS, a->term_values, a->term_count * sizeof a->term_values[0]);
    s.parts.in_count = AT_TERMS + a->term_count;
    struct fusion *fusion = finder_fuse(f, &attention_kind, &s.parts, sizeof *a);
    if (fusion != NULL) {
        memcpy(fusion->detail, a, sizeof *a);
    }
}

/* ---- shapes ---- */

/* Sizes and steps of [batch, heads, rows, columns] as they are seen. */
struct seen_shape {
    size_t dim[4], step[4];
};

static void shape_see(const struct seen_value *v, const struct shape_env *env, struct seen_shape *ret)
{
    const struct shape *s = &env->facts[v->value].shape;
    size_t step[4], at = 1;
    for (int32_t d = v->rank - 1; d >= 0; d--) {
        step[d] = at;
        at *= (size_t)s->dim[d];
    }
    ret->dim[0] = 1;
    ret->step[0] = 0;
    for (int32_t i = 0; i < v->rank; i++) {
        ret->dim[4 - v->rank + i] = (size_t)s->dim[v->axis[i]];
        ret->step[4 - v->rank + i] = step[v->axis[i]];
    }
}

/* The steps of one side whose leading dims broadcast; false when they do not. */
static bool side_fits(const struct seen_shape *s, size_t batch, size_t heads, struct flash_side *ret)
{
    *ret =
        (struct flash_side){s->dim[0] == 1 ? 0 : s->step[0], s->dim[1] == 1 ? 0 : s->step[1], s->step[2], s->step[3]};
    return (s->dim[0] == batch || s->dim[0] == 1) && (s->dim[1] == heads || s->dim[1] == 1);
}

static const char *flash_read(const struct attention_fusion *a, const struct shape_env *env, struct flash *ret)
{
    struct seen_shape q, k, v, y;
    const struct seen_value *const sides[] = {&a->q, &a->k, &a->v, &a->y};
    for (uint32_t i = 0; i < 4; i++) {
        if (!shape_known(&env->facts[sides[i]->value].shape) ||
            env->facts[sides[i]->value].shape.rank != sides[i]->rank) {
            return "not joined as attention: a shape depends on data";
        }
    }
    shape_see(&a->q, env, &q);
    shape_see(&a->k, env, &k);
    shape_see(&a->v, env, &v);
    shape_see(&a->y, env, &y);
    struct flash f = {.batch = y.dim[0],
                      .heads = y.dim[1],
                      .queries = q.dim[2],
                      .keys = k.dim[3],
                      .size = q.dim[3],
                      .value_size = v.dim[3],
                      .scale = a->scale,
                      .hidden_zero = a->zero,
                      .term_count = a->term_count};
    bool fits = side_fits(&q, f.batch, f.heads, &f.q) && side_fits(&k, f.batch, f.heads, &f.k) &&
                side_fits(&v, f.batch, f.heads, &f.v) && side_fits(&y, f.batch, f.heads, &f.y) && k.dim[2] == f.size &&
                v.dim[2] == f.keys && y.dim[2] == f.queries && y.dim[3] == f.value_size;
    if (!fits || f.keys == 0 || f.size == 0) {
        return "not joined as attention: sizes of queries, keys, values and masks do not fit each other";
    }
    size_t row = f.k.row; /* k is seen as [size, keys] */
    f.k.row = f.k.col;
    f.k.col = row;
    f.kv_heads = k.dim[1] == 1 && v.dim[1] == 1 ? 1 : f.heads;
    for (uint32_t i = 0; i < a->term_count; i++) {
        f.terms[i] = a->terms[i];
        const struct shape *mask = &env->facts[a->term_values[i]].shape;
        if (!shape_known(mask) || !flash_term_init(&f.terms[i], &f, mask) || f.terms[i].keys != f.keys) {
            return "not joined as attention: a mask is wider than the scores";
        }
    }
    *ret = f;
    return NULL;
}

static const char *attention_misfit(const struct fusion *f, const struct graph *g, const struct shape_env *env)
{
    struct flash ignored;
    (void)g;
    return flash_read(f->detail, env, &ignored);
}

/* ---- running ---- */

static enum pen_status joined_run(struct step *s, struct run *r)
{
    const struct flash *f = s->state;
    struct flash_data d = {.q = s->in[AT_Q], .k = s->in[AT_K], .v = s->in[AT_V], .y = s->out[0]};
    for (uint32_t i = 0; i < f->term_count; i++) {
        d.terms[i] = s->in[AT_TERMS + i];
    }
    flash_run(f, &d, s->scratch, r);
    return PEN_OK;
}

static enum pen_status joined_build(struct build *b)
{
    struct flash *f = build_alloc(b, sizeof *f);
    if (f == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    const char *why = flash_read(b->fusion->detail, b->env, f);
    if (why != NULL) {
        return build_fail(b, PEN_ERR_SHAPE, why);
    }
    flash_init(f, build_threads(b));
    b->step->scratch_bytes = flash_scratch_bytes(f, build_threads(b));
    b->step->state = f;
    b->step->run = joined_run;
    return PEN_OK;
}

static const struct fusion_kind attention_kind = {
    .kernel = "own attention in blocks of queries and keys",
    .why = "joined from the nodes that spell it out: its scores stay in the cache",
    .misfit = attention_misfit,
    .build = joined_build};
