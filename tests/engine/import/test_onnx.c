/* Reading ONNX: what is accepted, how older forms arrive, what is refused and how it is said. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backend/reference/evaluate.h"
#include "onnx_case.h"

static const int64_t dims23[2] = {2, 3};

TestSuite(onnx, .init = reference_evaluator_register);

Test(onnx, a_small_model_arrives_with_names_types_and_symbols)
{
    struct out graph = onnx_begin();
    out_initializer(&graph, "w", 1, dims3, three, 3);
    out_node(&graph, "Add", NULL, NAMES("x", "w"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims_n3);
    struct graph *g = onnx_accept(&graph, 17);
    cr_assert_eq(g->node_count, 1);
    cr_assert_eq(g->input_count, 1);
    const struct value *x = &g->values[g->inputs[0]], *y = &g->values[g->outputs[0]];
    cr_assert_str_eq(x->name, "x");
    cr_assert_str_eq(x->symbol[0], "N");
    cr_assert_eq(x->shape.dim[0], SHAPE_DIM_UNKNOWN);
    cr_assert_str_eq(y->name, "y");
    cr_assert_eq(y->dtype, PEN_DTYPE_F32);
    cr_assert_eq(y->shape.dim[1], 3);
    graph_free(g);
}

Test(onnx, an_initialiser_that_is_also_an_input_is_a_constant)
{
    struct out graph = onnx_begin();
    out_value(&graph, 11, "w", 1, dims3);
    out_initializer(&graph, "w", 1, dims3, three, 3);
    out_node(&graph, "Add", NULL, NAMES("x", "w"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims_n3);
    struct graph *g = onnx_accept(&graph, 17);
    cr_assert_eq(g->input_count, 1);
    cr_assert_not_null(g->values[g->nodes[0].in[1]].data);
    graph_free(g);
}

Test(onnx, attributes_of_old_opsets_arrive_as_inputs)
{
    struct out graph = onnx_begin(), attrs = {.size = 0};
    out_attr_ints(&attrs, "axes", 1, (int64_t[]){0});
    out_node(&graph, "Unsqueeze", NULL, NAMES("x"), NAMES("y"), &attrs);
    out_value(&graph, 12, "y", 0, NULL);
    struct graph *g = onnx_accept(&graph, 11);
    cr_assert_eq(g->nodes[0].in_count, 2);
    cr_assert_eq(*(const int64_t *)g->values[g->nodes[0].in[1]].data, 0);
    cr_assert_eq(g->values[g->outputs[0]].shape.rank, 3);
    graph_free(g);
}

Test(onnx, a_channel_bias_of_opset_6_is_aligned_with_its_axis)
{
    struct out graph = {.size = 0}, attrs = {.size = 0};
    int64_t dims[4] = {2, 3, 4, 5};
    out_value(&graph, 11, "x", 4, dims);
    out_initializer(&graph, "b", 1, dims3, three, 3);
    out_attr_int(&attrs, "broadcast", 1);
    out_attr_int(&attrs, "axis", 1);
    out_node(&graph, "Add", NULL, NAMES("x", "b"), NAMES("y"), &attrs);
    out_value(&graph, 12, "y", 0, NULL);
    struct graph *g = onnx_accept(&graph, 6);
    char text[64];
    cr_assert_str_eq(shape_text(&g->values[g->outputs[0]].shape, text, sizeof text), "2x3x4x5");
    graph_free(g);
}

Test(onnx, fused_operators_of_optimisers_are_taken_apart)
{
    struct out graph = onnx_begin(), attrs = {.size = 0}, act = {.size = 0};
    out_initializer(&graph, "g", 1, dims3, three, 3);
    out_initializer(&graph, "m", 2, (int64_t[]){3, 3}, (float[]){1, 0, 0, 0, 1, 0, 0, 0, 1}, 9);
    out_node(&graph, "SkipLayerNormalization", "com.microsoft", NAMES("x", "x", "g"), NAMES("n"), NULL);
    out_text(&act, 1, "activation");
    out_text(&act, 4, "Relu");
    out_varint(&act, 20, 3);
    out_message(&attrs, 5, &act);
    out_node(&graph, "FusedGemm", "com.microsoft", NAMES("n", "m"), NAMES("f"), &attrs);
    out_node(&graph, "QuickGelu", "com.microsoft", NAMES("f"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims_n3);
    static const enum op want[] = {OP_Add, OP_LayerNormalization, OP_Gemm, OP_Relu, OP_Swish};
    struct graph *g = onnx_accept(&graph, 17);
    cr_assert_eq(g->node_count, 5);
    for (uint32_t i = 0; i < 5; i++)
        cr_assert_eq(g->nodes[i].op, want[i], "node %u is %s", i, op_def(g->nodes[i].op)->name);
    cr_assert_float_eq(node_float(&g->nodes[4], ATTR_alpha, 0), 1.702, 1e-6);
    graph_free(g);
}

Test(onnx, unknown_operators_are_listed_all_at_once)
{
    struct out graph = onnx_begin();
    out_node(&graph, "Frobnicate", NULL, NAMES("x"), NAMES("a"), NULL);
    out_node(&graph, "Wibble", "com.example", NAMES("a"), NAMES("b"), NULL);
    out_node(&graph, "Relu", NULL, NAMES("b"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims23);
    struct loaded l = onnx_load(&graph, 17, NULL);
    cr_assert_eq(l.status, PEN_ERR_UNSUPPORTED);
    cr_assert_str_eq(l.error.text,
                     "2 nodes use operators that this build does not know: Frobnicate (node Frobnicate_0), "
                     "com.example::Wibble (node Wibble_0)");
}

Test(onnx, the_list_of_unknown_operators_is_capped)
{
    static struct out graph;
    graph.size = 0;
    out_value(&graph, 11, "x", 2, dims23);
    for (int i = 0; i < 200; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "v%d", i);
        out_node(&graph, "Frobnicate", NULL, NAMES("x"), NAMES(name), NULL);
    }
    out_value(&graph, 12, "v7", 2, dims23);
    struct loaded l = onnx_load(&graph, 17, NULL);
    cr_assert_eq(l.status, PEN_ERR_UNSUPPORTED);
    cr_assert(strstr(l.error.text, "200 nodes use"));
    cr_assert(strstr(l.error.text, " ..."));
}

Test(onnx, a_newer_opset_is_refused_by_number)
{
    struct out graph = onnx_begin();
    out_node(&graph, "Relu", NULL, NAMES("x"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims23);
    onnx_refuse(&graph, 99, PEN_ERR_VERSION, "opset 99");
}

Test(onnx, dangling_and_double_names_are_named)
{
    struct out graph = onnx_begin();
    out_node(&graph, "Relu", NULL, NAMES("ghost"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims23);
    onnx_refuse(&graph, 17, PEN_ERR_INVALID, "'ghost'");
    graph = onnx_begin();
    out_node(&graph, "Relu", NULL, NAMES("x"), NAMES("y"), NULL);
    out_node(&graph, "Abs", NULL, NAMES("x"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims23);
    onnx_refuse(&graph, 17, PEN_ERR_INVALID, "'y'");
}

/* What is written as '~' is a NUL in the file. */
static void refuse_nul(const struct out *graph, const char *phrase)
{
    static struct out model;
    struct loaded l = {0};
    model.size = 0;
    out_model(&model, 17, graph);
    for (size_t i = 0; i < model.size; i++)
        model.bytes[i] = model.bytes[i] == '~' ? 0 : model.bytes[i];
    l.status = onnx_read(model.bytes, model.size, NULL, NULL, &l.g, &l.extra, &l.error);
    cr_assert_neq(l.status, PEN_OK);
    cr_assert(strstr(l.error.text, "NUL") && strstr(l.error.text, phrase), "'%s' does not say '%s'", l.error.text,
              phrase);
}

