#include "backend/reference/noise.h"
#include "backend/reference/reference_exec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "backend/reference/kernels.h"
#include "backend/reference/scratch.h"
#include "graph/lifetime.h"
#include "graph/room.h"

/* A place in a call that holds the data pointer of a boundary value. */
struct patch {
    struct rt_value *at;
    uint32_t index; /* in part->in or part->out */
    bool output;
};

struct step {
    const struct node *n;
    kernel_fn fn;
    struct rt_value *in, *out;
    bool *wanted;
    uint32_t index; /* of the node in its partition */
    uint64_t ns;    /* of the last run, when it is profiled */
};

struct exec {
    const struct graph *g;
    const struct partition *part;
    const struct shape_env *env;
    struct step *steps; /* nodes whose outputs are not folded */
    uint32_t step_count;
    struct rt_value *values; /* of all steps */
    bool *wanted;            /* of all steps */
    struct patch *patches;
    uint32_t patch_count;
    uint8_t *arena;
    size_t arena_bytes;
    struct scratch scratch;
    bool check_numerics, profile;
};

/* While an exec is built: where each value of the graph comes from. */
struct builder {
    struct exec *e;
    uint32_t *input, *output; /* [value_count] index in part->in / part->out, UINT32_MAX = none */
    uint32_t *item;           /* [value_count] index in items, UINT32_MAX = not made here */
    struct lifetime *items;   /* intermediate values */
    uint32_t item_count;
    size_t room; /* inputs and outputs of all nodes: as many patches, items and values */
};

