/* Floats stored as f16: layers whose rounding moves the outputs too far are found by trial and computed in f32; what lies between is converted. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/memo.h"
#include "../graph/build.h"
#include "backend/vulkan/loader.h"
#include "backend/vulkan/plan.h"
#include "backend/vulkan/storage_pieces.h"
#include "device.h"

#define ROWS  2
#define WIDTH 64
#define OUTS  8

/* x is scaled, divided by its root mean square, and multiplied with a matrix: with a scale of 3000 its squares leave the range of f16. */
struct scaled {
    struct graph *g;
    struct shape_env *env;
    struct partition part;
    uint32_t nodes[8], x, z;
    float in[ROWS * WIDTH + 16], out[ROWS * OUTS + 16], expected[ROWS * OUTS];
};

/* rows: ROWS, or -1: of any number, run with ROWS all the same. */
static void scaled_make(struct scaled *s, float scale, int64_t rows)
{
    const struct shape x_shape = shape_of(2, (int64_t[]){ROWS, WIDTH});
    struct pen_error error = {0};
    memset(s, 0, sizeof *s);
    s->g = build_graph();
    s->x = build_input(s->g, "x", DIMS(rows, WIDTH));
    uint32_t large = build_node(s->g, OP_Mul, IDS(s->x, build_scalar(s->g, scale))),
             squares = build_node(s->g, OP_Mul, IDS(large, large)),
             mean = build_node(s->g, OP_ReduceMean, IDS(squares, build_list(s->g, 1, (int64_t[]){-1}))),
             root = build_node(s->g, OP_Sqrt, IDS(mean)), y = build_node(s->g, OP_Div, IDS(large, root)),
             w = build_weights(s->g, 3, DIMS(WIDTH, OUTS));
    s->z = build_node(s->g, OP_MatMul, IDS(y, w));
    build_output(s->g, s->z);
    cr_assert_eq(shape_env_new(s->g, &x_shape, NULL, false, &s->env, &error), PEN_OK, "%s", error.text);
    s->part = (struct partition){s->nodes, s->g->node_count, &s->x, 1, &s->z, 1};
    for (uint32_t i = 0; i < s->g->node_count; i++) {
        s->nodes[i] = i;
    }
    const float *weights = s->g->values[w].data;
    for (size_t r = 0; r < ROWS; r++) {
        double sum = 0.0;
        for (size_t i = 0; i < WIDTH; i++) {
            s->in[r * WIDTH + i] = sinf((float)(r * WIDTH + i + 1));
            sum += (double)s->in[r * WIDTH + i] * (double)s->in[r * WIDTH + i];
        }
        for (size_t i = 0; i < WIDTH * OUTS; i++) {
            s->expected[r * OUTS + i % OUTS] +=
                (float)((double)s->in[r * WIDTH + i / OUTS] / sqrt(sum / WIDTH) * (double)weights[i]);
        }
    }
}

/* Runs it with the trial on or off; the plan's note goes to `note` of 300. Gives the largest error. */
static double error_of(struct scaled *s, const char *trial, char *note)
{
    struct backend_config config = device_config(PEN_PRECISION_F16_STORAGE, "auto");
    struct backend *b = NULL;
    struct plan *plan = NULL;
    struct exec *exec = NULL;
    struct pen_error error = {0};
    double worst = 0.0;
    device_close(device_open(PEN_PRECISION_F16_STORAGE, "auto")); /* skips without a device */
    config.vulkan.f16_trial = trial;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(backend_vulkan.plan_new(b, s->g, &s->part, &plan, &error), PEN_OK, "%s", error.text);
    backend_vulkan.plan_note(plan, note, 300);
    cr_assert_eq(backend_vulkan.exec_new(plan, s->env, &exec, &error), PEN_OK, "%s", error.text);
    struct buffer_view in = {.data = s->in,
                             .bytes = ROWS * WIDTH * sizeof(float),
                             .shape = s->env->facts[s->x].shape,
                             .dtype = PEN_DTYPE_F32},
                       out = {.data = s->out,
                              .bytes = ROWS * OUTS * sizeof(float),
                              .shape = s->env->facts[s->z].shape,
                              .dtype = PEN_DTYPE_F32};
    cr_assert_eq(backend_vulkan.exec_submit(exec, &in, &out, NULL, &error), PEN_OK, "%s", error.text);
    cr_assert_eq(backend_vulkan.exec_wait(exec, &error), PEN_OK, "%s", error.text);
    for (size_t i = 0; i < ROWS * OUTS; i++) {
        double d = fabs((double)s->out[i] - (double)s->expected[i]);
        worst = isnan(d) || d > worst ? d : worst;
    }
    backend_vulkan.exec_free(exec);
    backend_vulkan.plan_free(plan);
    device_close(b);
    return worst;
}

