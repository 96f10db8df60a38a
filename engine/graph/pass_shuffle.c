#include <string.h>

#include "graph/pass_internal.h"

/*
 * A chain of Transposes and Reshapes that moves its elements more than once moves them once: Reshape, Transpose, Reshape. TensorFlow's blocks of space in the
 * batch, windows of images and turned pixels are such chains.
 *
 * Elements are followed as atoms: a dim is one atom of its input, a Reshape splits atoms where its dims do not hold whole ones, a Transpose changes their order.
 * One dim of unknown size may be among them, as long as it is not split.
 */

#define ATOMS_MOST 24
#define CHAIN_MOST 16

struct atoms {
    int64_t size[ATOMS_MOST];
    uint8_t first[ATOMS_MOST],
        now[ATOMS_MOST]; /* in the order of the chain's input, and of the value that is looked at */
    uint32_t count;
};

/* Atom `id` becomes two, one behind the other; a size of -1 is the one that is not known. */
static void atom_split(struct atoms *a, uint8_t id, int64_t outer, int64_t inner)
{
    const uint8_t made = (uint8_t)a->count;
    uint8_t *orders[2] = {a->first, a->now};
    a->size[id] = outer;
    a->size[made] = inner;
    for (int k = 0; k < 2; k++) {
        uint32_t at = 0;
        while (orders[k][at] != id)
            at++;
        memmove(orders[k] + at + 2, orders[k] + at + 1, a->count - at - 1);
        orders[k][at + 1] = made;
    }
    a->count++;
}

/* Dims of one item have no atom. */
static bool atoms_begin(struct atoms *a, const struct shape *s)
{
    int unknown = 0;
    *a = (struct atoms){.count = 0};
    for (int32_t d = 0; d < s->rank; d++) {
        unknown += s->dim[d] < 0;
        if (s->dim[d] == 0)
            return false;
        if (s->dim[d] != 1) {
            a->first[a->count] = a->now[a->count] = (uint8_t)a->count;
            a->size[a->count++] = s->dim[d];
        }
    }
    return unknown <= 1;
}

/*
 * Atoms from *at on, to the left or to the right, that together have `want` items. The last one is split where it has more, or where its size is not known: a
 * Reshape says that it has so many. False when that does not come out.
 */
static bool atoms_take(struct atoms *a, int64_t want, uint32_t *at, bool from_right, uint32_t end)
{
    int64_t have = 1;
    while (have < want) {
        if (*at == end || a->count == ATOMS_MOST || want % have != 0)
            return false;
        const uint8_t id = a->now[from_right ? *at - 1 : *at];
        const int64_t size = a->size[id], rest = want / have;
        if (size > 0 && rest % size == 0) {
            have *= size;
            *at = from_right ? *at - 1 : *at + 1;
            continue;
        }
        if (size > 0 && size % rest != 0)
            return false;
        const int64_t other = size > 0 ? size / rest : SHAPE_DIM_UNKNOWN;
        atom_split(a, id, from_right ? other : rest, from_right ? rest : other);
        *at += !from_right; /* from the right, the part that is taken has come in behind *at - 1 */
        return true;
    }
    return true;
}

/* Splits atoms so that each dim of `s` is whole ones. */
static bool atoms_reshape(struct atoms *a, const struct shape *s)
{
    uint32_t left = 0;
    int32_t d = 0, last = s->rank - 1;
    for (; d < s->rank && s->dim[d] >= 0; d++) {
        if (s->dim[d] == 0 || !atoms_take(a, s->dim[d], &left, false, a->count))
            return false;
    }
    if (d == s->rank)
        return left == a->count;
    uint32_t right = a->count;
    for (; last > d && s->dim[last] >= 0; last--) {
        if (s->dim[last] == 0 || !atoms_take(a, s->dim[last], &right, true, left))
            return false;
    }
    bool open = false;
    for (uint32_t i = left; i < right; i++)
        open |= a->size[a->now[i]] < 0;
    return last == d && open;
}

