/* Whatever the bytes: a model is read and optimised, or refused with a sentence; never a crash, a leak or a budget overrun. */
#include <stdlib.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "graph/arena.h"
#include "graph/infer.h"
#include "graph/pass.h"
#include "import/importer.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    reference_evaluator_register();
    return 0;
}

/* Small enough that every run is short. */
static const struct graph_limits limits = {
    .model_bytes = 1 << 24,
    .tensor_bytes = 1 << 18,
    .folded_bytes = 1 << 20,
    .folded_steps = 1 << 24,
    .arena_bytes = 1 << 22,
    .nodes = 600,
    .values = 4000,
    .depth = 6,
};

/* Contents for an input, taken from the file's own bytes; NULL when its shape is open or it holds texts. */
static void *feed(const struct value *v, const uint8_t *data, size_t size)
{
    size_t bytes;
    if (v->kind != VALUE_TENSOR || v->dtype == PEN_DTYPE_STRING ||
        shape_bytes(&v->shape, v->dtype, 1 << 12, &bytes) != PEN_OK)
        return NULL;
    uint8_t *items = calloc(1, bytes + 64);
    for (size_t i = 0; items && i < bytes; i++)
        items[i] = v->dtype == PEN_DTYPE_BOOL ? data[i % size] & 1 : i % 4 ? 0 : data[(i * 7) % size];
    return items;
}

/* Every kernel whose inputs can be known runs, as it would when constants are folded. */
static void evaluate(const struct graph *g, const uint8_t *data, size_t size)
{
    void **inputs = calloc((size_t)g->input_count + 1, sizeof *inputs);
    struct shape_env *env = NULL;
    for (uint32_t i = 0; inputs && i < g->input_count; i++)
        inputs[i] = feed(&g->values[g->inputs[i]], data, size);
    if (inputs && shape_env_new(g, NULL, (const void *const *)inputs, true, &env, NULL) == PEN_OK)
        shape_env_free(env);
    for (uint32_t i = 0; inputs && i < g->input_count; i++)
        free(inputs[i]);
    free(inputs);
}

static void read_model(const uint8_t *data, size_t size)
{
    struct graph *g = NULL;
    struct import_extra extra;
    struct pen_error error = {0};
    if (onnx_read(data, size, NULL, &limits, &g, &extra, &error) != PEN_OK) {
        if (error.text[0] == '\0')
            abort(); /* every refusal says why */
        return;
    }
    evaluate(g, data, size);
    struct pass_options options = {.fold = true, .fuse = true, .nhwc = (size & 1) != 0};
    if (pass_run(g, &options, NULL, &error) == PEN_OK && graph_verify(g, &error) != PEN_OK)
        abort(); /* passes keep a graph sound */
    graph_free(g);
    import_extra_fini(&extra);
}

static void read_value(const uint8_t *data, size_t size, enum value_kind kind)
{
    struct graph_arena *arena = arena_new(1 << 22);
    struct onnx_value value;
    if (arena)
        (void)onnx_value_read(data, size, kind, arena, &value, NULL);
    arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* A copy without slack: reading past the end is seen. */
    uint8_t *exact = malloc(size ? size : 1);
    if (!exact)
        return 0;
    if (size)
        memcpy(exact, data, size);
    (void)onnx_probe(exact, size);
    read_model(exact, size);
    for (int kind = VALUE_TENSOR; kind <= VALUE_OPTIONAL; kind++)
        read_value(exact, size, (enum value_kind)kind);
    free(exact);
    return 0;
}
