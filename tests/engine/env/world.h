/*
 * world.h - an engine with some flags and a model on it, for the samples of test_flags.c.
 *
 * Threads: one test's.
 */
#ifndef WORLD_H
#define WORLD_H

#include "folder.h"
#include "onnx_writer.h"
#include "run/internal.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define SETS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define WIDTH     64

struct world {
    char folder[FOLDER_PATH_BYTES];
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
    struct pen_error error;
    enum pen_status opened, loaded, ran;
    float y0; /* the first element of the first output */
};

extern const float world_zeros[1 * 16 * 12 * 12];

struct onnx_writer *graph_dense(void);        /* y = sin(exp(x) w), x: [n, WIDTH] */
struct onnx_writer *graph_conv(float weight); /* 3 x 3, x: [1, 16, 12, 12] */

void world_open(struct world *w, const char *const *sets); /* skips the test where Vulkan is not installed */
void world_load(struct world *w, struct onnx_writer *g);   /* loads what the writer holds and opens a session */
void world_run(struct world *w, size_t rank, const int64_t *dims, const float *x);
void world_close(struct world *w);
void world_dense(struct world *w, const char *const *sets); /* all three, with graph_dense */
bool world_placed(const struct world *w, const char *words);

#endif
