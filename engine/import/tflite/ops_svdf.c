/* SVDF: a recurrent layer whose state is a memory of products. Source: TFLite's EvalFloatSVDF and EvalIntegerSVDF. */
#include "import/build/tensorflow.h"
#include "import/tflite/reader.h"

/* One scale, and 0 is the byte of zero. */
static bool symmetric(struct call *c, uint32_t index)
{
    const struct tensor *t = lite_tensor(c, index);
    return lite_quantised(c, index) && t->quant.count == 1 && t->quant.zero_point[0] == 0;
}

static bool of_integers(struct call *c)
{
    const struct tensor *x = lite_tensor(c, 0), *w = lite_tensor(c, 1), *time = lite_tensor(c, 2),
                        *bias = lite_tensor(c, 3);
    return lite_quantised(c, 0) && x->quant.count == 1 && (x->dtype == PEN_DTYPE_I8 || x->dtype == PEN_DTYPE_U8) &&
           symmetric(c, 1) && w->constant && w->dtype == PEN_DTYPE_I8 && w->shape.rank == 2 && symmetric(c, 2) &&
           time->constant && symmetric(c, 4) && (!bias || (bias->constant && bias->dtype == PEN_DTYPE_I32));
}

static float scale_of(struct call *c, uint32_t index)
{
    return lite_tensor(c, index)->quant.scale[0];
}

/* Exact sums as floats. */
static uint32_t scaled(struct build *b, uint32_t sums, float scale)
{
    return build_2(b, OP_Mul, build_cast(b, sums, PEN_DTYPE_F32), build_f32_scalar(b, scale));
}

/* What enters the memory: sums of products as steps of the state. */
static uint32_t newest(struct call *c)
{
    struct build *b = c->b;
    uint32_t unused, steps, none, in[3] = {lite_in(c, 0), build_transpose(b, lite_in(c, 1), (int64_t[]){1, 0}, 2)};
    lite_affine(c, lite_tensor(c, 0), &unused, &in[2]);
    lite_affine(c, lite_tensor(c, 4), &steps, &none);
    uint32_t real = scaled(b, build_op(b, OP_MatMulInteger, in, 3), scale_of(c, 0) * scale_of(c, 1));
    return build_cast(b, build_3(b, OP_QuantizeLinear, real, steps, none), PEN_DTYPE_I32);
}

/* All of integers of 32 bits until the sums leave: every backend has the same bits. */
static void integers(struct call *c, int64_t rank)
{
    struct build *b = c->b;
    const struct shape *time = &lite_tensor(c, 2)->shape;
    const int64_t filters = time->dim[0], memory = time->dim[1], last = -1;
    uint32_t state = build_cast(b, lite_in(c, 4), PEN_DTYPE_I32), axes = build_i64(b, &last, 1);
    state = build_reshape(b, state, (int64_t[]){-1, filters, memory}, 3);
    uint32_t parts[] = {build_slice(b, state, 2, 1, INT64_MAX, 1), build_unsqueeze(b, newest(c), 2)};
    uint32_t held = build_axis_op(b, OP_Concat, parts, 2, 2);
    held = build_2(b, OP_Mul, held, build_cast(b, lite_in(c, 2), PEN_DTYPE_I32));
    uint32_t y = build_reduce(b, OP_ReduceSum, held, axes, false);
    y = build_reshape(b, y, (int64_t[]){-1, filters / rank, rank}, 3);
    y = build_reduce(b, OP_ReduceSum, y, axes, false);
    if (lite_tensor(c, 3))
        y = build_2(b, OP_Add, y, lite_in(c, 3));
    /* no activation: the interpreter leaves it to the limits of the result's bytes */
    lite_give_real(c, 0, scaled(b, y, scale_of(c, 4) * scale_of(c, 2)));
}

/*
 * x, feature weights [filters, in], time weights [filters, memory], bias, state [batch, filters * memory]: the newest product enters the memory, the memory
 * is weighted over time, and `rank` filters make one unit. The memory of integers has steps.
 */
void lower_svdf(struct call *c)
{
    struct build *b = c->b;
    const struct tensor *time = lite_tensor(c, 2);
    int64_t rank = lite_option(c, 0, 0), last = -1;
    if (!time || time->shape.rank != 2 || rank < 1 || time->shape.dim[0] % rank != 0 || !lite_tensor(c, 4)) {
        build_stop(b, PEN_ERR_CORRUPT, "its weights do not suit rank %lld", (long long)rank);
        return;
    }
    if (of_integers(c)) {
        integers(c, rank);
        return;
    }
    int64_t filters = time->shape.dim[0], memory = time->shape.dim[1];
    const struct tensor *memory_of = lite_tensor(c, 4);
    bool integers = lite_quantised(c, 0) && lite_quantised(c, 4);
    uint32_t data = lite_product_data(c, 0, 1, 1, fb_bool(&c->options, 2, false));
    uint32_t fresh = build_2(b, OP_Gemm, data, lite_real(c, 1));
    build_int(b, ATTR_transB, 1);
    if (integers)
        fresh = lite_steps_of(b, fresh, &memory_of->quant, memory_of->dtype);
    uint32_t state = build_reshape(b, lite_real(c, 4), (int64_t[]){-1, filters, memory}, 3);
    uint32_t parts[] = {build_slice(b, state, 2, 1, INT64_MAX, 1), build_unsqueeze(b, fresh, 2)};
    uint32_t held = build_2(b, OP_Mul, build_axis_op(b, OP_Concat, parts, 2, 2), lite_real(c, 2));
    uint32_t sums = build_reduce(b, OP_ReduceSum, held, build_i64(b, &last, 1), false);
    uint32_t y = build_reshape(b, sums, (int64_t[]){-1, filters / rank, rank}, 3);
    y = build_reduce(b, OP_ReduceSum, y, build_i64(b, &last, 1), false);
    if (lite_tensor(c, 3))
        y = build_2(b, OP_Add, y, integers ? lite_bias(c, 3, 4, 2) : lite_real(c, 3));
    lite_give_real(c, 0, tf_activate(b, y, lite_activation(c, 1), 0.0f));
}
