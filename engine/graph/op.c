#include "graph/op.h"

#include <string.h>

static const struct op_def table[] = {
    [OP_NONE] = {"none", 0, 0, 0, 0, 0},
#define OP(name, min_in, max_in, min_out, max_out, rule, traits)                                                       \
    [OP_##name] = {#name, min_in, max_in, min_out, max_out, traits},
#include "graph/op.def"
#undef OP
};

_Static_assert(sizeof table / sizeof table[0] == OP_COUNT, "each operator has a row");

static const char *const attr_names[] = {
    [ATTR_NONE] = "none",
#define ATTR(name) [ATTR_##name] = #name,
#include "graph/attr.def"
#undef ATTR
};
_Static_assert(sizeof attr_names / sizeof attr_names[0] == ATTR_COUNT, "each attribute has a name");

const struct op_def *op_def(enum op op)
{
    return &table[(unsigned)op < OP_COUNT ? op : OP_NONE];
}

enum op op_find(const char *name)
{
    for (unsigned op = OP_NONE + 1; op < OP_COUNT; op++) {
        if (strcmp(table[op].name, name) == 0)
            return (enum op)op;
    }
    return OP_NONE;
}

const char *attr_name(enum attr_key key)
{
    return attr_names[(unsigned)key < ATTR_COUNT ? key : ATTR_NONE];
}

enum attr_key attr_find(const char *name)
{
    for (unsigned key = ATTR_NONE + 1; key < ATTR_layout; key++) { /* ours are never named in a file */
        if (strcmp(attr_names[key], name) == 0)
            return (enum attr_key)key;
    }
    return ATTR_NONE;
}
