/* Weights that f16 cannot hold: their layers stay in f32 on the device and are named, or the model is refused; as the setting says. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "backend/vulkan/range.h"
#include "device.h"
#include "graph/infer.h"

/* y [2, 4] = x [2, 3] w [3, 4] */
struct layer {
    struct graph *g;
    uint32_t in[2], y, node;
    struct fact facts[4];
    struct shape_env env;
    struct partition part;
    float w[12];
};

static void layer_make(struct layer *l, float large, float small)
{
    const struct shape xs = shape_of(2, (int64_t[]){2, 3}), ws = shape_of(2, (int64_t[]){3, 4}),
                       ys = shape_of(2, (int64_t[]){2, 4});
    memset(l, 0, sizeof *l);
    for (size_t i = 0; i < 12; i++) {
        l->w[i] = i % 4 == 0 ? large : i % 4 == 1 ? small : 0.5f;
    }
    cr_assert_eq(graph_new(NULL, &l->g), PEN_OK);
    cr_assert_eq(graph_value(l->g, "x", &l->in[0]), PEN_OK);
    cr_assert_eq(graph_constant(l->g, "w", PEN_DTYPE_F32, &ws, l->w, sizeof l->w, false, &l->in[1]), PEN_OK);
    cr_assert_eq(graph_value(l->g, "y", &l->y), PEN_OK);
    cr_assert_eq(graph_node(l->g, OP_MatMul, "dense_7", l->in, 2, &l->y, 1, &l->node), PEN_OK);
    l->g->values[l->in[0]].shape = xs;
    l->g->values[l->y].shape = ys;
    for (uint32_t v = 0; v < l->g->value_count; v++) {
        struct value *value = &l->g->values[v];
        value->dtype = PEN_DTYPE_F32;
        value->kind = VALUE_TENSOR;
        l->facts[v] =
            (struct fact){.dtype = PEN_DTYPE_F32, .shape = value->shape, .data = value->data, .bytes = value->bytes};
    }
    l->env = (struct shape_env){.g = l->g, .facts = l->facts};
    l->part = (struct partition){&l->node, 1, &l->in[0], 1, &l->y, 1};
}

static bool found(float large, float small)
{
    struct layer l;
    layer_make(&l, large, small);
    bool outside = vk_range_outside(l.g, &l.g->nodes[l.node]);
    graph_free(l.g);
    return outside;
}

Test(vulkan_range, what_f16_holds)
{
    cr_assert_not(found(65504.0f, 5.9604645e-8f));
    cr_assert_not(found(-65504.0f, 0.0f));
    cr_assert(found(65536.0f, 0.5f));
    cr_assert(found(-1e9f, 0.5f));
    cr_assert(found(1.0f, 5.9e-8f));
    cr_assert(found(1.0f, -1e-30f));
    cr_assert_not(found(INFINITY, 0.5f), "infinity has an f16");
}

/* Of each output, whatever the layout: w of [3, 4], or of [4, 3] transposed, whose outputs 0 to 3 have `largest` and a tiny one. */
static bool found_beside(float largest, bool turned)
{
    struct layer l;
    layer_make(&l, 0.5f, 0.5f);
    for (size_t o = 0; o < 4; o++) {
        for (size_t k = 0; k < 3; k++) {
            l.w[turned ? o * 3 + k : k * 4 + o] = k == 1 ? 1e-8f : o == 2 ? largest : 0.25f;
        }
    }
    struct node *n = &l.g->nodes[l.node];
    if (turned) {
        n->op = OP_Gemm;
        l.g->values[l.in[1]].shape = shape_of(2, (int64_t[]){4, 3});
        cr_assert_eq(graph_attr_int(l.g, l.node, ATTR_transB, 1), PEN_OK);
    }
    bool outside = vk_range_outside(l.g, n);
    graph_free(l.g);
    return outside;
}

Test(vulkan_range, a_tiny_weight_is_nothing_beside_a_large_one_of_its_output)
{
    for (int turned = 0; turned < 2; turned++) {
        cr_assert_not(found_beside(0.5f, turned));
        cr_assert_not(found_beside(1.3e-4f, turned));
        cr_assert(found_beside(1.1e-4f, turned));
    }
}

