#include "run/bucket.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "backend/partition.h"
#include "graph/lifetime.h"
#include "graph/room.h"
#include "run/constants.h"

/* While planning: when a value is made and last used, in steps. */
struct plan_state {
    struct bucket *b;
    uint32_t *first, *last; /* [value_count]; first = NODE_NONE: not ours to place */
    struct lifetime *items;
    uint32_t *item_value;
    uint32_t item_count;
};

static bool placeable(const struct fact *f)
{
    return f->kind == VALUE_TENSOR && f->data == NULL && f->dtype != PEN_DTYPE_STRING && f->dtype != PEN_DTYPE_NONE &&
           shape_known(&f->shape);
}

static bool step_static(const struct bucket *b, const struct placed *step)
{
    for (uint32_t k = 0; k < step->part.node_count; k++) {
        const struct node *n = &b->program->g->nodes[step->part.nodes[k]];
        for (uint32_t o = 0; o < n->out_count; o++) {
            if (n->out[o] != VALUE_NONE && !shape_known(&b->env->facts[n->out[o]].shape)) {
                return false;
            }
        }
    }
    return true;
}

/* A step without an exec runs on reference kernels, which read what a plan may have copied. */
static enum pen_status step_new(struct bucket *b, struct bucket_step *step, struct pen_error *reterr)
{
    const struct placement *p = b->program->placement;
    const struct partition *part = &step->placed->part;
    enum pen_status status = PEN_ERR_UNSUPPORTED;
    if (step->placed->plan == NULL) {
        return PEN_OK; /* the executor's: there is no backend */
    }
    const struct backend_ops *ops = p->backends[step->placed->backend].ops;
    if (b->program->how.watch) {
        status = constants_need(b->program->constants, b->program->g, part->nodes, part->node_count, reterr);
        if (status != PEN_OK) {
            return status;
        }
        status = PEN_ERR_UNSUPPORTED;
    }
    if (step_static(b, step->placed)) {
        status = ops->exec_new(step->placed->plan, b->env, &step->exec, reterr);
    }
    if (status == PEN_ERR_UNSUPPORTED && b->program->how.strict && !ops->is_reference) {
        const struct node *first = &b->program->g->nodes[part->nodes[0]];
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "backend %s cannot run the part that begins with node %s for these inputs; allow fallback "
                             "placement or choose another backend",
                             ops->name, first->name ? first->name : "(no name)");
    }
    return status == PEN_ERR_UNSUPPORTED
               ? constants_need(b->program->constants, b->program->g, part->nodes, part->node_count, reterr)
               : status;
}

static enum pen_status interpretive_prepare(struct bucket *b, struct pen_error *reterr)
{
    const struct placement *p = b->program->placement;
    enum pen_status status = PEN_OK;
    for (uint32_t s = 0; s < p->step_count && status == PEN_OK; s++) {
        const struct partition *part = &p->steps[s].part;
        status = constants_need(b->program->constants, b->program->g, part->nodes, part->node_count, reterr);
    }
    return status;
}

static uint64_t step_bytes(const struct bucket *b, const struct bucket_step *step)
{
    return step->exec != NULL ? b->program->placement->backends[step->placed->backend].ops->exec_bytes(step->exec) : 0;
}

/* Execs ask for what they know beforehand; what a library has taken beside that is seen when they are there. */
static enum pen_status execs_new(struct bucket *b, struct pen_error *reterr)
{
    const struct placement *p = b->program->placement;
    struct allowance *a = b->env->allowance;
    for (uint32_t s = 0; s < p->step_count; s++) {
        uint64_t before = a->taken;
        b->steps[s].placed = &p->steps[s];
        enum pen_status status = step_new(b, &b->steps[s], reterr);
        if (status != PEN_OK) {
            return status;
        }
        PEN_ASSERT(b->steps[s].exec == NULL || p->steps[s].plan != NULL, "an exec is one of its step's plan");
        uint64_t bytes = step_bytes(b, &b->steps[s]), asked = a->taken - before;
        if (bytes > asked && !allowance_take(a, bytes - asked)) {
            return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "these input shapes need too much memory");
        }
    }
    return PEN_OK;
}

static void note_made(struct plan_state *st, uint32_t v, uint32_t step)
{
    if (v != VALUE_NONE && st->first[v] == NODE_NONE && placeable(&st->b->env->facts[v])) {
        st->first[v] = step;
        st->last[v] = step;
    }
}

static void note_used(struct plan_state *st, uint32_t v, uint32_t step)
{
    if (v != VALUE_NONE && st->first[v] != NODE_NONE && st->last[v] < step) {
        st->last[v] = step;
    }
}

