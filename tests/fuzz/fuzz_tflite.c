/* TFLite files: read or refused, within a small budget. */
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "graph/infer.h"
#include "import/importer.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    reference_evaluator_register();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct graph_limits limits = graph_limits_default();
    struct graph *g = NULL;
    struct import_extra extra = {0};
    struct pen_error error = {0};
    struct shape_env *env = NULL;
    uint8_t *copy = malloc(size < 8 ? 8 : size);
    limits.model_bytes = limits.folded_bytes = limits.tensor_bytes = 16 << 20;
    limits.nodes = limits.values = 10000;
    if (copy == NULL) {
        return 0;
    }
    memcpy(copy, bytes, size);
    if (size >= 8) {
        memcpy(copy + 4, "TFL3", 4); /* the identifier is the first thing to be checked */
    }
    if (tflite_read(copy, size, NULL, &limits, &g, &extra, &error) == PEN_OK) {
        (void)shape_env_new(g, NULL, NULL, false, &env, &error);
        shape_env_free(env);
        graph_free(g);
        import_extra_fini(&extra);
    }
    free(copy);
    return 0;
}
