/* Nodes that the CPU backend runs as one step: the same numbers as one by one on reference, the step says what it took in, and what stays alone says why. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "penstock/dtype.h"
#include "written.h"

#define INPUTS 4
#define ROOM   200000

/* A graph of f32 inputs "a", "b", ... and the output "y". */
struct sketch {
    struct onnx_writer *w;
    uint32_t ranks[INPUTS];
    int64_t dims[INPUTS][4];
    size_t inputs;
    uint32_t seed;
};

typedef void (*sketch_fn)(struct sketch *s);

/* What an engine is asked for beside its backend. */
struct asked {
    enum pen_precision precision;
    enum pen_isa isa_max;
};
static struct asked asked;

static float values[INPUTS][ROOM];
static struct pen_explain *rows;

static float random_one(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

static const char *input(struct sketch *s, uint32_t rank, const int64_t *dims)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    const int64_t open[4] = {-1, -1, -1, -1};
    s->ranks[s->inputs] = rank;
    memcpy(s->dims[s->inputs], dims, rank * sizeof *dims);
    onnx_writer_input(s->w, names[s->inputs], PEN_DTYPE_F32, rank, open, NULL);
    return names[s->inputs++];
}

static const char *constant(struct sketch *s, const char *name, uint32_t rank, const int64_t *dims, float scale)
{
    static float room[ROOM];
    size_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        count *= (size_t)dims[i];
    }
    for (size_t i = 0; i < count; i++) {
        room[i] = scale * random_one(&s->seed);
    }
    onnx_writer_constant(s->w, name, PEN_DTYPE_F32, rank, dims, room, count * sizeof *room);
    return name;
}

static const char *scalar(struct sketch *s, const char *name, float value)
{
    onnx_writer_constant(s->w, name, PEN_DTYPE_F32, 0, NULL, &value, sizeof value);
    return name;
}

static const char *pair(struct sketch *s, const char *op, const char *a, const char *b)
{
    return onnx_writer_step(s->w, op, ONNX_LIST(a, b), NULL);
}

static const char *one(struct sketch *s, const char *op, const char *a)
{
    return onnx_writer_step(s->w, op, ONNX_LIST(a), NULL);
}

static const char *turned(struct sketch *s, const char *x, size_t rank, const int64_t *perm)
{
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INTS, .name = "perm", .ints = perm, .count = rank}, {0}};
    return onnx_writer_step(s->w, "Transpose", ONNX_LIST(x), attrs);
}

static const char *softmax(struct sketch *s, const char *x, int64_t axis)
{
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INT, .name = "axis", .i = axis}, {0}};
    return onnx_writer_step(s->w, "Softmax", ONNX_LIST(x), attrs);
}

static void output(struct sketch *s, const char *x, uint32_t rank)
{
    const int64_t open[4] = {-1, -1, -1, -1};
    onnx_writer_node(s->w, "Identity", ONNX_LIST(x), ONNX_LIST("y"), NULL);
    onnx_writer_output(s->w, "y", PEN_DTYPE_F32, rank, open, NULL);
}

/* ---- running ---- */

static void one_run(sketch_fn draw, const char *backend, uint32_t threads, struct written *w)
{
    struct sketch s = {.w = onnx_writer_new("fusion"), .seed = 7};
    struct pen_engine_options options;
    struct pen_tensor in[INPUTS];
    uint32_t seed = 99;
    pen_engine_options_init(&options);
    options.backend = backend;
    options.strict = true;
    options.threads = threads;
    options.explain = rows;
    options.vulkan = (struct pen_vulkan_options){.allow_software = true, .validate = true};
    if (strcmp(backend, "xnnpack") == 0) {
        options.precision = asked.precision;
        options.cpu_isa_max = asked.isa_max;
    }
    draw(&s);
    for (size_t i = 0; i < s.inputs; i++) {
        size_t count = 1;
        for (uint32_t d = 0; d < s.ranks[i]; d++) {
            count *= (size_t)s.dims[i][d];
        }
        cr_assert_leq(count, ROOM);
        for (size_t k = 0; k < count; k++) {
            values[i][k] = random_one(&seed);
        }
        in[i] = written_tensor(PEN_DTYPE_F32, s.ranks[i], s.dims[i], values[i], count * sizeof(float));
    }
    written_open(w, s.w, &options);
    cr_assert_eq(written_run(w, in, s.inputs), PEN_OK, "%s", w->error.text);
}

