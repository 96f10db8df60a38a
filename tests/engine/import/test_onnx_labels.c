/* The names of the classes that a ZipMap has: noted beside the graph. */
#include <criterion/criterion.h>
#include <string.h>

#include "onnx_case.h"

/* classlabels_strings of one ZipMap over x. */
static void zip_map(struct out *graph, const char *input, const char *output, const char *const *labels)
{
    struct out a = {.size = 0}, attributes = {.size = 0};
    out_text(&a, 1, "classlabels_strings");
    for (; *labels; labels++)
        out_text(&a, 9, *labels);
    out_varint(&a, 20, 8);
    out_message(&attributes, 5, &a);
    out_node(graph, "ZipMap", "ai.onnx.ml", NAMES(input), NAMES(output), &attributes);
}

Test(onnx_labels, texts_of_the_first_zip_map_are_the_names)
{
    struct out graph = onnx_begin();
    zip_map(&graph, "x", "y", NAMES("red", "", "dark blue"));
    zip_map(&graph, "x", "z", NAMES("a", "b", "c"));
    out_value(&graph, 12, "y", 2, dims_n3);
    out_value(&graph, 12, "z", 2, dims_n3);
    struct graph *g = onnx_accept(&graph, 17);
    cr_assert(g->notes && g->notes->labels);
    cr_expect_str_eq(g->notes->labels, "red\n\ndark blue\n");
    cr_expect_eq(g->notes->labels_bytes, 15);
    cr_expect_eq(g->notes->channels, 0);
    graph_free(g);
}

Test(onnx_labels, numbers_are_written_as_numbers)
{
    static const int64_t labels[] = {-7, 0, 12};
    struct out graph = onnx_begin(), attributes = {.size = 0};
    out_attr_ints(&attributes, "classlabels_int64s", 3, labels);
    out_node(&graph, "ZipMap", "ai.onnx.ml", NAMES("x"), NAMES("y"), &attributes);
    out_value(&graph, 12, "y", 2, dims_n3);
    struct graph *g = onnx_accept(&graph, 17);
    cr_assert(g->notes && g->notes->labels);
    cr_expect_str_eq(g->notes->labels, "-7\n0\n12\n");
    graph_free(g);
}

Test(onnx_labels, what_is_no_line_of_text_is_left_out)
{
    struct out graph = onnx_begin();
    zip_map(&graph, "x", "y", NAMES("red", "two\nlines", "blue"));
    out_value(&graph, 12, "y", 2, dims_n3);
    struct graph *g = onnx_accept(&graph, 17);
    cr_expect(!g->notes || !g->notes->labels);
    graph_free(g);
}
