#include "numbers.h"

void numbers_open(struct written *w, const struct pen_engine_options *options)
{
    static const float three = 3.0f;
    struct onnx_writer *g = onnx_writer_new("numbers");
    onnx_writer_input(g, "a", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_input(g, "b", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_constant(g, "three", PEN_DTYPE_F32, 0, NULL, &three, sizeof three);
    onnx_writer_node(g, "Log", ONNX_LIST("a"), ONNX_LIST("l"), NULL);
    onnx_writer_node(g, "Div", ONNX_LIST("l", "b"), ONNX_LIST("y"), NULL);
    onnx_writer_node(g, "Mul", ONNX_LIST("a", "three"), ONNX_LIST("t"), NULL);
    onnx_writer_node(g, "Add", ONNX_LIST("t", "b"), ONNX_LIST("z"), NULL);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    onnx_writer_output(g, "z", PEN_DTYPE_F32, 1, WRITTEN_DIMS(-1), NULL);
    written_open(w, g, options);
}

enum pen_status numbers_run(struct written *w, float a, float b)
{
    const float as[] = {1, 1, a}, bs[] = {1, 2, b};
    const struct pen_tensor in[] = {written_tensor(PEN_DTYPE_F32, 1, WRITTEN_DIMS(3), as, 12),
                                    written_tensor(PEN_DTYPE_F32, 1, WRITTEN_DIMS(3), bs, 12)};
    return written_run(w, in, 2);
}
