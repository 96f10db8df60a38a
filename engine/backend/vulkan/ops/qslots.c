#include "backend/vulkan/ops/qproduct.h"

struct vk_qslots vk_qslots_of(enum op op)
{
    const uint32_t no = UINT32_MAX;
    switch (op) {
    case OP_QLinearConv:
        return (struct vk_qslots){0, 1, 2, 3, 4, 5, 6, 7, 8};
    case OP_QLinearMatMul:
        return (struct vk_qslots){0, 1, 2, 3, 4, 5, 6, 7, no};
    case OP_QGemm:
        return (struct vk_qslots){0, 1, 2, 3, 4, 5, 7, 8, 6};
    default:
        return (struct vk_qslots){0, no, 2, 1, no, 3, no, no, no};
    }
}

bool vk_qconvolves(enum op op)
{
    return op == OP_QLinearConv || op == OP_ConvInteger;
}

bool vk_qsums(enum op op)
{
    return op == OP_ConvInteger || op == OP_MatMulInteger;
}
