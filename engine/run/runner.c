#include "run/runner.h"

#include "assertion.h"
#include "error_complete.h"
#include "run/bucket_explain.h"
#include "run/debug_log.h"
#include "run/deviation.h"
#include "run/internal.h"
#include "graph/kept.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static enum pen_status runner_make(const struct program *program, struct run_context *context, bool child,
                                   struct runner **ret_runner)
{
    struct runner *r = calloc(1, sizeof *r);
    if (r == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    r->program = program;
    r->context = context;
    r->bucket_room = child ? RUNNER_CHILD_BUCKETS : RUNNER_BUCKETS;
    r->child = child;
    r->next = context->runners;
    context->runners = r;
    r->children = calloc((size_t)program->child_count + 1, sizeof *r->children);
    enum pen_status status = r->children != NULL ? PEN_OK : PEN_ERR_NO_MEMORY;
    for (uint32_t i = 0; status == PEN_OK && i < program->child_count; i++) {
        status = runner_make(program->children[i].program, context, true, &r->children[i]);
    }
    if (status != PEN_OK) {
        runner_free(r);
        return status;
    }
    *ret_runner = r;
    return PEN_OK;
}

enum pen_status runner_new(const struct program *program, struct run_context *context, struct runner **ret_runner)
{
    return runner_make(program, context, false, ret_runner);
}

/* ---- buckets ------------------------------------------------------------------------------------------------------------- */

static void bucket_book(struct runner *r, struct bucket *b)
{
    uint64_t bytes = bucket_bytes(b);
    ledger_book(&r->context->ledger, b->booked, bytes);
    b->booked = bytes;
}

static void bucket_drop(struct runner *r, uint32_t index)
{
    PEN_ASSERT(index < r->bucket_count && r->bucket_count <= r->bucket_room,
               "a bucket that goes is one of the runner's");
    ledger_book(&r->context->ledger, r->buckets[index]->booked, 0);
    atomic_fetch_sub(&engine_counters.buckets, 1);
    bucket_free(r->buckets[index]);
    r->buckets[index] = r->buckets[--r->bucket_count];
}

void runner_free(struct runner *r)
{
    if (r == NULL) {
        return;
    }
    struct runner **at = &r->context->runners;
    while (*at != NULL && *at != r) {
        at = &(*at)->next;
    }
    if (*at == r) {
        *at = r->next;
    }
    for (uint32_t i = 0; r->children != NULL && i < r->program->child_count; i++) {
        runner_free(r->children[i]);
    }
    while (r->bucket_count > 0) {
        bucket_drop(r, r->bucket_count - 1);
    }
    free((void *)r->children);
    free(r);
}

static uint32_t bucket_oldest(const struct runner *r)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < r->bucket_count; i++) {
        if (r->buckets[i]->used < r->buckets[oldest]->used) {
            oldest = i;
        }
    }
    return oldest;
}

/* While a run is on its way, results of subgraphs that it has called may still be read. */
static bool may_go(const struct run_context *c, const struct runner *r, const struct bucket *b)
{
    return b->busy == 0 && b != c->keep && (c->running == 0 || !r->child || b->used < c->run_tick);
}

/* Drops the bucket of the session that has not been used for longest; false: all are in use. */
static bool bucket_evict(struct run_context *c)
{
    struct runner *from = NULL;
    uint32_t index = 0;
    for (struct runner *r = c->runners; r != NULL; r = r->next) {
        for (uint32_t i = 0; i < r->bucket_count; i++) {
            if (may_go(c, r, r->buckets[i]) && (from == NULL || r->buckets[i]->used < from->buckets[index]->used)) {
                from = r;
                index = i;
            }
        }
    }
    if (from != NULL) {
        PEN_ASSERT(from->buckets[index]->busy == 0, "a bucket that a run is using stays");
        bucket_drop(from, index);
    }
    return from != NULL;
}

bool runner_make_room(void *context)
{
    struct run_context *c = context;
    if (!c->keep_all && bucket_evict(c)) {
        return true;
    }
    bool idle = c->arena_idle && c->arena.own > 0;
    if (idle) {
        rt_arena_fini(&c->arena);
    }
    return idle;
}

