/* Calling one layer: by its kind, on the tensors of the call. */
#include "import/inventory.h"
#include "import/tfjs/layers.h"

#include <string.h>

#include "graph/internal.h"

#define EXPANSIONS_MAX 100000

const struct layer_row *layer_row_at(uint32_t index)
{
    static const struct layer_row *const tables[] = {layers_core,      layers_conv, layers_norm,
                                                     layers_recurrent, layers_scan, layers_attend};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        for (const struct layer_row *row = tables[i]; row->kind; row++) {
            if (index-- == 0)
                return row;
        }
    }
    return NULL;
}

static const struct layer_row *row_find(const char *kind)
{
    const struct layer_row *row;
    for (uint32_t i = 0; (row = layer_row_at(i)) != NULL; i++) {
        if (strcmp(row->kind, kind) == 0)
            return row;
    }
    return NULL;
}

/*
 * Keras 3 writes how it makes masks as layers, and feeds them to layers under the name "mask". Masks travel with the tensors here; what a mask is made of has no value,
 * and nothing else may read it.
 */
static bool is_mask_step(struct kcall *c)
{
    static const char *const kinds[] = {"NotEqual", "Any", "LogicalAnd", "LogicalOr"};
    bool step = false, of_mask = false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        step = step || strcmp(c->l->kind, kinds[i]) == 0;
    for (uint32_t i = 0; i < c->in_count; i++)
        of_mask = of_mask || c->in[i].value == VALUE_NONE;
    if (of_mask && !step && c->b->missing->count == 0)
        build_miss(c->b, "a mask that is computed with");
    return (step && c->l->r->placed) || of_mask;
}

void layer_call(struct kcall *c)
{
    const struct layer_row *row = row_find(c->l->kind);
    const char *name = c->b->name, *origin = c->b->origin;
    c->b->name = c->l->name;
    c->b->origin = graph_text(c->b->g, c->l->kind, strlen(c->l->kind));
    c->op = row ? row->op : 0;
    inventory_note(c->b->g->limits.inventory, c->l->kind);
    if (c->l->depth > c->b->g->limits.depth || c->l->r->expansions++ > EXPANSIONS_MAX)
        build_stop(c->b, PEN_ERR_TOO_LARGE, "models are nested too deep or used too often");
    else if (layer_is_model(c->l->kind))
        layer_model(c);
    else if (is_mask_step(c))
        c->out[c->out_count++] = (struct ktensor){VALUE_NONE, 0, VALUE_NONE};
    else if (row && row->call && c->in_count == 0)
        build_stop(c->b, PEN_ERR_CORRUPT, "it is called on nothing");
    else if (row && row->call) {
        row->call(c);
    } else
        build_miss(c->b, c->l->kind);
    if (c->out_count == 0 && c->in_count > 0) /* something, so that all missing layers can be listed */
        c->out[c->out_count++] = c->in[0];
    c->b->name = name;
    c->b->origin = origin;
}
