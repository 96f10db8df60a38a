/* Debug mode, through the engine: times of nodes, NaN at the node that makes it, the first node that deviates from reference. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backend/vulkan/loader.h"
#include "device.h"
#include "folder.h"
#include "onnx_file.h"

#define WIDTH 96

struct fixture {
    char folder[FOLDER_PATH_BYTES], path[FOLDER_PATH_BYTES + 16];
    struct pen_engine_options options;
    struct pen_engine *engine;
    struct pen_model *model;
    struct pen_session *session;
    float x[WIDTH];
    struct pen_tensor in;
    const struct pen_tensor *out;
    size_t out_count;
    struct pen_error error;
};

/* y = softmax(sin(e^x w)): four nodes that no pass joins. */
static void chain_write(const char *path, const char *first)
{
    static float w[WIDTH * WIDTH];
    for (size_t i = 0; i < WIDTH * WIDTH; i++) {
        w[i] = (float)(i * 37 % 101) / 1000.0f - 0.05f;
    }
    const struct onnx_node nodes[] = {{.op = first, .inputs = {"x"}, .outputs = {"a"}},
                                      {.op = "MatMul", .inputs = {"a", "w"}, .outputs = {"b"}},
                                      {.op = "Sin", .inputs = {"b"}, .outputs = {"c"}},
                                      {.op = "Softmax", .inputs = {"c"}, .outputs = {"y"}}};
    const struct onnx_value in = {.name = "x", .dtype = PEN_DTYPE_F32, .dims = {1, WIDTH}, .rank = 2};
    const struct onnx_value out = {.name = "y", .dtype = PEN_DTYPE_F32, .dims = {1, WIDTH}, .rank = 2};
    const struct onnx_value weight = {
        .name = "w", .dtype = PEN_DTYPE_F32, .dims = {WIDTH, WIDTH}, .rank = 2, .data = w};
    const struct onnx_model model = {.nodes = nodes,
                                     .nodes_count = 4,
                                     .inputs = &in,
                                     .inputs_count = 1,
                                     .outputs = &out,
                                     .outputs_count = 1,
                                     .weights = &weight,
                                     .weights_count = 1};
    onnx_write(path, &model);
}

static void fixture_init(struct fixture *f, const char *first)
{
    memset(f, 0, sizeof *f);
    device_close(device_open(PEN_PRECISION_F32, "simple")); /* skips without a device */
    folder_new(f->folder);
    snprintf(f->path, sizeof f->path, "%s/chain.onnx", f->folder);
    chain_write(f->path, first);
    pen_engine_options_init(&f->options);
    f->options.backend = "vulkan";
    f->options.strict = true;
    f->options.vulkan = (struct pen_vulkan_options){.allow_software = true, .validate = true};
    for (int i = 0; i < WIDTH; i++) {
        f->x[i] = (float)(i % 13) / 10.0f + 0.1f;
    }
    f->in = (struct pen_tensor){
        .name = "x", .dtype = PEN_DTYPE_F32, .rank = 2, .dims = {1, WIDTH}, .data = f->x, .bytes = sizeof f->x};
}

static void fixture_open(struct fixture *f)
{
    cr_assert_eq(pen_engine_new(&f->options, &f->engine, &f->error), PEN_OK, "%s", f->error.text);
    cr_assert_eq(pen_model_load(f->engine, f->path, &f->model, &f->error), PEN_OK, "%s", f->error.text);
    cr_assert_eq(pen_session_new(f->model, &f->session, &f->error), PEN_OK, "%s", f->error.text);
}

static enum pen_status fixture_run(struct fixture *f)
{
    return pen_session_run(f->session, &f->in, 1, NULL, &f->out, &f->out_count, &f->error);
}

static void fixture_close(struct fixture *f)
{
    pen_session_free(f->session);
    pen_model_free(f->model);
    pen_engine_free(f->engine);
    folder_free(f->folder);
}

Test(vulkan_debug, times_have_a_row_for_every_node, .timeout = 110)
{
    struct fixture f;
    fixture_init(&f, "Exp");
    f.options.profile_nodes = true;
    fixture_open(&f);
    pen_session_profile(f.session, true);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    }
    size_t count = 0;
    const struct pen_profile_row *rows = pen_session_profile_rows(f.session, &count);
    uint64_t ns = 0, product_macs = 0;
    int nodes = 0;
    for (size_t i = 0; i < count; i++) {
        cr_assert_str_eq(rows[i].backend, "vulkan");
        cr_assert_eq(rows[i].runs, 3u);
        nodes += strcmp(rows[i].op, "partition") != 0;
        ns += rows[i].total_ns;
        product_macs = strcmp(rows[i].op, "MatMul") == 0 ? rows[i].macs : product_macs;
    }
    cr_assert_geq(nodes, 3, "%d rows of nodes", nodes); /* Sin may be a step of another's dispatch */
    cr_assert_eq(product_macs, (uint64_t)WIDTH * WIDTH);
    cr_assert_gt(ns, 0u);
    fixture_close(&f);
}