Test(onnx, a_nul_byte_in_a_name_is_refused)
{
    struct out graph = onnx_begin();
    out_node(&graph, "Relu~evil", NULL, NAMES("x"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims_n3);
    refuse_nul(&graph, "operator");
    graph = onnx_begin();
    out_node(&graph, "Relu", "ai.onnx~evil", NAMES("x"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims_n3);
    refuse_nul(&graph, "domain");
    graph = onnx_begin();
    out_node(&graph, "Relu", NULL, NAMES("x"), NAMES("y~z"), NULL);
    out_value(&graph, 12, "y~z", 2, dims_n3);
    refuse_nul(&graph, "name");
}

Test(onnx, a_cycle_is_refused)
{
    struct out graph = onnx_begin();
    out_node(&graph, "Add", NULL, NAMES("x", "b"), NAMES("a"), NULL);
    out_node(&graph, "Relu", NULL, NAMES("a"), NAMES("b"), NULL);
    out_value(&graph, 12, "b", 2, dims23);
    onnx_refuse(&graph, 17, PEN_ERR_INVALID, "depends on its own output");
}

Test(onnx, a_huge_tensor_in_a_small_file_takes_no_memory)
{
    struct out graph = onnx_begin(), t = {.size = 0};
    for (int i = 0; i < 3; i++)
        out_varint(&t, 1, 1 << 20);
    out_varint(&t, 2, 1);
    out_text(&t, 8, "w");
    out_message(&graph, 5, &t);
    out_node(&graph, "Relu", NULL, NAMES("x"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims23);
    onnx_refuse(&graph, 17, PEN_ERR_TOO_LARGE, "tensor 'w' of shape 1048576x1048576x1048576");
}

/* Counted while they are read: what comes after the limit is never looked at. */
Test(onnx, more_nodes_or_values_than_the_limits_are_refused)
{
    static struct out model;
    struct out graph = onnx_begin();
    char from[16] = "x", to[16];
    for (int i = 0; i < 20; i++) {
        (void)snprintf(to, sizeof to, "v%d", i);
        out_node(&graph, "Neg", NULL, NAMES(from), NAMES(to), NULL);
        memcpy(from, to, sizeof from);
    }
    out_value(&graph, 12, "v19", 2, dims_n3);
    out_model(&model, 17, &graph);
    for (int row = 0; row < 3; row++) {
        struct graph_limits limits = graph_limits_default();
        struct graph *g = NULL;
        struct import_extra extra = {0};
        struct pen_error error = {0};
        limits.nodes = row == 1 ? 10 : 100;
        limits.values = row == 2 ? 10 : 100;
        enum pen_status status = onnx_read(model.bytes, model.size, NULL, &limits, &g, &extra, &error);
        cr_assert_eq(status, row == 0 ? PEN_OK : PEN_ERR_TOO_LARGE, "row %d: %s", row, error.text);
        cr_assert(row == 0 || strlen(error.text) > 10, "row %d: a sentence says why", row);
        if (row == 0) {
            graph_free(g);
            import_extra_fini(&extra);
        }
    }
}

Test(onnx, typed_data_of_small_floats_lies_in_int32_data)
{
    struct out t = {.size = 0}, packed = {.size = 0};
    struct graph_arena *arena = arena_new(1 << 20);
    struct onnx_value v;
    out_varint(&t, 1, 3);
    out_varint(&t, 2, PEN_DTYPE_F16);
    out_varint(&packed, 5, pen_f32_to_f16(1.5f));
    out_varint(&t, 5, pen_f32_to_f16(1.5f));
    uint8_t two[4] = {0x80, 0x80, 0x01, 0x01}; /* packed: 16384, 1 */
    out_bytes(&t, 5, two, sizeof two);
    cr_assert_eq(onnx_tensor_read(t.bytes, t.size, arena, &v, NULL), PEN_OK);
    cr_assert_eq(v.bytes, 6);
    cr_assert_float_eq(pen_f16_to_f32(((const uint16_t *)v.data)[0]), 1.5f, 0);
    cr_assert_eq(((const uint16_t *)v.data)[1], 16384);
    cr_assert_eq(((const uint16_t *)v.data)[2], 1);
    arena_free(arena);
}

Test(onnx, bools_are_made_zero_or_one)
{
    struct out t = {.size = 0};
    struct graph_arena *arena = arena_new(1 << 20);
    struct onnx_value v;
    out_varint(&t, 1, 2);
    out_varint(&t, 2, PEN_DTYPE_BOOL);
    out_bytes(&t, 9, (uint8_t[]){7, 0}, 2);
    cr_assert_eq(onnx_tensor_read(t.bytes, t.size, arena, &v, NULL), PEN_OK);
    cr_assert_eq(((const uint8_t *)v.data)[0], 1);
    cr_assert_eq(((const uint8_t *)v.data)[1], 0);
    arena_free(arena);
}

Test(onnx, too_little_and_too_much_data_are_told_apart)
{
    struct graph_arena *arena = arena_new(1 << 20);
    struct pen_error error = {0};
    struct onnx_value v;
    struct out t = {.size = 0};
    out_varint(&t, 1, 2);
    out_varint(&t, 2, 1);
    out_float(&t, 4, 1);
    cr_assert_eq(onnx_tensor_read(t.bytes, t.size, arena, &v, &error), PEN_ERR_CORRUPT);
    cr_assert(strstr(error.text, "less data"));
    out_float(&t, 4, 1);
    cr_assert_eq(onnx_tensor_read(t.bytes, t.size, arena, &v, &error), PEN_OK);
    out_float(&t, 4, 1);
    cr_assert_eq(onnx_tensor_read(t.bytes, t.size, arena, &v, &error), PEN_ERR_CORRUPT);
    cr_assert(strstr(error.text, "more data"));
    arena_free(arena);
}

Test(onnx, every_truncation_is_refused_with_a_sentence)
{
    static struct out graph, model;
    graph = onnx_begin();
    model.size = 0;
    out_initializer(&graph, "w", 1, dims3, three, 3);
    out_node(&graph, "Add", NULL, NAMES("x", "w"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims_n3);
    out_model(&model, 17, &graph);
    for (size_t size = 0; size < model.size; size++) {
        struct graph *g = NULL;
        struct import_extra extra;
        struct pen_error error = {0};
        uint8_t *exact = malloc(size + 1);
        memcpy(exact, model.bytes, size);
        cr_assert_neq(onnx_read(exact, size, NULL, NULL, &g, &extra, &error), PEN_OK, "cut at %zu", size);
        cr_assert(error.text[0] != '\0');
        free(exact);
    }
}

/* ---- subgraphs and functions --------------------------------------------------------------------------------------- */

Test(onnx, captures_of_branches_become_inputs_of_the_node)
{
    struct out graph = onnx_begin(), yes = {.size = 0}, no = {.size = 0}, attrs = {.size = 0};
    out_value(&graph, 11, "c", 0, NULL);
    out_initializer(&graph, "w", 1, dims3, three, 3);
    out_node(&yes, "Add", NULL, NAMES("x", "w"), NAMES("a"), NULL);
    out_value(&yes, 12, "a", 2, dims23);
    out_node(&no, "Mul", NULL, NAMES("h", "x"), NAMES("b"), NULL);
    out_value(&no, 12, "b", 2, dims23);
    out_attr_graph(&attrs, "then_branch", &yes);
    out_attr_graph(&attrs, "else_branch", &no);
    out_node(&graph, "Relu", NULL, NAMES("x"), NAMES("h"), NULL);
    out_node(&graph, "If", NULL, NAMES("c"), NAMES("y"), &attrs);
    out_value(&graph, 12, "y", 2, dims23);
    struct graph *g = onnx_accept(&graph, 17);
    const struct node *n = &g->nodes[1];
    cr_assert_eq(n->op, OP_If);
    cr_assert_eq(n->in_count, 4, "the condition, x for then, h and x for else");
    cr_assert_eq(node_attr(n, ATTR_then_branch)->graph->input_count, 1, "w is a constant of the branch's own");
    cr_assert_eq(node_attr(n, ATTR_else_branch)->graph->input_count, 2);
    graph_free(g);
}

static void function(struct out *model, const char *name, const char *inner, const char *inner_domain)
{
    struct out f = {.size = 0}, import = {.size = 0};
    out_text(&f, 1, name);
    out_text(&f, 4, "in");
    out_text(&f, 5, "out");
    out_node_in(&f, 7, inner, inner_domain, NAMES("in"), NAMES("mid"), NULL);
    out_node_in(&f, 7, inner, inner_domain, NAMES("mid"), NAMES("out"), NULL);
    out_varint(&import, 2, 17);
    out_message(&f, 9, &import);
    out_text(&f, 10, "my");
    out_message(model, 25, &f);
}

Test(onnx, functions_are_inlined)
{
    struct out graph = onnx_begin(), model = {.size = 0};
    struct graph *g = NULL;
    struct import_extra extra;
    struct pen_error error = {0};
    out_node(&graph, "Twice", "my", NAMES("x"), NAMES("a"), NULL);
    out_node(&graph, "Twice", "my", NAMES("a"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims_n3);
    out_model(&model, 17, &graph);
    function(&model, "Twice", "Relu", NULL);
    cr_assert_eq(onnx_read(model.bytes, model.size, NULL, NULL, &g, &extra, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(g->node_count, 4);
    graph_free(g);
}

Test(onnx, functions_that_call_themselves_end_at_the_depth_limit)
{
    struct out graph = onnx_begin(), model = {.size = 0};
    struct graph_limits limits = graph_limits_default();
    struct graph *g = NULL;
    struct import_extra extra;
    struct pen_error error = {0};
    limits.depth = 12;
    out_node(&graph, "Twice", "my", NAMES("x"), NAMES("y"), NULL);
    out_value(&graph, 12, "y", 2, dims_n3);
    out_model(&model, 17, &graph);
    function(&model, "Twice", "Twice", "my");
    cr_assert_eq(onnx_read(model.bytes, model.size, NULL, &limits, &g, &extra, &error), PEN_ERR_TOO_LARGE);
    cr_assert(strstr(error.text, "nested more than 12 deep"), "%s", error.text);
}
