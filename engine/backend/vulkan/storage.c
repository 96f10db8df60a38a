#include "backend/vulkan/storage.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertion.h"
#include "backend/vulkan/ops/ops.h"
#include "backend/vulkan/storage_memo.h"
#include "backend/vulkan/storage_pieces.h"
#include "backend/vulkan/storage_trial.h"
#include "graph/memo.h"

/* Deviations on seeded inputs stay below this share of the bound (of its square, as errors of nodes add up): real inputs differ from seeded ones. */
#define SHARE 0.2
/* Numbers compared: of fewer some choice of pieces comes out right by chance (a model with one input and one output has three). */
#define SAMPLES_MIN 48

/* ---- which nodes ---- */

/* Functions that amplify a rounding error or leave the range of f16, sums over many terms, and states that a step hands to the next. */
static bool delicate(enum op op)
{
    static const bool ops[OP_COUNT] = {[OP_Exp] = true,        [OP_Log] = true,          [OP_Pow] = true,
                                       [OP_Sqrt] = true,       [OP_Reciprocal] = true,   [OP_ReduceL1] = true,
                                       [OP_ReduceL2] = true,   [OP_ReduceLogSum] = true, [OP_ReduceMean] = true,
                                       [OP_ReduceProd] = true, [OP_ReduceSum] = true,    [OP_ReduceSumSquare] = true,
                                       [OP_LSTM] = true,       [OP_GRU] = true,          [OP_ReduceLogSumExp] = true};
    return op < OP_COUNT && ops[op];
}

static bool plain(const struct node *n)
{
    return vk_op_find(n->op) == &vk_op_elementwise || vk_op_find(n->op) == &vk_op_view;
}

/* Do all readers of the node's output, in the partition, keep f32? False when it has none. */
static bool read_wide(const struct plan *plan, const struct node *n, uint32_t index)
{
    bool any = false;
    for (uint32_t i = index + 1; i < plan->part.node_count; i++) {
        const struct node *reader = &plan->g->nodes[plan->part.nodes[i]];
        for (uint32_t k = 0; k < reader->in_count; k++) {
            if (reader->in[k] == n->out[0]) {
                any = true;
                if (!plan->wide[plan->part.nodes[i]]) {
                    return false;
                }
            }
        }
    }
    return any;
}

static bool leaves(const struct plan *plan, const struct node *n)
{
    for (uint32_t i = 0; i < plan->part.out_count; i++) {
        if (plan->part.out[i] == n->out[0]) {
            return true;
        }
    }
    return false;
}

/* Nodes that make or read values near the ends of f16's range. */
static void beyond_apply(struct plan *plan, const struct vk_trial *t)
{
    const struct partition *part = &plan->part;
    for (uint32_t i = 0; i < part->node_count; i++) {
        plan->wide[part->nodes[i]] = vk_trial_beyond(t, i);
    }
    for (uint32_t i = part->node_count; i-- > 0;) { /* from the back: makers are not readers yet */
        const struct node *n = &plan->g->nodes[part->nodes[i]];
        for (uint32_t k = 0; k < n->in_count; k++) {
            uint32_t maker = n->in[k] != VALUE_NONE ? plan->g->values[n->in[k]].producer : NODE_NONE;
            plan->wide[part->nodes[i]] = plan->wide[part->nodes[i]] || (maker != NODE_NONE && plan->wide[maker]);
        }
    }
}

/* Those, delicate nodes, plain ones that feed only such, and plain ones whose result leaves. */
static void rules_apply(struct plan *plan, const struct vk_trial *t)
{
    const struct partition *part = &plan->part;
    beyond_apply(plan, t);
    for (uint32_t i = part->node_count; i-- > 0;) {
        const struct node *n = &plan->g->nodes[part->nodes[i]];
        bool *wide = &plan->wide[part->nodes[i]];
        *wide = *wide || delicate(n->op) || (plain(n) && (leaves(plan, n) || read_wide(plan, n, i)));
    }
}

/* The rules, and the first `count` nodes. */
static void prefix_apply(struct plan *plan, const struct vk_trial *t, uint32_t count)
{
    rules_apply(plan, t);
    for (uint32_t i = 0; i < count; i++) {
        plan->wide[plan->part.nodes[i]] = true;
    }
}

/* The fewest leading nodes with which the deviation is small enough, within a thirty-second of all nodes. */
static enum pen_status prefix_find(struct plan *plan, struct vk_trial *t, struct pen_error *reterr)
{
    uint32_t n = plan->part.node_count, low = 0, high = n, grain = n / 32 + 1;
    double after = 0.0;
    enum pen_status status = PEN_OK;
    while (status == PEN_OK && high - low > grain) {
        uint32_t middle = low + (high - low) / 2;
        double deviation = 0.0;
        prefix_apply(plan, t, middle);
        status = vk_trial_run(t, plan->wide, &deviation, reterr);
        if (deviation <= SHARE) {
            high = middle;
            after = deviation;
        } else {
            low = middle;
        }
    }
    prefix_apply(plan, t, high);
    plan->storage.after = after;
    return status;
}

