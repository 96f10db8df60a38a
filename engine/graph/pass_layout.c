#include <stdlib.h>
#include <string.h>

#include "graph/layout.h"

int32_t twin_axis(int32_t axis, int32_t rank)
{
    return axis == 0 ? 0 : axis == 1 ? rank - 1 : axis - 1;
}

void perm_to_twin(int32_t rank, int64_t *perm)
{
    for (int32_t axis = 0; axis < rank; axis++)
        perm[twin_axis(axis, rank)] = axis;
}

void perm_from_twin(int32_t rank, int64_t *perm)
{
    for (int32_t axis = 0; axis < rank; axis++)
        perm[axis] = twin_axis(axis, rank);
}

int32_t turn_rank(const struct turner *t, uint32_t value)
{
    return value == VALUE_NONE ? SHAPE_RANK_UNKNOWN : rewrite_fact(&t->r, value)->shape.rank;
}

bool has_twin(const struct turner *t, uint32_t value)
{
    return value < t->r.value_count && t->twin[value] != VALUE_NONE;
}

void turn_failed(struct turner *t, enum pen_status status)
{
    (void)rewrite_failed(&t->r, status);
}

void set_input(struct turner *t, uint32_t node, uint32_t input, uint32_t value)
{
    enum pen_status status = value == VALUE_NONE ? PEN_ERR_NO_MEMORY : uses_set(&t->r.uses, node, input, value);
    if (status != PEN_OK)
        turn_failed(t, status);
}

/* ---- rearranging ----------------------------------------------------------------------------------------------------- */

/* Both layouts have the same bytes: one channel, or one position. */
static bool same_bytes(const struct shape *s)
{
    int64_t positions = 1;
    for (int32_t i = 2; i < s->rank; i++) {
        if (s->dim[i] < 0)
            positions = 0; /* unknown */
        positions = positions == 1 && s->dim[i] == 1 ? 1 : 0;
    }
    return s->rank >= 2 && (positions == 1 || s->dim[1] == 1);
}

/* A Reshape is enough: its target may copy the batch, which stays first, when that is unknown. */
static bool reshape_target(const struct shape *s, bool to_twin, int64_t *dims)
{
    for (int32_t i = 0; i < s->rank; i++) {
        int32_t at = to_twin ? twin_axis(i, s->rank) : i;
        dims[at] = s->dim[i];
        if (s->dim[i] <= 0 && !(i == 0 && s->dim[i] < 0))
            return false;
        if (s->dim[i] < 0)
            dims[at] = 0;
    }
    return true;
}

/* Emits the step from `from` to the existing value `to`. */
static void emit_step(struct turner *t, uint32_t from, uint32_t to, const struct shape *original, bool to_twin)
{
    struct graph *g = t->r.g;
    int64_t list[PEN_MAX_RANK];
    uint32_t node, shape;
    enum pen_status status;
    if (same_bytes(original) && reshape_target(original, to_twin, list)) {
        status = graph_constant_i64(g, list, (size_t)original->rank, false, &shape);
        if (status == PEN_OK)
            status = graph_node(g, OP_Reshape, NULL, (uint32_t[]){from, shape}, 2, &to, 1, &node);
    } else {
        if (to_twin)
            perm_to_twin(original->rank, list);
        else
            perm_from_twin(original->rank, list);
        status = graph_node(g, OP_Transpose, NULL, &from, 1, &to, 1, &node);
        if (status == PEN_OK)
            status = graph_attr_ints(g, node, ATTR_perm, list, (uint32_t)original->rank);
        t->added++;
    }
    if (status == PEN_OK)
        status = uses_add(&t->r.uses, node);
    if (status != PEN_OK)
        turn_failed(t, status);
}

/* Copies a constant in the twin's order. unit: bytes of an element. */
static void rearrange(const struct shape *s, size_t unit, const unsigned char *from, unsigned char *to)
{
    int64_t positions = 1, channels = s->dim[1], batch = s->dim[0];
    for (int32_t i = 2; i < s->rank; i++)
        positions *= s->dim[i];
    for (int64_t n = 0; n < batch; n++) {
        for (int64_t c = 0; c < channels; c++) {
            for (int64_t p = 0; p < positions; p++)
                memcpy(to + (size_t)((n * positions + p) * channels + c) * unit,
                       from + (size_t)((n * channels + c) * positions + p) * unit, unit);
        }
    }
}

