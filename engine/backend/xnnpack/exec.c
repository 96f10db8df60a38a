#include "backend/xnnpack/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "backend/xnnpack/check.h"
#include "backend/xnnpack/choose.h"
#include "backend/xnnpack/isa.h"
#include "backend/xnnpack/emitters.h"
#include "backend/xnnpack/join.h"
#include "backend/xnnpack/place.h"
#include "graph/lifetime.h"
#include "graph/room.h"

/* Memory that lives as long as the exec. */
struct block {
    struct block *next;
    max_align_t data[];
};

/* A boundary output whose value is known for this bucket: copied on each run. */
struct known_out {
    uint32_t index;
    const void *data;
    size_t bytes;
};

struct exec {
    struct plan *plan;
    const struct shape_env *env;
    struct step *steps;
    struct usage *uses;
    uint32_t step_count;
    struct join join;
    struct place place;
    uint8_t *arena, *scratch;
    struct block *blocks;
    uint64_t bytes;
    int64_t library_bytes; /* what XNNPACK has allocated for its operators */
    struct known_out *known;
    uint32_t known_count;
    void **boundary; /* pointers of the last run: inputs, then outputs */
    bool bound;
    enum pen_status status; /* of the last submit */
    struct pen_error error;
};

void *build_alloc(struct build *b, size_t bytes)
{
    struct block *block = calloc(1, sizeof *block + bytes + LIFETIME_PAD);
    if (block == NULL) {
        return NULL;
    }
    block->next = b->exec->blocks;
    b->exec->blocks = block;
    b->exec->bytes += bytes;
    return block->data;
}

uint32_t build_threads(const struct build *b)
{
    return b->exec->plan->backend->config.threads;
}

bool build_tiles(const struct build *b)
{
    return b->exec->plan->backend->tiles;
}

const struct backend_config *build_config(const struct build *b)
{
    return &b->exec->plan->backend->config;
}

/* A step without nodes behind it reads and writes what its node does. */
static struct usage usage_of(const struct node *n)
{
    return (struct usage){.in = n->in, .out = n->out, .in_count = n->in_count, .out_count = n->out_count};
}

/* What the nodes of a chain read: behind the head's own inputs, or instead of them when the head is part of the chain. */
static enum pen_status usage_join(struct build *b, const struct node *last, bool whole, struct usage *u)
{
    const uint32_t own = whole ? 0 : b->n->in_count;
    uint32_t *values = build_alloc(b, ((size_t)own + b->chain->operand_count) * sizeof *values);
    if (values == NULL) {
        return build_fail(b, PEN_ERR_NO_MEMORY, "no memory");
    }
    memcpy(values, b->n->in, own * sizeof *values);
    memcpy(values + own, b->chain->operands, b->chain->operand_count * sizeof *values);
    *u = (struct usage){
        .in = values, .out = last->out, .in_count = own + b->chain->operand_count, .out_count = last->out_count};
    return PEN_OK;
}

static bool empty_outputs(const struct shape_env *env, const struct node *n)
{
    for (uint32_t i = 0; i < n->out_count; i++) {
        if (n->out[i] != VALUE_NONE && shape_elements(&env->facts[n->out[i]].shape) != 0) {
            return false;
        }
    }
    return true;
}

static enum pen_status shapes_check(struct build *b)
{
    for (uint32_t i = 0; i < b->n->in_count + b->n->out_count; i++) {
        const struct fact *f = i < b->n->in_count ? build_in(b, i) : build_out(b, i - b->n->in_count);
        size_t bytes = 0;
        if (f != NULL && (!shape_known(&f->shape) || shape_bytes(&f->shape, f->dtype, 0, &bytes) != PEN_OK)) {
            return build_fail(b, PEN_ERR_UNSUPPORTED, "a shape depends on data");
        }
    }
    return PEN_OK;
}

