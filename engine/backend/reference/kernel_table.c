#include "backend/kept_types.h"
#include "backend/reference/kernels.h"
#include "graph/kept.h"

/* Rows of kernels.def, as far as they are in this build. */
static const struct {
    kernel_fn fn;
    unsigned types; /* classes of the first input's dtype */
} table[OP_COUNT] = {
#define KERNEL(op, fn, types) [OP_##op] = {KEPT_ROW(reference_##op, fn), types},
#include "backend/reference/kernels.def"
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
    if (!kept_takes(KEPT_REFERENCE, g, n)) {
        return refuse(ret_reason, "no kernel for this element type in this build");
    }
    return true;
}
