#include "onnx_case.h"

#include <criterion/criterion.h>
#include <string.h>

const int64_t dims_n3[2] = {-1, 3}, dims3[1] = {3};
const float three[3] = {1, 2, 3};

struct loaded onnx_load(const struct out *graph, int64_t opset, const char *folder)
{
    static struct out model;
    struct loaded l = {0};
    model.size = 0;
    out_model(&model, opset, graph);
    cr_assert(onnx_probe(model.bytes, model.size));
    l.status = onnx_read(model.bytes, model.size, folder, NULL, &l.g, &l.extra, &l.error);
    return l;
}

struct graph *onnx_accept(const struct out *graph, int64_t opset)
{
    struct loaded l = onnx_load(graph, opset, NULL);
    cr_assert_eq(l.status, PEN_OK, "%s", l.error.text);
    import_extra_fini(&l.extra);
    return l.g;
}

void onnx_refuse(const struct out *graph, int64_t opset, enum pen_status status, const char *phrase)
{
    struct loaded l = onnx_load(graph, opset, NULL);
    cr_assert_eq(l.status, status, "%s", l.error.text);
    cr_assert(strstr(l.error.text, phrase), "'%s' does not say '%s'", l.error.text, phrase);
}

struct out onnx_begin(void)
{
    struct out graph = {.size = 0};
    out_value(&graph, 11, "x", 2, dims_n3);
    return graph;
}
