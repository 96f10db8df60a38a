/* TF.js topologies, both kinds, without shards: read or refused, within a small budget. */
#include "import/importer.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct graph_limits limits = graph_limits_default();
    struct graph *g = NULL;
    struct import_extra extra = {0};
    struct pen_error error = {0};
    limits.model_bytes = limits.folded_bytes = limits.tensor_bytes = 16 << 20;
    limits.nodes = limits.values = 10000;
    if (tfjs_read(bytes, size, NULL, &limits, &g, &extra, &error) == PEN_OK) {
        graph_free(g);
        import_extra_fini(&extra);
    }
    return 0;
}
