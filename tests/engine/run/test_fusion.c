/* Nodes that the CPU backend runs as one step: the same numbers as one by one on reference, the step says what it took in, and what stays alone says why. */
#include "sketch.h"

static void begin(void)
{
    sketch_rows = pen_explain_new();
}

static void end(void)
{
    pen_explain_free(sketch_rows);
}

TestSuite(fusion, .init = begin, .fini = end);

static void draw_residual(struct sketch *s)
{
    const char *x = sketch_input(s, 3, WRITTEN_DIMS(2, 5, K)), *y = sketch_linear(s, x, sketch_first, K, N);
    y = sketch_pair(s, "Mul", sketch_pair(s, "Mul", y, sketch_scalar(s, "half", 0.5f)),
                    sketch_pair(s, "Add",
                                sketch_one(s, "Erf", sketch_pair(s, "Div", y, sketch_scalar(s, "root", 1.41421356f))),
                                sketch_scalar(s, "one", 1.0f)));
    sketch_output(s, sketch_pair(s, "Add", x, sketch_linear(s, y, sketch_second, N, K)), 3);
}

Test(fusion, a_product_takes_its_bias_gelu_and_the_residual)
{
    sketch_check(draw_residual, 4); /* product and bias in gelu; product and bias in the sum */
}

/* Indices from beyond both ends, too, times a matrix [K, N], in the form that exporters give: rows in a line, and somebody asks for the shape. */
static void lookup(struct sketch *s, float on, const char *w)
{
    const float values_of[2] = {0.0f, on};
    const int64_t depth = K, rows_of[2] = {-1, K}, width = N;
    const char *x = sketch_pair(s, "Mul", sketch_input(s, 2, WRITTEN_DIMS(3, 70)), sketch_scalar(s, "range", 1.3f * K));
    onnx_writer_constant(s->w, "depth", PEN_DTYPE_I64, 0, NULL, &depth, sizeof depth);
    onnx_writer_constant(s->w, "off_on", PEN_DTYPE_F32, 1, WRITTEN_DIMS(2), values_of, sizeof values_of);
    onnx_writer_constant(s->w, "rows", PEN_DTYPE_I64, 1, WRITTEN_DIMS(2), rows_of, sizeof rows_of);
    onnx_writer_constant(s->w, "width", PEN_DTYPE_I64, 1, WRITTEN_DIMS(1), &width, sizeof width);
    const char *hot = onnx_writer_step(s->w, "OneHot", ONNX_LIST(x, "depth", "off_on"), NULL);
    const struct onnx_attr ends[] = {
        {.type = ONNX_ATTR_INT, .name = "start", .i = 0}, {.type = ONNX_ATTR_INT, .name = "end", .i = 2}, {0}};
    const struct onnx_attr axis[] = {{.type = ONNX_ATTR_INT, .name = "axis", .i = 0}, {0}};
    const char *front = onnx_writer_step(s->w, "Shape", ONNX_LIST(hot), ends);
    const char *shape = onnx_writer_step(s->w, "Concat", ONNX_LIST(front, "width"), axis);
    const char *y =
        sketch_pair(s, "Reshape", sketch_pair(s, "MatMul", sketch_pair(s, "Reshape", hot, "rows"), w), shape);
    sketch_output(s, sketch_one(s, "Tanh", y), 3);
}

static void draw_lookup(struct sketch *s)
{
    lookup(s, 1.0f, sketch_constant(s, "w1", 2, WRITTEN_DIMS(K, N), 0.3f));
}

static void draw_scaled_lookup(struct sketch *s)
{
    lookup(s, 2.0f, sketch_constant(s, "w1", 2, WRITTEN_DIMS(K, N), 0.3f));
}

static void draw_infinite_lookup(struct sketch *s)
{
    static float w[K * N];
    w[5 * N + 3] = INFINITY; /* times zero: NaN in all rows but this one */
    onnx_writer_constant(s->w, "w1", PEN_DTYPE_F32, 2, WRITTEN_DIMS(K, N), w, sizeof w);
    lookup(s, 1.0f, "w1");
}