static enum pen_status builder_init(struct builder *b, struct exec *e)
{
    size_t count = (size_t)e->g->value_count + 1, slots = 0;
    *b = (struct builder){.e = e};
    for (uint32_t i = 0; i < e->part->node_count; i++) {
        const struct node *n = &e->g->nodes[e->part->nodes[i]];
        slots += (size_t)n->in_count + n->out_count;
    }
    b->room = slots;
    b->input = malloc(count * sizeof *b->input);
    b->output = malloc(count * sizeof *b->output);
    b->item = malloc(count * sizeof *b->item);
    b->items = calloc(slots + 1, sizeof *b->items);
    e->values = calloc(slots + 1, sizeof *e->values);
    e->wanted = calloc(slots + 1, sizeof *e->wanted);
    e->patches = calloc(slots + 1, sizeof *e->patches);
    e->steps = calloc((size_t)e->part->node_count + 1, sizeof *e->steps);
    if (b->input == NULL || b->output == NULL || b->item == NULL || b->items == NULL || e->values == NULL ||
        e->wanted == NULL || e->patches == NULL || e->steps == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    memset(b->input, 0xFF, count * sizeof *b->input);
    memset(b->output, 0xFF, count * sizeof *b->output);
    memset(b->item, 0xFF, count * sizeof *b->item);
    for (uint32_t i = 0; i < e->part->in_count; i++) {
        b->input[e->part->in[i]] = i;
    }
    for (uint32_t i = 0; i < e->part->out_count; i++) {
        b->output[e->part->out[i]] = i;
    }
    return PEN_OK;
}

static void builder_fini(struct builder *b)
{
    free(b->input);
    free(b->output);
    free(b->item);
    free(b->items);
}

static void patch_add(struct builder *b, struct rt_value *at, uint32_t index, bool output)
{
    struct exec *e = b->e;
    PEN_ASSERT(e->patch_count < b->room && index < (output ? e->part->out_count : e->part->in_count),
               "a pointer to be set is one of the partition's boundary");
    e->patches[e->patch_count++] = (struct patch){.at = at, .index = index, .output = output};
}

/* An input of a step: omitted, known in the environment, constant, from outside, or made by an earlier step. */
static enum pen_status input_place(struct builder *b, const struct node *n, uint32_t step, uint32_t value,
                                   struct rt_value *to, struct pen_error *reterr)
{
    struct exec *e = b->e;
    if (value == VALUE_NONE) {
        return PEN_OK;
    }
    const struct fact *f = &e->env->facts[value];
    *to = (struct rt_value){.kind = VALUE_TENSOR, .dtype = f->dtype, .shape = f->shape, .bytes = f->bytes};
    if (f->data != NULL || e->g->values[value].data != NULL) { /* kernels only read their inputs */
        const void *data = f->data != NULL ? f->data : e->g->values[value].data;
        memcpy(&to->data, &data, sizeof data);
        to->bytes = f->data != NULL ? f->bytes : e->g->values[value].bytes;
        return PEN_OK;
    }
    if (b->input[value] != UINT32_MAX) {
        patch_add(b, to, b->input[value], false);
        return PEN_OK;
    }
    if (b->output[value] != UINT32_MAX) {
        patch_add(b, to, b->output[value], true);
        return PEN_OK;
    }
    if (b->item[value] == UINT32_MAX) {
        return pen_error_set(reterr, PEN_ERR_INTERNAL, "node %s reads %s, which no earlier node of its partition makes",
                             n->name, e->g->values[value].name);
    }
    PEN_ASSERT(b->items[b->item[value]].first < step, "a value inside is read after it is made");
    b->items[b->item[value]].last = step;
    return PEN_OK;
}

/* An output of a step: the caller's buffer, or a place in the arena. */
static enum pen_status output_place(struct builder *b, const struct node *n, uint32_t step, uint32_t value,
                                    struct rt_value *to, bool *wanted, struct pen_error *reterr)
{
    struct exec *e = b->e;
    if (value == VALUE_NONE) {
        return PEN_OK;
    }
    const struct fact *f = &e->env->facts[value];
    size_t bytes = 0;
    if (f->kind != VALUE_TENSOR || !shape_known(&f->shape) ||
        shape_bytes(&f->shape, f->dtype, e->g->limits.arena_bytes, &bytes) != PEN_OK) {
        return pen_error_set(reterr, PEN_ERR_UNSUPPORTED,
                             "node %s: the shape of %s is not known before the run or is too large", n->name,
                             e->g->values[value].name);
    }
    *wanted = true;
    *to = (struct rt_value){.kind = VALUE_TENSOR, .dtype = f->dtype, .shape = f->shape, .bytes = bytes};
    if (b->output[value] != UINT32_MAX) {
        patch_add(b, to, b->output[value], true);
        return PEN_OK;
    }
    PEN_ASSERT(b->item_count < b->room && b->item[value] == UINT32_MAX, "a value inside is made once");
    b->item[value] = b->item_count;
    b->items[b->item_count++] = (struct lifetime){.bytes = bytes, .first = step, .last = step};
    return PEN_OK;
}

static enum pen_status steps_make(struct builder *b, struct pen_error *reterr)
{
    struct exec *e = b->e;
    struct rt_value *values = e->values;
    bool *wanted = e->wanted;
    for (uint32_t i = 0; i < e->part->node_count; i++) {
        const struct node *n = &e->g->nodes[e->part->nodes[i]];
        enum pen_status status = PEN_OK;
        if (n->dead || shape_env_folded(e->env, n)) {
            continue;
        }
        uint32_t at = e->step_count++;
        struct step *s = &e->steps[at];
        *s = (struct step){
            .n = n, .fn = kernel_find(n->op), .in = values, .out = values + n->in_count, .wanted = wanted, .index = i};
        if (s->fn == NULL) {
            return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "node %s: no kernel for %s in this build", n->name,
                                 n->origin);
        }
        values += (size_t)n->in_count + n->out_count;
        wanted += n->out_count;
        PEN_ASSERT((size_t)(values - e->values) <= b->room, "every input and output of a step has a place");
        for (uint32_t j = 0; j < n->in_count && status == PEN_OK; j++) {
            status = input_place(b, n, at, n->in[j], &s->in[j], reterr);
        }
        for (uint32_t j = 0; j < n->out_count && status == PEN_OK; j++) {
            status = output_place(b, n, at, n->out[j], &s->out[j], &s->wanted[j], reterr);
        }
        if (status != PEN_OK) {
            return status;
        }
    }
    return PEN_OK;
}

