/* TF.js topologies, both kinds, with two shards of small numbers: read or refused, within a small budget. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "graph/infer.h"
#include "import/importer.h"

#define SHARD_BYTES 65536

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    reference_evaluator_register();
    return 0;
}

/* A folder with w.bin and w2.bin, made once: little int32 numbers, so that axes and sizes make sense often. */
static const char *folder(void)
{
    static char path[64];
    char file[80];
    static int32_t numbers[SHARD_BYTES / 4];
    if (path[0] != '\0') {
        return path;
    }
    snprintf(path, sizeof path, "/tmp/fuzz-tfjs-XXXXXX");
    for (size_t i = 0; i < SHARD_BYTES / 4; i++) {
        numbers[i] = (int32_t)(i * 2654435761u >> 29) - 1;
    }
    if (mkdtemp(path) == NULL) {
        abort();
    }
    static const char *const names[] = {"w.bin", "w2.bin"};
    for (int i = 0; i < 2; i++) {
        snprintf(file, sizeof file, "%s/%s", path, names[i]);
        FILE *out = fopen(file, "we");
        if (out == NULL || fwrite(numbers, 1, sizeof numbers, out) != sizeof numbers || fclose(out) != 0) {
            abort();
        }
    }
    return path;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct graph_limits limits = graph_limits_default();
    struct graph *g = NULL;
    struct import_extra extra = {0};
    struct pen_error error = {0};
    struct shape_env *env = NULL;
    limits.model_bytes = limits.folded_bytes = limits.tensor_bytes = 16 << 20;
    limits.nodes = limits.values = 10000;
    if (tfjs_read(bytes, size, folder(), &limits, &g, &extra, &error) == PEN_OK) {
        (void)shape_env_new(g, NULL, NULL, false, &env, &error);
        shape_env_free(env);
        graph_free(g);
        import_extra_fini(&extra);
    }
    return 0;
}
