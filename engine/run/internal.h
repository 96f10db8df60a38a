/*
 * internal.h - the structs behind the public handles, shared by engine.c, model.c and session.c only.
 */
#ifndef RUN_INTERNAL_H
#define RUN_INTERNAL_H

#include <stdatomic.h>

#include "backend/backend.h"
#include "import/importer.h"
#include "run/program.h"
#include "run/runner.h"

#define ENGINE_FLAGS_MAX 48

struct pen_engine {
    struct pen_engine_options options;
    struct graph_limits limits;
    struct open_backend backends[BACKENDS_MAX];
    uint32_t backend_count;
    struct backend_caps caps; /* of the chosen one */
    struct pen_flag flags[ENGINE_FLAGS_MAX];
    char flag_names[ENGINE_FLAGS_MAX][48];
    char flag_values[ENGINE_FLAGS_MAX][320];
    size_t flag_count;
};

struct pen_model {
    struct pen_engine *engine;
    const char *format;
    void *file; /* mapped */
    size_t file_bytes;
    struct graph *graph;
    struct import_extra extra;
    struct program *program;
    struct pen_tensor *inputs, *outputs;
    size_t input_count, output_count;
    char placement[512];
    _Atomic bool digest_known;
    uint8_t digest[16];
};

struct pen_session {
    struct pen_model *model;
    struct run_context context;
    struct runner *runner;
    struct bucket *bound;
    struct pen_tensor *outputs; /* [output_count] of the last run */
    struct shape *shapes;       /* [input_count] scratch of bind */
    uint32_t *order;            /* [input_count] graph input -> caller's tensor */
    struct profile *profile;
};

struct pen_stop {
    struct cancel cancel;
};

struct engine_counters {
    atomic_uint_least64_t models, sessions, weights_bytes, arena_bytes, buckets;
};
extern struct engine_counters engine_counters; /* pen_memory() */

#endif
