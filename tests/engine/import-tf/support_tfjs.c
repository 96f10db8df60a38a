#include "import/tfjs/layers.h"
#include "support_names.h"

const char *support_graph(uint32_t index)
{
    const struct tfjs_row *row = js_row_at(index);
    return row ? row->name : NULL;
}

const char *support_layer(uint32_t index)
{
    const struct layer_row *row = layer_row_at(index);
    return row ? row->kind : NULL;
}