/* Sequences and optionals share the memory of the tensors that they hold, and may be read at any later step. */
static void note_held(struct plan_state *st, const struct node *n)
{
    const uint32_t end = st->b->program->placement->step_count;
    bool holds = false;
    for (uint32_t o = 0; o < n->out_count; o++) {
        holds = holds || (n->out[o] != VALUE_NONE && st->b->env->facts[n->out[o]].kind != VALUE_TENSOR);
    }
    for (uint32_t i = 0; i < n->in_count && holds; i++) {
        note_used(st, n->in[i], end);
    }
}

/* The step's backend may read inputs where they lie, until it is waited for. */
static bool binds(const struct bucket_step *step, const struct placement *p)
{
    return step->exec != NULL && p->backends[step->placed->backend].ops->exec_bind != NULL;
}

/*
 * Boundary values live from the step that makes them to the last step that reads them; inputs, outputs and what sequences hold for the whole run.
 */
static void lifetimes_find(struct plan_state *st)
{
    const struct graph *g = st->b->program->g;
    const struct placement *p = st->b->program->placement;
    memset(st->first, 0xFF, (size_t)g->value_count * sizeof *st->first);
    for (uint32_t i = 0; i < g->input_count; i++) {
        note_made(st, g->inputs[i], 0);
        note_used(st, g->inputs[i], p->step_count);
    }
    for (uint32_t s = 0; s < p->step_count; s++) {
        const struct partition *part = &p->steps[s].part;
        for (uint32_t i = 0; i < part->in_count; i++) {
            note_used(st, part->in[i], binds(&st->b->steps[s], p) ? st->b->steps[s].needed - 1 : s);
        }
        for (uint32_t i = 0; i < part->out_count; i++) {
            note_made(st, part->out[i], s);
        }
        for (uint32_t k = 0; st->b->steps[s].exec == NULL && k < part->node_count; k++) {
            const struct node *n = &g->nodes[part->nodes[k]];
            for (uint32_t o = 0; o < n->out_count; o++) {
                note_made(st, n->out[o], s);
            }
            note_held(st, n);
        }
    }
    for (uint32_t i = 0; i < g->output_count; i++) {
        note_used(st, g->outputs[i], p->step_count);
    }
}

static enum pen_status arena_new(struct plan_state *st, struct pen_error *reterr)
{
    struct bucket *b = st->b;
    uint64_t limit = b->env->allowance->limit;
    for (uint32_t v = 0; v < b->program->g->value_count; v++) {
        if (st->first[v] == NODE_NONE) {
            continue;
        }
        PEN_ASSERT(st->first[v] <= st->last[v] && st->last[v] <= b->program->placement->step_count,
                   "a value lives from the step that makes it to a later one");
        struct lifetime *item = &st->items[st->item_count];
        const struct fact *f = &b->env->facts[v];
        enum pen_status status = shape_bytes(&f->shape, f->dtype, limit, &item->bytes);
        if (status != PEN_OK) {
            return pen_error_set(reterr, status, "value %s is larger than the session's memory budget",
                                 b->program->g->values[v].name);
        }
        item->first = st->first[v];
        item->last = st->last[v];
        st->item_value[st->item_count++] = v;
    }
    enum pen_status status = lifetime_plan(st->items, st->item_count, &b->arena_bytes);
    if (status != PEN_OK) {
        return status;
    }
    uint64_t bytes = b->arena_bytes + LIFETIME_PAD;
    if (!allowance_take(b->env->allowance, bytes > b->boundary_bytes ? bytes - b->boundary_bytes : 0)) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "these input shapes need %zu bytes between steps, over the session's memory budget",
                             b->arena_bytes);
    }
    b->arena = room_alloc(b->arena_bytes + LIFETIME_PAD);
    if (b->arena == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for an arena of %zu bytes", b->arena_bytes);
    }
    memset(b->arena, 0, b->arena_bytes + LIFETIME_PAD);
    for (uint32_t i = 0; i < st->item_count; i++) {
        struct rt_value *value = &b->values[st->item_value[i]];
        PEN_ASSERT(st->items[i].bytes <= b->arena_bytes && st->items[i].offset <= b->arena_bytes - st->items[i].bytes,
                   "a planned value lies in its bucket's arena");
        PEN_ASSERT(value->data == NULL && !b->planned[st->item_value[i]], "a value has one place");
        value->data = (unsigned char *)b->arena + st->items[i].offset;
        value->bytes = st->items[i].bytes;
        b->planned[st->item_value[i]] = true;
    }
    return PEN_OK;
}