/* So much more may be held. */
static bool room_for(struct run_context *c, uint64_t bytes)
{
    uint64_t limit = ledger_limit(&c->ledger);
    while (bytes <= limit && c->ledger.bytes > limit - bytes) {
        if (!runner_make_room(c)) {
            return false;
        }
    }
    return bytes <= limit;
}

static enum pen_status refuse(const struct run_context *c, uint64_t need, struct pen_error *reterr)
{
    const struct model_ledger *m = c->ledger.model;
    uint64_t limit = ledger_limit(&c->ledger);
    if (c->keep_all && need <= limit) {
        return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                             "shapes that are to stay ready need at least %" PRIu64
                             " bytes, and a session of this model may hold %" PRIu64
                             " (sessions: %u): grant more memory, or keep fewer or smaller shapes ready",
                             c->ledger.bytes + need, limit, atomic_load(&m->sessions));
    }
    return pen_error_set(reterr, PEN_ERR_TOO_LARGE,
                         "these input shapes need at least %" PRIu64
                         " bytes, and a session of this model may hold %" PRIu64 " (sessions: %u, weights: %" PRIu64
                         " bytes): send smaller inputs, or grant more memory",
                         need, limit, atomic_load(&m->sessions), atomic_load(&m->weights_bytes));
}

static enum pen_status bucket_make(struct runner *r, const struct shape *in_shapes, struct bucket **ret_bucket,
                                   struct pen_error *reterr)
{
    struct run_context *c = r->context;
    for (;;) {
        uint64_t limit = ledger_limit(&c->ledger), held = c->ledger.bytes < limit ? c->ledger.bytes : limit;
        struct allowance a = {.limit = limit, .taken = held, .held = held};
        struct pen_error inner = {0};
        enum pen_status status = bucket_new(r->program, in_shapes, &a, ret_bucket, &inner);
        if (status != PEN_ERR_TOO_LARGE || a.taken <= a.limit) {
            error_complete(&inner, status, "prepare a run of these input shapes");
            return status == PEN_OK ? status : pen_error_set(reterr, status, "%s", inner.text);
        }
        if (!room_for(c, a.taken - held)) {
            return refuse(c, a.taken - held, reterr);
        }
    }
}

enum pen_status runner_within(const struct run_context *c, struct pen_error *reterr)
{
    return c->ledger.bytes <= ledger_limit(&c->ledger) ? PEN_OK : refuse(c, 0, reterr);
}

enum pen_status runner_bucket(struct runner *r, const struct shape *in_shapes, struct bucket **ret_bucket,
                              struct pen_error *reterr)
{
    struct run_context *c = r->context;
    c->tick++;
    for (uint32_t i = 0; i < r->bucket_count; i++) {
        if (bucket_fits(r->buckets[i], in_shapes)) {
            r->buckets[i]->used = c->tick;
            bucket_explain(r->buckets[i], false, r->bucket_count - 1);
            *ret_bucket = r->buckets[i];
            return PEN_OK;
        }
    }
    struct bucket *b = NULL;
    enum pen_status status = bucket_make(r, in_shapes, &b, reterr);
    if (status != PEN_OK) {
        return status;
    }
    if (r->bucket_count == r->bucket_room) {
        const uint32_t oldest = bucket_oldest(r);
        PEN_ASSERT(r->buckets[oldest]->busy == 0, "a bucket that a run is using is never the oldest of so many");
        bucket_drop(r, oldest);
    }
    PEN_ASSERT(r->bucket_count < r->bucket_room && r->bucket_room <= RUNNER_BUCKETS, "a new bucket has a place");
    b->used = c->tick;
    r->buckets[r->bucket_count++] = b;
    atomic_fetch_add(&engine_counters.buckets, 1);
    bucket_book(r, b);
    c->prepared_count++;
    bucket_explain(b, true, r->bucket_count - 1);
    *ret_bucket = b;
    return PEN_OK;
}

static enum pen_status numerics_check(struct runner *r, const struct node *n, const struct rt_value *v)
{
    struct run_context *c = r->context;
    if (!numerics_wanted(&c->numerics) || v->kind != VALUE_TENSOR || v->dtype != PEN_DTYPE_F32 || v->data == NULL) {
        return PEN_OK;
    }
    return numerics_look(&c->numerics, n, v->data, v->bytes / sizeof(float), c->error);
}

