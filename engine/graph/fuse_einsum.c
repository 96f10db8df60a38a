#include <stdio.h>
#include <string.h>

#include "graph/fuse.h"

/*
 * A product of two operands spelled as Einsum becomes MatMul, or Mul when nothing is summed over, with transposes around it. m is the last label of the result that only
 * the first operand has, n the last that only the second has, k one that is summed over. All others are batches: an operand that lacks one is broadcast, and
 * those that are summed over besides k are added up behind the product. "..." stands for labels of its own.
 */
struct terms {
    char a[PEN_MAX_RANK], b[PEN_MAX_RANK], y[PEN_MAX_RANK]; /* labels; 1.. for what "..." covers */
    int32_t a_rank, b_rank, y_rank;
};

/* Labels of one term. dots: how many "..." stands for, or -1 to take what the rank leaves. -1 when it does not fit. */
static int32_t term_read(const char *at, const char *end, int32_t rank, int32_t *dots, char *ret)
{
    int32_t letters = 0, count = 0;
    bool open = false;
    for (const char *c = at; c < end; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        letters += letter;
        open = open || *c == '.';
        if (!letter && *c != '.' && *c != ' ')
            return -1;
    }
    int32_t covered = !open ? 0 : rank >= 0 ? rank - letters : *dots;
    if (covered < 0 || (rank >= 0 && covered + letters != rank) || covered + letters > PEN_MAX_RANK ||
        (open && *dots >= 0 && covered != *dots))
        return -1;
    *dots = open ? covered : *dots;
    for (const char *c = at; c < end; c++) {
        for (int32_t i = 0; *c == '.' && i < covered; i++)
            ret[count++] = (char)(1 + i);
        if (*c == '.')
            c += c + 2 < end ? 2 : 0;
        else if (*c != ' ')
            ret[count++] = *c;
    }
    for (int32_t i = 0; i < count; i++) {
        if (memchr(ret, ret[i], (size_t)i))
            return -1; /* a diagonal */
    }
    return count;
}

static bool equation_read(const struct rewrite *r, const struct node *n, struct terms *t)
{
    const struct attr *equation = node_attr(n, ATTR_equation);
    if (!equation || equation->type != ATTR_TEXT || n->in_count != 2)
        return false;
    const char *text = equation->text.text, *end = text + equation->text.bytes;
    const char *comma = memchr(text, ',', equation->text.bytes), *dash = memchr(text, '-', equation->text.bytes);
    int32_t dots = -1, a = rewrite_fact(r, n->in[0])->shape.rank, b = rewrite_fact(r, n->in[1])->shape.rank;
    if (!comma || !dash || dash < comma || dash + 1 >= end || dash[1] != '>' || a < 1 || b < 1)
        return false;
    t->a_rank = term_read(text, comma, a, &dots, t->a);
    t->b_rank = term_read(comma + 1, dash, b, &dots, t->b);
    t->y_rank = term_read(dash + 2, end, -1, &dots, t->y);
    return t->a_rank >= 1 && t->b_rank >= 1 && t->y_rank >= 0;
}

static int32_t place(const char *labels, int32_t rank, char label)
{
    const char *at = memchr(labels, label, (size_t)rank);
    return at ? (int32_t)(at - labels) : -1;
}

/* What each label is for; m, n, k: 0 = there is none. */
struct roles {
    char batch[PEN_MAX_RANK], m, n, k;
    int32_t count, summed; /* of batch; the first `summed` of them are not in the result */
};

static bool has(const char *labels, int32_t rank, char label)
{
    return place(labels, rank, label) >= 0;
}

/* Labels that both operands have and the result has not. */
static bool summed_read(const struct terms *t, struct roles *ret)
{
    for (int32_t i = 0; i < t->a_rank; i++) {
        char label = t->a[i];
        if (has(t->y, t->y_rank, label))
            continue;
        if (!has(t->b, t->b_rank, label))
            return false;
        if (ret->k)
            ret->batch[ret->summed++] = ret->k;
        ret->k = label;
    }
    ret->count = ret->summed;
    for (int32_t i = 0; i < t->b_rank; i++) {
        if (!has(t->y, t->y_rank, t->b[i]) && !has(t->a, t->a_rank, t->b[i]))
            return false;
    }
    return true;
}

