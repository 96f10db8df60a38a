#include "backend/vulkan/seen.h"

#include "backend/vulkan/plan.h"

void vk_seen_add(struct backend *b, const struct vk_product_shape *shape, const struct window *window,
                 const struct vk_coding *coding)
{
    uint64_t macs = (uint64_t)shape->rows * shape->outs * shape->depth * shape->groups;
    pthread_mutex_lock(&b->lock);
    struct vk_seen *seen = b->seen != NULL ? &b->seen[vk_class_of(shape)] : NULL;
    if (seen != NULL && b->repeats == 0 && macs > seen->macs) {
        seen->macs = macs;
        seen->shape = *shape;
        seen->window = window != NULL ? *window : (struct window){0};
        seen->coding = coding != NULL ? *coding : (struct vk_coding){0};
    }
    pthread_mutex_unlock(&b->lock);
}