static enum pen_status node_call(struct runner *r, struct bucket *b, uint32_t node, struct rt_value *in,
                                 struct rt_value *out, bool *wanted)
{
    const struct graph *g = r->program->g;
    const struct node *n = &g->nodes[node];
    for (uint32_t i = 0; i < n->in_count; i++) {
        in[i] = n->in[i] != VALUE_NONE ? b->values[n->in[i]] : (struct rt_value){0};
    }
    for (uint32_t o = 0; o < n->out_count; o++) {
        wanted[o] = n->out[o] != VALUE_NONE;
        out[o] = (struct rt_value){0};
        if (wanted[o] && b->planned[n->out[o]]) {
            out[o] = b->values[n->out[o]];
        }
    }
    struct kernel_call k = {.g = g,
                            .n = n,
                            .in = in,
                            .out = out,
                            .wanted = wanted,
                            .memory = &r->context->arena.memory,
                            .cancel = r->context->cancel,
                            .error = r->context->error};
    bool control =
        (KEPT(graph_If) || KEPT(graph_Loop) || KEPT(graph_Scan)) && (op_def(n->op)->traits & OP_CONTROL) != 0;
    PEN_ASSERT(b->program == r->program, "a runner runs buckets of its own program");
    enum pen_status status = control ? control_run(r, node, &k) : kernel_run_node(&k);
    for (uint32_t o = 0; status == PEN_OK && o < n->out_count; o++) {
        if (wanted[o]) {
            b->values[n->out[o]] = out[o];
        }
    }
    return status;
}

/* Behind the row in the log. */
static enum pen_status outputs_check(struct runner *r, const struct bucket *b, const struct node *n)
{
    enum pen_status status = PEN_OK;
    for (uint32_t o = 0; status == PEN_OK && o < n->out_count; o++) {
        status = n->out[o] != VALUE_NONE ? numerics_check(r, n, &b->values[n->out[o]]) : PEN_OK;
    }
    return status;
}

static enum pen_status node_run(struct runner *r, struct bucket *b, uint32_t node)
{
    const struct node *n = &r->program->g->nodes[node];
    if (cancel_wanted(r->context->cancel)) {
        return PEN_ERR_CANCELLED;
    }
    size_t ports = (size_t)n->in_count + n->out_count + 2;
    struct rt_value *values = rt_arena_alloc(&r->context->arena, ports * sizeof *values);
    bool *wanted = rt_arena_alloc(&r->context->arena, ports * sizeof *wanted);
    if (values == NULL || wanted == NULL) {
        return pen_error_set(r->context->error, PEN_ERR_NO_MEMORY, "node %s: the session's memory budget is spent",
                             n->name);
    }
    bool timed = r->context->profile != NULL || debug_of(r->context) != NULL;
    uint64_t start = timed ? backend_now_ns() : 0;
    enum pen_status status = node_call(r, b, node, values, values + n->in_count + 1, wanted);
    if (r->context->profile != NULL) {
        profile_add(r->context->profile, n, n->name, op_def(n->op)->name, "executor", 0, backend_now_ns() - start);
    }
    if (status == PEN_OK && debug_of(r->context) != NULL) {
        debug_node(r, b, node, backend_now_ns() - start);
    }
    return status == PEN_OK ? outputs_check(r, b, n) : status;
}

/* What a run of a step took: a row per node where the backend tells, the rest in the row of the partition. */
struct timing {
    struct runner *r;
    const struct partition *part;
    const struct bucket *b;
    const char *backend;
    uint64_t told_ns;
};

static void node_timed(void *context, uint32_t index, uint64_t ns)
{
    struct timing *t = context;
    const struct node *n = &t->r->program->g->nodes[t->part->nodes[index]];
    t->told_ns += ns;
    profile_add(t->r->context->profile, n, n->name, op_def(n->op)->name, t->backend,
                node_macs(t->r->program->g, n, t->b->env->facts), ns);
}

static void step_timed(struct runner *r, const struct bucket *b, const struct bucket_step *step, uint64_t ns)
{
    const struct backend_ops *ops = r->program->placement->backends[step->placed->backend].ops;
    const struct partition *part = &step->placed->part;
    const struct node *first = &r->program->g->nodes[part->nodes[0]];
    struct timing t = {r, part, b, ops->name, 0};
    if (ops->exec_times != NULL) {
        ops->exec_times(step->exec, node_timed, &t);
    }
    bool alone = part->node_count == 1 && t.told_ns == 0;
    profile_add(r->context->profile, part, first->name, alone ? op_def(first->op)->name : "partition", ops->name, 0,
                ns > t.told_ns ? ns - t.told_ns : 0);
}

