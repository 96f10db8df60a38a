#include <stdlib.h>

#include "assertion.h"
#include "backend/vulkan/plan.h"

/*
 * One backend over several devices: its first device is its own, every further one has a whole backend of its own, with its instance, pipelines and self-test.
 * A plan has a sibling on each, an exec belongs to one of them; nothing below knows of the others, and the loss of one device is that device's matter.
 */

/* How often execs of the same input shapes were asked for: a small table, the oldest shapes go first. */
#define SHAPES_KEPT 64

struct vk_spread {
    uint64_t shapes[SHAPES_KEPT];
    uint32_t asked[SHAPES_KEPT];
    uint32_t count, next;
};

enum pen_status vk_several_open(struct backend *b, const struct backend_ops *ops, const struct backend_config *config,
                                struct pen_error *reterr)
{
    enum pen_status status = PEN_OK;
    if (config->vulkan.beside_count > VK_BESIDE_MAX) {
        return pen_error_set(reterr, PEN_ERR_INVALID, "%zu Vulkan devices: %d are the most",
                             config->vulkan.beside_count + 1, VK_BESIDE_MAX + 1);
    }
    for (size_t i = 0; status == PEN_OK && i < config->vulkan.beside_count; i++) {
        struct backend_config one = *config;
        one.vulkan.device = config->vulkan.beside[i];
        one.vulkan.beside = NULL;
        one.vulkan.beside_count = 0;
        status = ops->open(&one, &b->beside[i], reterr);
        b->beside_count += status == PEN_OK;
    }
    return status;
}

void vk_several_close(struct backend *b, const struct backend_ops *ops)
{
    for (uint32_t i = 0; i < b->beside_count; i++) {
        ops->close(b->beside[i]);
    }
    b->beside_count = 0;
}

enum pen_status vk_several_spread(struct plan *plan, struct pen_error *reterr)
{
    if (plan->backend->beside_count == 0) {
        return PEN_OK;
    }
    plan->spread = calloc(1, sizeof *plan->spread);
    return plan->spread != NULL
               ? PEN_OK
               : pen_error_set(reterr, PEN_ERR_NO_MEMORY, "vulkan: no memory for a plan on several devices");
}

/* FNV-1a over the dims of the partition's inputs. */
static uint64_t shapes_hash(const struct plan *plan, const struct shape_env *env)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (uint32_t i = 0; i < plan->part.in_count; i++) {
        const struct shape *s = &env->facts[plan->part.in[i]].shape;
        for (int32_t d = 0; d < s->rank; d++) {
            hash = (hash ^ (uint64_t)s->dim[d]) * 0x100000001B3u;
        }
        hash = (hash ^ (uint64_t)s->rank) * 0x100000001B3u;
    }
    return hash;
}

static uint32_t spread_turn(struct vk_spread *s, uint64_t shapes)
{
    uint32_t at = 0;
    while (at < s->count && s->shapes[at] != shapes) {
        at++;
    }
    if (at == s->count) {
        at = s->count < SHAPES_KEPT ? s->count++ : s->next++ % SHAPES_KEPT;
        s->shapes[at] = shapes;
        s->asked[at] = 0;
    }
    PEN_ASSERT(at < s->count && s->count <= SHAPES_KEPT, "shapes that are counted have a place in the table");
    return s->asked[at]++;
}

struct plan *vk_several_choose(struct plan *plan, const struct shape_env *env)
{
    if (plan->spread == NULL) { /* one device; or a plan of its own: a trial's, the tuner's */
        return plan;
    }
    pthread_mutex_lock(&plan->lock);
    const uint32_t count = plan->backend->beside_count + 1;
    uint32_t turn = spread_turn(plan->spread, shapes_hash(plan, env)) % (count - plan->left_out);
    pthread_mutex_unlock(&plan->lock);
    for (uint32_t i = 0; turn > 0 && i + 1 < count; i++) { /* past the devices that have no room */
        if (plan->beside[i] != NULL && --turn == 0) {
            return plan->beside[i];
        }
    }
    PEN_ASSERT(turn == 0, "a plan that is spread has a sibling on each further device that has room");
    return plan;
}
