/* onnx_case.h - small ONNX models written by hand and read by the importer. Threads: one-at-a-time. */
#ifndef ONNX_CASE_H
#define ONNX_CASE_H

#include "graph/arena.h"
#include "import/importer.h"
#include "wire_out.h"

extern const int64_t dims_n3[2], dims3[1];
extern const float three[3];

struct loaded {
    struct graph *g;
    struct import_extra extra;
    struct pen_error error;
    enum pen_status status;
};

/* Reads the graph as a model of that opset. */
struct loaded onnx_load(const struct out *graph, int64_t opset, const char *folder);
/* The graph, which must be good; free it. */
struct graph *onnx_accept(const struct out *graph, int64_t opset);
/* The graph must be refused with that status, in a sentence with these words. */
void onnx_refuse(const struct out *graph, int64_t opset, enum pen_status status, const char *phrase);
/* A graph with the input x, [N, 3]. */
struct out onnx_begin(void);

#endif