static enum pen_status step_build(struct exec *e, uint32_t index, struct pen_error *reterr)
{
    const struct graph *g = e->plan->g;
    const struct node *last = &g->nodes[e->plan->packed[index].node];
    const struct fusion *fusion = last->dead ? NULL : join_fusion(e->plan, e->env, index);
    if (last->dead || shape_env_folded(e->env, last) || e->join.next[index] != JOIN_NONE ||
        (fusion != NULL && fusion->last != index)) {
        return PEN_OK;
    }
    struct chain chain;
    bool whole = false, joined = join_chain(&e->join, e->plan, e->env, index, &chain, &whole);
    index = join_head(&e->join, index);
    const struct packed_node *packed = &e->plan->packed[index];
    const struct node *n = fusion != NULL ? &fusion->node : &g->nodes[packed->node];
    PEN_ASSERT(e->step_count < e->plan->part.node_count, "a node of the partition is one step at most");
    struct step *s = &e->steps[e->step_count];
    struct build b = {.g = g,
                      .env = e->env,
                      .n = n,
                      .packed = packed->data,
                      .chain = joined ? &chain : NULL,
                      .fusion = fusion,
                      .exec = e,
                      .step = s,
                      .reterr = reterr};
    struct usage u = usage_of(n);
    enum pen_status status = shapes_check(&b);
    if (status != PEN_OK || empty_outputs(e->env, n)) {
        return status;
    }
    s->n = n;
    s->index = fusion != NULL ? fusion->first : index; /* times are told of the product, not of what follows it */
    status = joined ? usage_join(&b, last, whole, &u) : PEN_OK;
    s->in = build_alloc(&b, ((size_t)u.in_count + u.out_count + 1) * sizeof *s->in);
    s->in_row = build_alloc(&b, ((size_t)u.in_count + 1) * sizeof *s->in_row);
    if (status != PEN_OK || s->in == NULL || s->in_row == NULL) {
        return status != PEN_OK ? status : build_fail(&b, PEN_ERR_NO_MEMORY, "no memory");
    }
    s->out = s->in + u.in_count;
    e->step_count++; /* fini runs from here on */
    status =
        fusion != NULL ? fusion->kind->build(&b) : (joined && whole ? &emit_chain : emitter_find(n->op))->build(&b);
    if (fusion != NULL) {
        s->kernel = s->kernel != NULL ? s->kernel : fusion->kind->kernel;
        s->why = fusion->kind->why;
    }
    u.view = b.view;
    u.inplace = b.inplace;
    u.exclusive = b.exclusive;
    u.rows_in = b.rows_in;
    u.rows_out = b.rows_out;
    u.parts = b.parts;
    u.in_parts = b.in_parts;
    e->uses[e->step_count - 1] = u;
    return status;
}

static uint8_t *memory_of(const struct exec *e, const struct cell *c, void *const *boundary)
{
    switch (c->storage) {
    case STORE_IN:
        return boundary[c->index];
    case STORE_OUT:
        return boundary[e->plan->part.in_count + c->index];
    case STORE_CONST:
        return (void *)(uintptr_t)c->data; /* steps only read it */
    case STORE_ARENA:
    default:
        return e->arena + c->offset;
    }
}

static void *cell_pointer(struct exec *e, uint32_t value, void *const *boundary)
{
    size_t offset = 0, row = 0;
    if (value == VALUE_NONE) {
        return NULL;
    }
    PEN_ASSERT(e->place.cell_of[value] < e->place.cell_count, "what a step reads or writes has a cell");
    const struct cell *c = place_of_value(&e->place, value, &offset, &row);
    uint8_t *memory = memory_of(e, c, boundary);
    return memory != NULL ? memory + offset : NULL;
}

/* Elements between the rows of a value. */
static size_t row_of(struct exec *e, uint32_t value)
{
    size_t offset = 0, row = 0;
    const struct shape *s = value != VALUE_NONE ? &e->env->facts[value].shape : NULL;
    if (s == NULL || s->rank == 0) {
        return 1;
    }
    place_of_value(&e->place, value, &offset, &row);
    return row > 0 ? row : (size_t)s->dim[s->rank - 1];
}

static void rows_tell(struct exec *e)
{
    for (uint32_t i = 0; i < e->step_count; i++) {
        const struct usage *u = &e->uses[i];
        for (uint32_t k = 0; k < u->in_count; k++) {
            e->steps[i].in_row[k] = row_of(e, u->in[k]);
        }
        e->steps[i].out_row = u->out_count > 0 ? row_of(e, u->out[0]) : 1;
    }
}

/* Resolves all pointers; *ret_bound counts the steps whose pointers changed. */
static enum pen_status bind_all(struct exec *e, void *const *boundary, struct run *r)
{
    for (uint32_t i = 0; i < e->step_count; i++) {
        struct step *s = &e->steps[i];
        const struct usage *u = &e->uses[i];
        bool changed = !e->bound;
        for (uint32_t k = 0; k < u->in_count + u->out_count; k++) {
            void *p = cell_pointer(e, k < u->in_count ? u->in[k] : u->out[k - u->in_count], boundary);
            changed = changed || s->in[k] != p;
            s->in[k] = p;
        }
        s->scratch = e->scratch;
        enum pen_status status = changed && s->bind != NULL && !e->uses[i].aliased ? s->bind(s, r) : PEN_OK;
        if (status != PEN_OK) {
            return status;
        }
    }
    e->bound = true;
    return PEN_OK;
}

