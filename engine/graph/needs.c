#include "graph/needs.h"

#include <stdatomic.h>

static _Atomic(const struct needs_watcher *) watching;

void needs_watch(const struct needs_watcher *watcher)
{
    atomic_store_explicit(&watching, watcher, memory_order_release);
}

void needs_note(const char *where, enum op op, enum pen_dtype type)
{
    const struct needs_watcher *w = atomic_load_explicit(&watching, memory_order_acquire);
    if (w != NULL) {
        w->note(w->context, where, op, type);
    }
}

void needs_note_node(const struct graph *g, const struct node *n)
{
    static const enum op acts[] = {
        [ACT_NONE] = OP_NONE,       [ACT_CLAMP] = OP_Clip, [ACT_HARDSWISH] = OP_HardSwish, [ACT_LEAKY] = OP_LeakyRelu,
        [ACT_SIGMOID] = OP_Sigmoid, [ACT_TANH] = OP_Tanh,  [ACT_SWISH] = OP_Swish};
    if (atomic_load_explicit(&watching, memory_order_relaxed) == NULL) {
        return;
    }
    const struct value *in = n->in_count > 0 ? node_in(g, n, 0) : NULL;
    int64_t act = node_int(n, ATTR_act, ACT_NONE);
    needs_note("graph", n->op, in != NULL ? in->dtype : PEN_DTYPE_NONE);
    if (act > ACT_NONE && act <= ACT_SWISH) {
        needs_note("graph", acts[act], PEN_DTYPE_NONE);
    }
}
