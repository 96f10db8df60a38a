/*
 * onnx_seeds.c - the seeds of fuzz_onnx: small sound models that between them use every part of the reader.
 *
 * Usage: onnx_seeds FOLDER
 */
#include <stdio.h>
#include <string.h>

#include "encoder.h"
#include "onnx_writer.h"

enum { F32 = 1, U8 = 2, I8 = 3, I32 = 6, I64 = 7, BOOL = 9, F16 = 10 }; /* TensorProto's */

static const char *root;

static void save(struct onnx_writer *w, int64_t opset, const char *name)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.onnx", root, name);
    onnx_writer_save(w, opset, path);
    onnx_writer_free(w);
}

/* Convolution, batch norm, pool, softmax: channels first. */
static void network(void)
{
    static const float ones[64] = {0.5f, -1, 2, 0.25f};
    const int64_t pads[4] = {1, 1, 1, 1}, kernel[2] = {2, 2};
    const struct onnx_attr conv[] = {{.type = ONNX_ATTR_INTS, .name = "pads", .ints = pads, .count = 4}, {0}},
                           pool[] = {{.type = ONNX_ATTR_INTS, .name = "kernel_shape", .ints = kernel, .count = 2}, {0}},
                           last[] = {{.type = ONNX_ATTR_INT, .name = "axis", .i = -1}, {0}};
    struct onnx_writer *w = onnx_writer_new("network");
    onnx_writer_input(w, "x", F32, 4, (int64_t[]){-1, 2, 5, 5}, ONNX_LIST("N"));
    onnx_writer_constant(w, "w", F32, 4, (int64_t[]){3, 2, 3, 3}, ones, 3 * 2 * 9 * 4);
    onnx_writer_constant(w, "c", F32, 1, (int64_t[]){3}, ones, 12);
    const char *x = onnx_writer_step(w, "Conv", ONNX_LIST("x", "w", "c"), conv);
    x = onnx_writer_step(w, "BatchNormalization", ONNX_LIST(x, "c", "c", "c", "c"), NULL);
    x = onnx_writer_step(w, "MaxPool", ONNX_LIST(onnx_writer_step(w, "Relu", ONNX_LIST(x), NULL)), pool);
    x = onnx_writer_step(w, "Flatten", ONNX_LIST(x), NULL);
    onnx_writer_node(w, "Softmax", ONNX_LIST(x), ONNX_LIST("y"), last);
    onnx_writer_output(w, "y", F32, 2, (int64_t[]){-1, -1}, ONNX_LIST("N", "M"));
    save(w, 17, "network");
}

/* Attributes that became inputs later. */
static void old(void)
{
    const int64_t two[2] = {0, 1}, ends[2] = {2, 3};
    const struct onnx_attr slice[] = {{.type = ONNX_ATTR_INTS, .name = "starts", .ints = two, .count = 2},
                                      {.type = ONNX_ATTR_INTS, .name = "ends", .ints = ends, .count = 2},
                                      {0}},
                           clip[] = {{.type = ONNX_ATTR_FLOAT, .name = "max", .f = 6}, {0}},
                           squeeze[] = {{.type = ONNX_ATTR_INTS, .name = "axes", .ints = two, .count = 1}, {0}};
    struct onnx_writer *w = onnx_writer_new("old");
    onnx_writer_input(w, "x", F32, 2, (int64_t[]){3, 4}, NULL);
    const char *x = onnx_writer_step(w, "Slice", ONNX_LIST("x"), slice);
    x = onnx_writer_step(w, "Unsqueeze", ONNX_LIST(onnx_writer_step(w, "Clip", ONNX_LIST(x), clip)), squeeze);
    onnx_writer_node(w, "Squeeze", ONNX_LIST(x), ONNX_LIST("y"), squeeze);
    onnx_writer_output(w, "y", F32, 2, (int64_t[]){2, 2}, NULL);
    save(w, 7, "old");
}

static struct onnx_writer *branch(const char *op)
{
    struct onnx_writer *b = onnx_writer_new("branch");
    onnx_writer_node(b, op, ONNX_LIST("x"), ONNX_LIST("r"), NULL);
    onnx_writer_output(b, "r", F32, 1, (int64_t[]){2}, NULL);
    return b;
}