static enum pen_status memory_make(struct exec *e, struct pen_error *reterr)
{
    size_t scratch = 0;
    for (uint32_t i = 0; i < e->step_count; i++) {
        scratch = e->steps[i].scratch_bytes > scratch ? e->steps[i].scratch_bytes : scratch;
    }
    size_t arena = (e->place.arena_bytes + LIFETIME_PAD + 63) / 64 * 64;
    scratch = (scratch + LIFETIME_PAD + 63) / 64 * 64;
    if (!allowance_take(e->env->allowance, (uint64_t)arena + scratch)) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "xnnpack: values between nodes need %zu bytes, above the budget", arena + scratch);
    }
    e->arena = room_alloc(arena);
    e->scratch = room_alloc(scratch);
    if (e->arena == NULL || e->scratch == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for an arena of %zu bytes",
                             arena + scratch);
    }
    memset(e->arena, 0, arena); /* pages are there before the first run; padding is never garbage */
    memset(e->scratch, 0, scratch);
    e->bytes += arena + scratch;
    return PEN_OK;
}

static enum pen_status known_make(struct exec *e)
{
    const struct partition *part = &e->plan->part;
    e->known = calloc((size_t)part->out_count + 1, sizeof *e->known);
    if (e->known == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < part->out_count; i++) {
        const struct fact *f = &e->env->facts[part->out[i]];
        size_t bytes = 0;
        if (f->data != NULL && shape_bytes(&f->shape, f->dtype, 0, &bytes) == PEN_OK) {
            PEN_ASSERT(e->known_count < part->out_count, "a known output is one of the partition's");
            e->known[e->known_count++] = (struct known_out){i, f->data, bytes};
        }
    }
    return PEN_OK;
}

/* Bytes of the largest boundary value. */
static size_t boundary_bytes(const struct exec *e)
{
    const struct partition *part = &e->plan->part;
    size_t most = 0;
    for (uint32_t i = 0; i < part->in_count + part->out_count; i++) {
        const struct fact *f = &e->env->facts[i < part->in_count ? part->in[i] : part->out[i - part->in_count]];
        size_t bytes = 0;
        if (shape_bytes(&f->shape, f->dtype, 0, &bytes) == PEN_OK && bytes > most) {
            most = bytes;
        }
    }
    return most;
}

/*
 * Binds once to memory that stands in for the boundary, so that a later bind with the same shapes allocates nothing. It is as large as what it stands in for:
 * XNNPACK keeps the addresses of all pixels, moves them by a difference at later binds, and tells padding by the address of its block of zeros; addresses
 * beyond the stand-in could be those of the zeros, and such pixels would stay zeros.
 */
static enum pen_status bind_first(struct exec *e, struct pen_error *reterr)
{
    struct run r = {.error = reterr};
    size_t count = (size_t)e->plan->part.in_count + e->plan->part.out_count;
    void *stand_in = calloc(1, boundary_bytes(e) + LIFETIME_PAD);
    enum pen_status status = stand_in != NULL ? pool_take(e->plan->backend, &r.team) : PEN_ERR_NO_MEMORY;
    if (status != PEN_OK) {
        free(stand_in);
        return pen_error_set(reterr, status, "xnnpack: no memory for a pool of %u threads",
                             e->plan->backend->config.threads);
    }
    for (size_t i = 0; i < count; i++) {
        e->boundary[i] = stand_in;
    }
    status = bind_all(e, e->boundary, &r);
    if (status == PEN_OK && e->plan->backend->config.measure_kernels) {
        const struct backend *b = e->plan->backend;
        choose_run(e->steps, e->step_count, e->plan->g, (struct choose_time){b->config.now_ns, b->measure_ns}, &r);
    }
    pool_put(e->plan->backend, r.team);
    free(stand_in); /* zeros, for kernels that are timed; of all others only the addresses count */
    return status;
}