/* How many atoms each dim of `s` has, which are whole ones. */
static void atoms_per_dim(const struct atoms *a, const struct shape *s, uint32_t *counts)
{
    uint32_t used = 0, at = 0;
    int32_t open = -1;
    for (int32_t d = 0; d < s->rank; d++) {
        counts[d] = 0;
        if (s->dim[d] < 0) {
            open = d;
            break;
        }
        for (int64_t have = 1; have < s->dim[d]; counts[d]++)
            have *= a->size[a->now[at++]];
        used += counts[d];
    }
    uint32_t end = a->count;
    for (int32_t d = s->rank - 1; open >= 0 && d > open; d--) {
        counts[d] = 0;
        for (int64_t have = 1; have < s->dim[d]; counts[d]++)
            have *= a->size[a->now[--end]];
        used += counts[d];
    }
    if (open >= 0)
        counts[open] = a->count - used;
}

static bool atoms_transpose(struct atoms *a, const struct node *n, const struct shape *s)
{
    uint32_t count, counts[PEN_MAX_RANK], starts[PEN_MAX_RANK], at = 0;
    const int64_t *perm = node_ints(n, ATTR_perm, &count);
    uint8_t order[ATOMS_MOST];
    if (!perm || count != (uint32_t)s->rank)
        return false;
    atoms_per_dim(a, s, counts);
    for (uint32_t d = 0; d < count; d++) {
        starts[d] = at;
        at += counts[d];
    }
    at = 0;
    for (uint32_t d = 0; d < count; d++) {
        if (perm[d] < 0 || perm[d] >= (int64_t)count)
            return false;
        memcpy(order + at, a->now + starts[perm[d]], counts[perm[d]]);
        at += counts[perm[d]];
    }
    if (at != a->count)
        return false;
    memcpy(a->now, order, a->count);
    return true;
}

/* ---- the chain ------------------------------------------------------------------------------------------------------- */

static bool is_link(const struct node *n)
{
    return n->op == OP_Transpose || rewrite_is_view(n);
}

/* The chain that ends at `node`, last node first; 0 when a longer one goes on behind it or it has not two Transposes. */
static uint32_t chain_of(const struct rewrite *r, uint32_t node, uint32_t *nodes)
{
    const struct graph *g = r->g;
    uint32_t count = 0, transposes = 0, reader = uses_single(&r->uses, g->nodes[node].out[0]);
    if (reader != NODE_NONE && is_link(&g->nodes[reader]) && g->nodes[reader].in[0] == g->nodes[node].out[0] &&
        !rewrite_is_output(r, g->nodes[node].out[0]))
        return 0;
    for (uint32_t at = node; count < CHAIN_MOST && is_link(&g->nodes[at]);) {
        nodes[count++] = at;
        transposes += g->nodes[at].op == OP_Transpose;
        const uint32_t value = g->nodes[at].in[0];
        const struct node *before = rewrite_maker(r, value);
        if (!before || uses_count(&r->uses, value) != 1 || rewrite_is_output(r, value))
            break;
        at = (uint32_t)(before - g->nodes);
    }
    return transposes >= 2 ? count : 0;
}

static bool chain_follow(const struct rewrite *r, const uint32_t *nodes, uint32_t count, struct atoms *a)
{
    const struct graph *g = r->g;
    const struct shape *s = &rewrite_fact(r, g->nodes[nodes[count - 1]].in[0])->shape;
    if (s->rank < 1 || !atoms_begin(a, s))
        return false;
    for (uint32_t i = count; i-- > 0;) {
        const struct node *n = &g->nodes[nodes[i]];
        const struct shape *y = &rewrite_fact(r, n->out[0])->shape;
        if (y->rank < 0 || !(n->op == OP_Transpose ? atoms_transpose(a, n, s) : atoms_reshape(a, y)))
            return false;
        s = y;
    }
    return true;
}

/* ---- what takes its place ----------------------------------------------------------------------------------------------- */

struct single {
    struct shape in, out; /* the Transpose's; -1 where the size is open */
    int64_t perm[ATOMS_MOST];
    bool moves;
};

