#include "backend/reference/kernels.h"

/* Rows of kernels.def, or of the selection that PENSTOCK_KERNELS names (CMakeLists.txt). */
static const struct {
    kernel_fn fn;
    unsigned types; /* classes of the first input's dtype */
} table[OP_COUNT] = {
#define KERNEL(op, fn, types) [OP_##op] = {fn, types},
#ifdef PENSTOCK_KERNELS_SELECTED
#include "kernels_selected.def"
#else
#include "backend/reference/kernels.def"
#endif
#undef KERNEL
};

kernel_fn kernel_find(enum op op)
{
    return (unsigned)op < OP_COUNT ? table[op].fn : NULL;
}

static bool refuse(const char **ret_reason, const char *reason)
{
    if (ret_reason != NULL) {
        *ret_reason = reason;
    }
    return false;
}

bool kernel_supports(const struct graph *g, const struct node *n, const char **ret_reason)
{
    if (kernel_find(n->op) == NULL) {
        return refuse(ret_reason, "no kernel in this build");
    }
    const struct value *in = n->in_count > 0 ? node_in(g, n, 0) : NULL;
    if (in != NULL && in->dtype != PEN_DTYPE_NONE && (element_class(in->dtype) & table[n->op].types) == 0) {
        return refuse(ret_reason, "no kernel for this element type");
    }
    return true;
}