static enum pen_status exec_make(struct exec *e, struct pen_error *reterr)
{
    const struct partition *part = &e->plan->part;
    e->steps = calloc((size_t)part->node_count + 1, sizeof *e->steps);
    e->uses = calloc((size_t)part->node_count + 1, sizeof *e->uses);
    e->boundary = calloc((size_t)part->in_count + part->out_count + 1, sizeof *e->boundary);
    if (e->steps == NULL || e->uses == NULL || e->boundary == NULL || known_make(e) != PEN_OK) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for %u steps", part->node_count);
    }
    if (join_find(&e->join, e->plan, e->env) != PEN_OK) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory to join %u nodes", part->node_count);
    }
    for (uint32_t i = 0; i < part->node_count; i++) {
        enum pen_status status = step_build(e, i, reterr);
        if (status != PEN_OK) {
            return status;
        }
    }
    enum pen_status status = place_init(&e->place, e->plan, e->env);
    if (status == PEN_OK) {
        place_join(&e->place, e->uses, e->step_count);
        if (!e->plan->backend->config.check_numerics) { /* which reads values as they lie alone */
            parts_join(&e->place, e->uses, e->step_count);
        }
        status = place_lay(&e->place);
    }
    if (status != PEN_OK) {
        return pen_error_set(reterr, status, "xnnpack: no memory to place the buffers of %u steps", e->step_count);
    }
    rows_tell(e);
    status = memory_make(e, reterr);
    return status == PEN_OK ? bind_first(e, reterr) : status;
}

enum pen_status xnn_exec_new(struct plan *plan, const struct shape_env *env, struct exec **ret_exec,
                             struct pen_error *reterr)
{
    struct exec *e = calloc(1, sizeof *e);
    if (e == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "xnnpack: no memory for an exec");
    }
    e->plan = plan;
    e->env = env;
    xnn_charge(&e->library_bytes);
    enum pen_status status = exec_make(e, reterr);
    xnn_charge(NULL);
    if (status != PEN_OK) {
        xnn_exec_free(e);
        return status;
    }
    *ret_exec = e;
    return PEN_OK;
}

void xnn_exec_free(struct exec *exec)
{
    if (exec == NULL) {
        return;
    }
    join_fini(&exec->join);
    for (uint32_t i = 0; i < exec->step_count; i++) {
        if (exec->steps[i].fini != NULL) {
            exec->steps[i].fini(&exec->steps[i]);
        }
    }
    while (exec->blocks != NULL) {
        struct block *next = exec->blocks->next;
        free(exec->blocks);
        exec->blocks = next;
    }
    place_fini(&exec->place);
    free(exec->steps);
    free(exec->uses);
    free(exec->boundary);
    free(exec->known);
    free(exec->arena);
    free(exec->scratch);
    free(exec);
}

uint64_t xnn_exec_bytes(const struct exec *exec)
{
    return exec->bytes + (exec->library_bytes > 0 ? (uint64_t)exec->library_bytes : 0);
}

void xnn_exec_times(const struct exec *exec, void (*say)(void *context, uint32_t index, uint64_t ns), void *context)
{
    for (uint32_t i = 0; exec->plan->backend->config.profile && i < exec->step_count; i++) {
        if (!exec->uses[i].aliased) {
            say(context, exec->steps[i].index, exec->steps[i].ns);
        }
    }
}

/* The nodes that run with this one. */
static void chained_tell(const struct exec *exec, uint32_t head,
                         void (*say)(void *context, uint32_t index, const char *kernel, const char *why), void *context)
{
    for (uint32_t i = exec->join.next[head]; i != JOIN_NONE; i = exec->join.next[i]) {
        say(context, i, "joined", "it is computed while the results it reads are in the cache: no pass over memory");
    }
}

/* Why a node that could be part of a fusion is not, in this bucket; NULL where none was near. */
static const char *alone_of(const struct exec *e, uint32_t index)
{
    const struct fusion_mark *mark = &e->plan->fusions.marks[index];
    if (mark->in == NULL || join_fusion(e->plan, e->env, index) != NULL) {
        return mark->alone;
    }
    return mark->in->kind->misfit(mark->in, e->plan->g, e->env);
}

static void joined_tell(const struct exec *e,
                        void (*say)(void *context, uint32_t index, const char *kernel, const char *why), void *context)
{
    for (uint32_t i = 0; i < e->plan->part.node_count; i++) {
        const struct fusion *f = join_fusion(e->plan, e->env, i);
        const struct node *n = &e->plan->g->nodes[e->plan->part.nodes[i]];
        char why[160];
        if (f != NULL && f->first != i && !shape_env_folded(e->env, n)) {
            const struct node *first = &e->plan->g->nodes[e->plan->part.nodes[f->first]];
            snprintf(why, sizeof why, "its work is done in the step of %s", first->name);
            say(context, i, "joined", why);
        }
    }
}

