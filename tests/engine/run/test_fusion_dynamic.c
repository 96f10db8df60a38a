/* Weights behind a dynamic quantisation are packed at the load. */
#include "sketch.h"

static void draw_dynamic(struct sketch *s)
{
    static int8_t codes[K * N];
    const char *x = sketch_input(s, 3, WRITTEN_DIMS(2, 5, K));
    for (size_t i = 0; i < K * N; i++) {
        codes[i] = (int8_t)(i * 37 % 255 - 127);
    }
    onnx_writer_constant(s->w, "codes", PEN_DTYPE_I8, 2, WRITTEN_DIMS(K, N), codes, sizeof codes);
    onnx_writer_node(s->w, "DynamicQuantizeLinear", ONNX_LIST(x), ONNX_LIST("q", "scale", "zero"), NULL);
    const char *sums = onnx_writer_step(s->w, "MatMulInteger", ONNX_LIST("q", "codes", "zero"), NULL);
    const struct onnx_attr to[] = {{.type = ONNX_ATTR_INT, .name = "to", .i = PEN_DTYPE_F32}, {0}};
    const char *real = onnx_writer_step(s->w, "Cast", ONNX_LIST(sums), to);
    sketch_output(s, sketch_pair(s, "Mul", real, sketch_pair(s, "Mul", "scale", sketch_scalar(s, "weights", 0.01f))),
                  3);
}

static void dynamic_check(enum pen_isa isa)
{
    sketch_asked = (struct sketch_asked){.isa_max = isa};
    sketch_check(draw_dynamic, 0);
    sketch_expect_reason("weights packed at the load");
}

WITH_EACH_ISA(weights_behind_a_dynamic_quantisation_are_packed_once, dynamic_check)