static bool roles_read(const struct terms *t, struct roles *ret)
{
    struct roles role = {.count = 0};
    if (!summed_read(t, &role))
        return false;
    for (int32_t i = 0; i < t->y_rank; i++) {
        bool in_a = has(t->a, t->a_rank, t->y[i]), in_b = has(t->b, t->b_rank, t->y[i]);
        if (!in_a && !in_b)
            return false;
        role.m = in_a && !in_b ? t->y[i] : role.m;
        role.n = in_b && !in_a ? t->y[i] : role.n;
    }
    for (int32_t i = 0; i < t->y_rank; i++) {
        if (t->y[i] == role.m || t->y[i] == role.n)
            continue;
        if (role.count + 2 >= PEN_MAX_RANK)
            return false;
        role.batch[role.count++] = t->y[i];
    }
    *ret = role;
    return role.count + 2 <= PEN_MAX_RANK;
}

static uint32_t with_axes(struct rewrite *r, enum op op, const char *name, uint32_t value, const int64_t *axes,
                          uint32_t count)
{
    uint32_t list = VALUE_NONE;
    if (count == 0 || r->status != PEN_OK)
        return value;
    r->status = graph_constant_i64(r->g, axes, count, false, &list);
    return r->status == PEN_OK ? rewrite_node(r, op, name, (uint32_t[]){value, list}, 2) : VALUE_NONE;
}

/* value with its labels in the order given; the same value when they are already. */
static uint32_t turned(struct rewrite *r, const char *name, uint32_t value, const char *labels, const char *order,
                       int32_t rank)
{
    int64_t perm[PEN_MAX_RANK];
    bool same = true;
    for (int32_t i = 0; i < rank; i++) {
        perm[i] = place(labels, rank, order[i]);
        same = same && perm[i] == i;
    }
    if (same || r->status != PEN_OK)
        return value;
    uint32_t made = rewrite_node(r, OP_Transpose, name, &value, 1);
    if (r->status == PEN_OK)
        r->status = graph_attr_ints(r->g, r->g->values[made].producer, ATTR_perm, perm, (uint32_t)rank);
    return made;
}

/* An operand as [batches..., row, column]: axes that it lacks have the size 1. */
static uint32_t operand(struct rewrite *r, const char *name, uint32_t value, const char *labels, int32_t rank,
                        const struct roles *role, char row, char column)
{
    char all[PEN_MAX_RANK], order[PEN_MAX_RANK];
    int64_t lacking[PEN_MAX_RANK];
    int32_t present = 0;
    uint32_t count = 0;
    memcpy(all, role->batch, sizeof all);
    all[role->count] = row;
    all[role->count + 1] = column;
    for (int32_t i = 0; i < role->count + 2; i++) {
        if (all[i] && has(labels, rank, all[i]))
            order[present++] = all[i];
        else
            lacking[count++] = i;
    }
    value = turned(r, name, value, labels, order, present);
    return with_axes(r, OP_Unsqueeze, name, value, lacking, count);
}

/* The product [batches..., m, n] without what is no label of the result, in the result's order. */
static uint32_t result(struct rewrite *r, const char *name, uint32_t value, const struct terms *t,
                       const struct roles *role)
{
    char order[PEN_MAX_RANK];
    int64_t axes[PEN_MAX_RANK];
    int32_t count = 0, rank = role->count - role->summed;
    memcpy(order, role->batch + role->summed, (size_t)rank);
    if (role->m)
        order[rank++] = role->m;
    else
        axes[count++] = role->count;
    if (role->n)
        order[rank++] = role->n;
    else
        axes[count++] = role->count + 1;
    value = with_axes(r, OP_Squeeze, name, value, axes, (uint32_t)count);
    for (int32_t i = 0; i < role->summed; i++)
        axes[i] = i;
    bool sums = role->summed > 0;
    value = with_axes(r, OP_ReduceSum, name, value, axes, (uint32_t)role->summed);
    if (sums && r->status == PEN_OK)
        r->status = graph_attr_int(r->g, r->g->values[value].producer, ATTR_keepdims, 0);
    return turned(r, name, value, order, t->y, rank);
}

static bool take_place(struct rewrite *r, uint32_t made, uint32_t node)
{
    uint32_t maker = r->status == PEN_OK ? r->g->values[made].producer : NODE_NONE;
    if (maker == NODE_NONE)
        return false;
    r->g->nodes[maker].origin = r->g->nodes[node].origin;
    rewrite_absorb(r, maker, node);
    return true;
}