void xnn_exec_kernels(const struct exec *exec,
                      void (*say)(void *context, uint32_t index, const char *kernel, const char *why), void *context)
{
    for (uint32_t i = 0; i < exec->step_count; i++) {
        const struct step *s = &exec->steps[i];
        char kernel[120];
        if (exec->uses[i].aliased) {
            say(context, s->index, "view", "its output is its input's memory: no work");
            continue;
        }
        chained_tell(exec, s->index, say, context);
        snprintf(kernel, sizeof kernel, "%s, %s", s->kernel != NULL ? s->kernel : "own loop",
                 isa_name(exec->plan->backend->config.isa_max));
        const char *alone = alone_of(exec, s->index);
        say(context, s->index, kernel,
            s->why != NULL  ? s->why
            : alone != NULL ? alone
                            : "the one kernel of this backend for it");
    }
    joined_tell(exec, say, context);
}

static enum pen_status steps_run(struct exec *e, const struct cancel *cancel, struct run *r)
{
    bool numerics = e->plan->backend->config.check_numerics, profile = e->plan->backend->config.profile;
    for (uint32_t i = 0; i < e->step_count; i++) {
        struct step *s = &e->steps[i];
        if (e->uses[i].aliased) {
            continue;
        }
        if (cancel_wanted(cancel)) {
            bool stopped = atomic_load(&cancel->stop) != 0;
            return pen_error_set(r->error, stopped ? PEN_ERR_CANCELLED : PEN_ERR_DEADLINE, "stopped before node %s: %s",
                                 s->n->name, stopped ? "the caller cancelled the run" : "its deadline passed");
        }
        uint64_t begin = profile ? backend_now_ns() : 0;
        enum pen_status status = s->run(s, r);
        s->ns = profile ? backend_now_ns() - begin : 0;
        if (status == PEN_OK && numerics) {
            status = check_numerics(e->env, s, r->error);
        }
        if (status != PEN_OK) {
            return status;
        }
    }
    return PEN_OK;
}

static enum pen_status submit(struct exec *e, const struct buffer_view *in, const struct buffer_view *out,
                              const struct cancel *cancel, struct run *r)
{
    const struct partition *part = &e->plan->part;
    bool changed = !e->bound;
    for (uint32_t i = 0; i < part->in_count + part->out_count; i++) {
        void *p = i < part->in_count ? in[i].data : out[i - part->in_count].data;
        changed = changed || e->boundary[i] != p;
        e->boundary[i] = p;
    }
    xnn_charge(&e->library_bytes);
    enum pen_status status = changed ? bind_all(e, e->boundary, r) : PEN_OK;
    xnn_charge(NULL);
    for (uint32_t i = 0; i < e->known_count; i++) {
        if (out[e->known[i].index].data != NULL && e->known[i].bytes > 0) {
            memcpy(out[e->known[i].index].data, e->known[i].data, e->known[i].bytes);
        }
    }
    return status == PEN_OK ? steps_run(e, cancel, r) : status;
}

enum pen_status xnn_exec_submit(struct exec *exec, const struct buffer_view *in, const struct buffer_view *out,
                                const struct cancel *cancel, struct pen_error *reterr)
{
    exec->error = (struct pen_error){0};
    struct run r = {.error = &exec->error};
    enum pen_status status = pool_take(exec->plan->backend, &r.team);
    if (status == PEN_OK) {
        status = submit(exec, in, out, cancel, &r);
        pool_put(exec->plan->backend, r.team);
    } else {
        pen_error_set(&exec->error, status, "xnnpack: no memory for a thread pool");
    }
    exec->status = status;
    /* CANCELLED and DEADLINE are exec_wait's to say. */
    if (status != PEN_OK && status != PEN_ERR_CANCELLED && status != PEN_ERR_DEADLINE) {
        return pen_error_set(reterr, status, "%s", exec->error.text);
    }
    return PEN_OK;
}

enum pen_status xnn_exec_wait(struct exec *exec, struct pen_error *reterr)
{
    return exec->status == PEN_OK ? PEN_OK : pen_error_set(reterr, exec->status, "%s", exec->error.text);
}