static void scaled_free(struct scaled *s)
{
    shape_env_free(s->env);
    graph_free(s->g);
}

Test(vulkan_storage, what_leaves_the_range_of_f16_is_f32_and_said, .timeout = 120)
{
    struct scaled s;
    char note[300] = "";
    scaled_make(&s, 3000.0f, ROWS);
    double error = error_of(&s, "off", note);
    cr_expect(isnan(error) || error > 1.0, "squares of 3000 do not fit, off by %g only", error);
    cr_expect_str_empty(note);
    error = error_of(&s, "on", note);
    cr_expect_leq(error, 2e-2, "off by %g", error);
    cr_expect_not_null(strstr(note, "f32 for "), "'%s'", note);
    cr_expect_null(strstr(note, " 0 % of bytes"), "'%s'", note);
    scaled_free(&s);
}

/* The trial takes a size for what is open, so that the placement tells of it before anything has run. */
Test(vulkan_storage, with_rows_of_any_number_it_is_known_when_the_plan_is_made, .timeout = 120)
{
    struct scaled s;
    char note[300] = "";
    scaled_make(&s, 3000.0f, -1);
    double error = error_of(&s, "on", note);
    cr_expect_leq(error, 2e-2, "off by %g", error);
    cr_expect_not_null(strstr(note, "f32 for "), "'%s'", note);
    scaled_free(&s);
}

Test(vulkan_storage, what_fits_stays_f16, .timeout = 120)
{
    struct scaled s;
    char note[300] = "";
    scaled_make(&s, 0.25f, ROWS);
    double error = error_of(&s, "on", note);
    cr_expect_leq(error, 5e-2, "off by %g", error);
    cr_expect_str_empty(note);
    scaled_free(&s);
}

/* z = (x v + 300) w with columns of w that add up to 0: the 300 goes, and with it the digits that f16 had left. Nothing helps but f32 to the end; x v may be f16. */
static void cancelling_make(struct scaled *s)
{
    static float w[WIDTH * OUTS];
    struct pen_error error = {0};
    struct shape shape = shape_of(2, (int64_t[]){WIDTH, OUTS});
    uint32_t constant = 0;
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < WIDTH * OUTS; i++) {
        w[i] = (i / OUTS % 2 == 0 ? 1.0f : -1.0f) * (0.5f + (float)(i / OUTS / 2 * 5 % 7 + i % OUTS) / 16.0f);
    }
    s->g = build_graph();
    s->x = build_input(s->g, "x", DIMS(ROWS, WIDTH));
    uint32_t v = build_weights(s->g, 5, DIMS(WIDTH, WIDTH)), h = build_node(s->g, OP_MatMul, IDS(s->x, v)),
             far = build_node(s->g, OP_Add, IDS(h, build_scalar(s->g, 300.0f)));
    cr_assert_eq(graph_constant(s->g, "w", PEN_DTYPE_F32, &shape, w, sizeof w, false, &constant), PEN_OK);
    s->z = build_node(s->g, OP_MatMul, IDS(far, constant));
    build_output(s->g, s->z);
    cr_assert_eq(shape_env_new(s->g, NULL, NULL, false, &s->env, &error), PEN_OK, "%s", error.text);
    s->part = (struct partition){s->nodes, s->g->node_count, &s->x, 1, &s->z, 1};
    const float *weights = s->g->values[v].data;
    for (uint32_t i = 0; i < s->g->node_count; i++) {
        s->nodes[i] = i;
    }
    for (size_t i = 0; i < ROWS * WIDTH; i++) {
        s->in[i] = sinf((float)(i + 1));
    }
    for (size_t r = 0; r < ROWS; r++) {
        for (size_t o = 0; o < OUTS; o++) {
            double sum = 0.0;
            for (size_t i = 0; i < WIDTH * WIDTH; i++) {
                sum += (double)s->in[r * WIDTH + i / WIDTH] * (double)weights[i] * (double)w[i % WIDTH * OUTS + o];
            }
            s->expected[r * OUTS + o] = (float)sum;
        }
    }
}