/* How many nodes another one's step does. */
static size_t joined(void)
{
    size_t count = 0, found = 0;
    const struct pen_explain_row *row = pen_explain_rows(rows, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        found += row[i].about == PEN_CHOICE_KERNEL && strstr(row[i].reason, "its work is done in the step of") != NULL;
    }
    return found;
}

static bool row_says(const char *text)
{
    size_t count = 0;
    const struct pen_explain_row *row = pen_explain_rows(rows, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        if (strstr(row[i].reason, text) != NULL || strstr(row[i].choice, text) != NULL) {
            return true;
        }
    }
    return false;
}

static void expect_reason(const char *text)
{
    cr_assert(row_says(text), "no row says '%s'", text);
}

/* The largest difference of two answers over the range of the second. */
static double distance(const struct written *a, const struct written *b)
{
    const float *x = a->out[0].data, *y = b->out[0].data;
    double far = 0.0, low = INFINITY, high = -INFINITY;
    cr_assert_eq(a->out[0].bytes, b->out[0].bytes);
    for (size_t i = 0; i < b->out[0].bytes / sizeof(float); i++) {
        cr_assert(isfinite(x[i]) && isfinite(y[i]));
        far = fmax(far, fabs((double)x[i] - (double)y[i]));
        low = fmin(low, (double)y[i]);
        high = fmax(high, (double)y[i]);
    }
    return far / (high - low);
}

/* The numbers of reference, with 1 and 2 threads bit for bit, and so many nodes that others' steps do. */
static void check(sketch_fn draw, size_t want)
{
    struct written truth, fast, two;
    one_run(draw, "reference", 1, &truth);
    pen_explain_free(rows);
    rows = pen_explain_new();
    one_run(draw, "xnnpack", 1, &fast);
    cr_assert_eq(joined(), want, "%zu nodes are joined", joined());
    one_run(draw, "xnnpack", 2, &two);
    cr_assert_eq(fast.out[0].bytes, truth.out[0].bytes);
    for (size_t i = 0; i < truth.out[0].bytes / sizeof(float); i++) {
        float a = ((const float *)fast.out[0].data)[i], b = ((const float *)truth.out[0].data)[i];
        cr_assert((isnan(a) && isnan(b)) || fabsf(a - b) <= 2e-5f + 1e-4f * fabsf(b), "element %zu is %g, not %g", i,
                  (double)a, (double)b);
    }
    cr_assert_eq(memcmp(fast.out[0].data, two.out[0].data, fast.out[0].bytes), 0, "1 and 2 threads differ");
    written_close(&truth);
    written_close(&fast);
    written_close(&two);
}

/* How many nodes a dispatch does that another one is named for. */
static size_t joined_gpu(void)
{
    size_t count = 0, found = 0;
    const struct pen_explain_row *row = pen_explain_rows(rows, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        found += row[i].about == PEN_CHOICE_KERNEL && strcmp(row[i].choice, "vulkan: joined") == 0;
    }
    return found;
}

static bool gpu_there(void)
{
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    pen_engine_options_init(&options);
    options.backend = "vulkan";
    options.vulkan.allow_software = true;
    bool there = pen_engine_new(&options, &engine, NULL) == PEN_OK;
    pen_engine_free(engine);
    return there;
}

/* The same on a GPU; joined 0: whatever else its nodes join. */
static void check_gpu(sketch_fn draw, size_t want)
{
    struct written truth, fast;
    if (!gpu_there()) {
        return;
    }
    one_run(draw, "reference", 1, &truth);
    pen_explain_free(rows);
    rows = pen_explain_new();
    one_run(draw, "vulkan", 1, &fast);
    cr_assert_eq(row_says("vulkan: attention"), want > 0, "one dispatch does all of it");
    cr_assert(want == 0 || joined_gpu() == want, "%zu nodes are joined", joined_gpu());
    for (size_t i = 0; i < truth.out[0].bytes / sizeof(float); i++) {
        float a = ((const float *)fast.out[0].data)[i], b = ((const float *)truth.out[0].data)[i];
        cr_assert((isnan(a) && isnan(b)) || fabsf(a - b) <= 2e-5f + 1e-4f * fabsf(b), "element %zu is %g, not %g", i,
                  (double)a, (double)b);
    }
    written_close(&truth);
    written_close(&fast);
}

static void begin(void)
{
    rows = pen_explain_new();
}

static void end(void)
{
    pen_explain_free(rows);
}

TestSuite(fusion, .init = begin, .fini = end);

/* ---- products ---- */