static void bytes_count(struct plan *plan, const struct shape_env *env)
{
    struct vk_storage *s = &plan->storage;
    for (uint32_t i = 0; i < plan->part.node_count; i++) {
        uint64_t bytes = vk_storage_bytes(plan, env, i);
        bool wide = plan->wide[plan->part.nodes[i]];
        s->nodes += bytes > 0;
        s->wide += bytes > 0 && wide;
        s->bytes += wide ? bytes : bytes / 2;
        s->bytes_f16 += wide ? 0 : bytes / 2;
    }
}

static enum pen_status search(struct plan *plan, const struct shape_env *env, struct pen_error *reterr)
{
    struct vk_trial *t = NULL;
    enum pen_status status = vk_trial_new(plan, env, &t, reterr);
    if (status == PEN_OK) {
        beyond_apply(plan, t);
        status = vk_trial_run(t, plan->wide, &plan->storage.before, reterr);
        plan->storage.after = plan->storage.before;
    }
    if (status == PEN_OK && plan->storage.before > SHARE) {
        rules_apply(plan, t);
        status = vk_trial_run(t, plan->wide, &plan->storage.after, reterr);
        if (status == PEN_OK && plan->storage.after > SHARE) {
            status = prefix_find(plan, t, reterr);
            bool all = plan->storage.after == 0.0; /* of them: then piece by piece, where chance cannot choose */
            if (status == PEN_OK && all && vk_trial_samples(t) >= SAMPLES_MIN) {
                status = vk_pieces_find(plan, t, env, SHARE, &plan->storage.after, reterr);
            }
        }
    }
    vk_trial_free(t);
    return status;
}

/* Under the plan's lock. A partition that does not run on seeded inputs (an index out of range, a shape that depends on data, no room for weights in f32) stays as it is. */
static enum pen_status settle(struct plan *plan, const struct shape_env *env, struct pen_error *reterr)
{
    PEN_ASSERT(plan->storage.state == VK_STORAGE_OPEN && !plan->trial, "a plan's storage is settled once");
    struct pen_error why = {0};
    enum pen_status status = PEN_OK;
    if (!vk_storage_recall(plan, env)) {
        memo_count_made();
        status = search(plan, env, &why);
        if (status == PEN_OK) {
            vk_storage_keep(plan, env);
        }
    }
    plan->storage.state = status == PEN_OK ? VK_STORAGE_SETTLED : VK_STORAGE_UNTRIED;
    if (status == PEN_ERR_DEVICE_LOST) {
        plan->storage.state = VK_STORAGE_OPEN;
        return pen_error_set(reterr, status, "%s", why.text);
    }
    if (status != PEN_OK) {
        memset(plan->wide, 0, plan->g->node_count * sizeof *plan->wide);
        snprintf(plan->storage.why, sizeof plan->storage.why, "%.199s",
                 why.text[0] != '\0' ? why.text : pen_status_name(status));
    }
    bytes_count(plan, env);
    PEN_ASSERT(plan->storage.wide <= plan->storage.nodes && plan->storage.bytes_f16 <= plan->storage.bytes,
               "what is f16 is a part of all");
    vk_weights_release(plan->weights);
    plan->weights = NULL;
    return PEN_OK;
}

enum pen_status vk_storage_settle(struct plan *plan, const struct shape_env *env, struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    pthread_mutex_lock(&plan->lock);
    if (plan->storage.state == VK_STORAGE_OPEN) {
        status = settle(plan, env, reterr);
    }
    pthread_mutex_unlock(&plan->lock);
    return status;
}

/* Are all sizes known of what crosses the partition's boundary? */
static bool boundary_known(const struct partition *part, const struct shape_env *env)
{
    bool known = true;
    for (uint32_t i = 0; i < part->in_count + part->out_count; i++) {
        uint32_t value = i < part->in_count ? part->in[i] : part->out[i - part->in_count];
        known = known && shape_known(&env->facts[value].shape);
    }
    return known;
}

enum pen_status vk_storage_open(struct plan *plan, struct pen_error *reterr)
{
    struct shape_env *env = NULL;
    enum pen_status status = trial_env_usual(plan->g, &env, reterr);
    if (status != PEN_OK) {
        return status;
    }
    plan->storage.state = VK_STORAGE_OPEN;
    status = boundary_known(&plan->part, env) ? vk_storage_settle(plan, env, reterr) : PEN_OK;
    shape_env_free(env);
    return status;
}

void vk_storage_text(const struct vk_storage *s, char *text, size_t bytes, const char *before)
{
    if (s->state == VK_STORAGE_SETTLED && s->wide > 0) {
        snprintf(text, bytes,
                 "%sf32 for %u of %u nodes, %.0f %% of bytes are f16: deviation %.2g of the bound, was %.2g", before,
                 s->wide, s->nodes, 100.0 * (double)s->bytes_f16 / (double)(s->bytes > 0 ? s->bytes : 1),
                 sqrt(s->after), sqrt(s->before));
    } else if (s->state == VK_STORAGE_UNTRIED) {
        snprintf(text, bytes, "%sall f16, not tried: %s", before, s->why);
    } else if (s->state == VK_STORAGE_OPEN) {
        snprintf(text, bytes, "%swhat needs f32 is tried in the first run: its shapes follow from data", before);
    }
}
