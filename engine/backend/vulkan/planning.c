#include "backend/vulkan/plan.h"

#include <stdio.h>
#include <string.h>

#include "assertion.h"

/*
 * A device that is lost while a model is loaded or its runs are prepared is opened again, and what was on its way begins anew: only runs are given back to their
 * caller, as he has their inputs.
 */
#define LOSSES_MOST 2 /* of one plan or exec: what kills each device is the model */

static enum pen_status survive(struct backend *b, enum pen_status (*make)(void *what, struct pen_error *reterr),
                               void *what, struct pen_error *reterr)
{
    struct pen_error why = {0};
    enum pen_status status = PEN_ERR_DEVICE_LOST;
    for (uint32_t tries = 0; status == PEN_ERR_DEVICE_LOST && tries <= LOSSES_MOST; tries++) {
        struct vk_device *d = NULL;
        status = vk_backend_device(b, &d, &why);
        if (status == PEN_OK) {
            status = make(what, &why);
        }
        if (status == PEN_ERR_DEVICE_LOST && d != NULL) {
            atomic_store(&d->lost, true); /* whichever call said so */
        }
        vk_device_release(d);
    }
    return status == PEN_OK ? PEN_OK : pen_error_set(reterr, status, "%s", why.text);
}

/* What a plan is made of. like: a plan of the same partition on another device, or NULL. Where both store floats in the same form, its choice of what keeps f32 is
 * this one's too. */
struct planned {
    struct backend *backend;
    const struct graph *g;
    const struct partition *part;
    const struct plan *like;
    struct plan *made;
};

static enum pen_status plan_try(void *what, struct pen_error *reterr)
{
    struct planned *w = what;
    struct backend *backend = w->backend;
    const struct plan *like = w->like;
    struct plan *p = NULL;
    struct vk_weights *weights = NULL;
    enum pen_status status = vk_plan_shell(backend, w->g, w->part, &p, reterr);
    if (status == PEN_OK && like != NULL && like->backend->device->form == backend->device->form) {
        memcpy(p->wide, like->wide, w->g->node_count * sizeof *p->wide);
        p->storage = like->storage;
    } else if (status == PEN_OK && backend->device->f16 && backend->f16_trial) {
        status = vk_storage_open(p, reterr);
    }
    if (status == PEN_OK) {
        status = vk_plan_weights(p, &weights, reterr);
        vk_weights_release(weights);
    }
    if (status == PEN_OK) {
        status = vk_instance_check(backend->instance, reterr);
    }
    if (status != PEN_OK) {
        vk_plan_free(p);
        return status;
    }
    w->made = p;
    return PEN_OK;
}

static enum pen_status plan_make(struct backend *backend, const struct graph *g, const struct partition *part,
                                 const struct plan *like, struct plan **ret_plan, struct pen_error *reterr)
{
    struct planned w = {.backend = backend, .g = g, .part = part, .like = like};
    enum pen_status status = survive(backend, plan_try, &w, reterr);
    if (status == PEN_OK) {
        *ret_plan = w.made;
    }
    return status;
}

/* The same partition on each further device of the backend. One without room for it is left out: the others share the work. */
static enum pen_status siblings_make(struct plan *p, struct pen_error *reterr)
{
    enum pen_status status = vk_several_spread(p, reterr);
    for (uint32_t i = 0; status == PEN_OK && i < p->backend->beside_count; i++) {
        struct pen_error why = {0};
        status = plan_make(p->backend->beside[i], p->g, &p->part, p, &p->beside[i], &why);
        if (status == PEN_ERR_NO_MEMORY && atomic_load(&p->backend->beside[i]->device->refused) > 0) {
            p->left_out++;
            status = PEN_OK;
        } else if (status != PEN_OK) {
            pen_error_set(reterr, status, "%s", why.text);
        }
    }
    return status;
}

enum pen_status vk_plan_new(struct backend *backend, const struct graph *g, const struct partition *part,
                            struct plan **ret_plan, struct pen_error *reterr)
{
    struct plan *p = NULL;
    enum pen_status status = plan_make(backend, g, part, NULL, &p, reterr);
    if (status == PEN_OK) {
        status = siblings_make(p, reterr);
    }
    if (status != PEN_OK) {
        vk_plan_free(p);
        return status;
    }
    *ret_plan = p;
    return PEN_OK;
}

/* What an exec is made of. */
struct prepared {
    struct plan *plan;
    const struct shape_env *env;
    struct exec *made;
};

static enum pen_status exec_try(void *what, struct pen_error *reterr)
{
    struct prepared *w = what;
    enum pen_status status = vk_storage_settle(w->plan, w->env, reterr);
    return status == PEN_OK ? vk_exec_make(w->plan, w->env, &w->made, reterr) : status;
}

enum pen_status vk_exec_new(struct plan *plan, const struct shape_env *env, struct exec **ret_exec,
                            struct pen_error *reterr)
{
    struct prepared w = {.plan = vk_several_choose(plan, env), .env = env};
    PEN_ASSERT(w.plan != NULL && w.plan->g == plan->g && !w.plan->trial,
               "an exec is one of the plan or of its siblings");
    enum pen_status status = survive(w.plan->backend, exec_try, &w, reterr);
    if (status == PEN_OK) {
        *ret_exec = w.made;
    }
    return status;
}

void vk_plan_note(const struct plan *plan, char *text, size_t bytes)
{
    char layers[320];
    int used = 0;
    if (plan->weights != NULL && plan->weights->range.layers > 0) {
        vk_range_text(&plan->weights->range, layers, sizeof layers);
        used = snprintf(text, bytes, "f16 cannot hold weights of %s", layers);
    }
    if (plan->left_out > 0 && used >= 0 && (size_t)used < bytes) {
        used += snprintf(text + used, bytes - (size_t)used, "%s%u of %u devices have no room for it",
                         used > 0 ? "; " : "", plan->left_out, plan->backend->beside_count + 1);
    }
    if (used >= 0 && (size_t)used < bytes) {
        vk_storage_text(&plan->storage, text + used, bytes - (size_t)used, used > 0 ? "; " : "");
    }
}