#define K 37
#define N 45

/* x [2, 5, K] w + bias */
static const char *linear(struct sketch *s, const char *x, const char *const names[2], int64_t k, int64_t n)
{
    const char *w = constant(s, names[0], 2, WRITTEN_DIMS(k, n), 0.3f);
    return pair(s, "Add", constant(s, names[1], 1, WRITTEN_DIMS(n), 0.5f), pair(s, "MatMul", x, w));
}

static const char *const first[2] = {"w1", "b1"}, *const second[2] = {"w2", "b2"};

static void draw_residual(struct sketch *s)
{
    const char *x = input(s, 3, WRITTEN_DIMS(2, 5, K)), *y = linear(s, x, first, K, N);
    y = pair(s, "Mul", pair(s, "Mul", y, scalar(s, "half", 0.5f)),
             pair(s, "Add", one(s, "Erf", pair(s, "Div", y, scalar(s, "root", 1.41421356f))), scalar(s, "one", 1.0f)));
    output(s, pair(s, "Add", x, linear(s, y, second, N, K)), 3);
}

Test(fusion, a_product_takes_its_bias_gelu_and_the_residual)
{
    check(draw_residual, 4); /* product and bias in gelu; product and bias in the sum */
}

static void draw_tanh(struct sketch *s)
{
    const char *x = input(s, 4, WRITTEN_DIMS(2, 3, 5, K)), *y = linear(s, x, first, K, N);
    const char *cube = pair(s, "Mul", pair(s, "Pow", y, scalar(s, "three", 3.0f)), scalar(s, "c", 0.044715f));
    const char *inner = pair(s, "Mul", pair(s, "Add", y, cube), scalar(s, "d", 0.7978845608f));
    const char *term = pair(s, "Add", one(s, "Tanh", inner), scalar(s, "one", 1.0f));
    output(s, pair(s, "Mul", pair(s, "Mul", y, scalar(s, "half", 0.5f)), term), 4);
}

Test(fusion, gelu_by_tanh_is_found_and_joined)
{
    check(draw_tanh, 2);
}

static void draw_factored_tanh(struct sketch *s) /* x 0.79 (1 + 0.0447 x x) */
{
    const char *x = input(s, 3, WRITTEN_DIMS(2, 3, K)), *y = linear(s, x, first, K, N);
    const char *square = pair(s, "Mul", pair(s, "Mul", scalar(s, "c", 0.044715f), y), y);
    const char *inner =
        pair(s, "Mul", pair(s, "Mul", y, scalar(s, "d", 0.79788456f)), pair(s, "Add", scalar(s, "one", 1.0f), square));
    const char *term = pair(s, "Add", scalar(s, "unit", 1.0f), one(s, "Tanh", inner));
    output(s, pair(s, "Mul", y, pair(s, "Mul", scalar(s, "half", 0.5f), term)), 3);
}

Test(fusion, gelu_by_tanh_in_another_spelling)
{
    check(draw_factored_tanh, 2);
}

static void draw_broadcast_sum(struct sketch *s)
{
    const char *x = input(s, 3, WRITTEN_DIMS(2, 5, K)), *other = input(s, 3, WRITTEN_DIMS(1, 1, N));
    output(s, one(s, "Relu", pair(s, "Add", linear(s, x, first, K, N), other)), 3);
}

Test(fusion, a_sum_that_broadcasts_is_added_in_a_pass_of_its_own)
{
    check(draw_broadcast_sum, 2);
}

static void draw_widening_sum(struct sketch *s)
{
    const char *x = input(s, 3, WRITTEN_DIMS(1, 5, K)), *other = input(s, 3, WRITTEN_DIMS(3, 1, N));
    output(s, pair(s, "Add", other, linear(s, x, first, K, N)), 3);
}

Test(fusion, a_sum_may_be_wider_than_the_product)
{
    check(draw_widening_sum, 2);
}

static void draw_read_twice(struct sketch *s)
{
    const char *x = input(s, 3, WRITTEN_DIMS(2, 5, K)), *w = constant(s, "w", 2, WRITTEN_DIMS(K, N), 0.3f);
    const char *product = pair(s, "MatMul", x, w), *bias = constant(s, "b", 1, WRITTEN_DIMS(N), 0.5f);
    output(s, pair(s, "Mul", pair(s, "Add", product, bias), product), 3);
}

Test(fusion, what_somebody_else_reads_is_not_joined)
{
    check(draw_read_twice, 0);
}

/* ---- two bytes ---- */

