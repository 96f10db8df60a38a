#include "backend/xnnpack/join.h"

#include <stdlib.h>
#include <string.h>

#include "assertion.h"

const struct fusion *join_fusion(const struct plan *plan, const struct shape_env *env, uint32_t index)
{
    const struct fusion *f = plan->fusions.marks[index].in;
    bool fits = f != NULL && (f->kind->misfit == NULL || f->kind->misfit(f, plan->g, env) == NULL);
    return fits ? f : NULL;
}

/* What the search knows of the partition's values. */
struct search {
    const struct plan *plan;
    const struct shape_env *env;
    struct join *j;
    uint32_t *readers; /* [value_count] nodes of the partition that read it, and 1 when it leaves the partition */
    uint32_t *maker;   /* [value_count] index of the node whose first result it is; JOIN_NONE */
    uint32_t *last;    /* [value_count] index of the node that reads it last */
};

static const struct node *node_at(const struct plan *plan, uint32_t index)
{
    return &plan->g->nodes[plan->part.nodes[index]];
}

static bool runs(const struct search *s, uint32_t index)
{
    const struct node *n = node_at(s->plan, index);
    return !n->dead && !shape_env_folded(s->env, n);
}

static void values_note(struct search *s)
{
    const struct partition *part = &s->plan->part;
    memset(s->maker, 0xFF, s->plan->g->value_count * sizeof *s->maker);
    for (uint32_t i = 0; i < part->node_count; i++) {
        const struct node *n = node_at(s->plan, i);
        for (uint32_t k = 0; runs(s, i) && k < n->in_count; k++) {
            bool again = n->in[k] == VALUE_NONE || (s->readers[n->in[k]] > 0 && s->last[n->in[k]] == i);
            if (!again) {
                s->readers[n->in[k]]++;
                s->last[n->in[k]] = i;
            }
        }
        if (runs(s, i) && n->out_count > 0 && n->out[0] != VALUE_NONE && join_fusion(s->plan, s->env, i) == NULL) {
            s->maker[n->out[0]] = i; /* what goes on with another result is no chain */
        }
    }
    for (uint32_t i = 0; i < part->out_count; i++) {
        s->readers[part->out[i]]++;
    }
}

uint32_t join_head(const struct join *j, uint32_t index)
{
    while (j->before[index] != JOIN_NONE) {
        index = j->before[index];
    }
    return index;
}

bool join_chain(const struct join *j, const struct plan *plan, const struct shape_env *env, uint32_t index,
                struct chain *c, bool *ret_whole)
{
    uint32_t at = join_head(j, index);
    *c = (struct chain){0};
    *ret_whole = emitter_joiner(node_at(plan, at)->op) == NULL;
    if (at == index) {
        return false;
    }
    uint32_t before = VALUE_NONE;
    bool good = !*ret_whole || chain_add(c, env, node_at(plan, at), before);
    while (good && at != index) {
        before = node_at(plan, at)->out[0];
        at = j->next[at];
        good = chain_add(c, env, node_at(plan, at), before);
    }
    return good;
}

static size_t bytes_of(const struct search *s, uint32_t value)
{
    size_t bytes = 0;
    const struct fact *f = &s->env->facts[value];
    return shape_bytes(&f->shape, f->dtype, 0, &bytes) == PEN_OK ? bytes : 0;
}

/* A product that waits keeps its inputs: those that nobody else needs so long must not be larger than its result. */
static bool may_wait(const struct search *s, uint32_t head, uint32_t until)
{
    const struct node *n = node_at(s->plan, head);
    size_t kept = 0;
    uint32_t length = 0; /* nodes of its own that run meanwhile; two others hardly count */
    for (uint32_t at = s->j->next[head]; at != until; at = s->j->next[at]) {
        length++;
    }
    for (uint32_t k = 0; k < n->in_count; k++) {
        bool longer = n->in[k] != VALUE_NONE && s->env->facts[n->in[k]].data == NULL && s->last[n->in[k]] < until;
        kept += longer ? bytes_of(s, n->in[k]) : 0;
    }
    return until <= head + length + 2 || kept <= bytes_of(s, n->out[0]);
}

