#include "backend/vulkan/storage_memo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/vulkan/pipeline.h"
#include "backend/vulkan/plan.h"
#include "graph/memo.h"

/* As it is kept: the deviations, how many nodes, then a byte per node of the partition. */
struct head {
    double before, after;
    uint64_t nodes;
};

static const struct memo *memo_of(const struct graph *g)
{
    while (g->parent != NULL) {
        g = g->parent;
    }
    return g->memo;
}

static void fact_add(struct digest_stream *key, const struct fact *f)
{
    digest_update_u64(key, f->dtype);
    digest_update_u64(key, (uint64_t)f->shape.rank);
    for (int32_t d = 0; d < f->shape.rank; d++) {
        digest_update_u64(key, (uint64_t)f->shape.dim[d]);
    }
}

static void nodes_add(struct digest_stream *key, const struct plan *plan, const struct shape_env *env)
{
    const struct partition *part = &plan->part;
    digest_update_u64(key, part->node_count);
    for (uint32_t i = 0; i < part->node_count; i++) {
        const struct node *n = &plan->g->nodes[part->nodes[i]];
        digest_update_u64(key, part->nodes[i]);
        digest_update_u64(key, n->op);
        digest_update_text(key, n->name != NULL ? n->name : "");
        for (uint32_t o = 0; o < n->out_count; o++) {
            if (n->out[o] != VALUE_NONE) {
                fact_add(key, &env->facts[n->out[o]]);
            }
        }
    }
    for (uint32_t i = 0; i < part->in_count; i++) {
        fact_add(key, &env->facts[part->in[i]]);
    }
}

/* Kernels round alike whatever family they are of, but not to the last bit: what was tuned is no part of it, what was asked for is. */
static void device_add(struct digest_stream *key, const struct backend *b)
{
    struct vk_cache_key device = vk_cache_key_of(&b->device->info);
    digest_update(key, &device, sizeof device);
    digest_update_u64(key, vk_backend_precision(b));
    digest_update_u64(key, (uint64_t)b->kernels.only);
    digest_update_u64(key, (uint64_t)b->range);
}

static bool key_make(const struct plan *plan, const struct shape_env *env, struct digest *ret_key)
{
    const struct memo *memo = memo_of(plan->g);
    struct digest_stream *key = memo != NULL ? memo_key(memo, MEMO_STORAGE) : NULL;
    if (key == NULL) {
        return false;
    }
    device_add(key, plan->backend);
    nodes_add(key, plan, env);
    *ret_key = digest_final(key);
    digest_free(key);
    return true;
}

static size_t bytes_of(const struct plan *plan)
{
    return sizeof(struct head) + plan->part.node_count;
}

static bool head_sound(const struct plan *plan, const struct head *h)
{
    return h->nodes == plan->part.node_count && h->before >= 0.0 && h->after >= 0.0;
}

static bool take(struct plan *plan, const uint8_t *value)
{
    struct head head;
    bool sound = true;
    memcpy(&head, value, sizeof head);
    for (uint32_t i = 0; i < plan->part.node_count; i++) {
        sound = sound && value[sizeof head + i] <= 1;
    }
    if (!sound || !head_sound(plan, &head)) {
        return false;
    }
    for (uint32_t i = 0; i < plan->part.node_count; i++) {
        plan->wide[plan->part.nodes[i]] = value[sizeof head + i] != 0;
    }
    plan->storage.before = head.before;
    plan->storage.after = head.after;
    return true;
}

bool vk_storage_recall(struct plan *plan, const struct shape_env *env)
{
    struct digest key;
    size_t bytes = 0;
    uint8_t *value = bytes_of(plan) <= MEMO_VALUE_MAX && key_make(plan, env, &key) ? malloc(bytes_of(plan)) : NULL;
    bool there = value != NULL && memo_find(memo_of(plan->g), &key, MEMO_STORAGE, value, bytes_of(plan), &bytes) &&
                 bytes == bytes_of(plan) && take(plan, value);
    free(value);
    if (there) {
        memo_count_found();
    }
    return there;
}

void vk_storage_keep(const struct plan *plan, const struct shape_env *env)
{
    struct digest key;
    const struct head head = {
        .before = plan->storage.before, .after = plan->storage.after, .nodes = plan->part.node_count};
    uint8_t *value = bytes_of(plan) <= MEMO_VALUE_MAX && key_make(plan, env, &key) ? malloc(bytes_of(plan)) : NULL;
    if (value == NULL) {
        return;
    }
    memcpy(value, &head, sizeof head);
    for (uint32_t i = 0; i < plan->part.node_count; i++) {
        value[sizeof head + i] = plan->wide[plan->part.nodes[i]];
    }
    (void)memo_put(memo_of(plan->g), &key, MEMO_STORAGE, value, bytes_of(plan));
    free(value);
}
