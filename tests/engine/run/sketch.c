/* sketch.c - draws graphs with the writer of ONNX, and compares what backends make of them. */
#include "sketch.h"

#include <stdio.h>
#include <stdlib.h>

static float values[INPUTS][ROOM];
struct pen_explain *sketch_rows;
struct sketch_asked sketch_asked;

float sketch_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (float)(*seed >> 8) / 8388608.0f - 1.0f;
}

const char *sketch_input(struct sketch *s, uint32_t rank, const int64_t *dims)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    const int64_t open[4] = {-1, -1, -1, -1};
    s->ranks[s->inputs] = rank;
    memcpy(s->dims[s->inputs], dims, rank * sizeof *dims);
    onnx_writer_input(s->w, names[s->inputs], PEN_DTYPE_F32, rank, open, NULL);
    return names[s->inputs++];
}

const char *sketch_constant(struct sketch *s, const char *name, uint32_t rank, const int64_t *dims, float scale)
{
    static float room[ROOM];
    size_t count = 1;
    for (uint32_t i = 0; i < rank; i++) {
        count *= (size_t)dims[i];
    }
    for (size_t i = 0; i < count; i++) {
        room[i] = scale * sketch_random(&s->seed);
    }
    onnx_writer_constant(s->w, name, PEN_DTYPE_F32, rank, dims, room, count * sizeof *room);
    return name;
}

const char *sketch_scalar(struct sketch *s, const char *name, float value)
{
    onnx_writer_constant(s->w, name, PEN_DTYPE_F32, 0, NULL, &value, sizeof value);
    return name;
}

const char *sketch_pair(struct sketch *s, const char *op, const char *a, const char *b)
{
    return onnx_writer_step(s->w, op, ONNX_LIST(a, b), NULL);
}

const char *sketch_one(struct sketch *s, const char *op, const char *a)
{
    return onnx_writer_step(s->w, op, ONNX_LIST(a), NULL);
}

const char *sketch_turned(struct sketch *s, const char *x, size_t rank, const int64_t *perm)
{
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INTS, .name = "perm", .ints = perm, .count = rank}, {0}};
    return onnx_writer_step(s->w, "Transpose", ONNX_LIST(x), attrs);
}

const char *sketch_softmax(struct sketch *s, const char *x, int64_t axis)
{
    const struct onnx_attr attrs[] = {{.type = ONNX_ATTR_INT, .name = "axis", .i = axis}, {0}};
    return onnx_writer_step(s->w, "Softmax", ONNX_LIST(x), attrs);
}

void sketch_output(struct sketch *s, const char *x, uint32_t rank)
{
    const int64_t open[4] = {-1, -1, -1, -1};
    onnx_writer_node(s->w, "Identity", ONNX_LIST(x), ONNX_LIST("y"), NULL);
    onnx_writer_output(s->w, "y", PEN_DTYPE_F32, rank, open, NULL);
}

/* ---- running ---- */

void sketch_run(sketch_fn draw, const char *backend, uint32_t threads, struct written *w)
{
    struct sketch s = {.w = onnx_writer_new("fusion"), .seed = 7};
    struct pen_engine_options options;
    struct pen_tensor in[INPUTS];
    uint32_t seed = 99;
    pen_engine_options_init(&options);
    options.backend = backend;
    options.strict = true;
    options.threads = threads;
    options.explain = sketch_rows;
    options.vulkan = (struct pen_vulkan_options){.allow_software = true, .validate = true};
    if (strcmp(backend, "xnnpack") == 0) {
        options.precision = sketch_asked.precision;
        options.cpu_isa_max = sketch_asked.isa_max;
    }
    draw(&s);
    for (size_t i = 0; i < s.inputs; i++) {
        size_t count = 1;
        for (uint32_t d = 0; d < s.ranks[i]; d++) {
            count *= (size_t)s.dims[i][d];
        }
        cr_assert_leq(count, ROOM);
        for (size_t k = 0; k < count; k++) {
            values[i][k] = sketch_random(&seed);
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
    const struct pen_explain_row *row = pen_explain_rows(sketch_rows, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        found += row[i].about == PEN_CHOICE_KERNEL && strstr(row[i].reason, "its work is done in the step of") != NULL;
    }
    return found;
}

bool sketch_row_says(const char *text)
{
    size_t count = 0;
    const struct pen_explain_row *row = pen_explain_rows(sketch_rows, &count, NULL);
    for (size_t i = 0; i < count; i++) {
        if (strstr(row[i].reason, text) != NULL || strstr(row[i].choice, text) != NULL) {
            return true;
        }
    }
    return false;
}

void sketch_expect_reason(const char *text)
{
    cr_assert(sketch_row_says(text), "no row says '%s'", text);
}

/* The largest difference of two answers over the range of the second. */
double sketch_distance(const struct written *a, const struct written *b)
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
void sketch_check(sketch_fn draw, size_t want)
{
    struct written truth, fast, two;
    sketch_run(draw, "reference", 1, &truth);
    pen_explain_free(sketch_rows);
    sketch_rows = pen_explain_new();
    sketch_run(draw, "xnnpack", 1, &fast);
    cr_assert_eq(joined(), want, "%zu nodes are joined", joined());
    sketch_run(draw, "xnnpack", 2, &two);
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
    const struct pen_explain_row *row = pen_explain_rows(sketch_rows, &count, NULL);
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
void sketch_check_gpu(sketch_fn draw, size_t want)
{
    struct written truth, fast;
    if (!gpu_there()) {
        return;
    }
    sketch_run(draw, "reference", 1, &truth);
    pen_explain_free(sketch_rows);
    sketch_rows = pen_explain_new();
    sketch_run(draw, "vulkan", 1, &fast);
    cr_assert_eq(sketch_row_says("vulkan: attention"), want > 0, "one dispatch does all of it");
    cr_assert(want == 0 || joined_gpu() == want, "%zu nodes are joined", joined_gpu());
    for (size_t i = 0; i < truth.out[0].bytes / sizeof(float); i++) {
        float a = ((const float *)fast.out[0].data)[i], b = ((const float *)truth.out[0].data)[i];
        cr_assert((isnan(a) && isnan(b)) || fabsf(a - b) <= 2e-5f + 1e-4f * fabsf(b), "element %zu is %g, not %g", i,
                  (double)a, (double)b);
    }
    written_close(&truth);
    written_close(&fast);
}

/* ---- products ---- */

const char *const sketch_first[2] = {"w1", "b1"}, *const sketch_second[2] = {"w2", "b2"};

const char *sketch_linear(struct sketch *s, const char *x, const char *const names[2], int64_t k, int64_t n)
{
    const char *w = sketch_constant(s, names[0], 2, WRITTEN_DIMS(k, n), 0.3f);
    return sketch_pair(s, "Add", sketch_constant(s, names[1], 1, WRITTEN_DIMS(n), 0.5f),
                       sketch_pair(s, "MatMul", x, w));
}
