#include "backend/kept_types.h"

#include <stdio.h>
#include <string.h>

#include "graph/kept.h"

static const struct {
    enum kept_backend backend;
    enum op op;
    const char *type; /* "any", or the name of one */
} rows[] = {
#define KEPT_TYPE(backend, op, type) {KEPT_BACKEND_##backend, OP_##op, type},
#define KEPT_BACKEND_reference       KEPT_REFERENCE
#define KEPT_BACKEND_xnnpack         KEPT_XNNPACK
#define KEPT_BACKEND_vulkan          KEPT_VULKAN
#include "kept_types.def"
#undef KEPT_TYPE
    {KEPT_REFERENCE, OP_NONE, ""},
};

static enum pen_dtype type_of(const struct graph *g, const struct node *n)
{
    const struct value *in = n->in_count > 0 ? node_in(g, n, 0) : NULL;
    return in != NULL ? in->dtype : PEN_DTYPE_NONE;
}

bool kept_takes(enum kept_backend backend, const struct graph *g, const struct node *n)
{
    enum pen_dtype type = KEPT_EVERYTHING ? PEN_DTYPE_NONE : type_of(g, n);
    bool found = type == PEN_DTYPE_NONE;
    for (size_t i = 0; !found && i < sizeof rows / sizeof rows[0]; i++) {
        found = rows[i].op == n->op && rows[i].backend == backend &&
                (strcmp(rows[i].type, "any") == 0 || pen_dtype_parse(rows[i].type) == type);
    }
    return found;
}

const char *kept_line(const struct graph *g, const struct node *n, char *text, size_t bytes)
{
    enum pen_dtype type = type_of(g, n);
    snprintf(text, bytes, "%s %s", op_def(n->op)->name, type == PEN_DTYPE_NONE ? "any" : pen_dtype_name(type));
    return text;
}
