#include <string.h>

#include "graph/fuse.h"

/*
 * A product of two operands spelled as Einsum becomes MatMul with transposes around it: one label summed over, one that only the first operand has, one that
 * only the second has, and any number that both and the result have. "..." stands for labels of its own, the same number in both operands.
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
    if (!comma || !dash || dash < comma || dash + 1 >= end || dash[1] != '>' || a < 2 || b < 2)
        return false;
    t->a_rank = term_read(text, comma, a, &dots, t->a);
    t->b_rank = term_read(comma + 1, dash, b, &dots, t->b);
    t->y_rank = term_read(dash + 2, end, -1, &dots, t->y);
    return t->a_rank >= 2 && t->b_rank >= 2 && t->y_rank >= 2;
}

static int32_t place(const char *labels, int32_t rank, char label)
{
    const char *at = memchr(labels, label, (size_t)rank);
    return at ? (int32_t)(at - labels) : -1;
}

/* What each label is for: ret_order = shared labels in the result's order; m, n, k the other three. */
struct roles {
    char shared[PEN_MAX_RANK], m, n, k;
    int32_t shared_count;
};

static bool roles_read(const struct terms *t, struct roles *ret)
{
    struct roles role = {.shared_count = 0};
    for (int32_t i = 0; i < t->y_rank; i++) {
        bool in_a = place(t->a, t->a_rank, t->y[i]) >= 0, in_b = place(t->b, t->b_rank, t->y[i]) >= 0;
        if (in_a && in_b)
            role.shared[role.shared_count++] = t->y[i];
        else if (in_a && !role.m)
            role.m = t->y[i];
        else if (in_b && !role.n)
            role.n = t->y[i];
        else
            return false;
    }
    for (int32_t i = 0; i < t->a_rank; i++) {
        if (place(t->y, t->y_rank, t->a[i]) >= 0)
            continue;
        if (role.k || place(t->b, t->b_rank, t->a[i]) < 0)
            return false;
        role.k = t->a[i];
    }
    *ret = role;
    return role.m && role.n && role.k && t->a_rank == role.shared_count + 2 && t->b_rank == role.shared_count + 2;
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
    if (same)
        return value;
    uint32_t made = rewrite_node(r, OP_Transpose, name, &value, 1);
    if (r->status == PEN_OK)
        r->status = graph_attr_ints(r->g, r->g->values[made].producer, ATTR_perm, perm, (uint32_t)rank);
    return made;
}

bool fuse_einsum(struct rewrite *r, uint32_t node)
{
    struct terms t;
    struct roles role;
    const struct node n = r->g->nodes[node];
    if (n.op != OP_Einsum || !equation_read(r, &n, &t) || !roles_read(&t, &role))
        return false;
    int32_t rank = role.shared_count + 2;
    char a[PEN_MAX_RANK], b[PEN_MAX_RANK], y[PEN_MAX_RANK];
    memcpy(a, role.shared, sizeof a);
    memcpy(b, role.shared, sizeof b);
    memcpy(y, role.shared, sizeof y);
    a[rank - 2] = y[rank - 2] = role.m;
    a[rank - 1] = b[rank - 2] = role.k;
    b[rank - 1] = y[rank - 1] = role.n;
    uint32_t in[2] = {turned(r, n.name, n.in[0], t.a, a, rank), turned(r, n.name, n.in[1], t.b, b, rank)};
    uint32_t product = r->status == PEN_OK ? rewrite_node(r, OP_MatMul, n.name, in, 2) : VALUE_NONE;
    uint32_t made = r->status == PEN_OK ? turned(r, n.name, product, y, t.y, rank) : VALUE_NONE;
    if (r->status != PEN_OK)
        return false;
    uint32_t maker = r->g->values[made].producer;
    r->g->nodes[maker].origin = n.origin;
    rewrite_absorb(r, maker, node);
    return true;
}