Test(vulkan_storage, where_the_last_node_needs_f32_the_first_may_be_f16, .timeout = 120)
{
    struct scaled s;
    char note[300] = "";
    double range = 0.0;
    cancelling_make(&s);
    for (size_t i = 0; i < ROWS * OUTS; i++) {
        range = fmax(range, fabs((double)s.expected[i]));
    }
    double error = error_of(&s, "off", note);
    cr_expect_gt(error, 1e-2 * range, "off by %g of %g", error, range);
    error = error_of(&s, "on", note);
    cr_expect_leq(error, 1e-2 * range, "off by %g of %g", error, range);
    cr_expect_not_null(strstr(note, "f32 for 2 of 3 nodes"), "'%s'", note);
    cr_expect_null(strstr(note, " 0 % of bytes"), "'%s'", note);
    scaled_free(&s);
}

/* y = exp(x[starts : ends]), the sizes of which nobody knows when the plan is made. */
Test(vulkan_storage, where_shapes_follow_from_data_the_first_run_tries_and_the_note_says_so, .timeout = 120)
{
    struct backend_config config = device_config(PEN_PRECISION_F16_STORAGE, "auto");
    struct backend *b = NULL;
    struct plan *plan = NULL;
    struct pen_error error = {0};
    char note[300] = "";
    struct graph *g = build_graph();
    uint32_t x = build_input(g, "x", DIMS(WIDTH)), starts = build_typed_input(g, "starts", PEN_DTYPE_I64, DIMS(1)),
             ends = build_typed_input(g, "ends", PEN_DTYPE_I64, DIMS(1)),
             part = build_node(g, OP_Slice, IDS(x, starts, ends)), y = build_node(g, OP_Exp, IDS(part));
    uint32_t node = maker(g, y);
    build_output(g, y);
    device_close(device_open(PEN_PRECISION_F16_STORAGE, "auto")); /* skips without a device */
    config.vulkan.f16_trial = "on";
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    const struct partition exclusive = {&node, 1, &part, 1, &y, 1};
    cr_assert_eq(backend_vulkan.plan_new(b, g, &exclusive, &plan, &error), PEN_OK, "%s", error.text);
    backend_vulkan.plan_note(plan, note, sizeof note);
    cr_expect_not_null(strstr(note, "tried in the first run"), "'%s'", note);
    backend_vulkan.plan_free(plan);
    device_close(b);
    graph_free(g);
}

static PFN_vkAllocateMemory real_allocate;
static int refusals;

static VkResult VKAPI_CALL allocate_later(VkDevice device, const VkMemoryAllocateInfo *info,
                                          const VkAllocationCallbacks *callbacks, VkDeviceMemory *ret_memory)
{
    return refusals-- > 0 ? VK_ERROR_OUT_OF_DEVICE_MEMORY : real_allocate(device, info, callbacks, ret_memory);
}

/* A trial needs more than the model will: where it does not fit the model still loads, and the note says what was not done. */
Test(vulkan_storage, a_trial_without_room_leaves_all_f16_and_says_so, .timeout = 120)
{
    struct backend_config config = device_config(PEN_PRECISION_F16_STORAGE, "auto");
    struct backend *b = NULL;
    struct plan *plan = NULL;
    struct pen_error error = {0};
    struct scaled s;
    char note[300] = "";
    scaled_make(&s, 3000.0f, ROWS);
    device_close(device_open(PEN_PRECISION_F16_STORAGE, "auto")); /* skips without a device */
    config.vulkan.f16_trial = "on";
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    real_allocate = vk_backend_functions(b)->AllocateMemory;
    vk_backend_functions(b)->AllocateMemory = allocate_later;
    refusals = 2; /* of the first kind of memory that is asked for, and of the next best */
    cr_assert_eq(backend_vulkan.plan_new(b, s.g, &s.part, &plan, &error), PEN_OK, "%s", error.text);
    cr_assert_leq(refusals, 0);
    backend_vulkan.plan_note(plan, note, sizeof note);
    cr_expect_not_null(strstr(note, "all f16, not tried: "), "'%s'", note);
    cr_expect_not_null(strstr(note, "memory"), "'%s'", note);
    backend_vulkan.plan_free(plan);
    device_close(b);
    scaled_free(&s);
}

static PFN_vkQueueSubmit real_submit;
static unsigned submits;

static VkResult VKAPI_CALL submit_counted(VkQueue queue, uint32_t count, const VkSubmitInfo *infos, VkFence fence)
{
    submits++;
    return real_submit(queue, count, infos, fence);
}

