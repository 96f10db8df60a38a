/* cpu_isa_max holds for XNNPACK's own kernels: with our own ones as wide as ever, sums come out with other bits where XNNPACK may not fuse products and sums. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/xnnpack/limit.h"
#include "folder.h"
#include "onnx_writer.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})
#define INPUTS_C  16
#define OUTPUTS_C 32
#define GROUPS    4
#define SIDE      12
#define OUTPUTS   (OUTPUTS_C * (SIDE + 2) * (SIDE + 2))

static char path[FOLDER_PATH_BYTES + 16], folder[FOLDER_PATH_BYTES];

/* A transposed convolution of 3 x 3 with narrow groups: a kernel of XNNPACK's at every size. */
static void model_write(void)
{
    static float w[INPUTS_C * OUTPUTS_C / GROUPS * 9];
    const struct onnx_attr groups[] = {{.type = ONNX_ATTR_INT, .name = "group", .i = GROUPS}, {0}};
    struct onnx_writer *g = onnx_writer_new("deconv");
    for (size_t i = 0; i < sizeof w / sizeof w[0]; i++) {
        w[i] = (float)(i * 37 % 101) / 101.0f - 0.5f;
    }
    onnx_writer_input(g, "x", PEN_DTYPE_F32, 4, DIMS(1, INPUTS_C, SIDE, SIDE), NULL);
    onnx_writer_constant(g, "w", PEN_DTYPE_F32, 4, DIMS(INPUTS_C, OUTPUTS_C / GROUPS, 3, 3), w, sizeof w);
    onnx_writer_node(g, "ConvTranspose", ONNX_LIST("x", "w"), ONNX_LIST("y"), groups);
    onnx_writer_output(g, "y", PEN_DTYPE_F32, 4, DIMS(1, OUTPUTS_C, SIDE + 2, SIDE + 2), NULL);
    snprintf(path, sizeof path, "%s/deconv.onnx", folder);
    onnx_writer_save(g, 17, path);
    onnx_writer_free(g);
}

/* In a process of its own: XNNPACK starts once. Ends with 0 when all is written. */
static void child_run(enum pen_isa most, int to)
{
    static float x[INPUTS_C * SIDE * SIDE];
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_model *model = NULL;
    struct pen_session *session = NULL;
    struct pen_error error = {0};
    const struct pen_tensor *out = NULL;
    size_t count = 0;
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) {
        x[i] = (float)(i * 53 % 211) / 211.0f;
    }
    const struct pen_tensor in = {.name = "x",
                                  .dtype = PEN_DTYPE_F32,
                                  .rank = 4,
                                  .dims = {1, INPUTS_C, SIDE, SIDE},
                                  .data = x,
                                  .bytes = sizeof x};
    pen_engine_options_init(&options);
    options.backend = "xnnpack"; /* cpu_isa_max any: our own kernels are the same in both */
    bool good = limit_start(most) == xnn_status_success && pen_engine_new(&options, &engine, &error) == PEN_OK &&
                pen_model_load(engine, path, &model, &error) == PEN_OK &&
                pen_session_new(model, &session, &error) == PEN_OK &&
                pen_session_run(session, &in, 1, NULL, &out, &count, &error) == PEN_OK && count == 1 &&
                out[0].bytes == OUTPUTS * sizeof(float);
    const char *text = limit_text();
    good = good && write(to, text, 16 < strlen(text) ? 16 : strlen(text) + 1) > 0;
    good = good && write(to, out[0].data, out[0].bytes) == (ssize_t)out[0].bytes;
    _exit(good ? 0 : 1);
}

static void answer(enum pen_isa most, char limit[16], float y[OUTPUTS])
{
    int ends[2], status = 1;
    size_t done = 0;
    ssize_t n;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        close(ends[0]);
        child_run(most, ends[1]);
    }
    close(ends[1]);
    for (size_t i = 0; i < 16 && read(ends[0], &limit[i], 1) == 1 && limit[i] != '\0'; i++) {
    }
    while ((n = read(ends[0], (char *)y + done, OUTPUTS * sizeof(float) - done)) > 0) {
        done += (size_t)n;
    }
    close(ends[0]);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0 && done == OUTPUTS * sizeof(float));
}

Test(limit, holds_for_the_kernels_of_the_library)
{
    static float wide[OUTPUTS], plain[OUTPUTS];
    char wide_limit[16] = "", plain_limit[16] = "";
    folder_new(folder);
    model_write();
    answer(PEN_ISA_ANY, wide_limit, wide);
    answer(PEN_ISA_PLAIN, plain_limit, plain);
    folder_free(folder);
    cr_expect_str_eq(wide_limit, "any");
    size_t other = 0;
    for (size_t i = 0; i < OUTPUTS; i++) {
        other += memcmp(&wide[i], &plain[i], sizeof wide[i]) != 0;
        cr_assert_float_eq(wide[i], plain[i], 1e-4, "the same sum, rounded otherwise");
    }
#if defined(__x86_64__)
    if (strcmp(plain_limit, "unlimited") == 0) {
        cr_expect_eq(other, 0u);
        cr_skip("built without cpuinfo's header");
    }
    cr_expect_str_eq(plain_limit, "plain");
    cr_expect(!__builtin_cpu_supports("fma") || other > 0, "kernels of another width round otherwise");
#endif
}

Test(limit, a_process_that_started_wide_does_not_get_narrow)
{
    struct pen_engine_options options;
    struct pen_engine *engine = NULL;
    struct pen_error error = {0};
    pen_engine_options_init(&options);
    options.backend = "xnnpack";
    cr_assert_eq(pen_engine_new(&options, &engine, &error), PEN_OK, "%s", error.text);
    pen_engine_free(engine);
    options.cpu_isa_max = PEN_ISA_PLAIN;
    cr_expect_eq(pen_engine_new(&options, &engine, &error), PEN_ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(error.text, "set the flag for the first engine of the process"), "%s", error.text);
}