/* A constant rearranged; `rank` at least its own, the missing axes are leading ones. */
static uint32_t constant_twin(struct turner *t, const struct value *v, int32_t rank)
{
    struct shape s = {.rank = rank}, turned = {.rank = rank};
    unsigned bits = pen_dtype_bits(v->dtype);
    uint32_t id = VALUE_NONE;
    if (bits < 8 || v->shape.rank > rank)
        return VALUE_NONE;
    for (int32_t i = 0; i < rank; i++) {
        int32_t own = i - (rank - v->shape.rank);
        s.dim[i] = own < 0 ? 1 : v->shape.dim[own];
        turned.dim[twin_axis(i, rank)] = s.dim[i];
    }
    unsigned char *to = graph_alloc_data(t->r.g, v->bytes);
    size_t bytes = v->bytes;
    enum pen_dtype dtype = v->dtype;
    if (!to) {
        turn_failed(t, PEN_ERR_NO_MEMORY);
        return VALUE_NONE;
    }
    rearrange(&s, bits / 8, v->data, to);
    enum pen_status status = graph_constant(t->r.g, NULL, dtype, &turned, to, bytes, false, &id);
    if (status != PEN_OK)
        turn_failed(t, status);
    return id;
}

uint32_t need_twin(struct turner *t, uint32_t value, int32_t rank)
{
    struct graph *g = t->r.g;
    if (has_twin(t, value))
        return t->twin[value];
    if (g->values[value].data)
        return constant_twin(t, &g->values[value],
                             rank); /* not kept: the same constant may stand for another rank elsewhere */
    uint32_t id;
    enum pen_status status = graph_value(g, NULL, &id);
    if (status != PEN_OK) {
        turn_failed(t, status);
        return VALUE_NONE;
    }
    emit_step(t, value, id, &rewrite_fact(&t->r, value)->shape, true);
    if (value < t->r.value_count)
        t->twin[value] = id;
    return id;
}

void need_original(struct turner *t, uint32_t value)
{
    if (value >= t->r.value_count || !t->lazy[value])
        return;
    t->lazy[value] = false;
    emit_step(t, t->twin[value], value, &rewrite_fact(&t->r, value)->shape, false);
}

void output_twin(struct turner *t, uint32_t node, uint32_t index)
{
    uint32_t out = t->r.g->nodes[node].out[index], id;
    if (out == VALUE_NONE)
        return;
    enum pen_status status = graph_value(t->r.g, NULL, &id);
    if (status != PEN_OK) {
        turn_failed(t, status);
        return;
    }
    graph_move_output(t->r.g, node, index, id);
    t->twin[out] = id;
    t->lazy[out] = true;
}

/* ---- the pass ------------------------------------------------------------------------------------------------------------ */

static void turn_all(struct turner *t)
{
    uint32_t count = t->r.g->node_count;
    for (uint32_t i = 0; i < count && t->r.status == PEN_OK; i++) {
        if (t->r.g->nodes[i].dead || turn_node(t, i))
            continue;
        for (uint32_t k = 0; k < t->r.g->nodes[i].in_count; k++)
            need_original(t, t->r.g->nodes[i].in[k]);
    }
    for (uint32_t i = 0; i < t->r.g->output_count && t->r.status == PEN_OK; i++)
        need_original(t, t->r.g->outputs[i]);
}

static bool worth_it(const struct graph *g)
{
    for (uint32_t i = 0; i < g->node_count; i++) {
        enum op op = g->nodes[i].dead ? OP_NONE : g->nodes[i].op;
        if (op == OP_Conv || op == OP_ConvTranspose || op == OP_MaxPool || op == OP_AveragePool ||
            op == OP_QLinearConv || op == OP_QLinearAveragePool || op == OP_ConvInteger)
            return true;
    }
    return false;
}

static uint32_t count_transposes(const struct graph *g)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->node_count; i++)
        count += !g->nodes[i].dead && g->nodes[i].op == OP_Transpose;
    return count;
}

static enum pen_status turn_graph(struct graph *g, struct pass_report *report, struct pen_error *reterr)
{
    struct turner t = {0};
    uint32_t before = count_transposes(g), joined = 0;
    enum pen_status status = rewrite_init(&t.r, g, false, reterr);
    if (status != PEN_OK)
        return status;
    t.twin = malloc(((size_t)g->value_count + 1) * sizeof *t.twin);
    t.lazy = calloc((size_t)g->value_count + 1, sizeof *t.lazy);
    status = t.twin && t.lazy ? PEN_OK : PEN_ERR_NO_MEMORY;
    if (status == PEN_OK) {
        memset(t.twin, 0xff, ((size_t)g->value_count + 1) * sizeof *t.twin);
        turn_all(&t);
        status = t.r.status;
    }
    free(t.twin);
    free(t.lazy);
    rewrite_fini(&t.r);
    if (status == PEN_OK)
        status = pass_dead(g, &joined);
    uint32_t after = count_transposes(g);
    if (status == PEN_OK && report) {
        report->transposes_added += t.added;
        report->transposes_removed += before + t.added > after ? before + t.added - after : 0;
    }
    return status;
}

enum pen_status pass_layout(struct graph *g, struct pass_report *report, struct pen_error *reterr)
{
    if (!worth_it(g))
        return PEN_OK;
    enum pen_status status = turn_graph(g, report, reterr);
    return status == PEN_OK ? status : pen_error_set(reterr, status, "no memory to change the layout");
}