static int64_t depth, width, count_rows;

static void draw_wide(struct sketch *s)
{
    const char *x = input(s, 3, WRITTEN_DIMS(1, count_rows, depth));
    output(s, one(s, "Relu", linear(s, x, first, depth, width)), 3);
}

static const int64_t sizes[][3] = {{37, 45, 5}, {300, 70, 40}, {513, 33, 1}, {64, 200, 29}};

static void bf16_check(const char *kernel)
{
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct written truth, fast, two;
        depth = sizes[i][0], width = sizes[i][1], count_rows = sizes[i][2];
        one_run(draw_wide, "reference", 1, &truth);
        one_run(draw_wide, "xnnpack", 1, &fast);
        one_run(draw_wide, "xnnpack", 2, &two);
        double far = distance(&fast, &truth);
        cr_assert(far > 1e-6 && far < 1e-2, "bf16 is %g of the range away", far);
        cr_assert_eq(memcmp(fast.out[0].data, two.out[0].data, fast.out[0].bytes), 0, "1 and 2 threads differ");
        expect_reason(kernel);
        written_close(&truth);
        written_close(&fast);
        written_close(&two);
    }
}

Test(fusion, bf16_rounds_weights_and_sums_in_f32)
{
    asked = (struct asked){.precision = PEN_PRECISION_BF16};
    bf16_check("bf16");
}

Test(fusion, bf16_without_its_instruction)
{
    asked = (struct asked){.precision = PEN_PRECISION_BF16, .isa_max = PEN_ISA_AVX512VNNI};
    bf16_check("weights of bf16");
}

Test(fusion, bf16_with_avx2_alone)
{
    asked = (struct asked){.precision = PEN_PRECISION_BF16, .isa_max = PEN_ISA_AVX2};
    bf16_check("weights of bf16");
}

Test(fusion, bf16_in_plain_c)
{
    asked = (struct asked){.precision = PEN_PRECISION_BF16, .isa_max = PEN_ISA_PLAIN};
    bf16_check("weights of bf16");
}

static enum pen_dtype weights_held;

static void draw_held(struct sketch *s)
{
    static float room[ROOM];
    const char *x = input(s, 3, WRITTEN_DIMS(1, count_rows, depth));
    for (int64_t i = 0; i < depth * width; i++) {
        float w = i == 3 ? 3e-6f : 0.3f * random_one(&s->seed); /* one that f16 has no full number for */
        room[i] =
            weights_held == PEN_DTYPE_F16 ? pen_f16_to_f32(pen_f32_to_f16(w)) : pen_bf16_to_f32(pen_f32_to_bf16(w));
    }
    onnx_writer_constant(s->w, "w", PEN_DTYPE_F32, 2, WRITTEN_DIMS(depth, width), room,
                         (size_t)(depth * width) * sizeof *room);
    output(s, pair(s, "MatMul", x, "w"), 3);
}

static void held_check(enum pen_dtype dtype, enum pen_isa isa, const char *kernel)
{
    weights_held = dtype;
    asked = (struct asked){.isa_max = isa};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        depth = sizes[i][0], width = sizes[i][1], count_rows = sizes[i][2];
        check(draw_held, 0);
        expect_reason(kernel);
    }
}

