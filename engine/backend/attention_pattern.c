#include "backend/attention_pattern.h"

#include <math.h>
#include <string.h>

/* ---- finding ---- */

struct attention_search {
    struct finder *f;
    struct attention_pattern found;
    const struct node *softmax;
};

static bool plain(const struct node *n)
{
    return node_int(n, ATTR_act, ACT_NONE) == ACT_NONE;
}

static bool member_add(struct attention_search *s, const struct node *n)
{
    if (s->found.member_count == PATTERN_MEMBERS) {
        return false;
    }
    s->found.members[s->found.member_count++] = n;
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
    struct attention_pattern *a = &s->found;
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
static void terms_turn(struct attention_pattern *a)
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
    struct attention_pattern *a = &s->found;
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
    if (rank < 3 || rank > 4 || !finder_all_f32(f, first) || !finder_all_f32(f, second) ||
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
    a->y.value = a->members[a->member_count - 1]->out[0];
    return true;
}

bool attention_pattern_find(struct finder *f, const struct node *softmax, struct attention_pattern *ret)
{
    struct attention_search s = {.f = f, .softmax = softmax, .found = {.scale = 1.0f}};
    if (!plain(softmax) || !attention_search(&s)) {
        return false;
    }
    *ret = s.found;
    return true;
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

bool flash_term_init(struct flash_term *t, const size_t full[4], const struct shape *shape)
{
    size_t step = 1;
    t->keys = full[3];
    memset(t->step, 0, sizeof t->step);
    if (shape->rank > 4) {
        return false;
    }
    for (int32_t d = shape->rank - 1; d >= 0; d--) {
        int32_t at = 4 - shape->rank + d;
        size_t dim = (size_t)shape->dim[d];
        if (at == 3 && dim != 1 && dim < full[3]) {
            t->keys = dim;
        } else if (dim != 1 && dim != full[at]) {
            return false;
        }
        t->step[at] = dim == 1 ? 0 : step;
        step *= dim;
    }
    return true;
}

static const char *terms_see(const struct attention_pattern *a, const struct shape_env *env,
                             struct attention_sizes *sizes)
{
    const size_t full[4] = {sizes->batch, sizes->heads, sizes->queries, sizes->keys};
    for (uint32_t i = 0; i < a->term_count; i++) {
        const struct shape *mask = &env->facts[a->term_values[i]].shape;
        sizes->terms[i] = a->terms[i];
        if (!shape_known(mask) || !flash_term_init(&sizes->terms[i], full, mask) ||
            sizes->terms[i].keys != sizes->keys) {
            return "not joined as attention: a mask is wider than the scores";
        }
    }
    return NULL;
}

const char *attention_pattern_sizes(const struct attention_pattern *a, const struct shape_env *env,
                                    struct attention_sizes *ret)
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
    struct attention_sizes s = {.batch = y.dim[0],
                                .heads = y.dim[1],
                                .queries = q.dim[2],
                                .keys = k.dim[3],
                                .size = q.dim[3],
                                .value_size = v.dim[3]};
    bool fits = side_fits(&q, s.batch, s.heads, &s.q) && side_fits(&k, s.batch, s.heads, &s.k) &&
                side_fits(&v, s.batch, s.heads, &s.v) && side_fits(&y, s.batch, s.heads, &s.y) && k.dim[2] == s.size &&
                v.dim[2] == s.keys && y.dim[2] == s.queries && y.dim[3] == s.value_size;
    if (!fits || s.keys == 0 || s.size == 0) {
        return "not joined as attention: sizes of queries, keys, values and masks do not fit each other";
    }
    size_t row = s.k.row; /* k is seen as [size, keys] */
    s.k.row = s.k.col;
    s.k.col = row;
    s.kv_heads = k.dim[1] == 1 && v.dim[1] == 1 ? 1 : s.heads;
    *ret = s;
    return terms_see(a, env, ret);
}
