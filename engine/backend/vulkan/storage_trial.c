#include "backend/vulkan/storage_trial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/tolerance.h"
#include "backend/vulkan/debug.h"
#include "backend/vulkan/single.h"
#include "graph/lifetime.h"

/* Seeded inputs: nobody knows a model's range, and pictures come in these. Integers are 0: an index that exists everywhere. */
static const struct {
    float low, high, largest; /* largest: of a node's values; inputs to 255 are far beyond what most models are fed */
} patterns[] = {{0.0f, 1.0f, 4096.0f}, {-1.0f, 1.0f, 4096.0f}, {0.0f, 255.0f, 32768.0f}};
#define SMALLEST 1e-3f /* all of a node's values below it: f16 has few digits left */
#define PATTERNS (sizeof patterns / sizeof patterns[0])

struct vk_trial {
    struct plan *plan;
    const struct shape_env *env;
    struct buffer_view *in;       /* [PATTERNS][in_count] */
    struct buffer_view *expected; /* [PATTERNS][out_count]: all nodes wide */
    struct buffer_view *got;      /* [out_count] */
    bool *beyond;                 /* [node_count of the partition] */
    double *deviations;           /* [PATTERNS][out_count] of the last run */
    struct tolerance bound;       /* how far a whole model may be off */
};

static enum pen_status views_make(struct buffer_view **ret_views, size_t sets, const uint32_t *ids, uint32_t count,
                                  const struct shape_env *env, struct pen_error *reterr)
{
    struct buffer_view *views = calloc(sets * count + 1, sizeof *views);
    *ret_views = views;
    for (size_t i = 0; views != NULL && i < sets * count; i++) {
        const struct fact *f = &env->facts[ids[i % count]];
        if (!shape_known(&f->shape) || shape_bytes(&f->shape, f->dtype, 0, &views[i].bytes) != PEN_OK) {
            return pen_error_set(reterr, PEN_ERR_UNSUPPORTED, "vulkan: the shape of %s depends on data",
                                 env->g->values[ids[i % count]].name);
        }
        views[i].shape = f->shape;
        views[i].dtype = f->dtype;
        views[i].data = f->data == NULL ? calloc(1, views[i].bytes + LIFETIME_PAD) : NULL;
        if (f->data == NULL && views[i].data == NULL) {
            return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a trial");
        }
    }
    return views != NULL ? PEN_OK : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a trial");
}

static void views_free(struct buffer_view *views, size_t count)
{
    for (size_t i = 0; views != NULL && i < count; i++) {
        free(views[i].data);
    }
    free(views);
}

static void fill(struct buffer_view *v, size_t pattern, uint32_t seed)
{
    size_t count = v->data != NULL ? (size_t)shape_elements(&v->shape) : 0;
    for (size_t i = 0; i < count; i++) {
        float x = patterns[pattern].low + (patterns[pattern].high - patterns[pattern].low) * vk_single_next(&seed);
        if (v->dtype == PEN_DTYPE_F32) {
            ((float *)v->data)[i] = x;
        } else if (v->dtype == PEN_DTYPE_F16) {
            ((uint16_t *)v->data)[i] = pen_f32_to_f16(x);
        }
    }
}

static double deviation_of(const struct buffer_view *expected, const struct buffer_view *got,
                           const struct tolerance *bound)
{
    double errors = 0.0, squares = 0.0, worst = 0.0, range = 0.0;
    size_t count = expected->dtype == PEN_DTYPE_F32 ? (size_t)shape_elements(&expected->shape) : 0;
    for (size_t i = 0; i < count; i++) {
        double x = (double)((const float *)expected->data)[i], d = (double)((const float *)got->data)[i] - x;
        if (!isfinite(x)) {
            continue;
        }
        if (!isfinite(d)) {
            return HUGE_VAL;
        }
        errors += d * d;
        squares += x * x;
        worst = fmax(worst, fabs(d));
        range = fmax(range, fabs(x));
    }
    if (errors == 0.0) {
        return 0.0;
    }
    return squares == 0.0 ? HUGE_VAL : fmax(errors / squares / bound->nmse, pow(worst / range / bound->rtol, 2.0));
}