static const struct backend_ops *ops_of(const struct runner *r, const struct bucket_step *step)
{
    return r->program->placement->backends[step->placed->backend].ops;
}

static enum pen_status exec_begin(struct runner *r, struct bucket_step *step)
{
    return ops_of(r, step)->exec_submit(step->exec, step->in, step->out, r->context->cancel, r->context->error);
}

static enum pen_status exec_finish(struct runner *r, struct bucket *b, struct bucket_step *step)
{
    enum pen_status status = ops_of(r, step)->exec_wait(step->exec, r->context->error);
    const struct partition *part = &step->placed->part;
    if (status == PEN_OK && debug_of(r->context) != NULL) {
        debug_step(r, b, step);
    }
    if (status == PEN_OK && r->context->compare) {
        status = deviation_check(r->context, r->program, b, step);
    }
    for (uint32_t i = 0; status == PEN_OK && numerics_wanted(&r->context->numerics) && i < part->out_count; i++) {
        const struct value *v = &r->program->g->values[part->out[i]];
        status = numerics_check(r, &r->program->g->nodes[v->producer], &b->values[part->out[i]]);
    }
    return status;
}

static enum pen_status exec_run(struct runner *r, struct bucket *b, struct bucket_step *step)
{
    uint64_t start = r->context->profile != NULL ? backend_now_ns() : 0;
    enum pen_status status = exec_begin(r, step);
    if (status == PEN_OK) {
        status = exec_finish(r, b, step);
    }
    if (r->context->profile != NULL) {
        step_timed(r, b, step, backend_now_ns() - start);
    }
    return status;
}

static enum pen_status interpretive_run(struct runner *r, struct bucket *b)
{
    const struct graph *g = r->program->g;
    enum pen_status status = PEN_OK;
    for (uint32_t n = 0; status == PEN_OK && n < g->node_count; n++) {
        if (!g->nodes[n].dead && !shape_env_folded(b->env, &g->nodes[n])) {
            status = node_run(r, b, n);
        }
    }
    return status;
}

/* Nobody looks at each step as it ends. */
static bool unwatched(const struct run_context *c)
{
    return c->profile == NULL && debug_of(c) == NULL && !c->compare && !numerics_wanted(&c->numerics);
}

/* Waits for the steps on their way that step s reads; beyond the last step: for all. After an error for what uses our memory, and the error stays. */
static enum pen_status ways_end(struct runner *r, struct bucket *b, uint32_t s, enum pen_status status)
{
    const uint32_t count = r->program->placement->step_count;
    for (uint32_t i = 0; i < s && i < count; i++) {
        struct bucket_step *step = &b->steps[i];
        if (!step->on_way || (status == PEN_OK && step->needed > s)) {
            continue;
        }
        struct pen_error unsaid = {0}, *said = r->context->error;
        r->context->error = status == PEN_OK ? said : &unsaid;
        step->on_way = false;
        enum pen_status ended = exec_finish(r, b, step);
        r->context->error = said;
        status = status == PEN_OK ? ended : status;
    }
    return status;
}

static bool any_on_way(const struct bucket *b, uint32_t s)
{
    bool any = false;
    for (uint32_t i = 0; i < s && !any; i++) {
        any = b->steps[i].on_way;
    }
    return any;
}

static enum pen_status step_run(struct runner *r, struct bucket *b, uint32_t s)
{
    struct bucket_step *step = &b->steps[s];
    enum pen_status status = PEN_OK;
    r->context->beside += any_on_way(b, s);
    if (step->exec != NULL && step->needed > s + 1 && ops_of(r, step)->is_device && unwatched(r->context)) {
        status = exec_begin(r, step);
        step->on_way = status == PEN_OK;
        return status;
    }
    if (step->exec != NULL) {
        return exec_run(r, b, step);
    }
    for (uint32_t k = 0; status == PEN_OK && k < step->placed->part.node_count; k++) {
        uint32_t node = step->placed->part.nodes[k];
        if (!shape_env_folded(b->env, &r->program->g->nodes[node])) {
            status = node_run(r, b, node);
        }
    }
    return status;
}