/* If with captures, Loop with a carried and a gathered value, Scan. */
static void control(void)
{
    static const uint8_t yes = 1;
    static const int64_t three = 3;
    struct onnx_writer *w = onnx_writer_new("control"), *a = branch("Neg"), *b = branch("Abs"),
                       *body = onnx_writer_new("body"), *scan = onnx_writer_new("scan");
    onnx_writer_input(body, "i", I64, 0, NULL, NULL);
    onnx_writer_input(body, "go", BOOL, 0, NULL, NULL);
    onnx_writer_input(body, "v", F32, 1, (int64_t[]){2}, NULL);
    onnx_writer_node(body, "Identity", ONNX_LIST("go"), ONNX_LIST("on"), NULL);
    onnx_writer_node(body, "Add", ONNX_LIST("v", "x"), ONNX_LIST("v2"), NULL);
    onnx_writer_node(body, "Neg", ONNX_LIST("v"), ONNX_LIST("g"), NULL);
    onnx_writer_output(body, "on", BOOL, 0, NULL, NULL);
    onnx_writer_output(body, "v2", F32, 1, (int64_t[]){2}, NULL);
    onnx_writer_output(body, "g", F32, 1, (int64_t[]){2}, NULL);
    onnx_writer_input(scan, "s", F32, 1, (int64_t[]){2}, NULL);
    onnx_writer_input(scan, "e", F32, 1, (int64_t[]){2}, NULL);
    onnx_writer_node(scan, "Mul", ONNX_LIST("s", "e"), ONNX_LIST("s2"), NULL);
    onnx_writer_output(scan, "s2", F32, 1, (int64_t[]){2}, NULL);
    const struct onnx_attr either[] = {{.type = ONNX_ATTR_GRAPH, .name = "then_branch", .graph = a},
                                       {.type = ONNX_ATTR_GRAPH, .name = "else_branch", .graph = b},
                                       {0}},
                           turns[] = {{.type = ONNX_ATTR_GRAPH, .name = "body", .graph = body}, {0}},
                           scanned[] = {{.type = ONNX_ATTR_GRAPH, .name = "body", .graph = scan},
                                        {.type = ONNX_ATTR_INT, .name = "num_scan_inputs", .i = 1},
                                        {0}};
    onnx_writer_input(w, "x", F32, 1, (int64_t[]){2}, NULL);
    onnx_writer_input(w, "c", BOOL, 0, NULL, NULL);
    onnx_writer_constant(w, "yes", BOOL, 0, NULL, &yes, 1);
    onnx_writer_constant(w, "three", I64, 0, NULL, &three, 8);
    onnx_writer_node(w, "If", ONNX_LIST("c"), ONNX_LIST("p"), either);
    onnx_writer_node(w, "Loop", ONNX_LIST("three", "yes", "p"), ONNX_LIST("q", "all"), turns);
    onnx_writer_node(w, "Scan", ONNX_LIST("q", "all"), ONNX_LIST("y"), scanned);
    onnx_writer_output(w, "y", F32, 1, (int64_t[]){2}, NULL);
    save(w, 16, "control");
    onnx_writer_free(a);
    onnx_writer_free(b);
    onnx_writer_free(body);
    onnx_writer_free(scan);
}

/* Quantise, an integer product, dequantise; float16 and a shape that is computed. */
static void types(void)
{
    static const float tenth = 0.1f;
    static const int8_t weights[6] = {1, -2, 3, -4, 5, -6};
    static const uint8_t zero = 128;
    static const uint16_t half[3] = {0x3c00, 0xc000, 0x3800};
    const struct onnx_attr to[] = {{.type = ONNX_ATTR_INT, .name = "to", .i = F16}, {0}};
    struct onnx_writer *w = onnx_writer_new("types");
    onnx_writer_input(w, "x", F32, 2, (int64_t[]){-1, 3}, NULL);
    onnx_writer_constant(w, "s", F32, 0, NULL, &tenth, 4);
    onnx_writer_constant(w, "z", U8, 0, NULL, &zero, 1);
    onnx_writer_constant(w, "w", I8, 2, (int64_t[]){3, 2}, weights, 6);
    onnx_writer_constant(w, "h", F16, 1, (int64_t[]){3}, half, 6);
    const char *q = onnx_writer_step(w, "QuantizeLinear", ONNX_LIST("x", "s", "z"), NULL);
    const char *p = onnx_writer_step(w, "MatMulInteger", ONNX_LIST(q, "w", "z"), NULL);
    const char *n = onnx_writer_step(w, "Shape", ONNX_LIST(p), NULL);
    const char *d = onnx_writer_step(w, "DequantizeLinear", ONNX_LIST(q, "s", "z"), NULL);
    const char *m = onnx_writer_step(w, "Mul", ONNX_LIST(onnx_writer_step(w, "Cast", ONNX_LIST(d), to), "h"), NULL);
    onnx_writer_node(w, "Expand", ONNX_LIST(onnx_writer_step(w, "ReduceMax", ONNX_LIST(m), NULL), n), ONNX_LIST("y"),
                     NULL);
    onnx_writer_output(w, "y", F16, 2, (int64_t[]){-1, 2}, NULL);
    save(w, 17, "types");
}