Test(vulkan_range, the_setting_and_the_text)
{
    enum vk_range_policy policy = VK_RANGE_REFUSE;
    struct vk_range_note note = {0};
    struct node n = {.name = "a_layer_with_quite_a_long_name_that_fills_the_note_soon_and_then_is_only_counted"};
    char text[320];
    cr_assert(vk_range_read(NULL, &policy) && policy == VK_RANGE_KEEP);
    cr_assert(vk_range_read("refuse", &policy) && policy == VK_RANGE_REFUSE);
    cr_assert(vk_range_read("keep", &policy) && policy == VK_RANGE_KEEP);
    cr_assert_not(vk_range_read("flush", &policy));
    for (int i = 0; i < 20; i++) {
        vk_range_add(&note, &n);
    }
    vk_range_text(&note, text, sizeof text);
    cr_assert_not_null(strstr(text, "only_counted, a_layer"), "%s", text);
    cr_assert_not_null(strstr(text, " and 17 more"), "%s", text);
}

static struct backend *opened(const char *policy)
{
    struct backend_config config = device_config(PEN_PRECISION_F16_STORAGE, "auto");
    struct backend *b = NULL;
    struct pen_error error = {0};
    device_close(device_open(PEN_PRECISION_F16_STORAGE, "auto")); /* skips without a device */
    config.vulkan.f16_range = policy;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    return b;
}

Test(vulkan_range, keep_computes_the_layer_in_f32_and_names_it, .timeout = 120)
{
    struct backend *b = opened("keep");
    struct layer l;
    struct plan *plan = NULL;
    struct exec *exec = NULL;
    struct pen_error error = {0};
    float x[6 + 16] = {1e-3f, 1e-3f, 1e-3f, 30000.0f, 30000.0f, 30000.0f}, y[8 + 16];
    char note[200] = "";
    layer_make(&l, 1e5f, 2e-8f);
    cr_assert(backend_vulkan.supports(b, l.g, &l.g->nodes[l.node], NULL));
    cr_assert_eq(backend_vulkan.plan_new(b, l.g, &l.part, &plan, &error), PEN_OK, "%s", error.text);
    backend_vulkan.plan_note(plan, note, sizeof note);
    cr_assert_not_null(strstr(note, "dense_7"), "%s", note);
    cr_assert_eq(backend_vulkan.exec_new(plan, &l.env, &exec, &error), PEN_OK, "%s", error.text);
    struct buffer_view in = {.data = x, .bytes = 24, .shape = l.facts[l.in[0]].shape, .dtype = PEN_DTYPE_F32},
                       out = {.data = y, .bytes = 32, .shape = l.facts[l.y].shape, .dtype = PEN_DTYPE_F32};
    cr_assert_eq(backend_vulkan.exec_submit(exec, &in, &out, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(backend_vulkan.exec_wait(exec, &error), PEN_OK, "%s", error.text);
    cr_assert_float_eq(y[0], 300.0f, 1.0f, "%g: a weight of 1e5 is not infinite", (double)y[0]);
    cr_assert_float_eq(y[5], 1.8e-3f, 1e-5f, "%g: a weight of 2e-8 is not 0", (double)y[5]);
    backend_vulkan.exec_free(exec);
    backend_vulkan.plan_free(plan);
    graph_free(l.g);
    device_close(b);
}

Test(vulkan_range, refuse_names_the_layer, .timeout = 120)
{
    struct backend *b = opened("refuse");
    struct layer l;
    struct plan *plan = NULL;
    struct pen_error error = {0};
    layer_make(&l, 1e5f, 0.5f);
    cr_assert(backend_vulkan.supports(b, l.g, &l.g->nodes[l.node], NULL));
    cr_assert_eq(backend_vulkan.plan_new(b, l.g, &l.part, &plan, &error), PEN_ERR_UNSUPPORTED);
    cr_assert_not_null(strstr(error.text, "dense_7"), "%s", error.text);
    cr_assert_not_null(strstr(error.text, "--vk-f16-range"), "%s", error.text);
    graph_free(l.g);
    layer_make(&l, 65504.0f, 0.5f);
    cr_assert_eq(backend_vulkan.plan_new(b, l.g, &l.part, &plan, &error), PEN_OK, "%s", error.text);
    char note[200] = "";
    backend_vulkan.plan_note(plan, note, sizeof note);
    cr_assert_str_empty(note);
    backend_vulkan.plan_free(plan);
    graph_free(l.g);
    device_close(b);
}

Test(vulkan_range, another_value_is_refused_with_a_sentence)
{
    struct backend_config config = device_config(PEN_PRECISION_F32, "auto");
    struct backend *b = NULL;
    struct pen_error error = {0};
    device_close(device_open(PEN_PRECISION_F32, "auto"));
    config.vulkan.f16_range = "flush";
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_ERR_INVALID);
    cr_assert_not_null(strstr(error.text, "flush"), "%s", error.text);
}
