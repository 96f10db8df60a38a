/* Inputs that are maps: two tensors each, and what reads them. */
#include <criterion/criterion.h>
#include <string.h>

#include "onnx_case.h"

/* An input of type map(key, value). */
static void map_input(struct out *graph, const char *name, uint64_t key, uint64_t value)
{
    struct out tensor = {.size = 0}, inner = {.size = 0}, map = {.size = 0}, type = {.size = 0}, info = {.size = 0};
    out_varint(&tensor, 1, value);
    out_message(&inner, 1, &tensor);
    out_varint(&map, 1, key);
    out_message(&map, 2, &inner);
    out_message(&type, 5, &map);
    out_text(&info, 1, name);
    out_message(&info, 2, &type);
    out_message(graph, 11, &info);
}

static void cast_map(struct out *graph, const char *input)
{
    out_node(graph, "CastMap", "ai.onnx.ml", NAMES(input), NAMES("y"), NULL);
    out_value(graph, 12, "y", 2, dims_n3);
}

Test(onnx_maps, an_input_that_is_a_map_is_two_tensors)
{
    struct out graph = {.size = 0};
    map_input(&graph, "m", PEN_DTYPE_I64, PEN_DTYPE_F32);
    cast_map(&graph, "m");
    struct graph *g = onnx_accept(&graph, 17);
    cr_assert_eq(g->input_count, 2);
    const struct value *keys = &g->values[g->inputs[0]], *values = &g->values[g->inputs[1]];
    cr_expect_str_eq(keys->name, "m.keys");
    cr_expect_str_eq(values->name, "m.values");
    cr_expect(keys->dtype == PEN_DTYPE_I64 && keys->shape.rank == 2);
    cr_expect(values->dtype == PEN_DTYPE_F32 && values->shape.rank == 2);
    graph_free(g);
}

Test(onnx_maps, what_is_no_map_of_the_inputs_is_refused)
{
    struct out tensor = onnx_begin(), keys = {.size = 0}, twice = {.size = 0}, words = {.size = 0};
    cast_map(&tensor, "x");
    onnx_refuse(&tensor, 17, PEN_ERR_UNSUPPORTED, "reads a map that is no input");
    map_input(&keys, "m", PEN_DTYPE_F32, PEN_DTYPE_F32);
    cast_map(&keys, "m");
    onnx_refuse(&keys, 17, PEN_ERR_UNSUPPORTED, "keys must be texts or int64");
    map_input(&twice, "m", PEN_DTYPE_I64, PEN_DTYPE_F32);
    map_input(&twice, "m", PEN_DTYPE_I64, PEN_DTYPE_F32);
    onnx_refuse(&twice, 17, PEN_ERR_CORRUPT, "twice");
    map_input(&words, "m", PEN_DTYPE_STRING, PEN_DTYPE_F32);
    out_node(&words, "DictVectorizer", "ai.onnx.ml", NAMES("m"), NAMES("y"), NULL);
    out_value(&words, 12, "y", 2, dims_n3);
    onnx_refuse(&words, 17, PEN_ERR_INVALID, "has no string_vocabulary");
}