/* Every operator that makes something of a size its inputs name. */
static void sizes(void)
{
    static const int64_t small[2] = {2, 3}, pads[4] = {1, 0, 0, 1}, four = 4, none = 0, one = 1, at[3] = {0, 2, 1};
    static const float scales[2] = {2, 1.5f}, values[2] = {0, 1};
    struct onnx_writer *w = onnx_writer_new("sizes");
    onnx_writer_input(w, "x", F32, 2, (int64_t[]){1, 3}, NULL);
    onnx_writer_input(w, "n", I64, 1, (int64_t[]){2}, NULL);
    onnx_writer_constant(w, "small", I64, 1, (int64_t[]){2}, small, 16);
    onnx_writer_constant(w, "pads", I64, 1, (int64_t[]){4}, pads, 32);
    onnx_writer_constant(w, "scales", F32, 1, (int64_t[]){2}, scales, 8);
    onnx_writer_constant(w, "values", F32, 1, (int64_t[]){2}, values, 8);
    onnx_writer_constant(w, "four", I64, 0, NULL, &four, 8);
    onnx_writer_constant(w, "none", I64, 0, NULL, &none, 8);
    onnx_writer_constant(w, "one", I64, 0, NULL, &one, 8);
    onnx_writer_constant(w, "at", I64, 1, (int64_t[]){3}, at, 24);
    onnx_writer_node(w, "ConstantOfShape", ONNX_LIST("n"), ONNX_LIST("a"), NULL);
    onnx_writer_node(w, "Expand", ONNX_LIST("x", "small"), ONNX_LIST("b"), NULL);
    onnx_writer_node(w, "Tile", ONNX_LIST("x", "small"), ONNX_LIST("c"), NULL);
    onnx_writer_node(w, "Range", ONNX_LIST("none", "four", "one"), ONNX_LIST("d"), NULL);
    onnx_writer_node(w, "Pad", ONNX_LIST("x", "pads"), ONNX_LIST("e"), NULL);
    onnx_writer_node(w, "Resize", ONNX_LIST("x", "", "scales"), ONNX_LIST("f"), NULL);
    onnx_writer_node(w, "OneHot", ONNX_LIST("at", "four", "values"), ONNX_LIST("g"), NULL);
    onnx_writer_node(w, "NonZero", ONNX_LIST("x"), ONNX_LIST("h"), NULL);
    onnx_writer_node(w, "Gather", ONNX_LIST("x", "h"), ONNX_LIST("i"), NULL);
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "i"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        onnx_writer_output(w, names[i], i == 3 ? I64 : F32, i == 3 ? 1 : 2, (int64_t[]){-1, -1}, NULL);
    }
    save(w, 17, "sizes");
}

/* External data: the target has no folder, it is refused. */
static void external(void)
{
    struct onnx_writer *w = onnx_writer_new("external");
    onnx_writer_external(w, "w", F32, 1, (int64_t[]){3}, "w.bin");
    onnx_writer_node(w, "Neg", ONNX_LIST("w"), ONNX_LIST("y"), NULL);
    onnx_writer_output(w, "y", F32, 1, (int64_t[]){3}, NULL);
    save(w, 17, "external");
}

int main(int argc, char **argv)
{
    static const struct encoder tiny = {
        .layers = 1, .hidden = 8, .heads = 2, .inner = 8, .vocabulary = 5, .positions = 4, .seed = 1};
    char path[4096];
    if (argc != 2) {
        fprintf(stderr, "usage: onnx_seeds FOLDER\n");
        return 2;
    }
    root = argv[1];
    network();
    old();
    control();
    types();
    sizes();
    external();
    snprintf(path, sizeof path, "%s/encoder.onnx", root);
    encoder_write(&tiny, path);
    return 0;
}
