/* Weights behind a dynamic quantisation are packed at the load, and their sums become floats where they are made. */
#include "sketch.h"

static struct form {
    bool zero;  /* weights with a zero point: their products are sums, as the file has them */
    bool each;  /* a scale of each column */
    bool bias;  /* a constant row is added */
    bool reads; /* somebody else reads the sums as floats */
} form;

static const char *weights_scale(struct sketch *s)
{
    return form.each ? sketch_constant(s, "weights", 1, WRITTEN_DIMS(N), 0.01f) : sketch_scalar(s, "weights", 0.01f);
}

static void draw_dynamic(struct sketch *s)
{
    static int8_t codes[K * N];
    static const int8_t zero = 3;
    const char *x = sketch_input(s, 3, WRITTEN_DIMS(2, 5, K));
    for (size_t i = 0; i < K * N; i++) {
        codes[i] = (int8_t)(i * 37 % 255 - 127);
    }
    onnx_writer_constant(s->w, "codes", PEN_DTYPE_I8, 2, WRITTEN_DIMS(K, N), codes, sizeof codes);
    onnx_writer_constant(s->w, "codes_zero", PEN_DTYPE_I8, 0, NULL, &zero, sizeof zero);
    onnx_writer_node(s->w, "DynamicQuantizeLinear", ONNX_LIST(x), ONNX_LIST("q", "scale", "zero"), NULL);
    const char *sums =
        form.zero ? onnx_writer_step(s->w, "MatMulInteger", ONNX_LIST("q", "codes", "zero", "codes_zero"), NULL)
                  : onnx_writer_step(s->w, "MatMulInteger", ONNX_LIST("q", "codes", "zero"), NULL);
    const struct onnx_attr to[] = {{.type = ONNX_ATTR_INT, .name = "to", .i = PEN_DTYPE_F32}, {0}};
    const char *real = onnx_writer_step(s->w, "Cast", ONNX_LIST(sums), to);
    const char *y = sketch_pair(s, "Mul", real, sketch_pair(s, "Mul", "scale", weights_scale(s)));
    y = form.bias ? sketch_pair(s, "Add", y, sketch_constant(s, "bias", 1, WRITTEN_DIMS(N), 0.3f)) : y;
    y = form.reads ? sketch_pair(s, "Mul", y, sketch_one(s, "Sigmoid", real)) : y;
    sketch_output(s, sketch_one(s, "Relu", y), 3);
}

static void dynamic_check(enum pen_isa isa)
{
    static const struct form joined[] = {{.bias = false}, {.bias = true}, {.each = true}, {.each = true, .bias = true}};
    sketch_asked = (struct sketch_asked){.isa_max = isa};
    for (size_t i = 0; i < sizeof joined / sizeof joined[0]; i++) {
        form = joined[i];
        sketch_check(draw_dynamic, form.bias ? 3 : 2);
        sketch_expect_reason("sums of bytes become floats");
    }
}

WITH_EACH_ISA(sums_behind_a_dynamic_quantisation_become_floats_at_once, dynamic_check)

Test(fusion, other_products_of_dynamic_bytes_are_packed_once)
{
    static const struct form alone[] = {{.zero = true}, {.reads = true}};
    sketch_asked = (struct sketch_asked){.isa_max = PEN_ISA_ANY};
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
        form = alone[i];
        struct written truth, fast;
        sketch_run(draw_dynamic, "reference", 1, &truth);
        sketch_run(draw_dynamic, "xnnpack", 1, &fast);
        cr_assert_lt(sketch_distance(&fast, &truth), 1e-5);
        sketch_expect_reason("weights packed at the load");
        cr_assert(!sketch_row_says("sums of bytes become floats"));
        written_close(&truth);
        written_close(&fast);
    }
}
