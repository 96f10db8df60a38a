/* What is known of values while a model is read: ranks and sizes that follow from the nodes so far. A file need not say them, and what it says is a hint. */
#include "graph/infer.h"
#include "import/onnx/reader.h"

struct shape call_shape(struct call *c, uint32_t value)
{
    struct reader *r = c->r;
    if (value == VALUE_NONE || c->status != PEN_OK)
        return shape_unknown();
    const struct value *v = &c->g->values[value];
    if (v->producer == NODE_NONE || v->shape.rank >= 0)
        return v->shape;
    if (r->facts_of != c->g) {
        reader_forget(r);
        r->facts_of = c->g;
        r->blind = shape_env_new(c->g, NULL, NULL, false, &r->facts, NULL) != PEN_OK;
    } else if (!r->blind && (r->facts->nodes < c->g->node_count || r->facts->values < c->g->value_count)) {
        r->blind = shape_env_extend(r->facts, NULL) != PEN_OK;
    }
    return r->blind ? shape_unknown() : r->facts->facts[value].shape;
}

void reader_forget(struct reader *r)
{
    shape_env_free(r->facts);
    r->facts = NULL;
    r->facts_of = NULL;
    r->blind = false;
}