/* A process has one limit for XNNPACK's kernels: each set of vectors is a test of its own. */
#define WITH_EACH_ISA(name, check)                                                                                     \
    Test(fusion, name)                                                                                                 \
    {                                                                                                                  \
        check(PEN_ISA_ANY);                                                                                            \
    }                                                                                                                  \
    Test(fusion, name##_in_avx512)                                                                                     \
    {                                                                                                                  \
        check(PEN_ISA_AVX512);                                                                                         \
    }                                                                                                                  \
    Test(fusion, name##_in_avx2)                                                                                       \
    {                                                                                                                  \
        check(PEN_ISA_AVX2);                                                                                           \
    }                                                                                                                  \
    Test(fusion, name##_in_plain_c)                                                                                    \
    {                                                                                                                  \
        check(PEN_ISA_PLAIN);                                                                                          \
    }

static void weights_held_check(enum pen_isa isa)
{
    held_check(PEN_DTYPE_F16, isa, "weights of f16");
    held_check(PEN_DTYPE_BF16, isa, "weights of bf16");
}

WITH_EACH_ISA(weights_that_f16_or_bf16_holds_stay_at_two_bytes, weights_held_check)

/* ---- attention ---- */

struct form {
    int64_t heads, queries, keys, size, value;
    bool scaled, mask, heads_last, scale_sides, hidden;
};
static struct form form;

static const char *side(struct sketch *s, int64_t length, int64_t size, const int64_t *perm)
{
    if (form.heads_last) { /* [batch, length, heads, size] as projections give it */
        return turned(s, input(s, 4, WRITTEN_DIMS(2, length, form.heads, size)), 4, perm);
    }
    const char *x = input(s, 4, WRITTEN_DIMS(2, form.heads, length, size));
    return perm[3] == 1 ? turned(s, x, 4, WRITTEN_DIMS(0, 1, 3, 2)) : x;
}

static void draw_attention(struct sketch *s)
{
    const char *q = side(s, form.queries, form.size, WRITTEN_DIMS(0, 2, 1, 3));
    const char *k = side(s, form.keys, form.size, WRITTEN_DIMS(0, 2, 3, 1));
    const char *v = side(s, form.keys, form.value, WRITTEN_DIMS(0, 2, 1, 3));
    if (form.scale_sides) {
        q = pair(s, "Mul", q, scalar(s, "sq", 0.6f));
        k = pair(s, "Mul", k, scalar(s, "sk", 0.6f));
    }
    const char *scores = pair(s, "MatMul", q, k);
    scores = form.scaled ? pair(s, "Div", scores, scalar(s, "by", 2.5f)) : scores;
    if (form.hidden) { /* of a few queries every key */
        const char *mask = input(s, 4, WRITTEN_DIMS(2, 1, form.queries, form.keys));
        const char *seen = pair(s, "Greater", mask, scalar(s, "bound", form.keys < 3 ? 0.9f : -0.2f));
        scores = onnx_writer_step(s->w, "Where", ONNX_LIST(seen, scores, scalar(s, "low", -INFINITY)), NULL);
    } else if (form.mask) {
        scores = pair(s, "Add", input(s, 4, WRITTEN_DIMS(2, 1, 1, form.keys)), scores);
    }
    const char *shares = softmax(s, scores, -1);
    if (form.hidden) {
        shares =
            onnx_writer_step(s->w, "Where", ONNX_LIST(one(s, "IsNaN", shares), scalar(s, "zero", 0.0f), shares), NULL);
    }
    const char *y = pair(s, "MatMul", shares, v);
    output(s, form.heads_last ? turned(s, y, 4, WRITTEN_DIMS(0, 2, 1, 3)) : y, 4);
}

Test(fusion, attention_as_exporters_spell_it_out)
{
    static const struct {
        struct form form;
        size_t joined;
    } cases[] = {
        {{3, 13, 29, 8, 8, .scaled = true, .mask = true, .heads_last = true}, 8},
        {{2, 5, 300, 7, 9, .scaled = true}, 4},
        {{1, 70, 257, 33, 40, .mask = true, .heads_last = true}, 7},
        {{4, 1, 19, 16, 16, .scale_sides = true, .heads_last = true}, 8},
        {{2, 17, 31, 5, 3, .scale_sides = true, .scaled = true, .mask = true}, 7},
        {{2, 9, 20, 6, 6, .hidden = true, .heads_last = true}, 9},
        {{2, 40, 2, 6, 6, .hidden = true}, 6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        form = cases[i].form;
        check(draw_attention, cases[i].joined);
        expect_reason("joined from the nodes that spell it out");
        if (i % 2 == 0) { /* the other cases are other sizes */
            check_gpu(draw_attention, cases[i].joined);
        }
    }
}

static void draw_three_dims(struct sketch *s)
{
    const char *q = input(s, 3, WRITTEN_DIMS(6, 11, 12)), *k = input(s, 3, WRITTEN_DIMS(6, 14, 12));
    const char *v = input(s, 3, WRITTEN_DIMS(6, 14, 10));
    const char *scores = pair(s, "MatMul", q, turned(s, k, 3, WRITTEN_DIMS(0, 2, 1)));
    output(s, pair(s, "MatMul", softmax(s, scores, 2), v), 3);
}

Test(fusion, attention_of_three_dimensions)
{
    check(draw_three_dims, 3);
    check_gpu(draw_three_dims, 3);
}

static void draw_shared_keys(struct sketch *s)
{
    const char *q = input(s, 4, WRITTEN_DIMS(2, 4, 11, 12)), *k = input(s, 4, WRITTEN_DIMS(2, 1, 12, 14));
    const char *v = input(s, 4, WRITTEN_DIMS(2, 1, 14, 10));
    output(s, pair(s, "MatMul", softmax(s, pair(s, "MatMul", q, k), -1), v), 4);
}

Test(fusion, heads_that_share_keys_and_values)
{
    check(draw_shared_keys, 2);
    check_gpu(draw_shared_keys, 2);
}

static int64_t mask_batch, mask_rows, query_rows;

static void draw_wide_mask(struct sketch *s)
{
    const char *q = input(s, 4, WRITTEN_DIMS(1, 2, query_rows, 6)), *k = input(s, 4, WRITTEN_DIMS(1, 2, 6, 7));
    const char *v = input(s, 4, WRITTEN_DIMS(1, 2, 7, 4)),
               *mask = input(s, 4, WRITTEN_DIMS(mask_batch, 1, mask_rows, 7));
    output(s, pair(s, "MatMul", softmax(s, pair(s, "Add", pair(s, "MatMul", q, k), mask), -1), v), 4);
}

Test(fusion, a_mask_may_have_more_batches_than_the_scores)
{
    mask_batch = 3, mask_rows = query_rows = 5;
    check(draw_wide_mask, 3);
}

Test(fusion, a_mask_with_more_rows_leaves_the_nodes_alone_and_says_so)
{
    mask_batch = query_rows = 1, mask_rows = 5;
    check(draw_wide_mask, 0);
    expect_reason("do not fit each other");
}

static void draw_factor_behind(struct sketch *s)
{
    const char *q = input(s, 4, WRITTEN_DIMS(1, 2, 5, 6)), *k = input(s, 4, WRITTEN_DIMS(1, 2, 6, 7));
    const char *v = input(s, 4, WRITTEN_DIMS(1, 2, 7, 4)), *mask = input(s, 4, WRITTEN_DIMS(1, 1, 5, 7));
    const char *masked = pair(s, "Add", pair(s, "MatMul", q, k), mask);
    output(s, pair(s, "MatMul", softmax(s, pair(s, "Mul", masked, scalar(s, "by", 3.0f)), -1), v), 4);
}

Test(fusion, a_factor_behind_a_mask_is_not_taken_for_one_of_the_scores)
{
    check(draw_factor_behind, 0);
    expect_reason("is no factor and no mask");
    check_gpu(draw_factor_behind, 0);
}

static void draw_seen_shares(struct sketch *s)
{
    const char *q = input(s, 4, WRITTEN_DIMS(1, 2, 5, 6)), *k = input(s, 4, WRITTEN_DIMS(1, 2, 6, 5));
    const char *v = input(s, 4, WRITTEN_DIMS(1, 2, 5, 5)), *shares = softmax(s, pair(s, "MatMul", q, k), -1);
    output(s, pair(s, "Add", pair(s, "MatMul", shares, v), shares), 4);
}

Test(fusion, shares_that_somebody_reads_stay)
{
    check(draw_seen_shares, 0);
    expect_reason("the shares go elsewhere");
    check_gpu(draw_seen_shares, 0);
}

/* ---- dynamic quantisation ---- */

static void draw_dynamic(struct sketch *s)
{
    static int8_t codes[K * N];
    const char *x = input(s, 3, WRITTEN_DIMS(2, 5, K));
    for (size_t i = 0; i < K * N; i++) {
        codes[i] = (int8_t)(i * 37 % 255 - 127);
    }
    onnx_writer_constant(s->w, "codes", PEN_DTYPE_I8, 2, WRITTEN_DIMS(K, N), codes, sizeof codes);
    onnx_writer_node(s->w, "DynamicQuantizeLinear", ONNX_LIST(x), ONNX_LIST("q", "scale", "zero"), NULL);
    const char *sums = onnx_writer_step(s->w, "MatMulInteger", ONNX_LIST("q", "codes", "zero"), NULL);
    const struct onnx_attr to[] = {{.type = ONNX_ATTR_INT, .name = "to", .i = PEN_DTYPE_F32}, {0}};
    const char *real = onnx_writer_step(s->w, "Cast", ONNX_LIST(sums), to);
    output(s, pair(s, "Mul", real, pair(s, "Mul", "scale", scalar(s, "weights", 0.01f))), 3);
}

static void dynamic_check(enum pen_isa isa)
{
    asked = (struct asked){.isa_max = isa};
    check(draw_dynamic, 0);
    expect_reason("weights packed at the load");
}

WITH_EACH_ISA(weights_behind_a_dynamic_quantisation_are_packed_once, dynamic_check)
