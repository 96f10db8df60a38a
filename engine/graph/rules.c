#include "graph/kept.h"
#include "graph/rules.h"

static infer_rule *const table[] = {
    [OP_NONE] = infer_unknown,
#define OP(name, min_in, max_in, min_out, max_out, rule, traits)                                                       \
    [OP_##name] = KEPT(graph_##name) ? (rule) : infer_unknown,
#include "graph/op.def"
#undef OP
};
_Static_assert(sizeof table / sizeof table[0] == OP_COUNT, "each operator has a shape rule");

infer_rule *infer_rule_of(enum op op)
{
    return table[(unsigned)op < OP_COUNT ? op : OP_NONE];
}