Test(vulkan_debug, without_it_a_partition_is_one_row, .timeout = 110)
{
    struct fixture f;
    fixture_init(&f, "Exp");
    fixture_open(&f);
    pen_session_profile(f.session, true);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    size_t count = 0;
    const struct pen_profile_row *rows = pen_session_profile_rows(f.session, &count);
    cr_assert_eq(count, 1u);
    cr_assert_str_eq(rows[0].op, "partition");
    fixture_close(&f);
}

/* The logarithm of a negative number, far inside; what is behind it is NaN, too, and not named. */
Test(vulkan_debug, a_nan_is_found_at_its_node_on_the_device, .timeout = 110)
{
    struct fixture f;
    fixture_init(&f, "Log");
    f.options.check_numerics = PEN_CHECK_FAIL;
    fixture_open(&f);
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    f.x[5] = -1.0f;
    f.x[6] = 0.0f;
    cr_assert_eq(fixture_run(&f), PEN_ERR_INVALID);
    cr_assert_not_null(strstr(f.error.text, "(Log)"), "%s", f.error.text);
    cr_assert_not_null(strstr(f.error.text, "1 NaN and 1 infinities on the device, of 96 values"), "%s", f.error.text);
    f.x[5] = f.x[6] = 1.0f;
    cr_assert_eq(fixture_run(&f), PEN_OK, "%s", f.error.text);
    fixture_close(&f);
}

static PFN_vkCmdDispatch real_dispatch;
static int dispatches, dropped;

/* A device that forgets one piece of work. */
static void VKAPI_CALL forgetful(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z)
{
    if (++dispatches != dropped) {
        real_dispatch(commands, x, y, z);
    }
}

Test(vulkan_debug, the_first_node_that_deviates_is_named, .timeout = 110)
{
    static const char *const names[] = {"(Exp)", "(MatMul)", "(Sin)", "(Softmax)"};
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        fixture_init(&f, "Exp");
        f.options.compare_reference = true;
        fixture_open(&f);
        struct vk_functions *vk = vk_backend_functions(device_of(f.engine));
        real_dispatch = vk->CmdDispatch;
        dispatches = 0;
        dropped = i + 1;
        vk->CmdDispatch = forgetful;
        cr_assert_eq(fixture_run(&f), PEN_ERR_INTERNAL);
        cr_assert_not_null(strstr(f.error.text, names[i]), "%s", f.error.text);
        cr_assert_not_null(strstr(f.error.text, "first on vulkan that deviates"), "%s", f.error.text);
        cr_assert_eq(pen_session_compared(f.session), (uint64_t)i + 1);
        fixture_close(&f);
    }
}

Test(vulkan_debug, what_is_right_agrees_on_every_backend_and_storage, .timeout = 110)
{
    static const char *const backends[] = {"vulkan", "vulkan", "xnnpack", "reference"};
    for (int i = 0; i < 4; i++) {
        struct fixture f;
        fixture_init(&f, "Exp");
        f.options.compare_reference = true;
        f.options.backend = backends[i];
        f.options.precision = i == 1 ? PEN_PRECISION_F16_STORAGE : PEN_PRECISION_F32;
        if (backend_find(backends[i]) != NULL) {
            fixture_open(&f);
            cr_assert_eq(fixture_run(&f), PEN_OK, "%s: %s", backends[i], f.error.text);
            cr_assert_eq(fixture_run(&f), PEN_OK, "%s: %s", backends[i], f.error.text);
            cr_assert_eq(pen_session_compared(f.session), 8u);
        }
        fixture_close(&f);
    }
}

/* The settings of `penstock-engine run` reach the engine. */
Test(vulkan_debug, the_tool_has_the_same, .timeout = 110)
{
    struct fixture f;
    char input[FOLDER_PATH_BYTES + 16], command[2048], text[4096] = "";
    fixture_init(&f, "Log");
    snprintf(input, sizeof input, "%s/x.bin", f.folder);
    for (int bad = 0; bad < 2; bad++) {
        f.x[3] = bad ? -1.0f : 1.0f;
        FILE *file = fopen(input, "wb");
        cr_assert_not_null(file);
        cr_assert_eq(fwrite(f.x, sizeof f.x, 1, file), 1u);
        fclose(file);
        snprintf(command, sizeof command,
                 PENSTOCK_BIN "/penstock-engine run --model %s --input x=%s --output-dir %s --backend vulkan "
                              "--vk-allow-software --profile --check-numerics --compare reference 2>&1",
                 f.path, input, f.folder);
        FILE *pipe = popen(command, "r");
        cr_assert_not_null(pipe);
        size_t bytes = fread(text, 1, sizeof text - 1, pipe);
        text[bytes] = '\0';
        int status = pclose(pipe);
        if (bad) {
            cr_assert_neq(status, 0);
            cr_assert_not_null(strstr(text, "(Log) produced 1 NaN"), "%s", text);
        } else {
            cr_assert_eq(status, 0, "%s", text);
            cr_assert_not_null(strstr(text, "4 nodes agree with reference"), "%s", text);
            cr_assert_not_null(strstr(text, "MatMul"), "%s", text);
        }
    }
    fixture_close(&f);
}