Test(fusion, rows_of_a_single_one_are_looked_up)
{
    sketch_check(draw_lookup, 2); /* the Reshape and the product in OneHot's step */
    sketch_check(draw_scaled_lookup, 0);
    sketch_check(draw_infinite_lookup, 0);
}

static void draw_tanh(struct sketch *s)
{
    const char *x = sketch_input(s, 4, WRITTEN_DIMS(2, 3, 5, K)), *y = sketch_linear(s, x, sketch_first, K, N);
    const char *cube = sketch_pair(s, "Mul", sketch_pair(s, "Pow", y, sketch_scalar(s, "three", 3.0f)),
                                   sketch_scalar(s, "c", 0.044715f));
    const char *inner = sketch_pair(s, "Mul", sketch_pair(s, "Add", y, cube), sketch_scalar(s, "d", 0.7978845608f));
    const char *term = sketch_pair(s, "Add", sketch_one(s, "Tanh", inner), sketch_scalar(s, "one", 1.0f));
    sketch_output(s, sketch_pair(s, "Mul", sketch_pair(s, "Mul", y, sketch_scalar(s, "half", 0.5f)), term), 4);
}

Test(fusion, gelu_by_tanh_is_found_and_joined)
{
    sketch_check(draw_tanh, 2);
}

static void draw_factored_tanh(struct sketch *s) /* x 0.79 (1 + 0.0447 x x) */
{
    const char *x = sketch_input(s, 3, WRITTEN_DIMS(2, 3, K)), *y = sketch_linear(s, x, sketch_first, K, N);
    const char *square = sketch_pair(s, "Mul", sketch_pair(s, "Mul", sketch_scalar(s, "c", 0.044715f), y), y);
    const char *inner = sketch_pair(s, "Mul", sketch_pair(s, "Mul", y, sketch_scalar(s, "d", 0.79788456f)),
                                    sketch_pair(s, "Add", sketch_scalar(s, "one", 1.0f), square));
    const char *term = sketch_pair(s, "Add", sketch_scalar(s, "unit", 1.0f), sketch_one(s, "Tanh", inner));
    sketch_output(s, sketch_pair(s, "Mul", y, sketch_pair(s, "Mul", sketch_scalar(s, "half", 0.5f), term)), 3);
}

Test(fusion, gelu_by_tanh_in_another_spelling)
{
    sketch_check(draw_factored_tanh, 2);
}

static void draw_broadcast_sum(struct sketch *s)
{
    const char *x = sketch_input(s, 3, WRITTEN_DIMS(2, 5, K)), *other = sketch_input(s, 3, WRITTEN_DIMS(1, 1, N));
    sketch_output(s, sketch_one(s, "Relu", sketch_pair(s, "Add", sketch_linear(s, x, sketch_first, K, N), other)), 3);
}

Test(fusion, a_sum_that_broadcasts_is_added_in_a_pass_of_its_own)
{
    sketch_check(draw_broadcast_sum, 2);
}

static void draw_widening_sum(struct sketch *s)
{
    const char *x = sketch_input(s, 3, WRITTEN_DIMS(1, 5, K)), *other = sketch_input(s, 3, WRITTEN_DIMS(3, 1, N));
    sketch_output(s, sketch_pair(s, "Add", other, sketch_linear(s, x, sketch_first, K, N)), 3);
}

Test(fusion, a_sum_may_be_wider_than_the_product)
{
    sketch_check(draw_widening_sum, 2);
}

static void draw_read_twice(struct sketch *s)
{
    const char *x = sketch_input(s, 3, WRITTEN_DIMS(2, 5, K)),
               *w = sketch_constant(s, "w", 2, WRITTEN_DIMS(K, N), 0.3f);
    const char *product = sketch_pair(s, "MatMul", x, w), *bias = sketch_constant(s, "b", 1, WRITTEN_DIMS(N), 0.5f);
    sketch_output(s, sketch_pair(s, "Mul", sketch_pair(s, "Add", product, bias), product), 3);
}

Test(fusion, what_somebody_else_reads_is_not_joined)
{
    sketch_check(draw_read_twice, 0);
}