/* The first device twice stands for two. */
Test(vulkan_storage, a_like_device_takes_the_choice_of_the_first, .timeout = 120)
{
    struct backend_config config = device_config(PEN_PRECISION_F16_STORAGE, "auto");
    struct backend *b = NULL;
    struct plan *plan = NULL;
    struct pen_error error = {0};
    struct scaled s;
    scaled_make(&s, 3000.0f, ROWS);
    device_close(device_open(PEN_PRECISION_F16_STORAGE, "auto")); /* skips without a device */
    config.vulkan.f16_trial = "on";
    config.vulkan.device = "0";
    config.vulkan.beside = (const char *const[]){"0"};
    config.vulkan.beside_count = 1;
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_OK, "%s", error.text);
    struct vk_functions *vk = vk_backend_functions(vk_backend_beside(b, 0));
    real_submit = vk->QueueSubmit;
    vk->QueueSubmit = submit_counted;
    cr_assert_eq(backend_vulkan.plan_new(b, s.g, &s.part, &plan, &error), PEN_OK, "%s", error.text);
    cr_expect_eq(plan->storage.state, VK_STORAGE_SETTLED);
    cr_expect_eq(plan->beside[0]->storage.state, VK_STORAGE_SETTLED);
    cr_expect_gt(plan->beside[0]->storage.wide, 0u);
    cr_expect_arr_eq(plan->beside[0]->wide, plan->wide, s.g->node_count * sizeof *plan->wide);
    cr_expect_leq(submits, 1u, "%u submits: more than its weights", submits);
    backend_vulkan.plan_free(plan);
    device_close(b);
    scaled_free(&s);
}

#define MEASURES 2

static void takes(const double (*added)[MEASURES], const uint64_t *bytes, uint32_t count, double share,
                  const char *expected)
{
    bool taken[8] = {false};
    char got[9] = "";
    vk_pieces_take(&added[0][0], bytes, count, MEASURES, share, taken);
    for (uint32_t i = 0; i < count; i++) {
        got[i] = taken[i] ? 'x' : '-';
    }
    cr_expect_str_eq(got, expected, "within %g: %s", share, got);
}

/* Errors add up for each output by itself: two pieces that harm different outputs fit where two that harm the same do not. */
Test(vulkan_storage, pieces_are_taken_while_every_sum_stays_within_the_share)
{
    static const double added[][MEASURES] = {{0.15, 0.0}, {0.14, 0.0}, {0.0, 0.19}, {0.01, 0.0}, {HUGE_VAL, 0.0}};
    static const uint64_t bytes[] = {100, 100, 100, 100, 1000000};
    takes(added, bytes, 5, 0.2, "-xxx-");
    takes(added, bytes, 5, 0.12, "---x-");
    takes(added, bytes, 5, 0.005, "-----");
    takes(added, (const uint64_t[]){10000, 100, 0, 100, 100}, 5, 0.2, "x--x-");
    takes(added, bytes, 0, 0.2, "");
}

Test(vulkan_storage, another_word_for_the_trial_is_refused_with_a_sentence)
{
    struct backend_config config = device_config(PEN_PRECISION_F32, "auto");
    struct backend *b = NULL;
    struct pen_error error = {0};
    device_close(device_open(PEN_PRECISION_F32, "auto"));
    config.vulkan.f16_trial = "maybe";
    cr_assert_eq(backend_vulkan.open(&config, &b, &error), PEN_ERR_INVALID);
    cr_assert_not_null(strstr(error.text, "maybe"), "%s", error.text);
}

static void no_content(void *context, uint8_t ret_digest[16])
{
    (void)context;
    memset(ret_digest, 7, 16);
}

/* What a trial found is kept beside the model: the next start tries nothing and computes the same. */
Test(vulkan_storage, a_second_start_takes_what_the_first_has_found, .timeout = 120)
{
    struct scaled s;
    char folder[] = "/tmp/penstock-trial-XXXXXX", command[128], first_note[300] = "", note[300] = "";
    uint64_t made = 0, found = 0;
    cr_assert_not_null(mkdtemp(folder));
    struct memo *memo = memo_new(folder, no_content, NULL);
    scaled_make(&s, 3000.0f, ROWS);
    s.g->memo = memo;
    double first = error_of(&s, "on", first_note);
    memo_counts(&made, &found);
    cr_expect(made == 1 && found == 0, "%d tried", (int)made);
    cr_expect_eq(error_of(&s, "on", note), first, "the same nodes are f32");
    cr_expect_str_eq(note, first_note);
    memo_counts(&made, &found);
    cr_expect(made == 1 && found == 1, "%d tried, %d found", (int)made, (int)found);
    snprintf(command, sizeof command, "printf x >> %s/" MEMO_FILE, folder);
    cr_assert_eq(system(command), 0);
    cr_expect_eq(error_of(&s, "on", note), first);
    memo_counts(&made, &found);
    cr_expect_eq(made, 2u, "a broken file is not believed");
    scaled_free(&s);
    memo_free(memo);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
}
