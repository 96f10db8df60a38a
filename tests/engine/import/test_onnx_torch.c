/* test_onnx_torch.c - what PyTorch writes. */
#include <criterion/criterion.h>

#include "backend/reference/evaluate.h"
#include "onnx_case.h"

TestSuite(onnx_torch, .init = reference_evaluator_register);

Test(onnx_torch, negative_pads_of_a_pool_crop_its_data)
{
    struct out graph = {.size = 0}, attrs = {.size = 0};
    out_value(&graph, 11, "x", 3, (int64_t[]){1, 2, 11});
    out_attr_ints(&attrs, "kernel_shape", 1, (int64_t[]){2});
    out_attr_ints(&attrs, "pads", 2, (int64_t[]){1, -2});
    out_attr_ints(&attrs, "strides", 1, (int64_t[]){3});
    out_node(&graph, "AveragePool", NULL, NAMES("x"), NAMES("y"), &attrs);
    out_value(&graph, 12, "y", 0, NULL);
    struct graph *g = onnx_accept(&graph, 7);
    cr_assert_eq(g->node_count, 2);
    cr_assert_eq(g->nodes[0].op, OP_Pad);
    cr_assert_eq(((const int64_t *)g->values[g->nodes[0].in[1]].data)[5], -2);
    uint32_t count = 0;
    const int64_t *pads = node_ints(&g->nodes[1], ATTR_pads, &count);
    cr_assert(count == 2 && pads[0] == 1 && pads[1] == 0);
    cr_assert_eq(g->values[g->outputs[0]].shape.dim[2], 3);
    graph_free(g);
}

Test(onnx_torch, names_for_saved_statistics_are_no_hindrance)
{
    struct out graph = onnx_begin();
    out_initializer(&graph, "w", 1, dims3, three, 3);
    out_node(&graph, "BatchNormalization", NULL, NAMES("x", "w", "w", "w", "w"), NAMES("y", "a", "b", "c", "d"), NULL);
    out_value(&graph, 12, "y", 2, dims_n3);
    struct graph *g = onnx_accept(&graph, 9);
    cr_assert_eq(g->nodes[0].op, OP_BatchNormalization);
    graph_free(g);
    out_node(&graph, "Identity", NULL, NAMES("d"), NAMES("z"), NULL);
    out_value(&graph, 12, "z", 0, NULL);
    onnx_refuse(&graph, 9, PEN_ERR_INVALID, "'d', which nothing gives");
}

Test(onnx_torch, constant_fill_makes_a_tensor_of_a_computed_shape)
{
    struct out graph = onnx_begin(), attrs = {.size = 0};
    out_attr_int(&attrs, "dtype", PEN_DTYPE_I64);
    out_attr_int(&attrs, "input_as_shape", 0);
    out_node(&graph, "ConstantFill", NULL, NAMES("x"), NAMES("y"), &attrs);
    out_value(&graph, 12, "y", 0, NULL);
    struct graph *g = onnx_accept(&graph, 7);
    cr_assert_eq(g->values[g->outputs[0]].dtype, PEN_DTYPE_I64);
    cr_assert_eq(g->values[g->outputs[0]].shape.rank, 2);
    graph_free(g);
}

Test(onnx_torch, an_integer_exponent_becomes_one_of_the_base)
{
    struct out graph = onnx_begin(), t = {.size = 0};
    const int64_t two = 2;
    out_varint(&t, 2, PEN_DTYPE_I64);
    out_text(&t, 8, "two");
    out_bytes(&t, 9, &two, sizeof two);
    out_message(&graph, 5, &t);
    out_node(&graph, "Pow", NULL, NAMES("x", "two"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 0, NULL);
    struct graph *g = onnx_accept(&graph, 13);
    cr_assert_eq(g->nodes[0].op, OP_CastLike);
    cr_assert_eq(g->values[g->outputs[0]].dtype, PEN_DTYPE_F32);
    graph_free(g);
}

Test(onnx_torch, leftovers_of_pytorch_are_named_by_their_function)
{
    struct out graph = onnx_begin(), attrs = {.size = 0}, function = {.size = 0};
    out_text(&function, 1, "operator");
    out_text(&function, 4, "erfinv");
    out_varint(&function, 20, 3);
    out_message(&attrs, 5, &function);
    out_node(&graph, "ATen", "org.pytorch.aten", NAMES("x"), NAMES("y"), &attrs);
    out_node(&graph, "cosh", "org.pytorch.aten", NAMES("y"), NAMES("z"), NULL);
    out_value(&graph, 12, "z", 0, NULL);
    onnx_refuse(&graph, 13, PEN_ERR_UNSUPPORTED, "org.pytorch.aten::ATen(erfinv)");
    onnx_refuse(&graph, 13, PEN_ERR_UNSUPPORTED, "org.pytorch.aten::cosh");
}
