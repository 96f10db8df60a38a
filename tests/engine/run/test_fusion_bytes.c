/* Joined products with weights of two bytes: bf16 as a precision, and weights that f16 or bf16 holds. */
#include "backend/xnnpack/isa.h"
#include "penstock/dtype.h"
#include "sketch.h"

static int64_t depth, width, count_rows;

static void draw_wide(struct sketch *s)
{
    const char *x = sketch_input(s, 3, WRITTEN_DIMS(1, count_rows, depth));
    sketch_output(s, sketch_one(s, "Relu", sketch_linear(s, x, sketch_first, depth, width)), 3);
}

static const int64_t sizes[][3] = {{37, 45, 5}, {300, 70, 40}, {513, 33, 1}, {64, 200, 29}};

static void bf16_check(const char *kernel)
{
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct written truth, fast, two;
        depth = sizes[i][0], width = sizes[i][1], count_rows = sizes[i][2];
        sketch_run(draw_wide, "reference", 1, &truth);
        sketch_run(draw_wide, "xnnpack", 1, &fast);
        sketch_run(draw_wide, "xnnpack", 2, &two);
        double far = sketch_distance(&fast, &truth);
        cr_assert(far > 1e-6 && far < 1e-2, "bf16 is %g of the range away", far);
        cr_assert_eq(memcmp(fast.out[0].data, two.out[0].data, fast.out[0].bytes), 0, "1 and 2 threads differ");
        sketch_expect_reason(kernel);
        written_close(&truth);
        written_close(&fast);
        written_close(&two);
    }
}

Test(fusion, bf16_rounds_weights_and_sums_in_f32)
{
    sketch_asked = (struct sketch_asked){.precision = PEN_PRECISION_BF16};
    bf16_check("bf16");
}

Test(fusion, bf16_without_its_instruction)
{
    sketch_asked = (struct sketch_asked){.precision = PEN_PRECISION_BF16, .isa_max = PEN_ISA_AVX512VNNI};
    bf16_check("weights of bf16");
}

Test(fusion, bf16_in_pairs)
{
    sketch_asked = (struct sketch_asked){.precision = PEN_PRECISION_BF16, .isa_max = PEN_ISA_AVX512BF16};
    bf16_check("bf16");
}

Test(fusion, bf16_with_avx2_alone)
{
    sketch_asked = (struct sketch_asked){.precision = PEN_PRECISION_BF16, .isa_max = PEN_ISA_AVX2};
    bf16_check("weights of bf16");
}

Test(fusion, bf16_in_plain_c)
{
    sketch_asked = (struct sketch_asked){.precision = PEN_PRECISION_BF16, .isa_max = PEN_ISA_PLAIN};
    bf16_check("weights of bf16");
}

/* A convolution with the default window: no padding, stride 1. */
static void draw_conv(struct sketch *s)
{
    static float room[ROOM];
    const int64_t kernel = count_rows;
    const char *x = sketch_input(s, 4, WRITTEN_DIMS(2, depth, 9, 11));
    for (int64_t i = 0; i < width * depth * kernel * kernel; i++) {
        room[i] = 0.3f * sketch_random(&s->seed);
    }
    onnx_writer_constant(s->w, "w", PEN_DTYPE_F32, 4, WRITTEN_DIMS(width, depth, kernel, kernel), room,
                         (size_t)(width * depth * kernel * kernel) * sizeof *room);
    sketch_output(s, sketch_one(s, "Relu", sketch_pair(s, "Conv", x, "w")), 4);
}

/* 1 x 1 and 5 x 5 are rounded; of 3 x 3, with AMX all but three channels, and elsewhere three alone, of which Winograd makes no tiles. */
static void conv_bf16_check(const char *kernel)
{
    static const int64_t windows[][3] = {{37, 45, 1}, {300, 40, 1}, {3, 20, 5}, {21, 30, 5}, {16, 32, 3}, {3, 24, 3}};
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        struct written truth, fast, two;
        depth = windows[i][0], width = windows[i][1], count_rows = windows[i][2];
        sketch_run(draw_conv, "reference", 1, &truth);
        sketch_run(draw_conv, "xnnpack", 1, &fast);
        sketch_run(draw_conv, "xnnpack", 2, &two);
        const double far = sketch_distance(&fast, &truth);
        const bool rounded = count_rows != 3 || isa_tiles_within(sketch_asked.isa_max) == (depth != 3);
        cr_assert(rounded ? far > 1e-5 && far < 1e-2 : far < 1e-5, "%d x %d: %g of the range away", (int)count_rows,
                  (int)count_rows, far);
        cr_assert_eq(memcmp(fast.out[0].data, two.out[0].data, fast.out[0].bytes), 0, "1 and 2 threads differ");
        if (rounded) {
            sketch_expect_reason(kernel);
        }
        written_close(&truth);
        written_close(&fast);
        written_close(&two);
    }
}

Test(fusion, convolutions_in_bf16)
{
    sketch_asked = (struct sketch_asked){.precision = PEN_PRECISION_BF16};
    conv_bf16_check("bf16");
}

Test(fusion, convolutions_in_pairs_of_bf16)
{
    sketch_asked = (struct sketch_asked){.precision = PEN_PRECISION_BF16, .isa_max = PEN_ISA_AVX512BF16};
    conv_bf16_check("bf16");
}

Test(fusion, convolutions_in_bf16_with_avx2_alone)
{
    sketch_asked = (struct sketch_asked){.precision = PEN_PRECISION_BF16, .isa_max = PEN_ISA_AVX2};
    conv_bf16_check("weights of bf16");
}

static enum pen_dtype weights_held;

static void draw_held(struct sketch *s)
{
    static float room[ROOM];
    const char *x = sketch_input(s, 3, WRITTEN_DIMS(1, count_rows, depth));
    for (int64_t i = 0; i < depth * width; i++) {
        float w = i == 3 ? 3e-6f : 0.3f * sketch_random(&s->seed); /* one that f16 has no full number for */
        room[i] =
            weights_held == PEN_DTYPE_F16 ? pen_f16_to_f32(pen_f32_to_f16(w)) : pen_bf16_to_f32(pen_f32_to_bf16(w));
    }
    onnx_writer_constant(s->w, "w", PEN_DTYPE_F32, 2, WRITTEN_DIMS(depth, width), room,
                         (size_t)(depth * width) * sizeof *room);
    sketch_output(s, sketch_pair(s, "MatMul", x, "w"), 3);
}

static void held_check(enum pen_dtype dtype, enum pen_isa isa, const char *kernel)
{
    weights_held = dtype;
    sketch_asked = (struct sketch_asked){.isa_max = isa};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        depth = sizes[i][0], width = sizes[i][1], count_rows = sizes[i][2];
        sketch_check(draw_held, 0);
        sketch_expect_reason(kernel);
    }
}

static void weights_held_check(enum pen_isa isa)
{
    held_check(PEN_DTYPE_F16, isa, "weights of f16");
    held_check(PEN_DTYPE_BF16, isa, "weights of bf16");
}

WITH_EACH_ISA(weights_that_f16_or_bf16_holds_stay_at_two_bytes, weights_held_check)