/* An epilogue reads its operands beside the results: each is as large as they, or one number. */
static bool operands_fit(const struct search *s, const struct chain *c, const struct shape *out)
{
    for (uint32_t k = 0; k < c->operand_count; k++) {
        const struct shape *in = &s->env->facts[c->operands[k]].shape;
        if (shape_elements(in) != 1 && !shape_equal(in, out)) {
            return false;
        }
    }
    return true;
}

/* The node at `index` goes on with the result of the one at `from`. */
static bool try_join(const struct search *s, uint32_t from, uint32_t index)
{
    struct join *j = s->j;
    struct chain c;
    bool whole = false;
    j->next[from] = index;
    j->before[index] = from;
    const uint32_t head = join_head(j, index);
    const struct node *h = node_at(s->plan, head), *n = node_at(s->plan, index);
    const struct shape *out = &s->env->facts[n->out[0]].shape;
    bool good = shape_equal(&s->env->facts[node_at(s->plan, from)->out[0]].shape, out) && may_wait(s, head, index) &&
                join_chain(j, s->plan, s->env, index, &c, &whole) &&
                (whole || (operands_fit(s, &c, out) && emitter_joiner(h->op)->joins(s->plan->g, h)));
    if (!good) {
        j->next[from] = JOIN_NONE;
        j->before[index] = JOIN_NONE;
    }
    return good;
}

/* Of the inputs that only this node reads: a product's before others', and the latest of them, which waits least. */
static void node_join(struct search *s, uint32_t index)
{
    const struct node *n = node_at(s->plan, index);
    for (int product = 1; product >= 0; product--) {
        uint32_t limit = UINT32_MAX;
        for (uint32_t turn = 0; turn < n->in_count; turn++) {
            uint32_t best = JOIN_NONE;
            for (uint32_t k = 0; k < n->in_count; k++) {
                uint32_t from = n->in[k] == VALUE_NONE || s->readers[n->in[k]] != 1 ? JOIN_NONE : s->maker[n->in[k]];
                bool fits = from != JOIN_NONE && from < limit &&
                            (emitter_joiner(node_at(s->plan, join_head(s->j, from))->op) != NULL) == product;
                best = fits && (best == JOIN_NONE || from > best) ? from : best;
            }
            if (best == JOIN_NONE || try_join(s, best, index)) {
                break;
            }
            limit = best;
        }
        if (s->j->before[index] != JOIN_NONE) {
            return;
        }
    }
}

/* Could it be part of a chain at all? */
static bool follows(const struct search *s, uint32_t index)
{
    const struct node *n = node_at(s->plan, index);
    return runs(s, index) && join_fusion(s->plan, s->env, index) == NULL && n->out_count == 1 &&
           n->out[0] != VALUE_NONE && (op_def(n->op)->traits & (OP_UNARY | OP_BINARY)) != 0 &&
           shape_elements(&s->env->facts[n->out[0]].shape) > 0;
}

static enum pen_status join_new(struct join *j, uint32_t nodes)
{
    size_t bytes = ((size_t)nodes + 1) * sizeof *j->next;
    j->next = malloc(bytes);
    j->before = malloc(bytes);
    if (j->next == NULL || j->before == NULL) {
        join_fini(j);
        return PEN_ERR_NO_MEMORY;
    }
    memset(j->next, 0xFF, bytes);
    memset(j->before, 0xFF, bytes);
    return PEN_OK;
}

enum pen_status join_find(struct join *j, const struct plan *plan, const struct shape_env *env)
{
    *j = (struct join){0};
    const size_t values = (size_t)plan->g->value_count + 1;
    struct search s = {.plan = plan, .env = env, .j = j};
    if (join_new(j, plan->part.node_count) != PEN_OK) {
        return PEN_ERR_NO_MEMORY;
    }
    if (plan->backend->config.check_numerics || !plan->backend->joins) {
        return PEN_OK;
    }
    s.readers = calloc(values * 3, sizeof *s.readers);
    if (s.readers == NULL) {
        join_fini(j);
        return PEN_ERR_NO_MEMORY;
    }
    s.maker = s.readers + values;
    s.last = s.maker + values;
    values_note(&s);
    for (uint32_t i = 0; i < plan->part.node_count; i++) {
        if (follows(&s, i)) {
            node_join(&s, i);
        }
    }
    free(s.readers);
    return PEN_OK;
}

void join_fini(struct join *j)
{
    free(j->next);
    free(j->before);
    *j = (struct join){0};
}