static enum pen_status arena_plan(struct bucket *b, struct pen_error *reterr)
{
    size_t count = (size_t)b->program->g->value_count + 1;
    struct plan_state st = {.b = b};
    enum pen_status status = PEN_ERR_NO_MEMORY;
    st.first = calloc(count, sizeof *st.first);
    st.last = calloc(count, sizeof *st.last);
    st.items = calloc(count, sizeof *st.items);
    st.item_value = calloc(count, sizeof *st.item_value);
    if (st.first != NULL && st.last != NULL && st.items != NULL && st.item_value != NULL) {
        lifetimes_find(&st);
        status = arena_new(&st, reterr);
    }
    free(st.first);
    free(st.last);
    free(st.items);
    free(st.item_value);
    return status;
}

/* When each step's results are needed: till then its device may compute while other steps run. */
static void needs_find(struct bucket *b)
{
    const struct placement *p = b->program->placement;
    for (uint32_t s = 0; s < p->step_count; s++) {
        uint32_t needed = s + 1;
        while (needed < p->step_count && !partition_reads(&p->steps[needed].part, &p->steps[s].part)) {
            needed++;
        }
        b->steps[s].needed = needed;
    }
}

static struct buffer_view *views_new(const struct bucket *b, const uint32_t *ids, uint32_t count)
{
    struct buffer_view *views = calloc((size_t)count + 1, sizeof *views);
    for (uint32_t i = 0; views != NULL && i < count; i++) {
        const struct rt_value *v = &b->values[ids[i]];
        views[i] = (struct buffer_view){.data = v->data, .bytes = v->bytes, .shape = v->shape, .dtype = v->dtype};
    }
    return views;
}

static enum pen_status views_make(struct bucket *b)
{
    for (uint32_t s = 0; s < b->program->placement->step_count; s++) {
        struct bucket_step *step = &b->steps[s];
        if (step->exec != NULL) {
            step->in = views_new(b, step->placed->part.in, step->placed->part.in_count);
            step->out = views_new(b, step->placed->part.out, step->placed->part.out_count);
            if (step->in == NULL || step->out == NULL) {
                return PEN_ERR_NO_MEMORY;
            }
        }
    }
    return PEN_OK;
}

static bool listed(const uint32_t *ids, uint32_t count, uint32_t v)
{
    bool found = false;
    for (uint32_t i = 0; i < count && !found; i++) {
        found = ids[i] == v;
    }
    return found;
}

/* Is the value needed when the first step has read it? The inputs of a later run would have taken its place by then. */
static bool read_later(const struct bucket *b, uint32_t v)
{
    const struct placement *p = b->program->placement;
    bool later = listed(b->program->g->outputs, b->program->g->output_count, v);
    for (uint32_t s = 1; s < p->step_count && !later; s++) {
        later = listed(p->steps[s].part.in, p->steps[s].part.in_count, v);
    }
    return later;
}

/* More than one run may be on its way where the first step takes several at a time and nothing after it reads an input. */
static uint32_t window_find(const struct bucket *b)
{
    const struct program *program = b->program;
    const struct placement *p = program->placement;
    if (b->interpretive || program->how.watch || p->step_count == 0 || b->steps[0].exec == NULL) {
        return 1;
    }
    for (uint32_t i = 0; i < program->g->input_count; i++) {
        if (read_later(b, program->g->inputs[i])) {
            return 1;
        }
    }
    const struct backend_ops *ops = p->backends[b->steps[0].placed->backend].ops;
    return ops->exec_window != NULL ? ops->exec_window(b->steps[0].exec) : 1;
}

/* The arena stays as long as the execs. Only of the first step may more than one run be on its way. */
static enum pen_status execs_bind(struct bucket *b, struct pen_error *reterr)
{
    const struct placement *p = b->program->placement;
    enum pen_status status = PEN_OK;
    for (uint32_t s = b->window > 1; s < p->step_count && status == PEN_OK && !b->interpretive; s++) {
        const struct bucket_step *step = &b->steps[s];
        if (binds(step, p)) {
            status = p->backends[step->placed->backend].ops->exec_bind(step->exec, step->in, step->out, reterr);
        }
    }
    return status;
}

static void values_fill(struct bucket *b)
{
    const struct graph *g = b->program->g;
    for (uint32_t v = 0; v < g->value_count; v++) {
        const struct fact *f = &b->env->facts[v];
        struct rt_value *value = &b->values[v];
        value->kind = f->kind;
        value->dtype = f->dtype;
        value->shape = f->shape;
        value->data = (void *)(uintptr_t)f->data;
        value->bytes = f->data != NULL ? f->bytes : 0;
    }
}

/* Shape arithmetic that was expected to fold, does it here too? */
static bool folds_as_expected(const struct bucket *b)
{
    const struct graph *g = b->program->g;
    for (uint32_t n = 0; n < g->node_count; n++) {
        if (!g->nodes[n].dead && !b->program->in_step[n] && !shape_env_folded(b->env, &g->nodes[n])) {
            return false;
        }
    }
    return true;
}