/* Atoms that lie side by side in both orders are one dim. False when there are too many dims. */
static bool single_read(const struct atoms *a, struct single *ret)
{
    uint8_t place[ATOMS_MOST], dim_of[ATOMS_MOST]; /* of atoms: where it is now; its dim */
    *ret = (struct single){.moves = false};
    for (uint32_t i = 0; i < a->count; i++)
        place[a->now[i]] = (uint8_t)i;
    for (uint32_t i = 0; i < a->count; i++) {
        const uint8_t id = a->first[i];
        if (i > 0 && place[id] == place[a->first[i - 1]] + 1) {
            int64_t *dim = &ret->in.dim[ret->in.rank - 1];
            *dim = *dim < 0 || a->size[id] < 0 ? SHAPE_DIM_UNKNOWN : *dim * a->size[id];
        } else if (ret->in.rank == PEN_MAX_RANK) {
            return false;
        } else {
            ret->in.dim[ret->in.rank++] = a->size[id];
        }
        dim_of[id] = (uint8_t)(ret->in.rank - 1);
    }
    for (uint32_t i = 0; i < a->count; i++) {
        const uint8_t dim = dim_of[a->now[i]];
        if (ret->out.rank > 0 && ret->perm[ret->out.rank - 1] == dim)
            continue;
        ret->moves |= dim != ret->out.rank;
        ret->perm[ret->out.rank] = dim;
        ret->out.dim[ret->out.rank++] = ret->in.dim[dim];
    }
    return true;
}

static bool same_dims(const struct shape *a, const struct shape *b)
{
    return a->rank == b->rank && memcmp(a->dim, b->dim, (size_t)a->rank * sizeof *a->dim) == 0;
}

static uint32_t reshaped(struct rewrite *r, uint32_t value, const struct shape *to)
{
    int64_t dims[PEN_MAX_RANK];
    uint32_t in[2] = {value, VALUE_NONE};
    for (int32_t d = 0; d < to->rank; d++)
        dims[d] = to->dim[d] < 0 ? -1 : to->dim[d];
    enum pen_status status = graph_constant_i64(r->g, dims, (size_t)to->rank, false, &in[1]);
    if (status != PEN_OK)
        (void)rewrite_failed(r, status);
    return rewrite_node(r, OP_Reshape, NULL, in, 2);
}

static bool single_put(struct rewrite *r, const struct single *s, const uint32_t *nodes, uint32_t count)
{
    struct graph *g = r->g;
    const uint32_t x = g->nodes[nodes[count - 1]].in[0];
    const struct shape from = rewrite_fact(r, x)->shape, to = rewrite_fact(r, g->nodes[nodes[0]].out[0])->shape;
    const char *name = g->nodes[nodes[0]].name;
    uint32_t value = same_dims(&from, &s->in) ? x : reshaped(r, x, &s->in);
    if (s->moves && r->status == PEN_OK) {
        value = rewrite_node(r, OP_Transpose, name, &value, 1);
        if (value == VALUE_NONE)
            return false;
        r->status = graph_attr_ints(g, g->values[value].producer, ATTR_perm, s->perm, (uint32_t)s->out.rank);
    }
    if (r->status == PEN_OK && (value == x || !same_dims(&s->out, &to)))
        value = reshaped(r, value, &to);
    if (r->status != PEN_OK)
        return false;
    rewrite_absorb(r, g->values[value].producer, nodes[0]);
    return true;
}

enum pen_status pass_shuffle(struct graph *g, uint32_t *ret_count, struct pen_error *reterr)
{
    struct rewrite r;
    enum pen_status status = rewrite_init(&r, g, false, reterr);
    const uint32_t nodes_before = g->node_count;
    if (status != PEN_OK)
        return status;
    for (uint32_t i = 0; i < nodes_before && r.status == PEN_OK; i++) {
        uint32_t nodes[CHAIN_MOST];
        uint32_t count = !g->nodes[i].dead && is_link(&g->nodes[i]) ? chain_of(&r, i, nodes) : 0;
        struct atoms atoms;
        struct single single;
        if (count > 0 && chain_follow(&r, nodes, count, &atoms) && single_read(&atoms, &single) &&
            single_put(&r, &single, nodes, count))
            ++*ret_count;
    }
    status = r.status;
    rewrite_fini(&r);
    return status == PEN_OK ? graph_compact(g) : pen_error_set(reterr, status, "no memory to join transposes");
}