/* One operand: sums and a transpose. */
static bool fuse_one(struct rewrite *r, uint32_t node)
{
    const struct node n = r->g->nodes[node];
    const struct attr *equation = node_attr(&n, ATTR_equation);
    const char *text = equation->text.text, *end = text + equation->text.bytes;
    const char *dash = memchr(text, '-', equation->text.bytes);
    char a[PEN_MAX_RANK], y[PEN_MAX_RANK], kept[PEN_MAX_RANK];
    int64_t axes[PEN_MAX_RANK];
    int32_t dots = -1, rank = rewrite_fact(r, n.in[0])->shape.rank, count = 0, gone = 0;
    if (!dash || dash + 1 >= end || dash[1] != '>' || rank < 1)
        return false;
    int32_t a_rank = term_read(text, dash, rank, &dots, a), y_rank = term_read(dash + 2, end, -1, &dots, y);
    for (int32_t i = 0; i < a_rank; i++) {
        if (y_rank >= 0 && has(y, y_rank, a[i]))
            kept[count++] = a[i];
        else
            axes[gone++] = i;
    }
    if (a_rank < 0 || y_rank < 0 || count != y_rank)
        return false;
    uint32_t made = with_axes(r, OP_ReduceSum, n.name, n.in[0], axes, (uint32_t)gone);
    if (gone > 0 && r->status == PEN_OK)
        r->status = graph_attr_int(r->g, r->g->values[made].producer, ATTR_keepdims, 0);
    made = turned(r, n.name, made, kept, y, count);
    return made != n.in[0] && take_place(r, made, node);
}

/* The labels of two terms that somebody behind them still reads, once each; gives their number, or -1 for "..." and the like. */
static int32_t labels_left(const char *text, const char *second_end, const char *end, char *ret)
{
    int32_t count = 0;
    for (const char *c = text; c < second_end; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (!letter && *c != ',' && *c != ' ')
            return -1;
        if (letter && memchr(second_end, *c, (size_t)(end - second_end)) && !memchr(ret, *c, (size_t)count)) {
            if (count == PEN_MAX_RANK)
                return -1;
            ret[count++] = *c;
        }
    }
    return count;
}

/* Three operands and more: the first two become an Einsum of their own. */
static bool fuse_many(struct rewrite *r, uint32_t node)
{
    const struct node n = r->g->nodes[node];
    const struct attr *equation = node_attr(&n, ATTR_equation);
    const char *text = equation->text.text, *end = text + equation->text.bytes;
    const char *comma = memchr(text, ',', equation->text.bytes);
    const char *next = comma ? memchr(comma + 1, ',', (size_t)(end - comma - 1)) : NULL;
    char left[PEN_MAX_RANK], first[120], rest[160];
    int32_t count = next && equation->text.bytes < 100 ? labels_left(text, next, end, left) : -1;
    if (count < 0)
        return false;
    (void)snprintf(first, sizeof first, "%.*s->%.*s", (int)(next - text), text, count, left);
    (void)snprintf(rest, sizeof rest, "%.*s%.*s", count, left, (int)(end - next), next);
    uint32_t in[PEN_MAX_RANK] = {rewrite_node(r, OP_Einsum, n.name, n.in, 2)};
    if (r->status == PEN_OK)
        r->status = graph_attr_text(r->g, r->g->values[in[0]].producer, ATTR_equation, first);
    memcpy(in + 1, n.in + 2, (n.in_count - 2) * sizeof *in);
    uint32_t made = r->status == PEN_OK ? rewrite_node(r, OP_Einsum, n.name, in, n.in_count - 1) : VALUE_NONE;
    if (r->status == PEN_OK)
        r->status = graph_attr_text(r->g, r->g->values[made].producer, ATTR_equation, rest);
    return take_place(r, made, node);
}

bool fuse_einsum(struct rewrite *r, uint32_t node)
{
    struct terms t;
    struct roles role;
    const struct node n = r->g->nodes[node];
    const struct attr *equation = node_attr(&n, ATTR_equation);
    if (n.op == OP_Einsum && equation && equation->type == ATTR_TEXT && n.in_count != 2)
        return n.in_count == 1 ? fuse_one(r, node) : n.in_count < PEN_MAX_RANK && fuse_many(r, node);
    if (n.op != OP_Einsum || !equation_read(r, &n, &t) || !roles_read(&t, &role))
        return false;
    uint32_t in[2] = {operand(r, n.name, n.in[0], t.a, t.a_rank, &role, role.m, role.k),
                      operand(r, n.name, n.in[1], t.b, t.b_rank, &role, role.k, role.n)};
    uint32_t product = r->status == PEN_OK ? rewrite_node(r, role.k ? OP_MatMul : OP_Mul, n.name, in, 2) : VALUE_NONE;
    uint32_t made = r->status == PEN_OK ? result(r, n.name, product, &t, &role) : VALUE_NONE;
    return take_place(r, made, node);
}