static uint8_t *placed(const struct builder *b, uint32_t value)
{
    PEN_ASSERT(b->item[value] < b->item_count, "what lies in the arena is made by a step");
    const struct lifetime *item = &b->items[b->item[value]];
    PEN_ASSERT(item->bytes <= b->e->arena_bytes && item->offset <= b->e->arena_bytes - item->bytes,
               "a value inside lies in the exec's arena");
    return b->e->arena + item->offset;
}

/* One arena for what lives inside; pointers go into the calls. */
static enum pen_status arena_make(struct builder *b, struct pen_error *reterr)
{
    struct exec *e = b->e;
    enum pen_status status = lifetime_plan(b->items, b->item_count, &e->arena_bytes);
    bool allowed = status == PEN_OK && allowance_take(e->env->allowance, e->arena_bytes + LIFETIME_PAD);
    if (status == PEN_OK && (!allowed || e->arena_bytes > e->g->limits.arena_bytes)) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE, "values between nodes need %zu bytes, above the budget",
                             e->arena_bytes);
    }
    void *memory = status == PEN_OK ? room_alloc(e->arena_bytes + LIFETIME_PAD) : NULL;
    if (memory == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for %zu bytes between nodes", e->arena_bytes);
    }
    e->arena = memory;
    memset(e->arena, 0, e->arena_bytes + LIFETIME_PAD);
    for (uint32_t i = 0; i < e->step_count; i++) {
        struct step *s = &e->steps[i];
        for (uint32_t j = 0; j < s->n->in_count; j++) {
            uint32_t v = s->n->in[j];
            if (v != VALUE_NONE && s->in[j].data == NULL && b->input[v] == UINT32_MAX && b->output[v] == UINT32_MAX) {
                s->in[j].data = placed(b, v);
                s->in[j].bytes = b->items[b->item[v]].bytes;
            }
        }
        for (uint32_t j = 0; j < s->n->out_count; j++) {
            uint32_t v = s->n->out[j];
            if (v != VALUE_NONE && b->output[v] == UINT32_MAX) {
                s->out[j].data = placed(b, v);
            }
        }
    }
    return PEN_OK;
}

enum pen_status reference_exec_new(const struct graph *g, const struct partition *part,
                                   const struct backend_config *config, const struct shape_env *env,
                                   struct exec **ret_exec, struct pen_error *reterr)
{
    struct builder b;
    struct exec *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "no memory for an exec");
    }
    *e = (struct exec){
        .g = g, .part = part, .env = env, .check_numerics = config->check_numerics, .profile = config->profile};
    scratch_init(&e->scratch, g->limits.arena_bytes);
    enum pen_status status = builder_init(&b, e);
    if (status != PEN_OK) {
        pen_error_set(reterr, status, "no memory for %u nodes", part->node_count);
    } else {
        status = steps_make(&b, reterr);
    }
    if (status == PEN_OK) {
        status = arena_make(&b, reterr);
    }
    if (status == PEN_OK && env->allowance != NULL && allowance_alone(env->allowance) < e->scratch.limit) {
        e->scratch.limit = allowance_alone(env->allowance);
    }
    builder_fini(&b);
    if (status != PEN_OK) {
        reference_exec_free(e);
        return status;
    }
    *ret_exec = e;
    return PEN_OK;
}

void reference_exec_free(struct exec *e)
{
    if (e == NULL) {
        return;
    }
    scratch_fini(&e->scratch);
    free(e->arena);
    free(e->patches);
    free(e->steps);
    free(e->wanted);
    free(e->values);
    free(e);
}

uint64_t reference_exec_bytes(const struct exec *e)
{
    return e->arena_bytes + e->scratch.bytes;
}