/* A step on a device is waited for when another reads what it makes: steps between the two run while it computes. */
static enum pen_status steps_run(struct runner *r, struct bucket *b, uint32_t first)
{
    const uint32_t count = r->program->placement->step_count;
    enum pen_status status = PEN_OK;
    for (uint32_t s = first; status == PEN_OK && s < count; s++) {
        status = ways_end(r, b, s, status);
        if (status == PEN_OK) {
            status = step_run(r, b, s);
        }
    }
    return ways_end(r, b, UINT32_MAX, status);
}

static void run_start(struct runner *r, struct bucket *b)
{
    struct run_context *c = r->context;
    if (c->running++ == 0) {
        c->run_tick = ++c->tick;
    }
    b->busy++;
}

/* A run may have taken more: scratch memory of kernels, buffers of a device that was lost. */
static enum pen_status run_end(struct runner *r, struct bucket *b, enum pen_status status)
{
    struct run_context *c = r->context;
    PEN_ASSERT(c->running > 0 && b->busy > 0, "a run that ends has begun");
    bucket_book(r, b);
    while (c->running == 1 && !c->keep_all && c->ledger.bytes > ledger_limit(&c->ledger) && bucket_evict(c)) {
    }
    b->busy--;
    c->running--;
    return status;
}

enum pen_status runner_run(struct runner *r, struct bucket *b)
{
    run_start(r, b);
    return run_end(r, b, b->interpretive ? interpretive_run(r, b) : steps_run(r, b, 0));
}

enum pen_status runner_begin(struct runner *r, struct bucket *b)
{
    PEN_ASSERT(!b->interpretive && b->steps[0].exec != NULL && b->busy < b->window,
               "so many runs of a bucket may begin ahead as its window says");
    enum pen_status status = exec_begin(r, &b->steps[0]);
    b->busy += status == PEN_OK;
    return status;
}

bool runner_done(struct runner *r, struct bucket *b, uint64_t timeout_ns)
{
    const struct backend_ops *ops = ops_of(r, &b->steps[0]);
    return ops->exec_done == NULL || ops->exec_done(b->steps[0].exec, timeout_ns);
}

enum pen_status runner_finish(struct runner *r, struct bucket *b)
{
    PEN_ASSERT(b->busy > 0 && b->steps[0].exec != NULL, "a run that is finished has begun");
    run_start(r, b);
    b->busy--; /* since runner_begin */
    enum pen_status status = PEN_OK;
    b->steps[0].on_way = unwatched(r->context);
    if (!b->steps[0].on_way) {
        status = exec_finish(r, b, &b->steps[0]);
    }
    return run_end(r, b, status == PEN_OK ? steps_run(r, b, 1) : status);
}

/* A subgraph whose shapes keep changing is run without a plan: values come from the run's arena. */
static enum pen_status bucket_for_call(struct runner *r, const struct rt_value *in, struct bucket **ret_bucket)
{
    const struct graph *g = r->program->g;
    struct shape *shapes = rt_arena_alloc(&r->context->arena, ((size_t)g->input_count + 1) * sizeof *shapes);
    if (shapes == NULL) {
        return PEN_ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < g->input_count; i++) {
        shapes[i] = in[i].kind == VALUE_TENSOR && in[i].dtype != PEN_DTYPE_NONE ? in[i].shape : shape_unknown();
    }
    return runner_bucket(r, shapes, ret_bucket, r->context->error);
}

enum pen_status runner_call(struct runner *r, const struct rt_value *in, struct rt_value *out)
{
    const struct graph *g = r->program->g;
    struct bucket *b = NULL;
    enum pen_status status = bucket_for_call(r, in, &b);
    if (status != PEN_OK) {
        return status;
    }
    for (uint32_t i = 0; i < g->input_count; i++) {
        struct rt_value *v = &b->values[g->inputs[i]];
        if (b->planned[g->inputs[i]]) {
            PEN_ASSERT(in[i].bytes >= v->bytes, "a subgraph's input has the bytes of its bucket's shapes");
            memcpy(v->data, in[i].data, v->bytes);
        } else {
            *v = in[i];
        }
    }
    status = runner_run(r, b);
    for (uint32_t o = 0; status == PEN_OK && o < g->output_count; o++) {
        out[o] = b->values[g->outputs[o]];
    }
    return status;
}
