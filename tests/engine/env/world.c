#include "world.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

void world_open(struct world *w, const char *const *sets)
{
    struct pen_env *env = NULL;
    memset(w, 0, sizeof *w);
    folder_new(w->folder);
    cr_assert_eq(pen_env_new(&env, &w->error), PEN_OK);
    for (; *sets != NULL; sets++) {
        cr_assert_eq(pen_env_assign(env, *sets, PEN_ORIGIN_FLAG, "a test", &w->error), PEN_OK, "%s", w->error.text);
    }
    w->opened = pen_engine_open(env, &w->engine, &w->error);
    pen_env_free(env);
    if (w->opened != PEN_OK && strstr(w->error.text, "install") != NULL) {
        cr_skip("no Vulkan device");
    }
}

/* Loads what the writer holds and opens a session. */
void world_load(struct world *w, struct onnx_writer *g)
{
    char path[FOLDER_PATH_BYTES + 16];
    snprintf(path, sizeof path, "%s/model.onnx", w->folder);
    onnx_writer_save(g, 17, path);
    onnx_writer_free(g);
    cr_assert_eq(w->opened, PEN_OK, "%s", w->error.text);
    w->loaded = pen_model_load(w->engine, path, &w->model, &w->error);
    if (w->loaded == PEN_OK) {
        cr_assert_eq(pen_session_new(w->model, &w->session, &w->error), PEN_OK, "%s", w->error.text);
    }
}

void world_run(struct world *w, size_t rank, const int64_t *dims, const float *x)
{
    struct pen_tensor in = {.dtype = PEN_DTYPE_F32, .rank = (uint32_t)rank, .data = x, .bytes = sizeof *x};
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    for (size_t i = 0; i < rank; i++) {
        in.dims[i] = dims[i];
        in.bytes *= (size_t)dims[i];
    }
    w->error = (struct pen_error){0};
    cr_assert_eq(w->loaded, PEN_OK, "%s", w->error.text);
    w->ran = pen_session_run(w->session, &in, 1, NULL, &out, &count, &w->error);
    w->y0 = w->ran == PEN_OK && out[0].bytes >= sizeof(float) ? *(const float *)out[0].data : 0.0f;
}

void world_close(struct world *w)
{
    pen_session_free(w->session);
    pen_model_free(w->model);
    pen_engine_free(w->engine);
    folder_free(w->folder);
}

/* ---- models ---- */

/* y = relu(exp(x) w), x: [n, 64]. */
struct onnx_writer *graph_dense(void)
{
    static float w[WIDTH * 600];
    struct onnx_writer *g = onnx_writer_new("dense");
    for (size_t i = 0; i < WIDTH * 600; i++) {
        w[i] = (float)(i * 37 % 101) / 1000.0f - 0.05f;
    }
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 2, DIMS(-1, WIDTH), NULL);
    onnx_writer_constant(g, "w", PEN_DTYPE_F32, 2, DIMS(WIDTH, 600), w, sizeof w);
    onnx_writer_node(g, "Exp", ONNX_LIST("x"), ONNX_LIST("e"), NULL);
    onnx_writer_node(g, "MatMul", ONNX_LIST("e", "w"), ONNX_LIST("m"), NULL);
    onnx_writer_node(g, "Sin", ONNX_LIST("m"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 2, DIMS(-1, 600), NULL);
    return g;
}

/* A convolution of 3 x 3, x: [1, 16, 12, 12]. */
struct onnx_writer *graph_conv(float weight)
{
    static float w[32 * 16 * 9];
    struct onnx_writer *g = onnx_writer_new("conv");
    for (size_t i = 0; i < sizeof w / sizeof w[0]; i++) {
        w[i] = weight * (float)(1 + i % 7) / 7.0f;
    }
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 4, DIMS(1, 16, 12, 12), NULL);
    onnx_writer_constant(g, "w", PEN_DTYPE_F32, 4, DIMS(32, 16, 3, 3), w, sizeof w);
    onnx_writer_node(g, "Conv", ONNX_LIST("x", "w"), ONNX_LIST("y"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 4, DIMS(1, 32, 10, 10), NULL);
    return g;
}

const float world_zeros[1 * 16 * 12 * 12];

void world_dense(struct world *w, const char *const *sets)
{
    world_open(w, sets);
    world_load(w, graph_dense());
    world_run(w, 2, DIMS(1, WIDTH), world_zeros);
    cr_assert_eq(w->ran, PEN_OK, "%s", w->error.text);
}

bool world_placed(const struct world *w, const char *words)
{
    return strstr(pen_model_placement(w->model), words) != NULL;
}