/* Debug mode: the first node that makes a NaN or an infinity is named. */
static enum pen_status numerics_check(const struct step *s, struct pen_error *reterr)
{
    for (uint32_t i = 0; i < s->n->out_count; i++) {
        const struct rt_value *v = &s->out[i];
        if (!s->wanted[i] || element_class(v->dtype) != ELEMENT_FLOAT) {
            continue;
        }
        for (int64_t j = 0; j < shape_elements(&v->shape); j++) {
            double x = load_one_f64(v->data, v->dtype, j);
            if (!isfinite(x)) {
                return pen_error_set(reterr, PEN_ERR_INVALID, "node %s (%s): element %lld of output %u is %g",
                                     s->n->name, s->n->origin, (long long)j, i, x);
            }
        }
    }
    return PEN_OK;
}

static void boundary_set(struct exec *e, const struct buffer_view *in, const struct buffer_view *out)
{
    for (uint32_t i = 0; i < e->patch_count; i++) {
        const struct patch *p = &e->patches[i];
        const struct buffer_view *view = p->output ? &out[p->index] : &in[p->index];
        p->at->data = view->data;
        p->at->bytes = view->bytes;
    }
}

static enum pen_status cancel_status(const struct cancel *cancel, struct pen_error *reterr)
{
    bool stopped = atomic_load_explicit(&cancel->stop, memory_order_relaxed) != 0;
    return pen_error_set(reterr, stopped ? PEN_ERR_CANCELLED : PEN_ERR_DEADLINE, "the run was stopped %s",
                         stopped ? "by the caller" : "at its deadline");
}

/* That a kernel got no memory says little: more than the session may hold is not for want of memory on the host. */
static enum pen_status refused(struct exec *e, const struct step *s, enum pen_status status, struct pen_error *reterr)
{
    bool limited = status == PEN_ERR_NO_MEMORY && e->scratch.refused;
    e->scratch.refused = false;
    return limited ? pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                                   "node %s (%s) needs working memory beyond the %llu bytes that a session of this "
                                   "model may hold for it: send smaller inputs, or grant more memory",
                                   s->n->name, s->n->origin, (unsigned long long)e->scratch.limit)
                   : status;
}

enum pen_status reference_exec_run(struct exec *e, const struct buffer_view *in, const struct buffer_view *out,
                                   const struct cancel *cancel, struct pen_error *reterr)
{
    boundary_set(e, in, out);
    for (uint32_t i = 0; i < e->step_count; i++) {
        struct step *s = &e->steps[i];
        struct kernel_call call = {.g = e->g,
                                   .n = s->n,
                                   .in = s->in,
                                   .out = s->out,
                                   .wanted = s->wanted,
                                   .memory = &e->scratch.memory,
                                   .cancel = cancel,
                                   .error = reterr};
        if (cancel_wanted(cancel)) {
            return cancel_status(cancel, reterr);
        }
        scratch_reset(&e->scratch);
        uint64_t begin = e->profile ? backend_now_ns() : 0;
        enum pen_status status = s->fn(&call);
        if (status == PEN_OK && kernel_noise != NULL) {
            noise_add(&call);
        }
        s->ns = e->profile ? backend_now_ns() - begin : 0;
        if (status == PEN_OK && e->check_numerics) {
            status = numerics_check(s, reterr);
        }
        if (status != PEN_OK) {
            return refused(e, s, status, reterr);
        }
    }
    return PEN_OK;
}

void reference_exec_times(const struct exec *e, void (*say)(void *context, uint32_t index, uint64_t ns), void *context)
{
    for (uint32_t i = 0; e->profile && i < e->step_count; i++) {
        say(context, e->steps[i].index, e->steps[i].ns);
    }
}

void reference_exec_kernels(const struct exec *e,
                            void (*say)(void *context, uint32_t index, const char *kernel, const char *why),
                            void *context)
{
    for (uint32_t i = 0; i < e->step_count; i++) {
        say(context, e->steps[i].index, "plain C", "sums in double: the truth for the others");
    }
}
