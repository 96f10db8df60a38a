#include <string.h>

#include "backend/vulkan/ops/ops.h"
#include "graph/kept.h"

/* Which family takes an operator: the rows of ops.def, as far as they are in this build. */
static const struct vk_op *const table[OP_COUNT] = {
#define VK_OP(op, family) [OP_##op] = KEPT_ROW(vulkan_##op, &(family)),
#define VK_SHADERS(family, list)
#include "backend/vulkan/ops/ops.def"
#undef VK_OP
#undef VK_SHADERS
};

const struct vk_op *vk_op_find(enum op op)
{
    return op < OP_COUNT ? table[op] : NULL;
}

/* By the names of families, so that none is linked for its name's sake. */
const char *vk_op_shaders(enum op op)
{
    static const char *const families[OP_COUNT] = {
#define VK_OP(op, family) [OP_##op] = #family,
#define VK_SHADERS(family, list)
#include "backend/vulkan/ops/ops.def"
#undef VK_OP
#undef VK_SHADERS
    };
    static const char *const lists[][2] = {
#define VK_OP(op, family)
#define VK_SHADERS(family, list) {#family, list},
#include "backend/vulkan/ops/ops.def"
#undef VK_OP
#undef VK_SHADERS
    };
    const char *family = op < OP_COUNT ? families[op] : NULL;
    for (size_t i = 0; family != NULL && i < sizeof lists / sizeof lists[0]; i++) {
        if (strcmp(lists[i][0], family) == 0) {
            return lists[i][1];
        }
    }
    return NULL;
}