/* One exec over all inputs; outputs into out + i * step. deviations: [PATTERNS][out_count], written unless it is the first. */
static enum pen_status all_run(struct vk_trial *t, const bool *wide, bool first, double *deviations,
                               struct pen_error *reterr)
{
    const struct partition *part = &t->plan->part;
    struct plan *p = NULL;
    struct exec *exec = NULL;
    enum pen_status status = vk_plan_shell(t->plan->backend, t->plan->g, part, &p, reterr);
    if (status == PEN_OK) {
        memcpy(p->wide, wide, t->plan->g->node_count * sizeof *wide);
        p->trial = true;
        p->looked = first;
        status = vk_exec_make(p, t->env, &exec, reterr);
    }
    for (size_t k = 0; status == PEN_OK && k < PATTERNS; k++) {
        struct buffer_view *expected = t->expected + k * part->out_count, *out = first ? expected : t->got;
        status = vk_exec_submit(exec, t->in + k * part->in_count, out, NULL, reterr);
        if (status == PEN_OK) {
            status = vk_exec_wait(exec, reterr);
        }
        for (uint32_t i = 0; status == PEN_OK && first && i < part->node_count; i++) {
            float largest = vk_debug_largest(exec, i);
            t->beyond[i] = t->beyond[i] || largest > patterns[k].largest || (largest > 0.0f && largest < SMALLEST);
        }
        for (uint32_t i = 0; status == PEN_OK && !first && i < part->out_count; i++) {
            deviations[k * part->out_count + i] =
                expected[i].data != NULL ? deviation_of(&expected[i], &out[i], &t->bound) : 0.0;
        }
    }
    vk_exec_free(exec);
    vk_plan_free(p);
    return status;
}

enum pen_status vk_trial_run(struct vk_trial *t, const bool *wide, double *ret_deviation, struct pen_error *reterr)
{
    enum pen_status status = all_run(t, wide, false, t->deviations, reterr);
    double worst = 0.0;
    for (size_t i = 0; status == PEN_OK && i < vk_trial_measures(t); i++) {
        worst = fmax(worst, t->deviations[i]);
    }
    *ret_deviation = worst;
    return status;
}

size_t vk_trial_measures(const struct vk_trial *t)
{
    return PATTERNS * t->plan->part.out_count;
}

const double *vk_trial_deviations(const struct vk_trial *t)
{
    return t->deviations;
}

static enum pen_status inputs_run(struct vk_trial *t, struct pen_error *reterr)
{
    const struct graph *g = t->plan->g;
    bool *all = malloc((size_t)g->node_count + 1);
    if (all == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a trial");
    }
    memset(all, true, g->node_count);
    for (size_t i = 0; i < PATTERNS * t->plan->part.in_count; i++) {
        fill(&t->in[i], i / t->plan->part.in_count, (uint32_t)i + 1);
    }
    enum pen_status status = all_run(t, all, true, NULL, reterr);
    free(all);
    return status;
}

enum pen_status vk_trial_new(struct plan *plan, const struct shape_env *env, struct vk_trial **ret_trial,
                             struct pen_error *reterr)
{
    const struct partition *part = &plan->part;
    struct vk_trial *t = calloc(1, sizeof *t);
    if (t == NULL) {
        return pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a trial");
    }
    t->plan = plan;
    t->env = env;
    t->bound = tolerance_golden(vk_backend_precision(plan->backend), false, false);
    t->beyond = calloc((size_t)part->node_count + 1, sizeof *t->beyond);
    t->deviations = calloc(vk_trial_measures(t) + 1, sizeof *t->deviations);
    enum pen_status status = t->beyond != NULL && t->deviations != NULL
                                 ? views_make(&t->in, PATTERNS, part->in, part->in_count, env, reterr)
                                 : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a trial");
    if (status == PEN_OK) {
        status = views_make(&t->expected, PATTERNS, part->out, part->out_count, env, reterr);
    }
    if (status == PEN_OK) {
        status = views_make(&t->got, 1, part->out, part->out_count, env, reterr);
    }
    if (status == PEN_OK) {
        status = inputs_run(t, reterr);
    }
    if (status != PEN_OK) {
        vk_trial_free(t);
        return status;
    }
    *ret_trial = t;
    return PEN_OK;
}

void vk_trial_free(struct vk_trial *t)
{
    if (t == NULL) {
        return;
    }
    views_free(t->in, PATTERNS * t->plan->part.in_count);
    views_free(t->expected, PATTERNS * t->plan->part.out_count);
    views_free(t->got, t->plan->part.out_count);
    free(t->beyond);
    free(t->deviations);
    free(t);
}

bool vk_trial_beyond(const struct vk_trial *t, uint32_t index)
{
    return t->beyond[index];
}

size_t vk_trial_samples(const struct vk_trial *t)
{
    size_t samples = 0;
    for (size_t i = 0; i < PATTERNS * t->plan->part.out_count; i++) {
        const struct buffer_view *v = &t->expected[i];
        samples += v->dtype == PEN_DTYPE_F32 ? (size_t)shape_elements(&v->shape) : 0;
    }
    return samples;
}

uint64_t vk_storage_bytes(const struct plan *plan, const struct shape_env *env, uint32_t index)
{
    const struct node *n = &plan->g->nodes[plan->part.nodes[index]];
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < n->in_count + n->out_count; k++) {
        uint32_t id = k < n->in_count ? n->in[k] : n->out[k - n->in_count];
        size_t own = 0;
        bool counts = id != VALUE_NONE && (k >= n->in_count || plan->g->values[id].data != NULL) &&
                      env->facts[id].dtype == PEN_DTYPE_F32;
        if (counts && shape_bytes(&env->facts[id].shape, PEN_DTYPE_F32, 0, &own) == PEN_OK) {
            bytes += own;
        }
    }
    return bytes;
}