/* Of inputs and outputs, which lie in the arena for the whole run. */
static uint64_t boundary_bytes(const struct bucket *b)
{
    const struct graph *g = b->program->g;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < g->input_count + g->output_count; i++) {
        const struct fact *f = &b->env->facts[i < g->input_count ? g->inputs[i] : g->outputs[i - g->input_count]];
        size_t one = 0;
        if (placeable(f) && shape_bytes(&f->shape, f->dtype, 0, &one) == PEN_OK) {
            bytes += one;
        }
    }
    return bytes;
}

/* Execs, or the knowledge that there are none, and the arena. */
static enum pen_status memory_make(struct bucket *b, struct pen_error *reterr)
{
    if (!allowance_take(b->env->allowance, b->env->folded_bytes)) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "what these input shapes make constant needs %" PRIu64 " bytes",
                             b->env->folded_bytes);
    }
    if (b->interpretive) {
        return interpretive_prepare(b, reterr);
    }
    b->boundary_bytes = boundary_bytes(b);
    if (!allowance_take(b->env->allowance, b->boundary_bytes)) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "inputs and outputs of these shapes need %" PRIu64 " bytes",
                             b->boundary_bytes);
    }
    enum pen_status status = execs_new(b, reterr);
    needs_find(b);
    if (status == PEN_OK) {
        status = arena_plan(b, reterr);
    }
    return status == PEN_OK ? views_make(b) : status;
}

enum pen_status bucket_new(const struct program *program, const struct shape *in_shapes, struct allowance *allowance,
                           struct bucket **ret_bucket, struct pen_error *reterr)
{
    const struct graph *g = program->g;
    struct bucket *b = calloc(1, sizeof *b);
    enum pen_status status = PEN_ERR_NO_MEMORY;
    if (b == NULL) {
        return pen_error_set(reterr, status, "no memory for a shape bucket");
    }
    b->program = program;
    b->in_shapes = calloc((size_t)g->input_count + 1, sizeof *b->in_shapes);
    b->values = calloc((size_t)g->value_count + 1, sizeof *b->values);
    b->planned = calloc((size_t)g->value_count + 1, sizeof *b->planned);
    b->steps = calloc((size_t)program->placement->step_count + 1, sizeof *b->steps);
    if (b->in_shapes == NULL || b->values == NULL || b->planned == NULL || b->steps == NULL) {
        pen_error_set(reterr, status, "no memory for a shape bucket");
        goto fail;
    }
    memcpy(b->in_shapes, in_shapes, g->input_count * sizeof *in_shapes);
    status = shape_env_new_bucket(g, in_shapes, program->in_step, &b->env, reterr);
    if (status != PEN_OK) {
        goto fail;
    }
    values_fill(b);
    b->interpretive = !folds_as_expected(b);
    b->env->allowance = allowance;
    status = memory_make(b, reterr);
    b->env->allowance = NULL; /* the caller's */
    if (status != PEN_OK) {
        goto fail;
    }
    b->window = window_find(b);
    status = execs_bind(b, reterr);
    if (status != PEN_OK) {
        goto fail;
    }
    PEN_ASSERT(b->window >= 1 && (b->interpretive || b->arena != NULL), "a bucket that is ready can run");
    *ret_bucket = b;
    return PEN_OK;
fail:
    bucket_free(b);
    return status;
}

void bucket_free(struct bucket *b)
{
    if (b == NULL) {
        return;
    }
    const struct placement *p = b->program->placement;
    for (uint32_t s = 0; b->steps != NULL && s < p->step_count; s++) {
        if (b->steps[s].exec != NULL) {
            p->backends[b->steps[s].placed->backend].ops->exec_free(b->steps[s].exec);
        }
        free(b->steps[s].in);
        free(b->steps[s].out);
    }
    free(b->steps);
    free(b->arena);
    free(b->planned);
    free(b->values);
    free(b->in_shapes);
    shape_env_free(b->env);
    free(b);
}

bool bucket_fits(const struct bucket *b, const struct shape *in_shapes)
{
    for (uint32_t i = 0; i < b->program->g->input_count; i++) {
        if (!shape_equal(&b->in_shapes[i], &in_shapes[i])) {
            return false;
        }
    }
    return true;
}

uint64_t bucket_bytes(const struct bucket *b)
{
    uint64_t bytes = b->arena_bytes + b->env->folded_bytes +
                     (uint64_t)b->program->g->value_count * (sizeof *b->values + sizeof *b->env->facts);
    for (uint32_t s = 0; s < b->program->placement->step_count; s++) {
        bytes += step_bytes(b, &b->steps[s]);
    }
    return bytes;
}
